"""Codex, Gemini, the Agents SDK's driver and the script: what is theirs alone."""

from typing import Any

import pytest

from adapter_svc.native import Completion, Harness, Observation, Opening, OutputContract
from adapter_svc.native.protocols import PROTOCOLS, REFUSED
from countersign.images import shipped_image
from tests.adapter_svc.native.helpers import Record, code_of, counts, judge, lines

# Codex

THREAD, TURN = {"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"}
DONE = {"type": "turn.completed", "usage": {"input_tokens": 1, "cached_input_tokens": 1, "output_tokens": 2}}
FAILED = {"type": "turn.failed", "error": {"message": "m"}}
ERROR = {"type": "error", "message": "Reconnecting... 1/5"}


def item(step: str, item_id: str, kind: str, **members: Any) -> Record:
    return {"type": f"item.{step}", "item": {"id": item_id, "type": kind, **members}}


ANSWER = item("completed", "i1", "agent_message", text="done")
ERROR_ITEM = item("completed", "i0", "error", message="m")
COMMAND = {"command": "ls", "aggregated_output": "", "exit_code": None, "status": "in_progress"}
OPEN = item("started", "c1", "command_execution", **COMMAND)
CLOSED = item("completed", "c1", "command_execution", **{**COMMAND, "exit_code": 0, "status": "completed"})


@pytest.mark.parametrize(
    ("records", "observations"),
    [
        ([THREAD, TURN, ANSWER, DONE], {}),
        ([THREAD, ERROR_ITEM, TURN, ERROR, ANSWER, DONE, ERROR], {"TRANSIENT_ERROR": 3}),
        ([THREAD, TURN, DONE], {"EMPTY_FINAL_TEXT": 1}),
        ([THREAD, TURN, OPEN, ANSWER, DONE], {"ITEM_NOT_FINISHED": 1}),
        ([THREAD, TURN, ANSWER, OPEN, CLOSED, DONE], {"EMPTY_FINAL_TEXT": 1}),
        ([THREAD, TURN, CLOSED, ANSWER, DONE], {}),
        ([THREAD, TURN, {**OPEN, "type": "item.updated"}, DONE], None),
        ([THREAD, TURN, OPEN, OPEN, CLOSED, DONE], None),
        ([THREAD, TURN, OPEN, CLOSED, CLOSED, DONE], None),
        ([THREAD, TURN, OPEN, item("completed", "c1", "agent_message", text="x"), DONE], None),
        ([THREAD, TURN, item("completed", "i1", "agent_message"), DONE], None),
        ([THREAD, ANSWER, TURN, DONE], None),
        ([THREAD, TURN, DONE, ANSWER], None),
        ([THREAD, THREAD, TURN, DONE], None),
        ([TURN, DONE], None),
        ([THREAD, TURN, TURN, DONE], None),
        ([THREAD, TURN, DONE, TURN, DONE], None),
        ([THREAD, TURN, DONE, DONE], None),
        ([THREAD, TURN, DONE, FAILED], None),
        ([THREAD, DONE], None),
        ([THREAD, TURN, {"type": "turn.completed"}], None),
        ([THREAD, TURN, {"type": "turn.paused"}, DONE], None),
        ([THREAD, TURN, {"type": "error"}, DONE], None),
    ],
)
def test_codex_has_one_thread_and_one_turn(records: list[Record], observations: dict[str, int] | None) -> None:
    found = judge(Harness.CODEX, lines(records))
    assert code_of(found) == ("PROTOCOL_MALFORMED" if observations is None else "complete")
    assert observations is None or counts(found) == observations


def test_codex_fails_by_its_turn_and_truncates_without_one() -> None:
    assert code_of(judge(Harness.CODEX, lines([THREAD, TURN, FAILED]))) == "HARNESS_FAILED"
    assert code_of(judge(Harness.CODEX, lines([THREAD, TURN, ERROR]))) == "PROTOCOL_TRUNCATED"


def test_a_declined_command_is_a_failed_tool() -> None:
    declined = item("completed", "c1", "command_execution", **{**COMMAND, "status": "declined"})
    found = judge(Harness.CODEX, lines([THREAD, TURN, OPEN, declined, ANSWER, DONE]))
    assert counts(found) == {"TOOL_FAILED": 1}


# Gemini

AT = {"timestamp": "now"}
INIT = {"type": "init", "session_id": "s", "model": "m", **AT}
CALL = {"type": "tool_use", "tool_id": "c", "tool_name": "t", "parameters": {}, **AT}
RESULT = {"type": "tool_result", "tool_id": "c", "status": "success", "output": "o", **AT}
END = {"type": "result", "status": "success", "stats": {"input_tokens": 1, "output_tokens": 2, "cached": 0}, **AT}
CUT = {"TEXT_POSSIBLY_TRUNCATED": 1}


def delta(text: str, **more: Any) -> Record:
    return {"type": "message", "role": "assistant", "content": text, "delta": True, **AT, **more}


@pytest.mark.parametrize(
    ("records", "text", "observations"),
    [
        ([INIT, delta("a"), delta("b"), END], "ab", CUT),
        ([INIT, delta("a"), CALL, RESULT, delta("b"), END], "a\nb", CUT),
        ([INIT, delta("a"), delta("b", delta=False), END], "a\nb", CUT),
        ([INIT, delta("a"), delta("", role="user"), delta("b"), END], "a\nb", CUT),
        ([INIT, delta(" "), delta("b"), delta(" "), END], " b ", CUT),
        ([INIT, delta(" "), END], " ", CUT | {"EMPTY_FINAL_TEXT": 1}),
        ([INIT, delta("a"), CALL, RESULT, END], "a", CUT | {"EMPTY_FINAL_TEXT": 1}),
        ([INIT, CALL, delta("a"), END], "a", CUT | {"ITEM_NOT_FINISHED": 1}),
        ([INIT, CALL, {**RESULT, "status": "error"}, delta("a"), END], "a", CUT | {"TOOL_FAILED": 1}),
        ([INIT, {"type": "error", "message": "m", **AT}, delta("a"), END], "a", CUT | {"TRANSIENT_ERROR": 1}),
    ],
)
def test_gemini_s_pieces_are_one_text(records: list[Record], text: str, observations: dict[str, int]) -> None:
    found = judge(Harness.GEMINI, lines(records))
    assert isinstance(found, Completion)
    assert (found.assistant_text, counts(found)) == (text, observations)


@pytest.mark.parametrize(
    "records",
    [
        [delta("a"), INIT, END],
        [INIT, INIT, END],
        [INIT, RESULT, END],
        [INIT, CALL, CALL, END],
        [INIT, CALL, RESULT, RESULT, END],
        [INIT, CALL, RESULT, CALL, END],
        [INIT, CALL, {**RESULT, "status": "odd"}, END],
        [INIT, {**delta("a"), "role": "system"}, END],
        [INIT, {**delta("a"), "content": None}, END],
        [INIT, {"type": "thought", **AT}, END],
        [INIT, END, END],
        [INIT, END, delta("a")],
        [INIT, {**END, "status": "ok"}],
        [INIT, {**END, "stats": None}],
        [INIT, {"type": "result", "status": "success", "stats": {}}],
    ],
)
def test_what_breaks_gemini_s_protocol_is_malformed(records: list[Record]) -> None:
    assert code_of(judge(Harness.GEMINI, lines(records))) == "PROTOCOL_MALFORMED"


# The driver over the Agents SDK

START = {"type": "start", "library_version": "0.24.0", "model": "m"}
MESSAGE = {"type": "message", "id": "m1", "content": [{"type": "output_text", "text": "done"}]}
FUNCTION = {"type": "function_call", "id": "f1", "call_id": "c1", "name": "t", "arguments": "{}"}
FINAL = {"type": "final", "final_output": "done", "exception": None, "usage": {"input_tokens": 1, "output_tokens": 2}}


def response(*output: Record) -> list[Record]:
    kinds = [("response.created", {"response": {"model": "m"}})]
    kinds += [("response.output_item.done", {"item": one}) for one in output]
    kinds += [("response.completed", {"response": {}})]
    return [
        {"type": "raw_response_event", "subtype": kind, "data": {"type": kind, "sequence_number": number, **data}}
        for number, (kind, data) in enumerate(kinds)
    ]


def run_item(subtype: str, item_: Record, **more: Any) -> Record:
    return {"type": "run_item_stream_event", "subtype": subtype, "raw_item": item_, **more}


CALLED = run_item("tool_called", FUNCTION)
OUTPUT = run_item("tool_output", {"type": "function_call_output", "call_id": "c1", "output": "o"}, output="o")
CREATED = run_item("message_output_created", MESSAGE)
RUN = [START, *response(FUNCTION), CALLED, OUTPUT, *response(MESSAGE), CREATED, FINAL]


def test_the_driver_s_run_is_complete() -> None:
    found = judge(Harness.AGENTS_SDK, lines(RUN))
    assert isinstance(found, Completion)
    assert (found.assistant_text, found.facts.harness_version, counts(found)) == ("done", "0.24.0", {})


@pytest.mark.parametrize("output", [None, {"a": 1}, ["done"], 1])
def test_a_final_output_that_is_no_string_fails(output: Any) -> None:
    assert code_of(judge(Harness.AGENTS_SDK, lines([*RUN[:-1], {**FINAL, "final_output": output}]))) == "HARNESS_FAILED"


def test_an_exception_fails() -> None:
    failed = {**FINAL, "exception": {"type": "MaxTurnsExceeded"}, "final_output": None}
    assert code_of(judge(Harness.AGENTS_SDK, lines([*RUN[:-1], failed]))) == "HARNESS_FAILED"


@pytest.mark.parametrize(
    "records",
    [
        RUN[1:],
        [*RUN, FINAL],
        [*RUN, CALLED],
        [*RUN[:-1], {**FINAL, "type": "DRIVER_final"}],
        [START, {"type": "surprise"}, FINAL],
        [START, *response(FUNCTION)[1:], CALLED, OUTPUT, FINAL],
        [START, *response(FUNCTION)[:1], *response(FUNCTION)[2:], FINAL],
        [START, *response(FUNCTION)[:-1], FINAL],
        [START, *response(FUNCTION), FINAL],
        [START, CALLED, OUTPUT, FINAL],
        [START, *response(FUNCTION), CALLED, CALLED, OUTPUT, FINAL],
        [START, *response(FUNCTION), CALLED, OUTPUT, OUTPUT, FINAL],
        [START, *response(FUNCTION), OUTPUT, CALLED, FINAL],
        [START, *response(FUNCTION), CALLED, {**OUTPUT, "output": "other"}, FINAL],
        [START, *response(FUNCTION, FUNCTION), CALLED, CALLED, FINAL],
        [START, {key: value for key, value in FINAL.items() if key != "final_output"}],
        [START, {key: value for key, value in FINAL.items() if key != "usage"}],
    ],
)
def test_what_breaks_the_driver_s_protocol_is_malformed(records: list[Record]) -> None:
    assert code_of(judge(Harness.AGENTS_SDK, lines(records))) == "PROTOCOL_MALFORMED"


# The script, and all of them

SCRIPT_START, SCRIPT_END = {"type": "start", "version": "1"}, {"type": "final", "status": "success"}


def test_a_script_can_show_every_kind_of_event() -> None:
    tool = {"type": "tool_start", "id": "c", "tool": "t", "arguments": {"a": 1}}
    end = {"type": "tool_end", "id": "c", "failed": True, "output": "o"}
    said, final = {"type": "text", "text": "hi"}, {**SCRIPT_END, "usage": {"input_tokens": 1}, "cost_usd": 0.25}
    found = judge(Harness.MOCK, lines([SCRIPT_START, tool, end, {"type": "retry"}, said, final]))
    assert counts(found) == {"PROVIDER_RETRY": 1, "TOOL_FAILED": 1}
    assert (found.facts.events, found.facts.cost_text, found.facts.usage.input_tokens) == (4, "0.25", 1)


def test_a_script_that_ends_with_an_error_fails() -> None:
    assert code_of(judge(Harness.MOCK, lines([SCRIPT_START, {**SCRIPT_END, "status": "error"}]))) == "HARNESS_FAILED"


def test_every_harness_has_a_protocol_or_a_reason() -> None:
    assert PROTOCOLS.keys() | REFUSED.keys() == set(Harness)
    assert not PROTOCOLS.keys() & REFUSED.keys()


@pytest.mark.parametrize("contract", list(OutputContract))
def test_opencode_is_refused_under_both_contracts(contract: OutputContract) -> None:
    found = judge(Opening(Harness.OPENCODE, contract, image=shipped_image("echo")), lines([SCRIPT_START, SCRIPT_END]))
    assert code_of(found) == "HARNESS_INCOMPATIBLE"


@pytest.mark.parametrize("harness", list(PROTOCOLS))
def test_no_output_is_truncated(harness: Harness) -> None:
    assert code_of(judge(harness, b"")) == "PROTOCOL_TRUNCATED"


def test_observations_have_the_names_of_the_design() -> None:
    assert [name.value for name in Observation] == [
        "EMPTY_FINAL_TEXT",
        "PERMISSION_DENIED",
        "TRANSIENT_ERROR",
        "PROVIDER_RETRY",
        "TOOL_FAILED",
        "ITEM_NOT_FINISHED",
        "MULTIPLE_TERMINAL",
        "TEXT_POSSIBLY_TRUNCATED",
    ]
