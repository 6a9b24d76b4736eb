"""`python -m countersign.cli`."""

import sys

from countersign.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
