"""Tool calls of OMP and pi: argument matching, late progress, and their copies in the terminal history."""

from typing import Any

import pytest

from adapter_svc.native.history import PRUNED_MARKERS
from adapter_svc.native.matching import arguments_match, fingerprint, same
from tests.adapter_svc.native.helpers import Record
from tests.adapter_svc.native.omp_script import DONE, Call, changed, code, run

MARKER = sorted(PRUNED_MARKERS)[0]
TASK: list[Record] = [{"name": "task", "parameters": {"properties": {"agent": {"type": "string", "default": "task"}}}}]

# Argument matching

MATCHES: list[tuple[Any, Any, bool]] = [
    ({"a": 1}, {"a": 1}, True),
    ({}, {"a": None}, True),
    ({}, {"a": "null"}, True),
    ({}, {"a": 0}, False),
    ({}, {"a": ""}, False),
    ({"a": None}, {}, False),
    ({"a": None}, {"a": "null"}, False),
    ({"a": "null"}, {"a": None}, False),
    ({"a": None}, {"a": None}, True),
    ({"a": True}, {"a": 1}, False),
    ({"a": 1}, {"a": True}, False),
    ({"a": False}, {"a": 0}, False),
    ({"a": 1}, {"a": "1"}, False),
    ({"a": 1.0}, {"a": 1}, True),
    ({"a": {"b": {}}}, {"a": {"b": {"c": None}}}, True),
    ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, False),
    ({"a": [1, 2]}, {"a": [1, 2]}, True),
    ({"a": [1]}, {"a": [1, None]}, False),
    ({"a": [2, 1]}, {"a": [1, 2]}, False),
    ({"a": [{}]}, {"a": [{"b": "null"}]}, True),
    ({"a": []}, {"a": {}}, False),
    ({"a": {}}, {"a": None}, False),
]


@pytest.mark.parametrize(("executed", "declared", "matches"), MATCHES)
def test_executed_arguments_are_matched_with_the_declared(executed: Any, declared: Any, matches: bool) -> None:
    assert arguments_match(executed, declared) is matches
    call = Call(**declared).executed(**executed)
    assert code(run(call)) == ("complete" if matches else "PROTOCOL_MALFORMED")


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        (1, 1.0, True),
        (True, 1, False),
        (None, "null", False),
        ([True], [1], False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
    ],
)
def test_sameness_is_strict_and_fingerprints_follow_it(first: Any, second: Any, equal: bool) -> None:
    assert same(first, second) is equal
    assert (fingerprint(first) == fingerprint(second)) is equal


@pytest.mark.parametrize(
    ("intent", "argument", "executed", "expected"),
    [
        ("run", "run", {"a": 1}, "complete"),
        ("run", "other", {"a": 1}, "PROTOCOL_MALFORMED"),
        (None, "run", {"a": 1}, "PROTOCOL_MALFORMED"),
        ("run", "run", {"a": 1, "i": "run"}, "PROTOCOL_MALFORMED"),
    ],
)
def test_an_intent_is_taken_out_of_the_declared_arguments(
    intent: str | None, argument: str, executed: Record, expected: str
) -> None:
    call = Call(a=1, i=argument).executed(**executed)
    if intent is not None:
        call.block["intent"] = intent
    assert code(run(call)) == expected


@pytest.mark.parametrize(
    ("tool", "agent", "inventory", "expected"),
    [
        ("task", "task", TASK, "complete"),
        ("task", "other", TASK, "PROTOCOL_MALFORMED"),
        ("bash", "task", TASK, "PROTOCOL_MALFORMED"),
        ("task", "task", [], "PROTOCOL_MALFORMED"),
        ("task", "task", [{"name": "task", "parameters": {}}], "PROTOCOL_MALFORMED"),
    ],
)
def test_an_advertised_default_agent_may_be_added_to_a_task(
    tool: str, agent: str, inventory: list[Record], expected: str
) -> None:
    assert code(run(Call("c1", tool, a=1).executed(a=1, agent=agent), inventory=inventory)) == expected


def test_progress_has_the_declared_arguments_too() -> None:
    good, other, renamed = Call(a=1), Call(a=1), Call(a=1)
    good.updates = [good.update()]
    other.updates = [other.update(args={"a": 2})]
    renamed.updates = [renamed.update(toolName="edit")]
    assert [code(run(call)) for call in (good, other, renamed)] == ["complete", *["PROTOCOL_MALFORMED"] * 2]


# Late progress


def a_task(**job: Any) -> Call:
    call = Call("c1", "task", a=1)
    call.end["result"]["details"] = {"async": {"type": "task", "state": "running", "jobId": "j1", **job}}
    return call


def late(call: Call, job: str = "j1", **changes: Any) -> Record:
    return call.update(partialResult={"content": [], "details": {"async": {"jobId": job}}}, **changes)


def test_an_asynchronous_task_reports_progress_until_the_agent_ends() -> None:
    call = a_task()
    call.late = [late(call)]
    records = run(call)
    assert code(records) == "complete"
    assert code([*records[:-2], late(call), *records[-2:]]) == "complete"
    assert code([*records, late(call)]) == "PROTOCOL_MALFORMED"


@pytest.mark.parametrize("job", [{"type": "bash"}, {"state": "done"}, {"jobId": 1}])
def test_nothing_else_does(job: Record) -> None:
    call = a_task(**job)
    call.late = [late(call)]
    assert code(run(call)) == "PROTOCOL_MALFORMED"


@pytest.mark.parametrize("changes", [{"job": "j2"}, {"args": {"a": 2}}, {"toolName": "bash"}])
def test_late_progress_is_of_the_same_job_tool_and_arguments(changes: Record) -> None:
    call = a_task()
    call.late = [late(call, **changes)]
    assert code(run(call)) == "PROTOCOL_MALFORMED"


def test_another_tool_s_result_registers_no_job() -> None:
    call = Call("c1", "bash", a=1)
    call.end["result"]["details"] = {"async": {"type": "task", "state": "running", "jobId": "j1"}}
    call.late = [late(call)]
    assert code(run(call)) == "PROTOCOL_MALFORMED"


# Terminal history


def history_of(records: list[Record]) -> list[Record]:
    return list(records[-1]["messages"])


def with_copy(index: int, **members: Any) -> list[Record]:
    """A run of one call whose terminal copy of one message differs; None takes a member away."""
    records = run(Call(a=1))
    history = history_of(records)
    copy = {**history[index], **members}
    history[index] = {key: value for key, value in copy.items() if value is not None}
    return changed(records, "agent_end", messages=history)


PRUNED = [{"type": "text", "text": MARKER}]


@pytest.mark.parametrize("marker", sorted(PRUNED_MARKERS))
@pytest.mark.parametrize("when", [0, 1, 2.5])
def test_a_pruned_result_is_tolerated(marker: str, when: float) -> None:
    assert code(with_copy(2, content=[{"type": "text", "text": marker}], prunedAt=when)) == "complete"


@pytest.mark.parametrize(
    "copy",
    [
        {"content": PRUNED},
        {"prunedAt": 1},
        {"content": PRUNED, "prunedAt": -1},
        {"content": PRUNED, "prunedAt": True},
        {"content": PRUNED, "prunedAt": "1"},
        {"content": PRUNED * 2, "prunedAt": 1},
        {"content": [{"type": "text", "text": "[Pruned]"}], "prunedAt": 1},
        {"content": [{"type": "text", "text": MARKER, "more": 1}], "prunedAt": 1},
        {"content": [{"type": "text", "text": MARKER + " "}], "prunedAt": 1},
        {"content": MARKER, "prunedAt": 1},
        {"content": [], "prunedAt": 1},
        {"content": PRUNED, "prunedAt": 1, "toolName": "edit"},
        {"content": PRUNED, "prunedAt": 1, "toolCallId": "c2"},
        {"content": PRUNED, "prunedAt": 1, "isError": True},
        {"content": PRUNED, "prunedAt": 1, "timestamp": 3},
        {"content": PRUNED, "prunedAt": 1, "details": {}},
        {"content": [{"type": "text", "text": "other"}]},
        {"isError": True},
        {"timestamp": None},
    ],
)
def test_any_other_difference_is_not(copy: Record) -> None:
    assert code(with_copy(2, **copy)) == "PROTOCOL_MALFORMED"


@pytest.mark.parametrize("index", [0, 1, 3])
def test_only_results_are_pruned(index: int) -> None:
    assert code(with_copy(index, content=PRUNED, prunedAt=1)) == "PROTOCOL_MALFORMED"


@pytest.mark.parametrize("index", [0, 1, 2, 3])
def test_when_a_message_was_completed_is_ignored_on_both_sides(index: int) -> None:
    assert code(with_copy(index, completedAt=9)) == "complete"


def test_invented_missing_or_reordered_history_is_rejected() -> None:
    records = run(Call(a=1))
    history = history_of(records)
    for other in ([*history, DONE], history[:-1], history[1:], [history[1], history[0], *history[2:]], []):
        assert code(changed(records, "agent_end", messages=other)) == "PROTOCOL_MALFORMED"


def test_the_history_is_checked_before_anything_else_is_believed() -> None:
    records = changed(run(Call(a=1)), "agent_end", messages=[], isTerminal=False)
    assert code(records) == "PROTOCOL_MALFORMED"


def test_a_turn_s_end_gets_no_such_tolerance() -> None:
    call = Call(a=1)
    records = run(call)
    at = next(at for at, record in enumerate(records) if record["type"] == "turn_end")
    records[at] = {**records[at], "toolResults": [{**call.message, "content": PRUNED, "prunedAt": 1}]}
    assert code(records) == "PROTOCOL_MALFORMED"
