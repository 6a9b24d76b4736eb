"""The Go example of docs/clients.md, built from Debian's packages without a module proxy and run on real services."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.test_examples import EXAMPLES, PROTOS, addresses, run

__all__ = ["addresses"]

GOCODE = Path(os.environ.get("COUNTERSIGN_GOCODE", "/usr/share/gocode"))
"""Where Debian's Go libraries are."""
BUILD_SECONDS = 400

pytestmark = pytest.mark.timeout(BUILD_SECONDS + 100)


def test_go_spends_is_refused_and_has_a_response_judged(addresses: tuple[str, str], tmp_path: Path) -> None:
    for tool in ("go", "protoc", "protoc-gen-go-grpc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed (Debian: golang-go, protobuf-compiler, protoc-gen-go-grpc)")
    for library in ("grpc", "protobuf", "genproto"):
        if not (GOCODE / "src" / "google.golang.org" / library).is_dir():
            pytest.skip(f"{GOCODE} lacks google.golang.org/{library} (Debian: golang-google-{library}-dev)")
    said = run(tmp_path, built(tmp_path), *addresses, EXAMPLES / "finish.json")

    assert said.splitlines() == [
        "granted 2",
        "admitted attempt 1",
        "refused BUDGET_EXHAUSTED countersign.dev 1000000000 5000000000",
        "action finish {}",
    ]


def built(folder: Path) -> Path:
    """The example's program, from packages that its own script generates."""
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": f"{folder / 'go'}:{GOCODE}", "GOFLAGS": ""}
    environment |= {"GOCACHE": str(folder / "cache"), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}

    def do(*command: object) -> None:
        words = [str(part) for part in command]
        done = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr

    source = folder / "go" / "src" / "example"
    source.mkdir(parents=True)
    # Debian's own protoc-gen-go is of the old runtime, which knows no optional fields.
    do("go", "build", "-o", folder / "bin" / "protoc-gen-go", "google.golang.org/protobuf/cmd/protoc-gen-go")
    do("sh", EXAMPLES / "go" / "generate.sh", PROTOS, source)
    shutil.copy(EXAMPLES / "go" / "main.go", source)
    shutil.copy(Path(__file__).parent / "go" / "codec.go", source)
    do("go", "build", "-o", folder / "bin" / "client", "example")
    return folder / "bin" / "client"
