"""What is not strict JSON, and what is (design/admission.md, Reading bytes)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifier_svc.receipts.strict import Limits, read
from verifier_svc.receipts.verdicts import Inadmissible, Reason

LIMITS = Limits()


def fault(data: bytes, limits: Limits = LIMITS) -> tuple[Reason, str]:
    with pytest.raises(Inadmissible) as found:
        read(data, limits)
    return found.value.unknown.reason, found.value.unknown.where


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"plain text", b"{} {}", b"{}x", b"[1,]", b'{"a":1,}', b"{'a':1}", b"[01]", b"[1.]", b"[+1]"),
        *(b"[.5]", b"[NaN]", b"[Infinity]", b"[-Infinity]", b"[True]", b"// a\n{}", b'["\x01"]', b'["\\x"]'),
        *(b"\xef\xbb\xbf{}", b'["\xff"]', b'["\xed\xa0\x80"]', '{"a":1}'.encode("utf-16"), b'["abc', b"\x00{}"),
        *(b"\xc2\xa0{}", b"[1e]", b"[-]", b'["\\u12"]', b"nul"),
    ],
)
def test_what_is_not_json_is_malformed(data: bytes) -> None:
    assert fault(data) == (Reason.MALFORMED_JSON, "")


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (b'["\\ud800"]', "/0"),
        (b'{"a":"\\udc00\\ud800"}', "/a"),
        (b'{"\\udfff":1}', ""),
        (b'{"a":{"b":["\\ud83d"]}}', "/a/b/0"),
    ],
)
def test_lone_surrogates_are_malformed_and_placed(data: bytes, where: str) -> None:
    assert fault(data) == (Reason.MALFORMED_JSON, where)


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (b'{"a":1,"a":1}', "/a"),
        (b'{"a":{"b":[{"c":1,"\\u0063":2}]}}', "/a/b/0/c"),
        (b'{"a/b~":1,"a/b~":2}', "/a~1b~0"),
        (b'{"":1,"":1}', "/"),
    ],
)
def test_duplicate_keys_are_found_at_any_depth(data: bytes, where: str) -> None:
    assert fault(data) == (Reason.DUPLICATE_KEY, where)


def test_depth_is_limited_and_brackets_in_strings_do_not_count() -> None:
    assert read(b"[" * 64 + b"]" * 64, LIMITS) is not None
    assert fault(b"[" * 65 + b"]" * 65) == (Reason.LIMIT_EXCEEDED, "")
    assert fault(b'{"a":' * 65 + b"1" + b"}" * 65) == (Reason.LIMIT_EXCEEDED, "")
    assert fault(b"[" * 1_000_000) == (Reason.LIMIT_EXCEEDED, "")
    text = json.dumps(["[{" * 100 + '"\\'])
    assert read(text.encode(), LIMITS) == ["[{" * 100 + '"\\']
    assert read(b"[" + b",".join([b"[]"] * 100) + b"]", LIMITS) == [[]] * 100


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"a":1,"a":"\\ud800"}', Reason.MALFORMED_JSON),
        (b'{"n":1e400,"a":1,"a":2}', Reason.DUPLICATE_KEY),
        (b'{"a":1,"a":1e400}', Reason.DUPLICATE_KEY),
        (b'{"n":1e400,"a":"\\ud800"}', Reason.MALFORMED_JSON),
        (b'{"a":1,"a":2} x', Reason.MALFORMED_JSON),
        (b"[" + b"9" * 5000 + b"] x", Reason.MALFORMED_JSON),
        (b'{"a":1,"a":' + b"[" * 64 + b" x", Reason.LIMIT_EXCEEDED),
        (b"\xef\xbb\xbf" + b"[" * 65, Reason.MALFORMED_JSON),
    ],
)
def test_of_several_faults_depth_then_syntax_then_keys_then_numbers(data: bytes, reason: Reason) -> None:
    assert fault(data)[0] is reason


def test_size_is_limited_and_equality_passes() -> None:
    assert read(b"[1,2]", Limits(max_bytes=5)) == [1, 2]
    assert fault(b"[1,2]", Limits(max_bytes=4)) == (Reason.LIMIT_EXCEEDED, "")


@pytest.mark.parametrize("number", [b"1e309", b"-1e400", b"1" + b"0" * 309, b"9" * 5000, b"1.8e308"])
def test_a_number_that_nothing_holds_is_over_the_limit(number: bytes) -> None:
    assert fault(b'{"a":[0,' + number + b"]}") == (Reason.LIMIT_EXCEEDED, "/a/1")


def test_a_number_beyond_int64_that_a_double_holds_passes() -> None:
    assert read(b"[18446744073709551615,1e-400,1.5]", LIMITS) == [18446744073709551615, 0.0, 1.5]


def test_pairs_of_surrogates_and_whitespace_pass() -> None:
    assert read(b' \t\r\n{"a": "\\ud83d\\ude00"} \n', LIMITS) == {"a": "\U0001f600"}


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('ab/~\\"', max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_what_was_written_is_read(value: object, ascii_only: bool) -> None:
    assert read(json.dumps(value, ensure_ascii=ascii_only).encode(), LIMITS) == value


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        value = read(data, LIMITS)
    except Inadmissible:
        return
    assert value == json.loads(data)
