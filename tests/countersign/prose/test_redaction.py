"""Secrets in texts, values and records."""

import json

import pytest

from countersign.kit.printable import printable, printable_lines
from countersign.prose.identity import uuid7
from countersign.prose.redaction import Redactor

REDACTOR = Redactor(["sk-long-secret", "sk-long", ""])


@pytest.mark.parametrize(
    ("line", "written"),
    [
        (b'{"a": 1.50, "b":[true,null]}', b'{"a": 1.50, "b":[true,null]}'),
        (b'{"a":"x sk-long-secret y","n":1.50}', b'{"a":"x [redacted] y","n":1.50}'),
        (b'{"a":"sk-\\u006cong"}', b'{"a":"[redacted]"}'),
        (b'{"sk-long":{"b":["sk-long!"]}}', b'{"[redacted]":{"b":["[redacted]!"]}}'),
        (b'{"a":"sk-long","a":2,"e":12345678901234567890123}', b'{"a":"[redacted]","a":2,"e":12345678901234567890123}'),
        (b'{"a":"\\ud800","b":"sk-long"}', b'{"a":"\\ud800","b":"[redacted]"}'),
        (b"not JSON", None),
        (b"\xff", None),
        (b"[" * 100_000, None),
    ],
)
def test_a_record_keeps_its_spelling_but_for_secrets(line: bytes, written: bytes | None) -> None:
    assert REDACTOR.record(line) == written


def test_values_all_the_way_down() -> None:
    value = {"sk-long": ["sk-long-secret", {"x": "a sk-long b"}], "n": 1}
    assert REDACTOR.value(value) == {"[redacted]": ["[redacted]", {"x": "a [redacted] b"}], "n": 1}
    assert json.loads(REDACTOR.record(json.dumps(value).encode()) or b"") == REDACTOR.value(value)


def test_what_would_steer_a_terminal_is_escaped() -> None:
    assert printable("a\x1b[31mb\nc\x9b") == "a\\x1b[31mb\\nc\\x9b"
    assert printable_lines("a\x1b\n\tb\r") == "a\\x1b\n\tb\\r"


def test_an_invocation_id_is_a_uuid_of_version_7() -> None:
    # The timestamp of RFC 9562, appendix A.6.
    assert uuid7(0x017F22E279B0, bytes.fromhex("0cc318c4dc0c0c07398f")).startswith("017f22e2-79b0-7cc3-98c4-")
    assert uuid7(1, bytes(10)) < uuid7(2, bytes(10))
    with pytest.raises(ValueError, match="ten random bytes"):
        uuid7(1, b"")
