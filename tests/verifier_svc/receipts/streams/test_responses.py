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


def item(content: Any, index: int = 0) -> bytes:
    return typed("response.output_item.done", output_index=index, item=content)


def ended(*output: Any, status: str = "completed", **more: Any) -> bytes:
    return typed(f"response.{status}", response=response(*output, status=status, **more))


TEXT = (CREATED, text("Do"), text("ne."), item(said("Done.")), ended(said("Done.")))
CALL = (CREATED, arguments(FINISH[:4]), arguments(FINISH[4:]), item(CALLED), ended(CALLED))


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
        place = f"event {count}" if count else ""
        assert unknown(*events[:count]) == (Reason.STREAM_INCOMPLETE, place)
        assert unknown(*events[:count], events[count][:-1]) == (Reason.STREAM_INCOMPLETE, place)
    assert unknown(CREATED, typed("response.queued", response=response())) == (Reason.STREAM_INCOMPLETE, "event 2")


@pytest.mark.parametrize("broken", [typed("error", code="x"), event({"type": "error"}), event({}, "error")])
def test_an_error_after_a_finished_call_runs_nothing(broken: bytes) -> None:
    assert unknown(*CALL[:-1], broken) == (Reason.PROVIDER_ERROR, "event 5")
    assert unknown(*CALL, broken) == (Reason.PROVIDER_ERROR, "event 6")


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
    assert unknown(*CALL[:-1], last) == (Reason.STREAM_CONTRADICTION, "event 5")


def test_pieces_that_contradict_the_response() -> None:
    assert unknown(CREATED, arguments("{}"), ended(CALLED)) == (Reason.STREAM_CONTRADICTION, "event 3")
    assert unknown(CREATED, text("Gone."), ended()) == (Reason.STREAM_CONTRADICTION, "event 3")
    assert unknown(CREATED, text("Do"), ended()) == (Reason.STREAM_CONTRADICTION, "event 3")
    two = (text("a"), text("c", 2), text("b", 0, 1))
    assert read(*two, ended(said("a", "b"), said("c"))).verdict == TextFinish("abc")
    assert unknown(*two, ended(said("a", "c"), said("b")))[0] is Reason.STREAM_CONTRADICTION
    assert read(text("Done."), text("", 0, 1), ended(said("Done.", ""))).verdict == TextFinish("Done.")
    assert read(text("Done."), ended(said("", "Done."))).verdict == TextFinish("Done.")


def test_opaque_items_and_ids_may_be_spelled_anew() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    events = (
        item(said("Done.", id="tmp_1")),
        item(thought, 1),
        ended({**thought, "encrypted_content": "y"}, said("Done.")),
    )
    assert read(*events).verdict == TextFinish("Done.")


def test_after_the_end_only_repeats_and_a_routers_mark() -> None:
    assert read(*CALL, CALL[-1], DONE).verdict == Action("finish", {"claim": "saved"}, "call_1")
    for late in (CREATED, item(CALLED), ended(function_call("wait"))):
        assert unknown(*CALL, late) == (Reason.STREAM_CONTRADICTION, "event 6")
    assert unknown(*CALL[:-1], DONE, CALL[-1]) == (Reason.MALFORMED_JSON, "event 5")


@pytest.mark.parametrize("last", [{}, {"response": None}, {"response": "x"}])
def test_an_end_without_the_response(last: Any) -> None:
    assert unknown(*CALL[:-1], typed("response.completed", **last)) == (Reason.INVALID_MESSAGE, "event 5")


def test_events_of_another_form_are_nothing() -> None:
    odd = (
        event({"type": ["response.completed"]}),
        typed("response.output_text.delta", delta=5),
        typed("response.output_item.done"),
    )
    found = bodies.judge(WireFormat.RESPONSES, b"".join([odd[0], CREATED, ended()]), streamed=True)
    assert found == TextFinish("Done.")
    assert unknown(*odd[1:], ended()) == (Reason.STREAM_CONTRADICTION, "event 3")
    assert json.loads(read(ended()).continuation or b"") == [said("Done.")]
