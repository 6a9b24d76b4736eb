"""The life of a tool call: declared, started, ended, reported (design/native-harness.md, section 5, the table's rows on
tools, Argument matching, Late progress).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from adapter_svc.admission.strict_json import JsonValue
from adapter_svc.native.framing import Record
from adapter_svc.native.matching import arguments_match, fingerprint, same
from adapter_svc.native.notes import Notes
from adapter_svc.native.shapes import child, flag, items, name, need
from adapter_svc.native.verdict import Malformed

TASK_TOOL: Final = "task"
DEFAULT_AGENT: Final = "task"
INTENT_ARGUMENT: Final = "i"


class Step(IntEnum):
    """How far a call is."""

    DECLARED = 1
    STARTED = 2
    ENDED = 3
    REPORTED = 4


@dataclass(slots=True)
class _Call:
    tool: str
    arguments: Record
    step: Step = Step.DECLARED
    content: bytes = b""
    failed: bool = False
    job: str = ""


class ToolCalls:
    """All calls of a run. Of calls of earlier turns only the ids are kept, and what late progress needs."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._ids: set[str] = set()
        self._turn: dict[str, _Call] = {}
        self._late: dict[str, _Call] = {}
        self._advertises_default_agent = False

    def advertise(self, tools: list[Record]) -> None:
        """The tool inventory: a `task` tool may advertise a default for its agent."""
        for tool in tools:
            if tool.get("name") == TASK_TOOL:
                default = _at(tool.get("parameters"), "properties", "agent", "default")
                self._advertises_default_agent = default == DEFAULT_AGENT

    def open_turn(self) -> None:
        """A turn begins: calls of the one before are over, but for their late progress."""
        self._turn = {}

    def end_late(self) -> None:
        """The agent ended: no more late progress."""
        self._late.clear()

    def declare(self, block: Record) -> None:
        """A call in an assistant's message."""
        call_id, tool = name(block, "id"), name(block, "name")
        need(call_id not in self._ids, "a tool call's id stands twice")
        self._ids.add(call_id)
        self._turn[call_id] = _Call(tool, _declared(block))

    @property
    def all_reported(self) -> bool:
        """Whether every call of the turn has its result."""
        return all(call.step is Step.REPORTED for call in self._turn.values())

    def unfinished(self) -> int:
        """How many calls of the turn have no result yet."""
        return sum(call.step is not Step.REPORTED for call in self._turn.values())

    def start(self, record: Record) -> None:
        """`tool_execution_start`."""
        call = self._call(record, Step.DECLARED)
        arguments = child(record, "args")
        need(self._matches(call, arguments), "a call is executed with other arguments than it was declared with")
        call.step = Step.STARTED
        self._notes.tool_started(name(record, "toolCallId"), call.tool, arguments)

    def update(self, record: Record) -> None:
        """`tool_execution_update`: of a running call, or the late progress of an asynchronous task."""
        late = self._late.get(name(record, "toolCallId"))
        call = late or self._call(record, Step.STARTED)
        need(name(record, "toolName") == call.tool, "a call's tool changes")
        need(self._matches(call, child(record, "args")), "progress of other arguments than were declared")
        partial = child(record, "partialResult")
        if late is not None:
            need(_at(partial, "details", "async", "jobId") == call.job, "late progress of another job")

    def end(self, record: Record) -> None:
        """`tool_execution_end`."""
        call_id, call = name(record, "toolCallId"), self._call(record, Step.STARTED)
        result = child(record, "result")
        call.content, call.failed, call.step = (
            fingerprint(items(result, "content")),
            flag(record, "isError"),
            Step.ENDED,
        )
        job = _running_job(result) if call.tool == TASK_TOOL else ""
        if job:
            call.job = job
            self._late[call_id] = call
        output = fingerprint(result)
        self._notes.tool_ended(call_id, call.tool, failed=call.failed, output_digest=output)

    def require_ended(self, message: Record) -> None:
        """A toolResult message may begin."""
        self._call(message, Step.ENDED)

    def report(self, message: Record) -> None:
        """A toolResult message: it says what the execution said."""
        call = self._call(message, Step.ENDED)
        need(flag(message, "isError") is call.failed, "a tool result of another outcome than its execution")
        need(
            fingerprint(items(message, "content")) == call.content,
            "a tool result of another content than its execution",
        )
        call.step = Step.REPORTED

    def _call(self, record: Record, step: Step) -> _Call:
        call = self._turn.get(name(record, "toolCallId"))
        if call is None or call.step is not step:
            raise Malformed(f"a tool call that is not {step.name.lower()}")
        need(name(record, "toolName") == call.tool, "a call's tool changes")
        return call

    def _matches(self, call: _Call, executed: Record) -> bool:
        declared = call.arguments
        added = executed.get("agent") if call.tool == TASK_TOOL and "agent" not in declared else None
        if added == DEFAULT_AGENT and self._advertises_default_agent:
            declared = {**declared, "agent": DEFAULT_AGENT}
        return arguments_match(executed, declared)


def _declared(block: Record) -> Record:
    """The declared arguments, less the intent that the harness takes out of them."""
    arguments = child(block, "arguments")
    intent = block.get("intent")
    if isinstance(intent, str) and same(arguments.get(INTENT_ARGUMENT), intent):
        return {key: value for key, value in arguments.items() if key != INTENT_ARGUMENT}
    return arguments


def _running_job(result: Record) -> str:
    details = _at(result, "details", "async")
    running = _at(details, "type") == TASK_TOOL and _at(details, "state") == "running"
    job = _at(details, "jobId")
    return job if running and isinstance(job, str) else ""


def _at(value: JsonValue, *path: str) -> JsonValue:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text_blocks(blocks: list[Record]) -> Iterator[str]:
    """The texts of a message's blocks."""
    for block in blocks:
        if block.get("type") == "text" and isinstance(block.get("text"), str):
            yield str(block["text"])
