"""Generate stubs and type stubs from protos/ into the package `countersign`; lay the wording beside the kit.

Run as `python tools/generate.py`; the build hook runs the same for wheels and editable installs.
"""

import shutil
import sys
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
WORDING = "countersign/kit/_wording_v1.json"


def generate(root: Path) -> None:
    """Write all generated files below `root`; raises SystemExit where protoc refuses a contract."""
    protos = root / "protos"
    sources = sorted(protos.glob("countersign/**/*.proto"))
    for area in {source.relative_to(protos).parts[1] for source in sources}:
        shutil.rmtree(root / "countersign" / area, ignore_errors=True)
    well_known = resources.files("grpc_tools") / "_proto"
    status = protoc.main(
        [
            "protoc",
            f"--proto_path={protos}",
            f"--proto_path={well_known}",
            f"--plugin=protoc-gen-mypy={_plugin('protoc-gen-mypy')}",
            f"--plugin=protoc-gen-mypy_grpc={_plugin('protoc-gen-mypy_grpc')}",
            f"--python_out={root}",
            f"--grpc_python_out={root}",
            f"--mypy_out=quiet,readable_stubs:{root}",
            f"--mypy_grpc_out=quiet,only_async:{root}",
            *(str(source) for source in sources),
        ]
    )
    if status != 0:
        raise SystemExit("protoc refused the contracts in protos/")
    for source in sources:
        _make_packages(root, source.relative_to(protos).parent)
    shutil.copyfile(protos / "wording" / "v1.json", root / WORDING)


def _plugin(name: str) -> str:
    """The path of a protoc plugin that is installed beside this interpreter, or on PATH."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        raise SystemExit(f"{name} is not installed: install mypy-protobuf")
    return found


def _make_packages(root: Path, package: Path) -> None:
    for folder in (package, package.parent):
        (root / folder / "__init__.py").write_text('"""Generated from protos/; do not edit."""\n', "utf-8")


if __name__ == "__main__":
    generate(ROOT)
