"""The lifecycle that OMP and pi share: the table of section 5, and what is theirs alone."""

from typing import Any

import pytest

from adapter_svc.native import Completion, Failure, Harness, Observation, Opening
from tests.adapter_svc.native.helpers import Record, code_of, judge, lines
from tests.adapter_svc.native.omp_script import DONE, USER, Call, changed, code, judged, message, run


def test_scripted_runs_are_complete_to_begin_with() -> None:
    for calls in ([], [Call(a=1)], [Call("c1", a=1), Call("c2", b=2)]):
        found = judged(run(*calls))
        assert isinstance(found, Completion)
        assert (found.assistant_text, found.observations) == ("done", {})


# The table


@pytest.mark.parametrize("stop", ["length", "aborted", "pending", "refusal"])
def test_a_message_that_stopped_otherwise_fails_the_run_where_it_stands(stop: str) -> None:
    bad = {**DONE, "stopReason": stop}
    start = [{"type": "session", "id": "s"}, {"type": "agent_start"}, {"type": "turn_start"}]
    found = judged([*start, *message(USER), *message(bad)])
    assert isinstance(found, Failure)
    assert (found.code.value, found.record) == ("HARNESS_FAILED", 7)


def test_an_error_that_is_tried_again_is_replaced() -> None:
    failed = {**DONE, "stopReason": "error", "content": [{"type": "text", "text": "half"}]}
    again = [{"type": "auto_retry_start", "attempt": 1}, {"type": "agent_start"}]
    records = run()
    attempt = [*message(failed), {"type": "turn_end", "message": failed, "toolResults": []}]
    tried = [*records[:5], *attempt, *again, {"type": "turn_start"}, *records[5:-1]]
    found = judged([*tried, {**records[-1], "messages": [DONE]}])
    assert isinstance(found, Completion)
    assert found.assistant_text == "done"
    assert found.observations == {Observation.PROVIDER_RETRY: 1, Observation.TRANSIENT_ERROR: 1}
    unannounced = [record for record in tried if record["type"] != "auto_retry_start"]
    assert code([*unannounced, {**records[-1], "messages": [DONE]}]) == "HARNESS_FAILED"
    for will_retry, expected in ((True, "complete"), (False, "HARNESS_FAILED")):
        compacted = {"type": "auto_compaction_end", "action": "handoff", "willRetry": will_retry}
        retried = [compacted if record["type"] == "auto_retry_start" else record for record in tried]
        assert code([*retried, {**records[-1], "messages": [DONE]}]) == expected
    ended = [*records[:5], *attempt, {"type": "agent_end", "messages": [USER, failed], "isTerminal": True}]
    assert code(ended) == "HARNESS_FAILED"


@pytest.mark.parametrize(
    ("blocks", "stop"),
    [
        ([{"type": "text", "text": "a"}], "toolUse"),
        ([{"type": "toolCall", "id": "c", "name": "n", "arguments": {}}], "stop"),
        ([{"type": "toolCall", "id": "", "name": "n", "arguments": {}}], "toolUse"),
        ([{"type": "toolCall", "id": "c", "name": "n", "arguments": {}}] * 2, "toolUse"),
        ([{"type": "toolCall", "id": "c", "name": "n", "arguments": []}], "toolUse"),
        ([{"type": "text", "text": 1}], "stop"),
        ([{"type": "surprise"}], "stop"),
        (["text"], "stop"),
    ],
)
def test_a_message_and_its_stop_must_agree(blocks: list[Any], stop: str) -> None:
    start = [{"type": "session", "id": "s"}, {"type": "agent_start"}, {"type": "turn_start"}, *message(USER)]
    assert code([*start, *message({**DONE, "content": blocks, "stopReason": stop})]) == "PROTOCOL_MALFORMED"


def test_a_call_is_made_once_in_the_whole_run() -> None:
    first, again = Call("c1", a=1), Call("c1", a=1)
    assert code(run(first, again)) == "PROTOCOL_MALFORMED"


@pytest.mark.parametrize(
    "steps",
    [
        lambda c: [c.end, *message(c.message)],
        lambda c: [c.start, *message(c.message)],
        lambda c: [c.start, c.start, c.end, *message(c.message)],
        lambda c: [c.start, c.end, c.end, *message(c.message)],
        lambda c: [c.start, c.end, *message(c.message), *message(c.message)],
        lambda c: [c.update(), c.start, c.end, *message(c.message)],
        lambda c: [c.start, c.end, c.update(), *message(c.message)],
        lambda c: [c.start, c.end],
        lambda c: [],
        lambda c: [c.start, c.end, *message({**c.message, "content": []})],
        lambda c: [c.start, c.end, *message({**c.message, "isError": True})],
        lambda c: [c.start, c.end, *message({**c.message, "toolName": "edit"})],
        lambda c: [c.start, c.end, message(c.message)[0], message({**c.message, "timestamp": 9})[1]],
        lambda c: [{**c.start, "toolCallId": "c9"}, c.end, *message(c.message)],
    ],
)
def test_a_call_s_life_has_one_order(steps: Any) -> None:
    call = Call(a=1)
    records = run(call)
    at, end = records.index(call.start), next(i for i, record in enumerate(records) if record["type"] == "turn_end")
    assert code([*records[:at], *steps(call), *records[end:]]) == "PROTOCOL_MALFORMED"


def test_a_failed_tool_is_counted_and_decides_nothing() -> None:
    call = Call(a=1)
    call.end["isError"] = call.message["isError"] = True
    found = judged(run(call))
    assert isinstance(found, Completion)
    assert found.observations == {Observation.TOOL_FAILED: 1}


CUSTOM: Record = {"role": "custom", "customType": "note", "content": "x", "display": False, "timestamp": 1}


def with_custom(custom: Record, at: int = 5) -> list[Record]:
    """A run with a custom message; 5 is before the assistant's message, 7 after it."""
    records = run()
    history = [USER, custom, DONE] if at == 5 else [USER, DONE, custom]
    return [*records[:at], *message(custom), *records[at:-1], {**records[-1], "messages": history}]


def test_a_custom_message_is_recorded_and_never_said() -> None:
    found = judged(with_custom(CUSTOM))
    assert isinstance(found, Completion)
    assert found.assistant_text == "done"
    assert code(with_custom({**CUSTOM, "content": [{"type": "text", "text": "x"}], "details": {"a": 1}})) == "complete"


@pytest.mark.parametrize(
    "custom",
    [{**CUSTOM, "more": 1}, {**CUSTOM, "customType": ""}, {**CUSTOM, "display": 1}, {**CUSTOM, "content": None}],
)
def test_a_custom_message_has_a_closed_shape(custom: Record) -> None:
    assert code(with_custom(custom)) == "PROTOCOL_MALFORMED"


def test_a_custom_message_comes_before_the_assistant_s() -> None:
    assert code(with_custom(CUSTOM, at=7)) == "PROTOCOL_MALFORMED"


def test_there_is_one_user_message() -> None:
    records = run()
    twice = [*records[:5], *message(USER), *records[5:-1], {**records[-1], "messages": [USER, USER, DONE]}]
    none = [*records[:3], *records[5:-1], {**records[-1], "messages": [DONE]}]
    assert [code(twice), code(none)] == ["PROTOCOL_MALFORMED"] * 2


def with_updates(*events: Record) -> list[Record]:
    records = run()
    updates = [{"type": "message_update", "assistantMessageEvent": event} for event in events]
    return [*records[:6], *updates, *records[6:]]


TEXT_START = {"type": "text_start", "contentIndex": 0}


def test_updates_are_of_blocks_that_started_and_go_on() -> None:
    delta, end = {**TEXT_START, "type": "text_delta", "delta": "d"}, {**TEXT_START, "type": "text_end", "content": "d"}
    assert code(with_updates(TEXT_START, delta, delta, end)) == "complete"
    for events in (
        [delta],
        [end],
        [TEXT_START, TEXT_START],
        [{**TEXT_START, "contentIndex": 1}],
        [{**TEXT_START, "contentIndex": -1}],
        [{**TEXT_START, "contentIndex": True}],
        [TEXT_START, {**delta, "contentIndex": 1}],
        [TEXT_START, {**delta, "type": "thinking_delta"}],
        [TEXT_START, {**delta, "type": "text_more"}],
        [TEXT_START, {**delta, "type": "surprise_delta"}],
        [TEXT_START, {**delta, "delta": 1}],
        [TEXT_START, end, delta],
        [TEXT_START, end, end],
        [{**TEXT_START, "type": "thinking_start"}],
        [TEXT_START, {**TEXT_START, "contentIndex": 1}],
    ):
        assert code(with_updates(*events)) == "PROTOCOL_MALFORMED", events


# OMP's own


def test_a_terminal_event_that_says_it_is_none_is_none() -> None:
    records = changed(run(), "agent_end", isTerminal=False)
    assert code(records) == "PROTOCOL_TRUNCATED"
    assert code(changed(run(), "agent_end", isTerminal="true")) == "PROTOCOL_MALFORMED"


def test_in_rpc_the_acknowledgement_may_come_at_any_time_and_must_come() -> None:
    records = run(inventory=[])
    acknowledgement = records.pop(3)
    assert acknowledgement["command"] == "prompt"
    assert code(records) == "PROTOCOL_TRUNCATED"
    for at in (3, 6, len(records)):
        assert code([*records[:at], acknowledgement, *records[at:]]) == "complete"
    refused = {**acknowledgement, "success": False}
    assert code([*records[:3], refused, *records[3:]]) == "HARNESS_FAILED"
    assert code([*records[:3], acknowledgement, acknowledgement, *records[3:]]) == "PROTOCOL_MALFORMED"


@pytest.mark.parametrize(
    "extra",
    [
        {"type": "available_commands_update", "commands": []},
        {"type": "response", "command": "get_state", "success": True, "data": {}},
        {"type": "response", "command": "compact", "success": True},
        {"type": "ready", "protocolVersion": 1},
        {"type": "session", "id": "s"},
    ],
)
def test_the_start_up_happens_once(extra: Record) -> None:
    records = run(inventory=[])
    assert code([*records[:4], extra, *records[4:]]) == "PROTOCOL_MALFORMED"


def test_an_agent_does_not_start_before_the_commands_are_known() -> None:
    records = run(inventory=[])
    assert code([record for record in records if record["type"] != "available_commands_update"]) == "PROTOCOL_MALFORMED"


PRESENTATION: list[Record] = [
    {"method": "notify", "message": "m", "notifyType": "info"},
    {"method": "setStatus", "statusKey": "k", "statusText": "t"},
    {"method": "setTitle", "title": "t"},
    {"method": "set_editor_text", "text": "t"},
    {"method": "setWidget", "widgetKey": "k", "widgetLines": ["a"]},
]


@pytest.mark.parametrize("request_", PRESENTATION)
def test_presentation_is_ignored_at_any_time(request_: Record) -> None:
    records, asked = run(Call(a=1)), {"type": "extension_ui_request", "id": "u", **request_}
    for at in range(1, len(records) + 1):
        assert code([*records[:at], asked, *records[at:]]) == "complete"
    assert code([*records[:2], {**asked, "more": 1}, *records[2:]]) == "PROTOCOL_MALFORMED"
    assert code([*records[:2], {**asked, "id": ""}, *records[2:]]) == "PROTOCOL_MALFORMED"


@pytest.mark.parametrize("method", ["select", "confirm", "input", "editor", "open_url"])
def test_a_request_that_needs_a_person_fails_the_run(method: str) -> None:
    records = run()
    asked = {"type": "extension_ui_request", "id": "u", "method": method, "title": "t"}
    found = judged([*records[:4], asked, *records[4:]])
    assert isinstance(found, Failure)
    assert (found.code.value, found.record) == ("HARNESS_FAILED", 5)
    assert code([*records[:4], {**asked, "method": "surprise"}, *records[4:]]) == "PROTOCOL_MALFORMED"


@pytest.mark.parametrize("version", ["17.9.9", "omp 0.4"])
def test_an_older_omp_is_refused(version: str) -> None:
    assert code_of(judge(Opening(Harness.OMP, harness_version=version), lines(run()))) == "HARNESS_INCOMPATIBLE"
    assert code_of(judge(Opening(Harness.OMP, harness_version="18.2.3"), lines(run()))) == "complete"


# pi's own


def pi_run(**settled: Any) -> list[Record]:
    system = {"role": "system", "content": "", "timestamp": 0, "toolsAdded": []}
    records = run()
    end = {"type": "agent_end", "messages": [system, USER, DONE], "willRetry": False}
    return [*records[:3], *message(system), *records[3:-1], end, {"type": "agent_settled", "aborted": False, **settled}]


def test_pi_settles() -> None:
    def judged_code(records: list[Record]) -> str:
        return code_of(judge(Harness.PI, lines(records)))

    assert judged_code(pi_run()) == "complete"
    assert judged_code(pi_run()[:-1]) == "PROTOCOL_TRUNCATED"
    assert judged_code(pi_run(aborted=True)) == "HARNESS_FAILED"
    assert judged_code(pi_run(aborted=0)) == "PROTOCOL_MALFORMED"
    assert judged_code([*pi_run(), {"type": "agent_start"}]) == "PROTOCOL_MALFORMED"
    retried = changed(pi_run(), "agent_end", willRetry=True)
    assert judged_code(retried) == "PROTOCOL_MALFORMED"
    assert judged_code([record for record in pi_run() if record["type"] != "agent_end"]) == "PROTOCOL_MALFORMED"
