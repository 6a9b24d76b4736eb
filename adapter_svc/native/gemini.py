"""Gemini CLI, `-o stream-json` (design/native-harness.md, section 5): cut answers say success like whole ones."""

from typing import ClassVar, Final

from adapter_svc.native.framing import Record
from adapter_svc.native.matching import fingerprint
from adapter_svc.native.protocol import Fault, Meaning, Opened, StreamProtocol
from adapter_svc.native.shapes import child, flag, name, need, optional_count, text
from adapter_svc.native.verdict import Harness, Malformed, Observation, Usage

RECORD_TYPES: Final = frozenset({"init", "message", "tool_use", "tool_result", "error", "result"})
STATUSES: Final = frozenset({"success", "error"})
ROLES: Final = frozenset({"user", "assistant"})


class GeminiProtocol(StreamProtocol):
    """Reads Gemini CLI. Deltas in a row are one text."""

    meaning: ClassVar = Meaning(
        start="`init`",
        terminal="`result`",
        success="status success",
        not_meant="that the answer is whole (cut and filtered ones say success), or that a command exited with 0",
    )
    text_may_be_cut: ClassVar = True

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        self._in_text = False
        self._open: dict[str, str] = {}
        self._done: set[str] = set()

    def record(self, number: int, value: Record, line: bytes) -> None:
        """See the base."""
        kind = text(value, "type")
        need(kind in RECORD_TYPES, "an unknown type of record")
        need(bool(self.notes.session_id) != (kind == "init"), "the first record alone is init")
        need(self.terminal_record is None, "a record after the terminal event")
        text(value, "timestamp")
        match kind:
            case "init":
                self.notes.started(Harness.GEMINI, model=text(value, "model"), session_id=name(value, "session_id"))
            case "message":
                self._message(value)
            case "tool_use":
                self._tool_use(value)
            case "tool_result":
                self._tool_result(value)
            case "error":
                text(value, "message")
                self.count(Observation.TRANSIENT_ERROR)
            case "result":
                self._result(number, value)
            case _:
                raise Malformed("an unknown type of record")

    def finish(self) -> None:
        """See the base."""
        self.count(Observation.ITEM_NOT_FINISHED, len(self._open))

    def _message(self, value: Record) -> None:
        role, content = text(value, "role"), text(value, "content")
        need(role in ROLES, "a message of an unknown role")
        if role == "user":
            self._in_text = False
            return
        continues = self._in_text and "delta" in value and flag(value, "delta")
        self.notes.say(content, continues=continues)
        # Only whether the final text is blank is asked, so one piece that is not is all that need be kept.
        self.final_text = content if not (continues and self.final_text.strip()) else self.final_text
        self._in_text = True

    def _tool_use(self, value: Record) -> None:
        call_id, tool = name(value, "tool_id"), name(value, "tool_name")
        need(call_id not in self._open and call_id not in self._done, "a tool call's id stands twice")
        self._open[call_id] = tool
        self._in_text, self.final_text = False, ""
        self.notes.tool_started(call_id, tool, child(value, "parameters"))

    def _tool_result(self, value: Record) -> None:
        call_id, status = name(value, "tool_id"), text(value, "status")
        need(call_id in self._open, "a tool result without its open call")
        need(status in STATUSES, "an unknown status")
        self._done.add(call_id)
        self._in_text, self.final_text = False, ""
        output = fingerprint([value.get("output"), value.get("error")])
        self.notes.tool_ended(call_id, self._open.pop(call_id), failed=status == "error", output_digest=output)

    def _result(self, number: int, value: Record) -> None:
        status, stats = text(value, "status"), child(value, "stats")
        need(status in STATUSES, "an unknown status")
        self.notes.usage = Usage(
            optional_count(stats, "input_tokens"),
            optional_count(stats, "output_tokens"),
            optional_count(stats, "cached"),
        )
        self.terminal_record = number
        if status == "error":
            self.fault = Fault(number, "the result says that the run failed")
