"""What a streamed message becomes, byte for byte (docs/formats.md, Opaque items of a streamed answer)."""

import pytest

from adapter_svc.admission import Action, Reason, TechnicalUnknown
from countersign.kit.canonical import sha256
from tests.adapter_svc.admission.helpers import judge

CALL = rb'"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"wait","arguments":"{}"}}]'
MERGED_CALL = rb'"tool_calls":[{"function":{"arguments":"{}","name":"wait"},"id":"c","type":"function"}]'


def stream(*deltas: bytes) -> bytes:
    chunks = [b'{"model":"m","choices":[{"index":0,"delta":{%b}}]}' % delta for delta in deltas]
    chunks.append(b'{"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}')
    return b"".join(b"data: %b\n\n" % chunk for chunk in (*chunks, b"[DONE]"))


def message(*deltas: bytes) -> bytes:
    """The message of an action whose stream has these deltas."""
    admission = judge(stream(*deltas), streamed=True)
    assert isinstance(admission.verdict, Action), admission.verdict
    assert admission.continuation is not None
    assert admission.continuation.digest == sha256(admission.continuation.message)
    return admission.continuation.message


def with_call(*deltas: bytes) -> bytes:
    """What the message has beside its call and role."""
    found = message(b'"role":"assistant"', *deltas, CALL)
    left = found.replace(b',"role":"assistant"', b"").replace(b'"role":"assistant",', b"")
    return left.removeprefix(b"{").removesuffix(b"}").replace(MERGED_CALL, b"").strip(b",")


def test_the_members_of_message_call_and_function_are_sorted() -> None:
    assert message(CALL, b'"role":"assistant"') == b'{"role":"assistant",' + MERGED_CALL + b"}"


def test_pieces_of_a_call_are_one_canonical_call() -> None:
    found = message(
        b'"role":"assistant","content":null',
        b'"tool_calls":[{"index":0,"type":"function","id":"c\\u00e9","function":{"name":"wait","arguments":""}}]',
        b'"tool_calls":[{"index":0,"function":{"arguments":"{ \\n"}}]',
        b'"tool_calls":[{"index":0,"function":{"arguments":"}"},"extra_content":{ "z":1.0E0, "a":[ ] }}]',
    )
    assert found == (
        b'{"content":null,"role":"assistant","tool_calls":[{"extra_content":{ "z":1.0E0, "a":[ ] },'
        b'"function":{"arguments":"{ \\n}","name":"wait"},"id":"c\\u00e9","type":"function"}]}'
    )


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ([b'"content":null'], b'"content":null'),
        ([b'"content":""', b'"content":null'], b'"content":""'),
        ([b'"content":null', b'"content":""'], b'"content":""'),
        ([b'"content":""', b'"content":"\\u00e9\\/"', b'"content":""'], '"content":"é/"'.encode()),
        ([b'"content":"\\u00e9"', b'"content":"\\/"'], '"content":"é/"'.encode()),
        ([b'"reasoning":"a"', b'"reasoning":null', b'"reasoning":"b"'], b'"reasoning":"ab"'),
        ([b'"reasoning_content":"a"', b'"reasoning_content":"b"'], b'"reasoning_content":"ab"'),
        ([b'"refusal":"a"', b'"refusal":"b"'], b'"refusal":"ab"'),
        ([b'"refusal":null'], b'"refusal":null'),
        ([b'"channel":"analysis"', b'"channel":"final"'], b""),
    ],
)
def test_texts_are_joined_and_written_canonically_in_one_piece_too(deltas: list[bytes], expected: bytes) -> None:
    assert with_call(*deltas) == expected


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ([b'"x":{ "n":1.0E0 }', b'"x":{"n":1.0}', b'"x":null'], b'"x":{ "n":1.0E0 }'),
        ([b'"x":null', b'"x":"\\u0061"', b'"x":"a"', b'"x":""'], b'"x":"\\u0061"'),
        ([b'"x":[ 1, 2 ]'], b'"x":[1,2]'),
        ([b'"x":[ ]', b'"x":[ 1, 2 ]', b'"x":[]', b'"x":null'], b'"x":[1,2]'),
        ([b'"x":[ 1 ]', b'"x":[ {"a": 1.0}, 2 ]'], b'"x":[1,{"a": 1.0},2]'),
        ([b'"x":[ ]', b'"x":[]'], b'"x":[]'),
        ([b'"x":null', b'"x":null'], b'"x":null'),
        ([b'"x":0', b'"x":0'], b'"x":0'),
    ],
)
def test_other_members_keep_the_first_value_and_arrays_are_strung_together(
    deltas: list[bytes], expected: bytes
) -> None:
    assert with_call(*deltas) == expected


@pytest.mark.parametrize(
    "deltas",
    [
        [b'"x":1', b'"x":2'],
        [b'"x":0', b'"x":false'],
        [b'"x":"a"', b'"x":"b"'],
        [b'"x":{"a":1}', b'"x":{"a":1,"b":1}'],
        [b'"x":[1]', b'"x":1'],
        [b'"reasoning":1', b'"reasoning":"a"'],
        [
            b'"reasoning_details":[{"index":0,"type":"t","id":"a"}]',
            b'"reasoning_details":[{"index":0,"type":"t","id":"b"}]',
        ],
    ],
)
def test_unequal_values_contradict(deltas: list[bytes]) -> None:
    verdict = judge(stream(b'"role":"assistant"', *deltas, CALL), streamed=True).verdict
    assert verdict == TechnicalUnknown(Reason.STREAM_CONTRADICTION, "event 3")


DETAIL = b'"reasoning_details":[%b]'


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ([b'{ "type":"t", "index":0, "signature":"\\u002b" }'], b'{"index":0,"signature":"+","type":"t"}'),
        (
            [
                b'{"type":"t","text":"a","index":0,"format":null,"signature":""}',
                b'{"type":"t","text":"b","index":0,"format":"f"}',
                b'{"index":0,"type":"t","signature":"\\u002b"}',
            ],
            b'{"format":"f","index":0,"signature":"+","text":"ab","type":"t"}',
        ),
        (
            [b'{"index":0,"type":"t","data":"a"}', b'{"index":0,"type":"t","data":"b","summary":"s"}'],
            b'{"data":"ab","index":0,"summary":"s","type":"t"}',
        ),
        (
            [b'{"index":1,"type":"t"}', b'{"index":0,"type":"t","n":1.0}', b'{"index":1,"type":"t","text":"x"}'],
            b'{"index":1,"text":"x","type":"t"},{"index":0,"n":1.0,"type":"t"}',
        ),
        ([b'{"index":0,"type":"t"}', b'{"index":0,"type":"u"}'], b'{"index":0,"type":"t"},{"index":0,"type":"u"}'),
        ([b'{"type":"t", "a":1}', b'{"type":"t", "a":1}'], b'{"type":"t", "a":1},{"type":"t", "a":1}'),
        (
            [b'{"index":0.0,"type":"t"}', b'{"index":0.0,"type":"t"}'],
            b'{"index":0.0,"type":"t"},{"index":0.0,"type":"t"}',
        ),
        ([b'{"index":0}', b'{"index":0}', b"7"], b'{"index":0},{"index":0},7'),
    ],
)
def test_details_of_one_index_and_type_are_one(elements: list[bytes], expected: bytes) -> None:
    assert with_call(*[DETAIL % element for element in elements]) == DETAIL % expected


PART = b'{"type":"thinking", "thinking":[{"type":"text","text":"t"}]}'


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ([b'"content":[ %b ]' % PART], b'"content":[%b]' % PART),
        (
            [b'"content":""', b'"content":[%b]' % PART, b'"content":"\\u0061"', b'"content":[%b]' % PART],
            b'"content":[%b,{"text":"a","type":"text"},%b]' % (PART, PART),
        ),
        (
            [b'"content":[%b]' % PART, b'"content":"a"', b'"content":null', b'"content":"\\u0062"'],
            b'"content":[%b,{"text":"ab","type":"text"}]' % PART,
        ),
        ([b'"content":"a"', b'"content":[]'], b'"content":[{"text":"a","type":"text"}]'),
    ],
)
def test_texts_between_content_parts_are_parts(deltas: list[bytes], expected: bytes) -> None:
    assert with_call(*deltas) == expected


def test_a_call_without_an_index_keeps_its_bytes() -> None:
    call = b'{ "id":"c", "function":{"arguments":"{}","name":"wait"} }'
    found = message(b'"role":"assistant"', b'"tool_calls":[]', b'"tool_calls":[ %b ]' % call)
    assert found == b'{"role":"assistant","tool_calls":[%b]}' % call


def test_an_empty_array_of_calls_is_one_too() -> None:
    verdict = judge(stream(b'"role":"assistant","tool_calls":[ ]'), streamed=True).verdict
    assert verdict == TechnicalUnknown(Reason.AMBIGUOUS_TERMINATION, "/choices/0/message/tool_calls")


def test_a_function_of_which_pieces_came_keeps_members_that_came_whole() -> None:
    found = message(
        b'"role":"assistant"',
        b'"tool_calls":[{"index":0,"id":"c","function":{"x":{ "n":1e0 },"name":"wait"}}]',
        b'"tool_calls":[{"index":0,"function":null}]',
        b'"tool_calls":[{"index":0,"function":{"arguments":"\\u007b}"}}]',
    )
    expected = b'{"function":{"arguments":"{}","name":"wait","x":{ "n":1e0 }},"id":"c"}'
    assert found == b'{"role":"assistant","tool_calls":[%b]}' % expected
