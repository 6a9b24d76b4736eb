"""The lifecycle that OMP and pi share: agents, turns, messages, tool calls (design/native-harness.md, section 5).

What differs between them, and between their versions, is a `LifecycleProfile`. Two readings of the table:

- A message that stopped with `error` speaks against success unless the harness itself says that it tries again and then
  does: the attempt is replaced. Any other stop than stop and toolUse fails the run where it stands.
- The terminal history repeats the messages since the agent last started.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from adapter_svc.admission.raw_json import part
from adapter_svc.native.framing import Record
from adapter_svc.native.history import RESULT_ROLE, History, message_print
from adapter_svc.native.message_blocks import StreamedBlocks, check_blocks
from adapter_svc.native.protocol import Fault, Opened, StreamProtocol, Version
from adapter_svc.native.shapes import (
    child,
    count,
    flag,
    name,
    need,
    number,
    objects,
    optional_count,
    optional_text,
    text,
)
from adapter_svc.native.tool_calls import ToolCalls, text_blocks
from adapter_svc.native.verdict import HarnessFailed, Malformed, Observation, Usage

GOOD_STOPS: Final = frozenset({"stop", "toolUse"})
RETRIED_STOP: Final = "error"
COMPACTION_ENDS: Final = frozenset({"auto_compaction_end", "compaction_end"})
"""They say whether the attempt that was too long is made again."""
CUSTOM_MEMBERS: Final = frozenset({"role", "customType", "content", "display", "details", "attribution", "timestamp"})


@dataclass(frozen=True, slots=True)
class LifecycleProfile:
    """What the records of a version, from `since` on, can feed."""

    since: Version
    system_first: bool
    """A system message stands before the user's."""
    restarts_open_agent: bool
    """Another agent_start may come where no agent_end did."""
    updates_carry_message: bool
    """A message_update holds the message so far, not only the event."""


@dataclass(slots=True)
class _OpenMessage:
    role: str
    start: bytes
    blocks: StreamedBlocks


class Lifecycle(StreamProtocol):
    """The state machine; subclasses add their own records and say what is terminal."""

    profile: LifecycleProfile
    telemetry: ClassVar[frozenset[str]]
    """Records that say something of the session and decide nothing; allowed at any time."""

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        self.calls = ToolCalls(self.notes)
        self.history = History()
        self.agent_open = False
        self.agents = 0
        self.turn_open = False
        self.last_stop = ""
        self._seen: set[str] = set()
        self._message: _OpenMessage | None = None
        self._assistant = b""
        self._reported: list[bytes] = []
        self._retry_announced = False
        self._retries = 0

    def finish(self) -> None:
        """See the base."""
        self.count(Observation.PROVIDER_RETRY, self._retries)
        self.count(Observation.ITEM_NOT_FINISHED, self.calls.unfinished())

    def lifecycle_record(self, place: int, kind: str, value: Record, line: bytes) -> None:
        """Read one record of the shared kinds; Malformed where it is none."""
        if kind in self.telemetry:
            self._telemetry(kind, value)
            return
        need(self.terminal_record is None, "a record after the terminal event")
        match kind:
            case "agent_start":
                self._agent_start()
            case "turn_start":
                self._turn_start()
            case "message_start":
                self._message_start(child(value, "message"))
            case "message_update":
                self._message_update(value)
            case "message_end":
                self._message_end(place, child(value, "message"), line)
            case "tool_execution_start" | "tool_execution_update" | "tool_execution_end":
                self._tool(kind, value)
            case "turn_end":
                self._turn_end(value)
            case _:
                raise Malformed("an unknown type of record")

    def close_agent(self, value: Record) -> None:
        """`agent_end`, up to what only one of them says: the history is checked first."""
        need(self.agent_open and not self.turn_open, "an agent ends inside a turn, or that is not open")
        need(self.last_stop in {"stop", RETRIED_STOP}, "an agent ends before its last message stopped")
        self.history.require_equal(objects(value, "messages"))
        self.agent_open = False
        self.calls.end_late()

    def lacks_system(self) -> None:
        """The user's message stands first where the system's should."""
        raise Malformed("a user message before the system's")

    def _telemetry(self, kind: str, value: Record) -> None:
        if kind == "auto_retry_start":
            count(value, "attempt")
            self._retry_announced = True
            self._retries += 1
        elif kind == "auto_retry_end":
            # A retry that was not announced is known from its end alone.
            self._retries = max(self._retries, count(value, "attempt"))
            flag(value, "success")
        elif kind in COMPACTION_ENDS:
            self._retry_announced = self._retry_announced or value.get("willRetry") is True

    def _agent_start(self) -> None:
        need(not self.turn_open, "an agent starts inside a turn")
        need(not self.agent_open or self.profile.restarts_open_agent, "an agent starts twice")
        if self.fault is not None:
            if not self._retry_announced:
                raise HarnessFailed("an agent starts after a failure that is not tried again")
            self.fault = None
            self.count(Observation.TRANSIENT_ERROR)
        self._retry_announced = False
        self.agent_open, self.last_stop = True, ""
        self.agents += 1
        self.history.clear()

    def _turn_start(self) -> None:
        need(self.agent_open and not self.turn_open, "a turn starts outside an agent, or inside a turn")
        need(self.last_stop in {"", "toolUse"}, "a turn starts after the last one stopped")
        self.turn_open, self._assistant = True, b""
        self._reported = []
        self.calls.open_turn()

    def _turn_end(self, value: Record) -> None:
        need(self.turn_open and self._message is None and bool(self._assistant), "a turn ends before its message")
        need(message_print(child(value, "message")) == self._assistant, "a turn ends with another message")
        results = [message_print(result) for result in objects(value, "toolResults")]
        need(results == self._reported, "a turn ends with other tool results than were reported")
        need(self.calls.all_reported, "a turn ends before all tool calls were reported")
        self.turn_open = False

    def _tool(self, kind: str, value: Record) -> None:
        need(self.agent_open, "a tool outside an agent")
        if kind == "tool_execution_start":
            self.calls.start(value)
        elif kind == "tool_execution_update":
            self.calls.update(value)
        else:
            self.calls.end(value)

    def _message_start(self, message: Record) -> None:
        need(self.turn_open and self._message is None, "a message starts outside a turn, or inside a message")
        role = text(message, "role")
        match role:
            case "system":
                need(self.profile.system_first, "a system message")
                need(not self._seen, "a system message that is not the first")
                self.calls.advertise(objects(message, "toolsAdded") if "toolsAdded" in message else [])
            case "user":
                if self.profile.system_first and "system" not in self._seen:
                    self.lacks_system()
                need("user" not in self._seen and "assistant" not in self._seen, "another user message")
            case "custom":
                need(not self._assistant, "a custom message after the assistant's")
                _check_custom(message)
            case "assistant":
                need(not self._assistant and "user" in self._seen, "an assistant message out of turn")
            case "toolResult":
                need(bool(self._assistant), "a tool result before the assistant's message")
                self.calls.require_ended(message)
            case _:
                raise Malformed("a message of an unknown role")
        self._seen.add(role)
        self._message = _OpenMessage(role, message_print(message), StreamedBlocks())

    def _message_update(self, value: Record) -> None:
        opened = self._message
        if opened is None or opened.role != "assistant":
            raise Malformed("an update outside an assistant's message")
        event = child(value, "assistantMessageEvent")
        block_type = opened.blocks.read(event)
        if self.profile.updates_carry_message:
            message = child(value, "message")
            need(message.get("role") == "assistant", "an update carries another message")
            blocks, index = objects(message, "content"), count(event, "contentIndex")
            need(index < len(blocks) and blocks[index].get("type") == block_type, "an update's message lacks its block")

    def _message_end(self, place: int, message: Record, line: bytes) -> None:
        opened = self._message
        if opened is None or opened.role != message.get("role"):
            raise Malformed("a message ends that did not start")
        self._message = None
        if opened.role == "assistant":
            self._assistant_end(place, message, line, opened.blocks)
        else:
            need(message_print(message) == opened.start, "a message ends otherwise than it started")
        if opened.role == RESULT_ROLE:
            self.calls.report(message)
            self._reported.append(message_print(message))
        self.history.add(message)

    def _assistant_end(self, place: int, message: Record, line: bytes, streamed: StreamedBlocks) -> None:
        stop, blocks = text(message, "stopReason"), objects(message, "content")
        self.last_stop, self._assistant = stop, message_print(message)
        self.notes.model = self.notes.model or optional_text(message, "model")
        self._add_usage(message, line)
        if stop == RETRIED_STOP:
            self.fault = Fault(place, "the last assistant message stopped with an error")
            return
        if stop not in GOOD_STOPS:
            raise HarnessFailed("an assistant message stopped neither with stop nor with toolUse")
        check_blocks(blocks)
        streamed.require_final(blocks)
        called = [block for block in blocks if block["type"] == "toolCall"]
        need((stop == "toolUse") is bool(called), "toolUse without a tool call, or a tool call without toolUse")
        for block in called:
            self.calls.declare(block)
        self.final_text = ""
        for said in text_blocks(blocks):
            self.final_text += said
            self.notes.say(said)

    def _add_usage(self, message: Record, line: bytes) -> None:
        """One message is one provider request; the harness leaves what a cache gave or took out of its input."""
        usage = child(message, "usage")
        fresh, cached = optional_count(usage, "input"), optional_count(usage, "cacheRead")
        written = optional_count(usage, "cacheWrite")
        whole = None if fresh is None else fresh + (cached or 0) + (written or 0)
        self.notes.add_usage(Usage(whole, optional_count(usage, "output"), cached, written))
        if "cost" in usage:
            number(child(usage, "cost"), "total")
            self.notes.add_cost(part(line, "message", "usage", "cost", "total").decode())


def _check_custom(message: Record) -> None:
    need(message.keys() <= CUSTOM_MEMBERS, "a custom message has members of its own")
    name(message, "customType")
    flag(message, "display")
    number(message, "timestamp")
    if not isinstance(message.get("content"), str):
        check_blocks(objects(message, "content"))
