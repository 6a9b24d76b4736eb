"""A streamed response, event by event (design/admission.md, Streams; docs/formats.md)."""

import json
from typing import Any

import pytest

from tests.verifier_svc.receipts import bodies
from tests.verifier_svc.receipts.bodies import function_call, response, said
from tests.verifier_svc.receipts.streaming import DONE, event, typed
from verifier_svc.receipts.verdicts import Action, Decoded, Reason, TextFinish, Usage
from verifier_svc.receipts.wire import WireFormat

FINISH = '{"claim":"saved"}'
CALLED = function_call("finish", FINISH)
CREATED = typed("response.created", response=response(status="in_progress"))


def text(delta: str, item: int = 0, part: int = 0) -> bytes:
    return typed("response.output_text.delta", output_index=item, content_index=part, delta=delta)


def arguments(delta: str, item: int = 0) -> bytes:
    return typed("response.function_call_arguments.delta", output_index=item, delta=delta)


def added(content: Any, index: int = 0) -> bytes:
    begun = {name: content[name] for name in ("id", "type") if name in content}
    return typed("response.output_item.added", output_index=index, item=begun)


def item(content: Any, index: int = 0) -> bytes:
    return typed("response.output_item.done", output_index=index, item=content)


def ended(*output: Any, status: str = "completed", **more: Any) -> bytes:
    return typed(f"response.{status}", response=response(*output, status=status, **more))


TEXT = (CREATED, added(said("Done.")), text("Do"), text("ne."), item(said("Done.")), ended(said("Done.")))
CALL = (CREATED, added(CALLED), arguments(FINISH[:4]), arguments(FINISH[4:]), item(CALLED), ended(CALLED))


def read(*events: bytes) -> Decoded:
    return bodies.decoded(WireFormat.RESPONSES, b"".join(events), streamed=True)


def unknown(*events: bytes) -> tuple[Reason, str]:
    return bodies.unknown(WireFormat.RESPONSES, b"".join(events), streamed=True)


def test_the_last_event_holds_the_response() -> None:
    assert (read(*TEXT).verdict, read(*TEXT).usage) == (TextFinish("Done."), Usage(10, 5))
    assert read(*CALL).verdict == Action("finish", {"claim": "saved"}, "call_1")
    assert read(ended(CALLED)).verdict == Action("finish", {"claim": "saved"}, "call_1")


def test_its_bytes_are_kept() -> None:
    output = b'[ {"type":"reasoning","n":1.0,"x":[ ]}, {"type":"message","role":"assistant","content":[]} ]'
    body = b'{"type":"response.completed","response":{"model":"m","status":"completed","output":%s}}' % output
    assert read(b"data: " + body + b"\n\n").continuation == output


@pytest.mark.parametrize("events", [TEXT, CALL])
def test_a_cut_stream_is_incomplete(events: tuple[bytes, ...]) -> None:
    for count in range(len(events)):
        place = f"event {count + 1}"
        assert unknown(*events[:count]) == (Reason.STREAM_INCOMPLETE, place)
        assert unknown(*events[:count], events[count][:-1]) == (Reason.STREAM_INCOMPLETE, place)
    assert unknown(CREATED, typed("response.queued", response=response())) == (Reason.STREAM_INCOMPLETE, "event 3")


@pytest.mark.parametrize("broken", [typed("error", code="x"), event({"type": "error"}), event({}, "error")])
def test_an_error_after_a_finished_call_runs_nothing(broken: bytes) -> None:
    assert unknown(*CALL[:-1], broken) == (Reason.PROVIDER_ERROR, "event 6")
    assert unknown(*CALL, broken) == (Reason.PROVIDER_ERROR, "event 7")


@pytest.mark.parametrize(
    ("last", "expected", "where"),
    [
        (ended(CALLED, status="failed", error={"code": "x"}), Reason.PROVIDER_ERROR, "/error"),
        (ended(CALLED, status="failed"), Reason.PROVIDER_ERROR, "/status"),
        (ended(CALLED, status="cancelled"), Reason.PROVIDER_ERROR, "/status"),
        (
            ended(CALLED, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
            Reason.TRUNCATED,
            "/incomplete_details/reason",
        ),
        (
            ended(CALLED, status="incomplete", incomplete_details={"reason": "content_filter"}),
            Reason.FILTERED,
            "/incomplete_details/reason",
        ),
        (ended(CALLED, status="incomplete"), Reason.MISSING_STOP_REASON, "/incomplete_details/reason"),
    ],
)
def test_an_end_that_is_no_completion_carries_its_own_reason(last: bytes, expected: Reason, where: str) -> None:
    assert unknown(*CALL[:-1], last) == (expected, where)


@pytest.mark.parametrize(
    "last",
    [
        typed("response.completed", response=response(CALLED, status="incomplete")),
        typed("response.failed", response=response(CALLED)),
        event({"type": "response.completed", "response": response(CALLED)}, "response.failed"),
        ended(function_call("finish", '{"claim":"unknown"}')),
        ended(function_call("wait", FINISH)),
        ended({**CALLED, "call_id": "call_2"}),
        ended(CALLED, function_call(call_id="call_2")),
        ended(CALLED, said("And a text.")),
        ended(said("Done.")),
        ended(output=[]),
        ended(output=None),
    ],
)
def test_what_contradicts_itself(last: bytes) -> None:
    assert unknown(*CALL[:-1], last) == (Reason.STREAM_CONTRADICTION, "event 6")


def test_pieces_that_contradict_the_response() -> None:
    begun = added(said())
    assert unknown(CREATED, added(CALLED), arguments("{}"), ended(CALLED)) == (Reason.STREAM_CONTRADICTION, "event 4")
    assert unknown(CREATED, begun, text("Gone."), ended()) == (Reason.STREAM_CONTRADICTION, "event 4")
    assert unknown(CREATED, begun, text("Do"), ended()) == (Reason.STREAM_CONTRADICTION, "event 4")
    two = (begun, text("a"), text("b", 0, 1), added(said(), 1), text("c", 1))
    assert read(*two, ended(said("a", "b"), said("c"))).verdict == TextFinish("abc")
    assert unknown(*two, ended(said("a", "c"), said("b")))[0] is Reason.STREAM_CONTRADICTION
    assert unknown(*two, ended(said("a", "b"), said("c", "d")))[0] is Reason.STREAM_CONTRADICTION
    assert read(begun, text("Done."), text("", 0, 1), ended(said("Done.", ""))).verdict == TextFinish("Done.")
    assert unknown(begun, text("Done."), ended(said("", "Done.")))[0] is Reason.STREAM_CONTRADICTION


@pytest.mark.parametrize(
    "contrary",
    [
        text("x", 1),
        text("x", -1),
        typed("response.output_text.delta", output_index=0, delta="x"),
        typed("response.output_text.delta", output_index=0, content_index=0, delta=5),
        typed("response.output_text.delta", content_index=0, delta="x"),
        typed("response.output_text.done", output_index=0, content_index=0, text="Do"),
        typed("response.content_part.done", output_index=0, content_index=0, part={"type": "output_text", "text": "D"}),
        typed("response.vendor_note", output_index=0, item_id="other"),
        added(said("Done.")),
        item(said("Done."), 1),
        item(CALLED),
        typed("response.output_item.done", output_index=0),
        typed("response.vendor_note", sequence_number=1.5),
        typed("response.vendor_note", response={"model": "m-2"}),
    ],
)
def test_an_event_that_contradicts_an_earlier_one(contrary: bytes) -> None:
    assert unknown(*TEXT[:4], contrary, *TEXT[4:]) == (Reason.STREAM_CONTRADICTION, "event 5")


def test_a_text_is_done_with_all_of_its_pieces_and_then_no_more() -> None:
    done = typed("response.output_text.done", output_index=0, content_index=0, text="Done.")
    assert read(*TEXT[:4], done, done, *TEXT[4:]).verdict == TextFinish("Done.")
    assert unknown(*TEXT[:4], done, text("x"), *TEXT[4:]) == (Reason.STREAM_CONTRADICTION, "event 6")


def test_numbers_rise_by_one() -> None:
    def numbered(*numbers: int) -> list[bytes]:
        return [typed("response.vendor_note", sequence_number=number) for number in numbers]

    assert read(*numbered(4, 5), *TEXT).verdict == TextFinish("Done.")
    for numbers in ((4, 4), (4, 6), (4, 3)):
        assert unknown(*numbered(*numbers), *TEXT) == (Reason.STREAM_CONTRADICTION, "event 2")


def test_opaque_items_and_ids_of_reasoning_may_be_spelled_anew() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    events = (added(thought), item(thought), added(said("Done."), 1), item(said("Done."), 1))
    anew = {**thought, "id": "rs_2", "encrypted_content": "y"}
    assert read(*events, ended(anew, said("Done."))).verdict == TextFinish("Done.")
    assert unknown(*events, ended(anew, said("Done.", id="msg_2")))[0] is Reason.STREAM_CONTRADICTION
    assert unknown(*events[:3], ended(thought, said("Done.")))[0] is Reason.STREAM_CONTRADICTION


def test_after_the_end_only_a_routers_mark() -> None:
    assert read(*CALL, DONE, DONE).verdict == Action("finish", {"claim": "saved"}, "call_1")
    for late in (CREATED, item(CALLED), CALL[-1], ended(function_call("wait"))):
        assert unknown(*CALL, late) == (Reason.STREAM_CONTRADICTION, "event 7")
    assert unknown(*CALL[:-1], DONE, CALL[-1]) == (Reason.STREAM_INCOMPLETE, "event 6")


@pytest.mark.parametrize("last", [{}, {"response": None}, {"response": "x"}])
def test_an_end_without_the_response(last: Any) -> None:
    assert unknown(*CALL[:-1], typed("response.completed", **last)) == (Reason.INVALID_MESSAGE, "event 6")


def test_an_event_without_a_type_is_none_of_the_format() -> None:
    for odd in (event({"type": ["response.completed"]}), event({})):
        assert unknown(CREATED, odd, *TEXT[1:]) == (Reason.INVALID_MESSAGE, "event 2")
    assert json.loads(read(ended()).continuation or b"") == [said("Done.")]


def test_a_status_that_no_end_has_is_for_the_rules() -> None:
    last = typed("response.completed", response=response(said("Done."), status="in_progress"))
    assert unknown(*TEXT[:-1], last) == (Reason.CONTINUATION_REQUIRED, "/status")
