"""Codex, `exec --json` (design/native-harness.md, section 5, Codex): one thread, one turn.

`error` records and error items decide nothing: healthy runs hold both. Usage is the turn's and cumulative.
"""

from typing import ClassVar, Final

from adapter_svc.native.framing import Record
from adapter_svc.native.matching import fingerprint, same
from adapter_svc.native.protocol import Fault, Meaning, Opened, StreamProtocol
from adapter_svc.native.shapes import child, is_one_of, name, need, optional_count, text
from adapter_svc.native.verdict import Harness, Observation, Usage

RECORD_TYPES: Final = frozenset(
    {
        "thread.started",
        "turn.started",
        "turn.completed",
        "turn.failed",
        "item.started",
        "item.updated",
        "item.completed",
        "error",
    }
)
TOOL_MEMBERS: Final = {
    "command_execution": ("command",),
    "file_change": (),
    "mcp_tool_call": ("server", "tool", "arguments"),
    "collab_tool_call": (),
    "web_search": (),
}
"""Items that are tools, and the members that never change in their life."""
FAILED_STATUSES: Final = frozenset({"failed", "declined"})


class CodexProtocol(StreamProtocol):
    """Reads `codex exec --json`."""

    meaning: ClassVar = Meaning(
        start="`thread.started`",
        terminal="`turn.completed`, `turn.failed`",
        success="turn.completed",
        not_meant="that the model answered (refusals and empty answers complete), or that a started command ended",
    )

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        self._turn_open = False
        self._open: dict[str, Record] = {}
        self._done: set[str] = set()

    def record(self, number: int, value: Record, line: bytes) -> None:
        """See the base."""
        kind = text(value, "type")
        need(kind in RECORD_TYPES, "an unknown type of record")
        need(bool(self.notes.session_id) != (kind == "thread.started"), "the first record alone is thread.started")
        if kind == "thread.started":
            self.notes.started(Harness.CODEX, session_id=name(value, "thread_id"))
        elif kind == "error":
            text(value, "message")
            self.count(Observation.TRANSIENT_ERROR)
        elif kind.startswith("turn."):
            self._turn(number, kind, value)
        else:
            self._item(kind.removeprefix("item."), child(value, "item"))

    def finish(self) -> None:
        """See the base."""
        self.count(Observation.ITEM_NOT_FINISHED, len(self._open))

    def _turn(self, number: int, kind: str, value: Record) -> None:
        need(self.terminal_record is None, "a turn after the terminal event")
        need(self._turn_open != (kind == "turn.started"), "turns must begin before they end, and only once")
        if kind == "turn.started":
            self._turn_open = True
            return
        self._turn_open = False
        self.terminal_record = number
        if kind == "turn.failed":
            text(child(value, "error"), "message")
            self.fault = Fault(number, "the turn failed")
            return
        usage = child(value, "usage")
        self.notes.usage = Usage(
            optional_count(usage, "input_tokens"),
            optional_count(usage, "output_tokens"),
            optional_count(usage, "cached_input_tokens"),
            optional_count(usage, "cache_write_input_tokens"),
            optional_count(usage, "reasoning_output_tokens"),
        )

    def _item(self, step: str, item: Record) -> None:
        item_id, item_type = name(item, "id"), name(item, "type")
        need(item_id not in self._done, "an item goes on after its end")
        if item_type == "error":
            text(item, "message")
            self.count(Observation.TRANSIENT_ERROR, int(step == "completed"))
        else:
            need(self._turn_open, "an item outside the turn")
        self._require_same(item_id, item, step)
        if step == "started":
            self._start(item_id, item_type, item)
        elif step == "completed":
            self._complete(item_id, item_type, item)

    def _require_same(self, item_id: str, item: Record, step: str) -> None:
        """An item's type, and what its tool was called with, stay as they were."""
        begun = self._open.get(item_id)
        need(begun is None or step != "started", "an item starts twice")
        need(begun is not None or step != "updated", "an item is updated that is not open")
        if begun is not None:
            members = ("type", *TOOL_MEMBERS.get(str(begun["type"]), ()))
            need(all(same(begun.get(key), item.get(key)) for key in members), "an item changes what it is")

    def _start(self, item_id: str, item_type: str, item: Record) -> None:
        members = TOOL_MEMBERS.get(item_type)
        self._open[item_id] = {key: item.get(key) for key in ("type", *(members or ()))}
        if members is not None:
            self.final_text = ""
            self.notes.tool_started(item_id, item_type, {key: item.get(key) for key in members})

    def _complete(self, item_id: str, item_type: str, item: Record) -> None:
        begun = self._open.pop(item_id, None)
        self._done.add(item_id)
        if item_type == "agent_message":
            self.final_text = text(item, "text")
            self.notes.say(self.final_text)
        elif item_type in TOOL_MEMBERS:
            if begun is None:
                self._start(item_id, item_type, item)
                del self._open[item_id]
            failed = is_one_of(item.get("status"), FAILED_STATUSES)
            self.notes.tool_ended(item_id, item_type, failed=failed, output_digest=fingerprint(item))
            self.final_text = ""
