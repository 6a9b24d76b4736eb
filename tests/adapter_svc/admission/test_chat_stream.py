"""Streams of chat_completions: their ends, their errors and what they may not contradict (design/admission.md,
Streams).
"""

import json
from typing import Any

import pytest

from adapter_svc.admission import Action, ExpectedIdentity, Reason, ServedIdentity, TechnicalUnknown, TextFinish, Usage
from tests.adapter_svc.admission.helpers import ABSENT, failure, fields, judge

DONE = b"data: [DONE]\n\n"
ROLE = {"role": "assistant", "content": ""}


def chunk(delta: Any = ABSENT, *, choice: dict[str, Any] | None = None, **body: Any) -> bytes:
    one = fields({"index": 0, "delta": delta, "finish_reason": None}, choice or {})
    whole = fields({"id": "gen-1", "model": "m", "choices": [one]}, body)
    return f"data: {json.dumps(whole)}\n\n".encode()


def finish(reason: Any = "stop", **changes: Any) -> bytes:
    return chunk({}, choice={"finish_reason": reason}, **changes)


def calls(*fragments: dict[str, Any], **changes: Any) -> bytes:
    return chunk({"tool_calls": list(fragments)}, **changes)


def fragment(arguments: Any, index: Any = 0, **call: Any) -> dict[str, Any]:
    return fields({"index": index, "function": {"arguments": arguments}}, call)


def begun(index: Any = 0, call_id: Any = "call_1", name: Any = "finish", arguments: Any = "") -> dict[str, Any]:
    function = fields({"name": name, "arguments": arguments}, {})
    return fields({"index": index, "id": call_id, "type": "function", "function": function}, {})


TEXT = [chunk(ROLE), chunk({"content": "all "}), chunk({"content": "done"}), finish()]
TOOL = [
    chunk({"role": "assistant", "content": None}),
    calls(begun()),
    calls(fragment('{"claim": ')),
    calls(fragment('"saved"}')),
    finish("tool_calls"),
]
USAGE = chunk(choices=[], usage={"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})


def admitted(*parts: bytes, **changes: Any) -> Any:
    return judge(b"".join(parts) + DONE, streamed=True, **changes)


def unknown(*parts: bytes, **changes: Any) -> tuple[Reason, str]:
    return failure(b"".join(parts) + DONE, streamed=True, **changes)


def test_the_deltas_are_the_answer() -> None:
    assert admitted(*TEXT).verdict == TextFinish("all done")
    assert admitted(*TOOL).verdict == Action("finish", b'{"claim":"saved"}', "call_1", "")


def test_the_evidence_is_read_from_the_chunks() -> None:
    admission = admitted(*[part.replace(b'"model"', b'"provider": "P", "model"') for part in TOOL], USAGE)
    assert admission.usage == Usage(10, 5, 15)
    assert admission.served == ServedIdentity("m", "P")


def test_the_last_usage_counts_and_null_is_none() -> None:
    early = chunk({"content": "all done"}, usage={"prompt_tokens": 10, "completion_tokens": 1, "cost": 1e-7})
    late = finish(usage={"prompt_tokens": 10, "completion_tokens": 4, "cost": "@"}).replace(b'"@"', b"2.50E-7")
    admission = admitted(chunk(ROLE), early, late, chunk(choices=[], usage=None))
    assert (admission.usage.output_tokens, admission.reported_cost) == (4, "2.50E-7")
    assert unknown(chunk(ROLE), early, late, output_cap=4) == (Reason.TRUNCATED, "/usage/completion_tokens")
    assert admitted(*TEXT, chunk(choices=[], usage=None)).usage == Usage()


# Ends and errors


@pytest.mark.parametrize("parts", [TEXT, TOOL, [*TEXT, USAGE]])
def test_a_stream_without_its_end_mark_is_incomplete(parts: list[bytes]) -> None:
    for end in range(len(parts) + 1):
        stream = b"".join(parts[:end])
        assert failure(stream, streamed=True) == (Reason.STREAM_INCOMPLETE, f"event {end + 1}")


def test_only_the_end_mark_again_follows_the_end_mark() -> None:
    assert admitted(*TEXT, DONE).verdict == TextFinish("all done")
    assert unknown(*TEXT, DONE, USAGE) == (Reason.STREAM_CONTRADICTION, "event 6")
    assert unknown(*TEXT, DONE, b"data: {}\n\n") == (Reason.STREAM_CONTRADICTION, "event 6")


def test_an_end_mark_alone_ends_nothing() -> None:
    assert unknown() == (Reason.IDENTITY_MISSING, "/model")
    assert unknown(chunk(choices=[])) == (Reason.INVALID_CHOICES, "/choices")
    assert unknown(chunk()) == (Reason.INVALID_MESSAGE, "/choices/0/message")
    assert unknown(chunk({"content": "x"}), finish()) == (Reason.INVALID_MESSAGE, "/choices/0/message/role")


@pytest.mark.parametrize(
    "error",
    [
        b'event: error\ndata: {"message":"x"}\n\n',
        b"event: error\ndata: upstream gone\n\n",
        b'data: {"error":{"code":400}}\n\n',
        b'data: {"object":"error","message":"x"}\n\n',
        chunk(ROLE, error={"code": 502}),
        chunk({}, choice={"error": {"code": 502}, "finish_reason": "error"}),
    ],
)
def test_an_error_in_the_stream_is_the_providers(error: bytes) -> None:
    assert unknown(error) == (Reason.PROVIDER_ERROR, "event 1")
    assert unknown(*TOOL[:4], error) == (Reason.PROVIDER_ERROR, "event 5")
    assert unknown(*TOOL, error) == (Reason.PROVIDER_ERROR, "event 6")
    assert unknown(*TOOL, DONE, error) == (Reason.PROVIDER_ERROR, "event 7")
    assert failure(b"".join(TOOL) + error, streamed=True) == (Reason.PROVIDER_ERROR, "event 6")


def test_an_error_is_told_before_a_contradiction() -> None:
    parts = [*TOOL, calls(begun(name="wait")), chunk(ROLE, error="x")]
    assert unknown(*parts) == (Reason.PROVIDER_ERROR, "event 7")
    assert failure(b"".join(parts[:-1]), streamed=True) == (Reason.STREAM_INCOMPLETE, "event 7")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", Reason.MALFORMED_JSON),
        (b"[]", Reason.MALFORMED_JSON),
        (b"[DONE] ", Reason.MALFORMED_JSON),
        (b'{"a":1,"a":1}', Reason.DUPLICATE_KEY),
        (b'{"choices":[{"delta":{"content":"a","content":"a"}}]}', Reason.DUPLICATE_KEY),
        (b'{"n":1e999}', Reason.LIMIT_EXCEEDED),
    ],
)
def test_a_chunk_that_is_not_read_is_told_where_it_stands(data: bytes, reason: Reason) -> None:
    assert unknown(*TOOL[:2], b"data: %b\n\n" % data, *TOOL[2:]) == (reason, "event 3")


@pytest.mark.parametrize(
    ("data", "reason", "where"),
    [
        (b'{"choices":{}}', Reason.INVALID_CHOICES, "/choices"),
        (b'{"choices":[1]}', Reason.INVALID_CHOICES, "/choices"),
        (b'{"choices":[{"index":0},{"index":1}]}', Reason.INVALID_CHOICES, "/choices"),
        (b'{"choices":[{"index":1,"delta":{}}]}', Reason.INVALID_CHOICES, "/choices"),
        (b'{"choices":[{"index":false,"delta":{}}]}', Reason.INVALID_CHOICES, "/choices"),
        (b'{"choices":[{"index":0,"delta":"x"}]}', Reason.INVALID_MESSAGE, "/choices/0/message"),
        (b'{"choices":[{"index":0,"delta":[]}]}', Reason.INVALID_MESSAGE, "/choices/0/message"),
    ],
)
def test_a_chunk_of_another_shape_is_refused_by_the_rules_in_their_order(
    data: bytes, reason: Reason, where: str
) -> None:
    events = (*TOOL[:2], b"data: %b\n\n" % data, *TOOL[2:])
    assert unknown(*events) == (reason, where)
    assert unknown(*events, expected=ExpectedIdentity("other"))[0] is Reason.IDENTITY_MISMATCH


def test_a_unary_body_is_no_stream() -> None:
    assert failure(b'{"model":"m"}', streamed=True) == (Reason.STREAM_INCOMPLETE, "event 1")


# What real servers send beside the answer


def test_comments_prompt_filters_and_moderation_say_nothing() -> None:
    azure = chunk(choices=[], model="", id="", created=0, prompt_filter_results=[{"prompt_index": 0}])
    later = chunk(ABSENT, choice={"content_filter_results": {}, "content_filter_offsets": {}})
    parts = [b": OPENROUTER PROCESSING\n\n", azure, *TOOL, later, USAGE, chunk(choices=[], moderation={"flagged": 1})]
    assert isinstance(admitted(*parts).verdict, Action)


def test_a_choice_needs_no_index_and_may_repeat_what_it_said() -> None:
    parts = [part.replace(b'"index": 0, "delta"', b'"index": null, "delta"') for part in TOOL]
    again = chunk({"role": "assistant", "content": "", "reasoning": None, "reasoning_details": []})
    assert isinstance(admitted(*parts, again, finish("tool_calls"), USAGE).verdict, Action)


def test_members_that_vary_from_chunk_to_chunk_are_not_compared() -> None:
    parts = [
        part.replace(b'"model"', b'"created": %d, "system_fingerprint": "f%d", "model"' % (number, number))
        for number, part in enumerate(TOOL)
    ]
    assert isinstance(admitted(*parts).verdict, Action)


# Contradictions


@pytest.mark.parametrize(
    "late",
    [
        chunk({}, model="m2"),
        chunk({}, id="gen-2"),
        chunk({"role": "user"}),
        finish("stop"),
        finish("length"),
        finish(["tool_calls"]),
        calls(begun(call_id="call_2")),
        calls(begun(name="wait")),
        calls(fragment("", type="custom")),
        chunk({"content": "more"}),
        chunk({"reasoning": "more"}),
        calls(begun(1, "call_2", "wait", "{}")),
        calls(begun()),
        chunk({"annotations": [{"type": "file"}]}),
        chunk({"reasoning_details": [{"type": "x"}]}),
        chunk({"new": 1}),
        chunk({"content": 1}),
    ],
)
def test_what_contradicts_an_earlier_chunk_is_told_at_the_later(late: bytes) -> None:
    assert unknown(*TOOL, late) == (Reason.STREAM_CONTRADICTION, "event 6")


@pytest.mark.parametrize(
    "between",
    [
        calls(begun(call_id="call_2")),
        calls(begun(name="wait")),
        calls(fragment({"claim": "saved"})),
        calls({"index": 0, "function": "finish"}),
        calls({"index": -1}),
        calls({"index": "0"}),
        calls({"index": 0.0}),
        calls({"index": True}),
        chunk({"tool_calls": {}}),
        chunk({"role": "tool"}),
        chunk({}, provider=1, model=2),
    ],
)
def test_a_contradiction_between_pieces_is_told_at_the_second(between: bytes) -> None:
    assert unknown(*TOOL[:3], between, *TOOL[3:]) == (Reason.STREAM_CONTRADICTION, "event 4")


@pytest.mark.parametrize("silent", [None, ""])
def test_null_and_the_empty_text_contradict_nothing(silent: Any) -> None:
    again = chunk({"role": silent}, model=silent, id=silent, choice={"finish_reason": silent})
    repeat = calls({"index": 0, "id": silent, "type": silent, "function": {"name": silent, "arguments": silent}})
    assert isinstance(admitted(again, *TOOL[:2], repeat, *TOOL[2:], again).verdict, Action)


def test_an_equal_repeat_is_fine() -> None:
    repeat = calls({"index": 0, "id": "call_1", "type": "function", "function": {"name": "finish"}})
    assert isinstance(admitted(*TOOL[:3], repeat, chunk(ROLE), *TOOL[3:], finish("tool_calls")).verdict, Action)


def test_a_finish_reason_comes_with_the_last_piece_or_after_it() -> None:
    last = chunk({"content": "done"}, choice={"finish_reason": "stop"})
    assert admitted(chunk(ROLE), chunk({"content": "all "}), last).verdict == TextFinish("all done")


@pytest.mark.parametrize(
    ("reasons", "reason"),
    [
        ([None], Reason.MISSING_STOP_REASON),
        ([None, ""], Reason.UNRECOGNIZED_STOP_REASON),
        (["", None], Reason.UNRECOGNIZED_STOP_REASON),
        (["length"], Reason.TRUNCATED),
        (["content_filter"], Reason.FILTERED),
    ],
)
def test_the_reason_is_judged_by_the_unary_table(reasons: list[Any], reason: Reason) -> None:
    found = unknown(*TEXT[:3], *[finish(one) for one in reasons])
    assert found == (reason, "/choices/0/finish_reason")


def test_a_native_reason_is_kept() -> None:
    parts = [*TEXT[:3], chunk({}, choice={"finish_reason": "stop", "native_finish_reason": "MAX_TOKENS"})]
    assert unknown(*parts) == (Reason.TRUNCATED, "/choices/0/native_finish_reason")


# Calls


def test_parallel_calls_are_several() -> None:
    second = [calls(begun(1, "call_2", "wait")), calls(fragment("{}", 1))]
    found = unknown(*TOOL[:4], *second, finish("tool_calls"))
    assert found == (Reason.MULTIPLE_TOOL_CALLS, "/choices/0/message/tool_calls")


def test_calls_without_an_index_never_merge() -> None:
    whole = calls(fields(begun(arguments='{"claim":"saved"}'), {"index": ABSENT}))
    other = calls(fields(begun(None, "call_2", "wait", "{}"), {}))
    assert isinstance(admitted(TOOL[0], whole, TOOL[4]).verdict, Action)
    assert unknown(TOOL[0], whole, other, TOOL[4])[0] is Reason.MULTIPLE_TOOL_CALLS
    assert unknown(TOOL[0], whole, whole, TOOL[4])[0] is Reason.MULTIPLE_TOOL_CALLS
    pieces = [part.replace(b'{"index": 0, "', b'{"', 2).replace(b'{"delta"', b'{"index":0,"delta"') for part in TOOL]
    assert unknown(*pieces)[0] is Reason.MULTIPLE_TOOL_CALLS


@pytest.mark.parametrize("odd", [1, "finish", None, ["x"]])
def test_a_call_that_is_no_object_is_for_the_rules(odd: Any) -> None:
    found = unknown(TOOL[0], calls(odd), TOOL[4])
    assert found == (Reason.INVALID_TOOL_CALL, "/choices/0/message/tool_calls/0")


def test_a_call_without_pieces_of_arguments_is_malformed() -> None:
    found = unknown(TOOL[0], calls(begun()), TOOL[4])
    assert found == (Reason.MALFORMED_ARGUMENTS, "/choices/0/message/tool_calls/0/function/arguments")


def test_a_tool_that_the_provider_ran_is_found_in_the_merged_message() -> None:
    cited = chunk({"annotations": [{"type": "url_citation", "url_citation": {}}]})
    found = unknown(chunk(ROLE), cited, *TEXT[1:])
    assert found == (Reason.SERVER_TOOL_USED, "/choices/0/message/annotations/0")


def test_a_model_that_is_another_is_found_once_the_stream_is_whole() -> None:
    parts = [part.replace(b'"model": "m"', b'"model": "other"') for part in TOOL]
    assert unknown(*parts) == (Reason.IDENTITY_MISMATCH, "/model")
    assert judge(b"".join(parts), streamed=True).verdict == TechnicalUnknown(Reason.STREAM_INCOMPLETE, "event 6")
