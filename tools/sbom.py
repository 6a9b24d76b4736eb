"""The list of what the images ship, as CycloneDX JSON: `make sbom`.

It is made from requirements/report.txt, which pins everything of requirements/runtime.txt and what the command line's
image has besides, each with its hashes. Equal pins give an equal file.
"""

import argparse
import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "requirements" / "report.txt"


def make(tool: Path) -> str:
    """The document, by the tool `cyclonedx-py`; raises CalledProcessError where that fails."""
    options = ["--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "application", "--output-reproducible"]
    command = [str(tool), "requirements", *options, "--of", "JSON", "--sv", "1.6", str(PINS)]
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.dumps(json.loads(made.stdout), indent=1, sort_keys=True) + "\n"


def main() -> None:
    """Write the document to where the arguments say."""
    parser = argparse.ArgumentParser(description="The list of what the images ship, as CycloneDX JSON.")
    parser.add_argument("--tool", type=Path, required=True, help="the program cyclonedx-py")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(make(given.tool), encoding="utf-8")


if __name__ == "__main__":
    main()
