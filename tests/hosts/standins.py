"""What a machine of the guide's test has in place of two programs: `standins.py make|scp ...`.

`make .venv/ready` would fetch what the tests' own environment has already: here the clone gets an environment that
links to those packages, with the clone's own code and scripts, and a copy of the stubs that are generated in this
checkout. `scp` would need a server on the other machine: here it copies into that machine's home.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

MACHINES = "GUIDE_MACHINES"
"""The variable with the folder that has every machine's home, by its name."""

CHECKOUT = "GUIDE_CHECKOUT"
"""The variable with the checkout that the tests are in, whose stubs are generated."""

MAKE = "GUIDE_MAKE"
"""The variable with the program that is stood in for."""

_SCRIPT = """#!{python}
import sys
from {module} import {function}
sys.exit({function}())
"""


def make(arguments: list[str]) -> None:
    """Do what the rule `.venv/ready` is for, in the clone that is the working directory."""
    assert arguments == [".venv/ready"], arguments
    clone = Path.cwd()
    # There is such a rule, and it can be followed here.
    subprocess.run([os.environ[MAKE], "--dry-run", *arguments], check=True, stdout=subprocess.DEVNULL)
    venv.create(".venv", symlinks=True)
    (site_packages,) = (clone / ".venv" / "lib").glob("python*/site-packages")
    (site_packages / "linked.pth").write_text(f"{clone}\n{sysconfig.get_path('purelib')}\n")
    project = tomllib.loads((clone / "pyproject.toml").read_text())
    for made in project["tool"]["hatch"]["build"]["artifacts"]:
        _copy(Path(os.environ[CHECKOUT]), clone, made.removesuffix("/**"))
    for name, target in project["project"]["scripts"].items():
        module, function = target.split(":")
        script = clone / ".venv" / "bin" / name
        script.write_text(_SCRIPT.format(python=clone / ".venv" / "bin" / "python", module=module, function=function))
        script.chmod(0o755)
    (clone / ".venv" / "ready").touch()


def _copy(checkout: Path, clone: Path, made: str) -> None:
    if (checkout / made).is_dir():
        shutil.copytree(checkout / made, clone / made)
    else:
        shutil.copy2(checkout / made, clone / made)


def scp(arguments: list[str]) -> None:
    """Copy files into a folder that is there on another machine, as `scp -q FILE... MACHINE:FOLDER/` does."""
    quiet, *files, target = arguments
    machine, folder = target.split(":")
    assert quiet == "-q", arguments
    assert folder.endswith("/"), arguments
    assert not folder.startswith("/"), arguments
    for file in files:
        shutil.copy(file, Path(os.environ[MACHINES]) / machine / folder)


if __name__ == "__main__":
    {"make": make, "scp": scp}[sys.argv[1]](sys.argv[2:])
