"""The native log: what is written, and that nothing is left out without a word."""

import hashlib
import json
import os
import stat
from pathlib import Path

import pytest

from countersign.prose.codes import Code, ProseError
from countersign.prose.native_log import MAX_RECORD_BYTES, open_native_log
from countersign.prose.redaction import Redactor


def written(path: Path, parts: list[bytes]) -> list[bytes]:
    log = open_native_log(path, Redactor(["sk-secret"]))
    for part in parts:
        log.feed(part)
    log.close()
    return path.read_bytes().splitlines()


def instead(what: str, content: bytes) -> dict[str, object]:
    return {"proseNotRecorded": what, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def test_records_are_written_as_they_end(tmp_path: Path) -> None:
    path = tmp_path / "n.log"
    log = open_native_log(path, Redactor([]))
    log.feed(b'{"a":1}\n{"b"')
    assert path.read_bytes() == b'{"a":1}\n'
    log.feed(b":2}\r\n")
    assert path.read_bytes() == b'{"a":1}\n{"b":2}\n'
    log.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_no_record_is_said(tmp_path: Path) -> None:
    long = b'{"a":"' + b"x" * MAX_RECORD_BYTES + b'"}'
    parts = [b"nope sk-secret\n", long[:1000], long[1000:] + b'\n{"k":"sk-secret"}\n', b'{"cut":']
    lines = written(tmp_path / "n.log", parts)
    assert [json.loads(line) for line in lines] == [
        instead("not JSON", b"nope sk-secret"),
        instead("too long", long),
        {"k": "[redacted]"},
        instead("unfinished", b'{"cut":'),
    ]


def test_an_unfinished_line_that_is_too_long_is_said(tmp_path: Path) -> None:
    long = b"x" * (MAX_RECORD_BYTES + 10)
    assert [json.loads(line) for line in written(tmp_path / "n.log", [long, b"y"])] == [
        instead("unfinished", long + b"y")
    ]


def test_the_file_is_made_and_never_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "n.log"
    path.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    for taken in (path, link, tmp_path / "no" / "folder"):
        with pytest.raises(ProseError) as caught:
            open_native_log(taken, Redactor([]))
        assert caught.value.code is Code.INVOCATION_INVALID
    assert path.read_text() == "mine"
    assert not os.path.exists(tmp_path / "elsewhere")
