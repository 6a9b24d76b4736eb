"""The strict reader accepts RFC 8259 within the limits and nothing else."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter_svc.admission import DEFAULT_LIMITS, Limits, Reason
from adapter_svc.admission.strict_json import read_strict
from adapter_svc.admission.verdict import Inadmissible

MALFORMED = [
    b"",
    b" ",
    b"{",
    b"tru",
    b"{}x",
    b"{} {}",
    b"[1,]",
    b'{"a":1,}',
    b"{'a':1}",
    b"{a:1}",
    b"01",
    b"1.",
    b".5",
    b"+1",
    b"0x1",
    b"NaN",
    b"[NaN]",
    b"Infinity",
    b"[-Infinity]",
    b"// note\n{}",
    b"\x0c{}",
    b'"\x01"',
    b'"a\nb"',
    b'"\\x"',
    b'"\\u12"',
    b'"\\ud800"',
    b'"\\ud800\\u0041"',
    b'"\\ude00\\ud83d"',
    b'{"\\ud800": 1}',
    b'"\xff"',
    b'{"\xff": 1}',
    b'"\xed\xa0\x80"',
    b'"\xc0\xaf"',
    b"\xef\xbb\xbf{}",
    b"\xff\xfe{\x00}\x00",
    b'{"a":1,"a":2} x',
    b'{"a":1,"a":"\\ud800"}',
    b"[" + b"9" * 5000 + b"] x",
    b'{"a":1,"a":' + b"9" * 5000,
    b"[" * 64,
    b"\xef\xbb\xbf" + b"[" * 65,
]

DUPLICATES = [
    b'{"a":1,"a":1}',
    b'{"a":1,"\\u0061":2}',
    b'[[{"b":{"a":1,"a":2}}]]',
    b'{"a":{"x":1},"b":2,"a":{"y":1}}',
    b'{"":1,"":2}',
    b'{"a":1,"a":1e400}',
    b'{"b":' + b"9" * 5000 + b',"a":1,"a":2}',
    b'{"a":1,"a":2,"b":' + b"9" * 5000 + b"}",
    b'{"b":1e400,"a":1,"a":2}',
]

BEYOND = [
    b"1e400",
    b"[-1e400]",
    b'{"a":[{"b":1E309}]}',
    b"1" + b"0" * 400,
    b"-1" + b"0" * 400,
    b"9" * 5000,
    b"[" * 65 + b"]" * 65,
    b'{"a":' * 65 + b"1" + b"}" * 65,
    b"[" * 5000 + b"]" * 5000,
    b"[" * 65,
    b'{"a":1,"a":[' + b"[" * 64 + b" x",
    b"[0.5," + b"9" * 5000 + b"]",
    b'["\\"' + b"[" * 65 + b'",' + b"[" * 64,
]


def reason_of(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Reason:
    with pytest.raises(Inadmissible) as caught:
        read_strict(data, limits, "/here")
    assert caught.value.where == "/here"
    return caught.value.reason


@pytest.mark.parametrize("data", MALFORMED)
def test_broken_json_is_malformed(data: bytes) -> None:
    assert reason_of(data) is Reason.MALFORMED_JSON


@pytest.mark.parametrize("data", DUPLICATES)
def test_a_key_given_twice_is_found_at_every_depth(data: bytes) -> None:
    assert reason_of(data) is Reason.DUPLICATE_KEY


@pytest.mark.parametrize("data", BEYOND, ids=lambda data: data[:12].decode())
def test_numbers_and_depth_have_limits(data: bytes) -> None:
    assert reason_of(data) is Reason.LIMIT_EXCEEDED


def test_equality_with_a_limit_is_admitted() -> None:
    assert read_strict(b"[" * 64 + b"]" * 64, DEFAULT_LIMITS) is not None
    assert read_strict(b'"ab"', Limits(body_bytes=4)) == "ab"
    assert reason_of(b'"abc"', Limits(body_bytes=4)) is Reason.LIMIT_EXCEEDED
    assert reason_of(b"[[]]", Limits(depth=1)) is Reason.LIMIT_EXCEEDED


@pytest.mark.parametrize(
    "data",
    [
        b'["' + b"[" * 70 + b'"]',
        b'["\\"' + b"[" * 70 + b'"]',
        b'["\\\\","' + b"{" * 70 + b'"]',
        b"[" + b"[]," * 99 + b"[]]",
        b'{"' + b"{" * 70 + b'":1}',
    ],
)
def test_only_open_brackets_outside_strings_count_as_depth(data: bytes) -> None:
    assert read_strict(data, DEFAULT_LIMITS) == json.loads(data)


def test_the_size_limit_is_8_mib() -> None:
    fitting = b'"' + b"a" * (8 * 1024 * 1024 - 2) + b'"'
    assert len(str(read_strict(fitting, DEFAULT_LIMITS))) == 8 * 1024 * 1024 - 2
    assert reason_of(fitting + b" ") is Reason.LIMIT_EXCEEDED


@pytest.mark.parametrize(
    "change", [{"depth": 65}, {"depth": 0}, {"body_bytes": 8 * 1024 * 1024 + 1}, {"cost_chars": -1}]
)
def test_limits_go_downward_only(change: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be from 1 to"):
        Limits(**change)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b' {"a" : [1, -0, 1.5e3, "\\ud83d\\ude00", null, true]}\r\n', {"a": [1, 0, 1500.0, "😀", None, True]}),
        (b"9223372036854775807", 2**63 - 1),
        (b"10583536942961263000", 10583536942961263000),
        (b"1e-400", 0.0),
        (b"1.7976931348623157e308", 1.7976931348623157e308),
        (b'"\\u0000\xe2\x80\xa8"', "\x00\u2028"),
        (b'{"a":{"k":1},"b":{"k":1}}', {"a": {"k": 1}, "b": {"k": 1}}),
    ],
)
def test_what_rfc_8259_allows_is_read(data: bytes, value: Any) -> None:
    assert read_strict(data, DEFAULT_LIMITS) == value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({key for key, _ in pairs}) == len(pairs)
    return dict(pairs)


def _refuse(name: str) -> Any:
    raise ValueError(name)


@given(st.binary(max_size=40) | st.text(alphabet='{}[]",:\\u0dD8aen1.-+E \t', max_size=24).map(str.encode))
def test_whatever_is_read_another_strict_reader_reads_alike(data: bytes) -> None:
    try:
        value = read_strict(data, DEFAULT_LIMITS)
    except Inadmissible:
        return
    assert json.loads(data.decode("utf-8"), object_pairs_hook=_pairs, parse_constant=_refuse) == value


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(json_values, st.booleans())
def test_every_value_survives_the_reader(value: Any, escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped)
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        return
    if escaped and any(0xD800 <= ord(char) < 0xE000 for char in json.dumps(value, ensure_ascii=False)):
        assert reason_of(data) is Reason.MALFORMED_JSON
        return
    read = read_strict(data, DEFAULT_LIMITS)
    assert read == value
    assert not (isinstance(read, float) and math.isnan(read))
