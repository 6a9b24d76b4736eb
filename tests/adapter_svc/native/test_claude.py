"""Claude: sessions, results that count, freshness, background tasks, both contracts."""

from typing import Any

import pytest

from adapter_svc.native import (
    Code,
    Completion,
    Failure,
    Harness,
    NativeReader,
    Observation,
    Opening,
    OutputContract,
    ProcessEnd,
)
from countersign.images import shipped_image
from tests.adapter_svc.native.helpers import Record, Verdict, code_of, judge, lines

SESSION = "s1"
INIT = {"type": "system", "subtype": "init", "session_id": SESSION, "model": "m", "uuid": "u0", "tools": ["Bash"]}
GOOD = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "done",
    "session_id": SESSION,
    "usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 5, "output_tokens": 6},
    "permission_denials": [],
    "total_cost_usd": 0.5,
}
BAD = {**GOOD, "is_error": True}
INVENTORY_EMPTY = {"type": "system", "subtype": "background_tasks_changed", "session_id": SESSION, "tasks": []}
STATUS = {"type": "system", "subtype": "status", "session_id": SESSION}


def said(text: str) -> Record:
    content = [{"type": "text", "text": text}]
    return {"type": "assistant", "session_id": SESSION, "message": {"role": "assistant", "content": content}}


def used(call_id: str, tool: str = "Bash") -> Record:
    content = [{"type": "tool_use", "id": call_id, "name": tool, "input": {}}]
    return {"type": "assistant", "session_id": SESSION, "message": {"role": "assistant", "content": content}}


def reported(call_id: str, **more: Any) -> Record:
    content = [{"type": "tool_result", "tool_use_id": call_id, "content": "r", **more}]
    return {"type": "user", "session_id": SESSION, "message": {"role": "user", "content": content}}


def about_task(subtype: str, task: str, **more: Any) -> Record:
    return {"type": "system", "subtype": subtype, "session_id": SESSION, "task_id": task, **more}


def judged(records: list[Record], end: ProcessEnd = ProcessEnd(0)) -> Verdict:  # noqa: B008 - it is frozen
    return judge(Harness.CLAUDE, lines(records), end)


def code(records: list[Record]) -> str:
    return code_of(judged(records))


def test_a_plain_run() -> None:
    found = judged([INIT, said("done"), GOOD])
    assert isinstance(found, Completion)
    usage = found.facts.usage
    assert (usage.input_tokens, usage.output_tokens) == (12, 6)
    assert (usage.cached_input_tokens, usage.cache_write_tokens) == (4, 5)
    assert (found.facts.cost_text, found.assistant_text, found.observations) == ("0.5", "done", {})


@pytest.mark.parametrize(
    "records",
    [
        [said("x"), INIT, GOOD],
        [GOOD],
        [INIT, {**said("x"), "session_id": "s2"}, GOOD],
        [INIT, {**STATUS, "session_id": "s2"}, GOOD],
        [INIT, {key: value for key, value in said("x").items() if key != "session_id"}, GOOD],
        [{**INIT, "session_id": ""}, GOOD],
        [INIT, {"type": "surprise", "session_id": SESSION}, GOOD],
        [INIT, {**STATUS, "subtype": 1}, GOOD],
        [INIT, {**INIT, "tools": []}, GOOD],
        [INIT, {**GOOD, "is_error": "false"}],
        [INIT, {**GOOD, "is_error": 0}],
        [INIT, {key: value for key, value in GOOD.items() if key != "is_error"}],
        [INIT, {key: value for key, value in GOOD.items() if key != "subtype"}],
        [INIT, {**GOOD, "result": None}],
        [INIT, {**GOOD, "usage": {"input_tokens": -1}}],
        [INIT, {**GOOD, "total_cost_usd": "0.5"}],
        [INIT, {**GOOD, "total_cost_usd": -0.5}],
        [INIT, {**GOOD, "permission_denials": {}}],
        [INIT, {**said("x"), "message": {"role": "user", "content": []}}, GOOD],
        [INIT, {**said("x"), "message": {"role": "assistant", "content": "x"}}, GOOD],
        [INIT, {**said("x"), "message": {"role": "assistant", "content": [{"text": "x"}]}}, GOOD],
        [INIT, {**said("x"), "message": {"role": "assistant", "content": [{"type": "text"}]}}, GOOD],
        [INIT, {**said("x"), "uuid": "u1"}, {**said("x"), "uuid": "u1"}, GOOD],
        [INIT, used("t1"), used("t1"), GOOD],
        [INIT, reported("t1"), GOOD],
        [INIT, used("t1"), reported("t1"), reported("t1"), GOOD],
        [INIT, used("t1"), reported("t1", is_error="no"), GOOD],
        [INIT, {**STATUS, "subtype": "api_retry"}, GOOD],
        [INIT, {**STATUS, "subtype": "permission_denied"}, GOOD],
        [INIT, {**STATUS, "subtype": "background_tasks_changed"}, GOOD],
        [INIT, {**STATUS, "subtype": "task_started"}, GOOD],
        [INIT, about_task("task_updated", "k"), GOOD],
        [INIT, about_task("task_notification", "k", status="odd"), GOOD],
    ],
)
def test_what_breaks_the_protocol_is_malformed(records: list[Record]) -> None:
    assert code(records) == "PROTOCOL_MALFORMED"


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([INIT, BAD], "HARNESS_FAILED"),
        ([INIT, {**GOOD, "subtype": "error_max_turns"}], "HARNESS_FAILED"),
        ([INIT, BAD, GOOD], "complete"),
        ([INIT, GOOD, BAD], "HARNESS_FAILED"),
        ([INIT, GOOD, STATUS], "PROTOCOL_TRUNCATED"),
        ([INIT, GOOD, said("more")], "PROTOCOL_TRUNCATED"),
        ([INIT, GOOD, said("more"), GOOD], "complete"),
        ([INIT, GOOD, INIT, said("more"), GOOD], "complete"),
        ([INIT, GOOD, INIT], "PROTOCOL_TRUNCATED"),
        ([INIT, said("x")], "PROTOCOL_TRUNCATED"),
        ([INIT, {**INIT, "uuid": "u9", "messaging_socket_path": "/x"}, GOOD], "complete"),
        ([INIT, {**STATUS, "subtype": "never_heard_of"}, GOOD], "complete"),
    ],
)
def test_the_last_result_counts_while_it_is_fresh(records: list[Record], expected: str) -> None:
    assert code(records) == expected


def test_a_refused_record_says_nothing() -> None:
    half = {**said("x"), "message": {"role": "assistant", "content": [{"type": "text", "text": "x"}, {"type": "text"}]}}
    reader = NativeReader(Opening(Harness.CLAUDE))
    assert [event.kind for event in reader.feed(lines([INIT, half]))] == ["harness.started"]
    assert reader.rejected == (Code.PROTOCOL_MALFORMED, 2)
    assert reader.finish(ProcessEnd(0)).facts.events == 1


def test_several_results_and_denials_are_told() -> None:
    denied = {**STATUS, "subtype": "permission_denied", "tool_name": "Bash"}
    failed = reported("t1", is_error=True)
    found = judged([INIT, used("t1"), failed, denied, denied, {**GOOD, "permission_denials": [{}]}, GOOD])
    assert found.observations == {
        Observation.PERMISSION_DENIED: 2,
        Observation.TOOL_FAILED: 1,
        Observation.MULTIPLE_TERMINAL: 2,
    }
    assert judged([INIT, used("t1"), {**GOOD, "result": " "}]).observations == {
        Observation.EMPTY_FINAL_TEXT: 1,
        Observation.ITEM_NOT_FINISHED: 1,
    }


@pytest.mark.parametrize("end", [ProcessEnd(1), ProcessEnd(143, signalled_before_terminal=True), ProcessEnd(signal=15)])
def test_a_nonzero_status_outranks_a_missing_result(end: ProcessEnd) -> None:
    assert code_of(judged([INIT], end)) == "HARNESS_FAILED"


def test_an_interrupt_may_end_with_status_0_and_no_result() -> None:
    assert code_of(judged([INIT], ProcessEnd(0, signalled_before_terminal=True))) == "PROTOCOL_TRUNCATED"
    assert code_of(judged([INIT, GOOD], ProcessEnd(0, signalled_before_terminal=True))) == "PROTOCOL_TRUNCATED"


# Background tasks

STARTED = about_task("task_started", "k1", tool_use_id="t1")
KILLED = about_task("task_updated", "k1", patch={"status": "killed", "end_time": 5})
STOPPED = about_task("task_notification", "k1", tool_use_id="t1", status="stopped")
BEGUN = [INIT, used("t1"), STARTED, reported("t1")]


def test_a_task_that_ended_before_the_result_is_forgotten() -> None:
    for ended in (
        [about_task("task_notification", "k1", status="completed")],
        [about_task("task_updated", "k1", patch={"status": "failed"})],
    ):
        assert code([*BEGUN, *ended, GOOD]) == "complete"
    assert code([*BEGUN, about_task("task_updated", "k1", patch={"status": "running"}), GOOD]) == "PROTOCOL_TRUNCATED"


def test_a_task_that_never_ended_leaves_the_run_incomplete() -> None:
    assert code([*BEGUN, GOOD]) == "PROTOCOL_TRUNCATED"


def test_a_good_result_may_be_followed_by_the_shutdown_of_shell_tasks() -> None:
    assert code([*BEGUN, GOOD, INVENTORY_EMPTY, KILLED, STOPPED]) == "complete"


def test_every_task_is_shut_down() -> None:
    second = [used("t2"), about_task("task_started", "k2", tool_use_id="t2"), reported("t2")]
    killed = about_task("task_updated", "k2", patch={"status": "killed", "end_time": 6})
    stopped = about_task("task_notification", "k2", tool_use_id="t2", status="stopped")
    start = [*BEGUN, *second, GOOD, INVENTORY_EMPTY]
    assert code([*start, KILLED, STOPPED, killed, stopped]) == "complete"
    assert code([*start, KILLED, killed, stopped, STOPPED]) == "complete"
    assert code([*start, KILLED, STOPPED]) == "PROTOCOL_TRUNCATED"
    assert code([*start, killed, STOPPED, KILLED, stopped]) == "PROTOCOL_TRUNCATED"


@pytest.mark.parametrize(
    "after",
    [
        [KILLED, STOPPED],
        [INVENTORY_EMPTY],
        [INVENTORY_EMPTY, KILLED],
        [INVENTORY_EMPTY, STOPPED],
        [INVENTORY_EMPTY, STOPPED, KILLED],
        [INVENTORY_EMPTY, KILLED, STATUS, STOPPED],
        [INVENTORY_EMPTY, KILLED, STOPPED, STATUS],
        [INVENTORY_EMPTY, KILLED, STOPPED, INVENTORY_EMPTY],
        [INVENTORY_EMPTY, INVENTORY_EMPTY, KILLED, STOPPED],
        [INVENTORY_EMPTY, KILLED, KILLED, STOPPED],
        [{**INVENTORY_EMPTY, "tasks": [{"task_id": "k1"}]}, KILLED, STOPPED],
        [INVENTORY_EMPTY, {**KILLED, "patch": {"status": "completed", "end_time": 5}}, STOPPED],
        [INVENTORY_EMPTY, {**KILLED, "patch": {"status": "killed"}}, STOPPED],
        [INVENTORY_EMPTY, {**KILLED, "patch": {"status": "killed", "end_time": True}}, STOPPED],
        [INVENTORY_EMPTY, {**KILLED, "task_id": "k9"}, STOPPED],
        [INVENTORY_EMPTY, KILLED, {**STOPPED, "status": "completed"}],
        [INVENTORY_EMPTY, KILLED, {**STOPPED, "tool_use_id": "t9"}],
    ],
)
def test_anything_but_the_whole_shutdown_makes_the_result_stale(after: list[Record]) -> None:
    assert code([*BEGUN, GOOD, *after]) == "PROTOCOL_TRUNCATED"


def test_only_shell_tasks_may_be_shut_down() -> None:
    records = [INIT, used("t1", "Task"), STARTED, GOOD, INVENTORY_EMPTY, KILLED, STOPPED]
    assert code(records) == "PROTOCOL_TRUNCATED"


def test_an_empty_inventory_without_a_task_makes_the_result_stale() -> None:
    assert code([INIT, GOOD, INVENTORY_EMPTY]) == "PROTOCOL_TRUNCATED"


def test_a_later_good_result_counts_after_a_shutdown_that_went_wrong() -> None:
    assert code([*BEGUN, GOOD, INVENTORY_EMPTY, STATUS, KILLED, STOPPED, GOOD]) == "complete"


# The envelope contract

LAST = '{"schema":"countersign.echo-envelope/1","semanticStatus":"semantic-succeeded","task":{"argv":["prose"]}}'


def enveloped(records: list[Record]) -> Verdict:
    opening = Opening(Harness.CLAUDE, OutputContract.IMAGE_ENVELOPE, argv=("prose",), image=shipped_image("echo"))
    return judge(opening, lines(records))


def test_in_the_envelope_contract_the_first_good_result_is_terminal() -> None:
    assert code_of(enveloped([INIT, said(f"hi\n{LAST}"), GOOD])) == "complete"
    assert code_of(enveloped([INIT, said(LAST), BAD, GOOD])) == "complete"
    for after in ([GOOD], [BAD], [STATUS], [said("x")]):
        found = enveloped([INIT, said(LAST), GOOD, *after])
        assert isinstance(found, Failure)
        assert (found.code.value, found.record) == ("PROTOCOL_MALFORMED", 4)
    assert code_of(enveloped([*BEGUN, said(LAST), GOOD, INVENTORY_EMPTY, KILLED, STOPPED])) == "complete"


def test_in_the_envelope_contract_a_second_init_follows_a_notification() -> None:
    notified = about_task("task_notification", "k1", status="completed")
    assert code_of(enveloped([*BEGUN, notified, INIT, said(LAST), GOOD])) == "complete"
    assert code_of(enveloped([*BEGUN, notified, STATUS, INIT, said(LAST), GOOD])) == "PROTOCOL_MALFORMED"
    assert code_of(enveloped([INIT, INIT, said(LAST), GOOD])) == "PROTOCOL_MALFORMED"
