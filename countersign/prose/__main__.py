"""`python -m countersign.prose`."""

from countersign.prose.entry import main

main()
