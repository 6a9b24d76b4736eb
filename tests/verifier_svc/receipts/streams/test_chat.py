"""A streamed chat completion, event by event (design/admission.md, Streams; docs/formats.md)."""

import json
from typing import Any

import pytest

from tests.verifier_svc.receipts import bodies
from tests.verifier_svc.receipts.streaming import DONE, event
from verifier_svc.receipts.verdicts import Action, Decoded, Reason, TextFinish, Usage
from verifier_svc.receipts.wire import WireFormat

FINISH = '{"claim":"saved"}'


def chunk(delta: Any = None, finish: Any = None, choice: Any = None, **more: Any) -> bytes:
    said = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish, **(choice or {})}
    return event({"id": "c1", "object": "chat.completion.chunk", "model": "m-1", "choices": [said], **more})


def call(**more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, **more}]}


START = chunk({"role": "assistant", "content": None})
NAMED = chunk(call(id="call_1", type="function", function={"name": "finish", "arguments": ""}))
TEXT = (START, chunk({"content": "Do"}), chunk({"content": "ne."}), chunk({}, "stop"), DONE)
CALL = (
    START,
    NAMED,
    chunk(call(function={"arguments": FINISH[:5]})),
    chunk(call(function={"arguments": FINISH[5:]})),
    chunk({}, "tool_calls"),
    DONE,
)


def read(*events: bytes) -> Decoded:
    return bodies.decoded(WireFormat.CHAT_COMPLETIONS, b"".join(events), streamed=True)


def unknown(*events: bytes) -> tuple[Reason, str]:
    return bodies.unknown(WireFormat.CHAT_COMPLETIONS, b"".join(events), streamed=True)


def message(*events: bytes) -> Any:
    return json.loads(read(*events).continuation or b"null")


def test_pieces_are_joined() -> None:
    assert read(*TEXT).verdict == TextFinish("Done.")
    found = read(*CALL)
    assert found.verdict == Action("finish", {"claim": "saved"}, "call_1")
    assert found.continuation == (
        b'{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\\"claim\\":\\"saved\\"}",'
        b'"name":"finish"},"id":"call_1","type":"function"}]}'
    )


@pytest.mark.parametrize("events", [TEXT, CALL])
def test_a_cut_stream_is_incomplete(events: tuple[bytes, ...]) -> None:
    for count in range(len(events)):
        assert unknown(*events[:count]) == (Reason.STREAM_INCOMPLETE, f"event {count + 1}")
        assert unknown(*events[:count], events[count][:-1]) == (Reason.STREAM_INCOMPLETE, f"event {count + 1}")


def test_a_body_that_is_no_stream_is_incomplete() -> None:
    assert unknown(b'{"error":{"message":"x"}}') == (Reason.STREAM_INCOMPLETE, "event 1")
    assert unknown(json.dumps({"choices": []}).encode() + b"\n\n") == (Reason.STREAM_INCOMPLETE, "event 1")


def test_a_clean_end_without_a_reason_is_another_thing_than_a_cut() -> None:
    assert unknown(*TEXT[:-2], DONE) == (Reason.MISSING_STOP_REASON, "/choices/0/finish_reason")
    assert unknown(DONE) == (Reason.IDENTITY_MISSING, "/model")
    assert unknown(event({"model": "m-1"}), DONE) == (Reason.INVALID_CHOICES, "/choices")


@pytest.mark.parametrize(
    "broken",
    [
        event({"error": {"message": "overloaded"}}),
        event({"error": {}}, "error"),
        event("overloaded", "error"),
        event({"object": "error"}),
        chunk({}, "error", {"error": {"code": 502}}),
    ],
)
def test_an_error_after_a_finished_call_runs_nothing(broken: bytes) -> None:
    assert unknown(*CALL[:-1], broken, DONE) == (Reason.PROVIDER_ERROR, "event 6")
    assert unknown(*CALL[:-1], broken) == (Reason.PROVIDER_ERROR, "event 6")
    assert unknown(*CALL, broken) == (Reason.PROVIDER_ERROR, "event 7")


@pytest.mark.parametrize(
    "contrary",
    [
        chunk({}, "stop"),
        chunk({}, "tool_calls", {"native_finish_reason": "completed"}),
        chunk({}, model="m-2"),
        chunk({}, id="c2"),
        chunk({"role": "user"}),
        chunk({"content": "More."}),
        chunk({"refusal": "No."}),
        chunk(call(function={"arguments": "{}"})),
    ],
)
def test_what_contradicts_itself(contrary: bytes) -> None:
    native = chunk({}, "tool_calls", {"native_finish_reason": "tool_use"})
    assert unknown(*CALL[:-2], native, contrary, DONE) == (Reason.STREAM_CONTRADICTION, "event 6")


@pytest.mark.parametrize(
    "contrary",
    [
        call(id="call_2"),
        call(type="custom"),
        call(function={"name": "wait"}),
        call(id="call_2", type="function", function={"name": "finish", "arguments": FINISH}),
        {"vendor": 2},
    ],
)
def test_a_call_that_contradicts_itself(contrary: Any) -> None:
    events = (START, chunk({"vendor": 1}), NAMED, chunk(contrary), *CALL[2:])
    assert unknown(*events) == (Reason.STREAM_CONTRADICTION, "event 4")


def test_anything_after_the_end_marker_is_a_contradiction() -> None:
    assert unknown(*CALL, chunk({})) == (Reason.STREAM_CONTRADICTION, "event 7")
    assert isinstance(read(*CALL, DONE).verdict, Action)


def test_equal_repeats_and_what_says_nothing_are_fine() -> None:
    again = chunk(
        {
            "role": "assistant",
            "content": "",
            "refusal": "",
            **call(id="", type=None, function={"name": "", "arguments": ""}),
        },
        finish="",
        provider=None,
        model="",
    )
    events = (*CALL[:2], again, *CALL[2:-1], chunk({"content": "", "tool_calls": []}, "tool_calls"), DONE)
    assert read(*events).verdict == Action("finish", {"claim": "saved"}, "call_1")


def test_a_repeat_is_equal_as_json_and_the_first_spelling_stays() -> None:
    first, again = b'{"model":"m-1","choices":[{"delta":{"x":{"n":1.0}}}]}', b'{"choices":[{"delta":{"x":{"n":1}}}]}'
    found = read(START, b"data: " + first + b"\n\n", b"data: " + again + b"\n\n", *TEXT[1:])
    assert found.continuation == b'{"content":"Done.","role":"assistant","x":{"n":1.0}}'


def test_calls_are_told_apart_by_their_index_and_never_by_guessing() -> None:
    second = {"index": 1, "id": "call_2", "type": "function", "function": {"name": "wait", "arguments": "{}"}}
    both = (*CALL[:2], chunk({"tool_calls": [second]}), *CALL[2:])
    assert unknown(*both) == (Reason.MULTIPLE_TOOL_CALLS, "/choices/0/message/tool_calls")
    assert [item["id"] for item in message(*both)["tool_calls"]] == ["call_1", "call_2"]
    unnumbered = {key: value for key, value in second.items() if key != "index"}
    alone = (START, chunk({"tool_calls": [unnumbered]}), *CALL[-2:])
    assert read(*alone).verdict == Action("wait", {}, "call_2")
    assert unknown(*alone[:2], *alone[1:])[0] is Reason.MULTIPLE_TOOL_CALLS
    fragment = chunk({"tool_calls": [{"function": {"arguments": FINISH}}]})
    assert unknown(START, NAMED, fragment, *CALL[-2:])[0] is Reason.MULTIPLE_TOOL_CALLS
    for odd in (True, 0.0, "0", -1):
        found = unknown(*CALL[:2], chunk(call(index=odd)), *CALL[2:])
        assert found == (Reason.STREAM_CONTRADICTION, "event 3")


def test_arguments_that_end_early_are_malformed() -> None:
    assert unknown(*CALL[:3], *CALL[-2:]) == (
        Reason.MALFORMED_ARGUMENTS,
        "/choices/0/message/tool_calls/0/function/arguments",
    )


def test_two_choices_are_two() -> None:
    other = chunk({"role": "assistant", "content": "x"}, "stop", {"index": 1})
    assert unknown(*TEXT[:-1], other, DONE) == (Reason.INVALID_CHOICES, "/choices")


@pytest.mark.parametrize(
    ("odd", "expected"),
    [
        (chunk({"content": 5}), Reason.STREAM_CONTRADICTION),
        (chunk({"tool_calls": "x"}), Reason.INVALID_MESSAGE),
        (chunk("x"), Reason.INVALID_MESSAGE),
        (event({"choices": {}}), Reason.INVALID_CHOICES),
        (event({"choices": ["x"]}), Reason.INVALID_CHOICES),
        (chunk({}, None, {"index": "0"}), Reason.INVALID_CHOICES),
        (chunk({"tool_calls": ["x"]}), Reason.AMBIGUOUS_TERMINATION),
        (chunk({"function_call": {"name": "wait"}}), Reason.AMBIGUOUS_TERMINATION),
        (chunk({"function_call": "wait"}), Reason.AMBIGUOUS_TERMINATION),
    ],
)
def test_what_has_not_the_form_of_a_chunk_is_judged_as_the_unary_form_would_be(odd: bytes, expected: Reason) -> None:
    assert unknown(*TEXT[:1], odd, *TEXT[1:])[0] is expected


def test_an_odd_call_is_judged_as_the_unary_form_would_be() -> None:
    odd = chunk({"tool_calls": ["x"]})
    assert unknown(START, odd, *CALL[-2:]) == (Reason.INVALID_TOOL_CALL, "/choices/0/message/tool_calls/0")
    named = chunk(call(id="call_1", function="x"))
    assert unknown(START, named, *CALL[-2:])[0] is Reason.INVALID_TOOL_CALL
    again = unknown(START, named, chunk(call(function={"name": "wait"})), *CALL[-2:])
    assert again == (Reason.STREAM_CONTRADICTION, "event 3")
    named = chunk(call(id="call_1", function={"name": "wait", "arguments": 5}))
    assert unknown(START, named, *CALL[-2:])[0] is Reason.MALFORMED_ARGUMENTS


def test_reasoning_goes_back_in_the_form_of_docs_formats() -> None:
    def detail(index: Any, **more: Any) -> dict[str, Any]:
        return {"reasoning_details": [{"type": "reasoning.text", "index": index, **more}]}

    found = message(
        START,
        chunk({"reasoning": "I ", "channel": "analysis", **detail(0, text="I ", format=None)}),
        chunk({"reasoning": "see", "channel": "final", **detail(0, text="see", signature="", format="f")}),
        chunk({"reasoning": None, **detail(0, signature="s")}),
        chunk(detail(1, text="next")),
        chunk({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}),
        *CALL[1:],
    )
    assert found["reasoning"] == "I see"
    assert found["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "I see", "signature": "s", "format": "f"},
        {"type": "reasoning.text", "index": 1, "text": "next"},
        {"type": "reasoning.encrypted", "data": "x"},
    ]
    assert "channel" not in found


def test_a_value_that_came_whole_keeps_its_bytes() -> None:
    delta = b'{"role":"assistant","x":{ "n":1.0, "l":[ ] },"tool_calls":[],"annotations":[ {"b":1e2} ]}'
    begun = b'data: {"model":"m-1","choices":[{"index":0,"delta":' + delta + b"}]}\n\n"
    found = read(begun, chunk({"content": 'a"é'}), chunk({}, "stop"), DONE)
    assert found.continuation == (
        b'{"annotations":[{"b":1e2}],"content":"a\\"\xc3\xa9","role":"assistant","tool_calls":[],'
        b'"x":{ "n":1.0, "l":[ ] }}'
    )


def test_content_in_parts() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    events = (START, chunk({"content": [thought]}), chunk({"content": "Do"}), chunk({"content": "ne."}), *TEXT[-2:])
    assert read(*events).verdict == TextFinish("Done.")
    assert message(*events)["content"] == [thought, {"text": "Done.", "type": "text"}]


@pytest.mark.parametrize("odd", ["x", {"a": 1}, ["x"], [{"index": 0, "type": []}], [{"index": True, "type": "t"}], []])
def test_reasoning_details_of_another_form_are_kept_as_they_came(odd: Any) -> None:
    events = (START, chunk({"reasoning_details": odd}), *TEXT[1:])
    assert read(*events).verdict == TextFinish("Done.")
    assert message(*events)["reasoning_details"] == odd


def test_content_that_is_an_empty_list_stays_one() -> None:
    events = (chunk({"role": "assistant", "content": []}), *TEXT[-2:])
    assert unknown(*events) == (Reason.EMPTY_TEXT, "/choices/0/message/content")
    assert message(*events)["content"] == []


def test_usage_is_the_last_that_was_stated() -> None:
    first = chunk({}, usage={"prompt_tokens": 1, "completion_tokens": 0})
    last = event({"model": "m-1", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2, "cost": 1.50}})
    found = read(first, *TEXT[:-1], last, event({"choices": [], "usage": None}), DONE)
    assert (found.usage, found.reported_cost) == (Usage(7, 2), "1.5")
