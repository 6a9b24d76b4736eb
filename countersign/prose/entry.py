"""The console script: signals are recorded before anything that takes time is imported."""

import os
import sys
from typing import NoReturn

from countersign.prose.interruption import Interruption


def main() -> NoReturn:
    """Run the command, and exit with its status (design/native-harness.md, section 2).

    The process leaves from inside of the event loop: whatever takes the loop and the interpreter apart would first give
    the signals their deadly meaning back, and might wait for a reader of standard output who has stopped reading.
    """
    interruption = Interruption()
    interruption.install()
    from countersign.prose.main import run_command

    os._exit(run_command(sys.argv[1:], os.environ, interruption, os._exit))
