"""What a machine of the guide's test has in place of two programs: `standins.py make|scp ...`.

`make .venv/ready` would fetch what the tests' own environment has already: here the clone gets an environment that links
to those packages, with the clone's own code, stubs and scripts. `scp` would need a server on the other machine: here it
copies into that machine's home.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

MACHINES = "GUIDE_MACHINES"
"""The variable with the folder that has every machine's home, by its name."""

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
    subprocess.run([os.environ["GUIDE_MAKE"], "--dry-run", *arguments], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["python3", "-m", "venv", "--without-pip", ".venv"], check=True)
    (site_packages,) = (clone / ".venv" / "lib").glob("python*/site-packages")
    (site_packages / "linked.pth").write_text(f"{clone}\n{sysconfig.get_path('purelib')}\n")
    subprocess.run([sys.executable, "tools/generate.py"], check=True)
    scripts = tomllib.loads((clone / "pyproject.toml").read_text())["project"]["scripts"]
    for name, target in scripts.items():
        module, function = target.split(":")
        script = clone / ".venv" / "bin" / name
        script.write_text(_SCRIPT.format(python=clone / ".venv" / "bin" / "python", module=module, function=function))
        script.chmod(0o755)
    (clone / ".venv" / "ready").touch()


def scp(arguments: list[str]) -> None:
    """Copy files into a folder that is there on another machine, as `scp -q FILE... MACHINE:FOLDER/` does."""
    quiet, *files, target = arguments
    machine, folder = target.split(":")
    assert quiet == "-q" and folder.endswith("/") and not folder.startswith("/"), arguments
    for file in files:
        shutil.copy(file, Path(os.environ[MACHINES]) / machine / folder)


if __name__ == "__main__":
    {"make": make, "scp": scp}[sys.argv[1]](sys.argv[2:])
