"""A good stream that was tampered with is not complete, but where its protocol cannot tell: that is listed here."""

import copy
import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter_svc.native import Completion
from tests.adapter_svc.native.helpers import Record, captured, judge, lines, opening_of, records_of

GOOD = (
    "agents-sdk/tool_ok",
    "claude/tool_ok",
    "codex/tool_ok",
    "gemini/tool_ok",
    "omp/tool_ok",
    "omp/tool_ok+rpc",
    "pi-latest/tool_ok",
)

PROGRESS = frozenset({"message_update/text_delta", "message_update/toolcall_delta", "tool_execution_update"})
"""Progress is not numbered: less or more of it cannot be told."""
BLOCK_ENDS = frozenset({"message_update/text_end", "message_update/toolcall_end"})
"""What they say stands in the finished message again."""
PRESENTED = frozenset({"advisor_cost_changed", "extension_ui_request"})
"""Ignored at any time."""

UNSEEN_IF_DROPPED = {
    # Messages carry no number: a lost text is lost, a lost result leaves its call open (ITEM_NOT_FINISHED).
    "claude/tool_ok": {"assistant/text", "user/tool_result"},
    # Items carry no reference to one another, and a tool may come without its start.
    "codex/tool_ok": {
        "item.completed/agent_message",
        "item.completed/command_execution",
        "item.completed/error",
        "item.started/command_execution",
    },
    "gemini/tool_ok": {"message/assistant", "message/user", "tool_result"},
    # The library's own tools have no output record, so a call without one stays open (ITEM_NOT_FINISHED).
    "agents-sdk/tool_ok": {"run_item_stream_event/tool_output"},
    "omp/tool_ok": PROGRESS | BLOCK_ENDS | PRESENTED,
    "omp/tool_ok+rpc": PROGRESS | BLOCK_ENDS | PRESENTED,
    "pi-latest/tool_ok": PROGRESS | BLOCK_ENDS,
}
UNSEEN_IF_DOUBLED = {
    # An init may come again; of several results the last counts (MULTIPLE_TERMINAL).
    "claude/tool_ok": {"result", "system/init"},
    "codex/tool_ok": set[str](),
    "gemini/tool_ok": {"message/assistant", "message/user"},
    # A handover to the same agent.
    "agents-sdk/tool_ok": {"agent_updated_stream_event"},
    # agent_start may repeat.
    "omp/tool_ok": PROGRESS | PRESENTED | {"agent_start"},
    "omp/tool_ok+rpc": PROGRESS | PRESENTED | {"agent_start"},
    "pi-latest/tool_ok": PROGRESS,
}


def kind_of(record: Record) -> str:
    """A record's type, and its second name where it has one."""
    kind = record["type"]
    if kind == "message_update":
        return f"{kind}/{record['assistantMessageEvent']['type']}"
    if kind in ("assistant", "user") and "content" in record["message"]:
        return f"{kind}/{record['message']['content'][0]['type']}"
    second = record.get("item", record.get("message"))
    name = second.get("type", second.get("role")) if isinstance(second, dict) else record.get("role")
    if kind in ("system", "run_item_stream_event"):
        name = record["subtype"]
    return f"{kind}/{name}" if name else kind


def accepted(path: str, data: bytes) -> bool:
    return isinstance(judge(opening_of(path), data), Completion)


@pytest.mark.parametrize("path", GOOD)
def test_a_dropped_record_is_noticed(path: str) -> None:
    records = records_of(captured(path))
    unseen = {
        kind_of(records[at]) for at in range(len(records)) if accepted(path, lines(records[:at] + records[at + 1 :]))
    }
    assert unseen <= UNSEEN_IF_DROPPED[path]


@pytest.mark.parametrize("path", GOOD)
def test_a_record_that_comes_twice_is_noticed(path: str) -> None:
    records = records_of(captured(path))
    unseen = {
        kind_of(records[at]) for at in range(len(records)) if accepted(path, lines(records[: at + 1] + records[at:]))
    }
    assert unseen <= UNSEEN_IF_DOUBLED[path]


@pytest.mark.parametrize("path", ["omp/tool_ok", "omp/tool_ok+rpc", "pi-latest/tool_ok"])
def test_records_out_of_order_are_noticed(path: str) -> None:
    records = records_of(captured(path))
    free = PROGRESS | BLOCK_ENDS | PRESENTED | {"response", "available_commands_update"}
    for at in range(len(records) - 1):
        swapped = [*records[:at], records[at + 1], records[at], *records[at + 2 :]]
        movable = {kind_of(records[at]), kind_of(records[at + 1])} & free
        assert movable or records[at] == records[at + 1] or not accepted(path, lines(swapped)), at


UNSEEN_IF_SWAPPED = {
    # Messages carry no number, and a call's text may come on either side of it.
    "claude/tool_ok": {("assistant/text", "assistant/tool_use"), ("user/tool_result", "assistant/text")},
    # Items carry no reference to one another; an error item may come outside of the turn (design, Codex).
    "codex/tool_ok": {
        ("item.completed/command_execution", "item.completed/agent_message"),
        ("item.completed/error", "turn.started"),
    },
    # Messages carry no number; a call and its result are matched with each other only.
    "gemini/tool_ok": {
        ("message/assistant", "message/assistant"),
        ("message/assistant", "tool_use"),
        ("message/user", "message/assistant"),
        ("tool_result", "message/assistant"),
    },
    # The provider's events are numbered among themselves, the library's items stand beside them without a number.
    "agents-sdk/tool_ok": {
        ("raw_response_event", "run_item_stream_event/message_output_created"),
        ("raw_response_event", "run_item_stream_event/tool_called"),
        ("run_item_stream_event/tool_output", "raw_response_event"),
    },
}


@pytest.mark.parametrize("path", UNSEEN_IF_SWAPPED)
def test_neighbours_that_changed_places_are_noticed_but_the_listed_ones(path: str) -> None:
    records = records_of(captured(path))
    unseen = {
        (kind_of(first), kind_of(second))
        for at, (first, second) in enumerate(itertools.pairwise(records))
        if first != second and accepted(path, lines([*records[:at], second, first, *records[at + 2 :]]))
    }
    assert unseen == UNSEEN_IF_SWAPPED[path]


@pytest.mark.parametrize("path", ["claude/tool_ok", "codex/tool_ok", "gemini/tool_ok"])
def test_a_stream_cut_at_any_byte_is_not_complete(path: str) -> None:
    whole = captured(path)
    terminal = judge(opening_of(path), whole).facts.terminal_record
    assert terminal is not None
    needed = sum(map(len, whole.splitlines(keepends=True)[:terminal]))
    assert [at for at in range(needed) if accepted(path, whole[:at])] == []


@pytest.mark.parametrize("path", GOOD)
@given(data=st.data())
def test_a_stream_cut_anywhere_is_not_complete(path: str, data: st.DataObject) -> None:
    whole = captured(path)
    terminal = judge(opening_of(path), whole).facts.terminal_record
    assert terminal is not None
    needed = sum(map(len, whole.splitlines(keepends=True)[:terminal]))
    at = data.draw(st.integers(0, needed - 1))
    assert not accepted(path, whole[:at])


@pytest.mark.parametrize("path", GOOD)
@given(data=st.data())
def test_a_record_inside_another_is_not_complete(path: str, data: st.DataObject) -> None:
    whole = captured(path)
    at = data.draw(st.sampled_from([at for at in range(1, len(whole)) if whole[at - 1 : at] != b"\n"]))
    injected = data.draw(st.sampled_from(whole.splitlines(keepends=True)))
    assert not accepted(path, whole[:at] + injected + whole[at:])


@pytest.mark.parametrize("path", GOOD)
@given(data=st.data())
def test_nothing_that_is_no_record_is_passed_over(path: str, data: st.DataObject) -> None:
    parts = captured(path).splitlines(keepends=True)
    at = data.draw(st.integers(0, len(parts)))
    noise = data.draw(st.sampled_from([b"\n", b"\r\n", b" \n", b"warning\n", b"[]\n", b"1\n", b"\xff\n", b"{}\n"]))
    assert not accepted(path, b"".join([*parts[:at], noise, *parts[at:]]))


# Leaves: whatever the lifecycle knows of is compared with something.

INERT = re.compile(
    "|".join(
        [
            r"session:(cwd|id|timestamp|version)",
            # What an assistant's message starts with is not what it ends with.
            r"message_start/assistant:message\.(?!role$).*",
            r"message_update/\w+:(usage\..*|partial\..*|message\.(?!role$).*)",
            r"message_update/\w+:assistantMessageEvent\.(delta|content|id|toolName|partial\..*)",
            r"message_update/toolcall_end:assistantMessageEvent\.toolCall\..*",
            r"message_end/assistant:message\.completedAt",
            r"tool_execution_start:intent",
            r"tool_execution_update:partialResult\..*",
            r"tool_execution_end:(durationMs|result\.(details|structuredContent)\..*)",
            r"ready:.*",
            r"extension_ui_request:(id|widgetKey)",
            r"available_commands_update:commands\..*",
            r"response:id",
        ]
    )
)


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict | list) and value:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))
    else:
        yield path


def another(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return value + "x"
    return value + 1 if isinstance(value, int | float) else "x"


def with_leaf(record: Record, path: tuple[str | int, ...], change: Callable[[Any], Any]) -> Record:
    changed: Any = copy.deepcopy(record)
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = change(at[path[-1]])
    return dict(changed)


@pytest.mark.parametrize("path", ["omp/tool_ok", "omp/tool_ok+rpc", "pi-latest/tool_ok"])
def test_every_altered_leaf_is_noticed_but_the_inert_ones(path: str) -> None:
    records = records_of(captured(path))
    unseen = set()
    for at, record in enumerate(records):
        for leaf in leaves(record):
            name = f"{kind_of(record)}:{'.'.join(map(str, leaf))}"
            if INERT.fullmatch(name) is None:
                altered = lines([*records[:at], with_leaf(record, leaf, another), *records[at + 1 :]])
                unseen |= {name} if accepted(path, altered) else set()
    assert unseen == set()


SEEN_LEAVES = {
    "claude/tool_ok": [
        (1, ("session_id",)),
        (1, ("message", "role")),
        (2, ("message", "content", 0, "id")),
        (3, ("message", "content", 0, "tool_use_id")),
        (3, ("message", "role")),
        (5, ("subtype",)),
        (5, ("is_error",)),
        (5, ("session_id",)),
    ],
    "codex/tool_ok": [(3, ("item", "command")), (4, ("item", "command")), (4, ("item", "type")), (6, ("type",))],
    "gemini/tool_ok": [(3, ("tool_id",)), (4, ("tool_id",)), (4, ("status",)), (7, ("status",))],
    "agents-sdk/tool_ok": [
        (1, ("data", "sequence_number")),
        (6, ("data", "item", "arguments")),
        (8, ("raw_item", "arguments")),
        (8, ("raw_item", "call_id")),
        (9, ("raw_item", "output")),
        (9, ("output",)),
        (9, ("raw_item", "call_id")),
        (20, ("raw_item", "content", 0, "text")),
    ],
}


@pytest.mark.parametrize(("path", "at", "leaf"), [(path, *seen) for path, all_ in SEEN_LEAVES.items() for seen in all_])
def test_an_altered_leaf_is_noticed(path: str, at: int, leaf: tuple[str | int, ...]) -> None:
    records = records_of(captured(path))
    assert not accepted(path, lines([*records[:at], with_leaf(records[at], leaf, another), *records[at + 1 :]]))


@given(data=st.data())
def test_the_bytes_between_tokens_do_not_matter(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(GOOD))
    loose = b"".join(json.dumps(record).encode() + b"\r\n" for record in records_of(captured(path)))
    assert accepted(path, loose)
