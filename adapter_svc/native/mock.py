"""The scripted harness for tests: the smallest protocol that has every part.

`start` {version?, model?, session_id?}, then `text` {text}, `tool_start` {id, tool, arguments}, `tool_end` {id, failed,
output}, `retry`, last `final` {status: success | error, usage?, cost_usd?}.
"""

from typing import ClassVar, Final

from adapter_svc.admission.raw_json import part
from adapter_svc.native.framing import Record
from adapter_svc.native.matching import fingerprint
from adapter_svc.native.notes import decimal
from adapter_svc.native.protocol import Fault, Meaning, Opened, StreamProtocol
from adapter_svc.native.shapes import child, flag, name, need, optional_count, optional_text, text
from adapter_svc.native.verdict import Harness, Malformed, Observation, Usage

_STATUSES: Final = frozenset({"success", "error"})


class MockProtocol(StreamProtocol):
    """Reads the scripted harness."""

    meaning: ClassVar = Meaning(
        start="`start`",
        terminal="`final`",
        success="status success",
        not_meant="anything: it is a script",
    )

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        self._started = False
        self._open: dict[str, str] = {}

    def record(self, number: int, value: Record, line: bytes) -> None:
        """See the base."""
        kind = text(value, "type")
        need(self._started != (kind == "start"), "the first record alone is start")
        need(self.terminal_record is None, "a record after the terminal event")
        match kind:
            case "start":
                self._start(value)
            case "text":
                self.final_text = text(value, "text")
                self.notes.say(self.final_text)
            case "tool_start":
                self._tool_start(value)
            case "tool_end":
                self._tool_end(value)
            case "retry":
                self.count(Observation.PROVIDER_RETRY)
            case "final":
                self._final(number, value, line)
            case _:
                raise Malformed("an unknown type of record")

    def finish(self) -> None:
        """See the base."""
        self.count(Observation.ITEM_NOT_FINISHED, len(self._open))

    def _start(self, value: Record) -> None:
        self._started = True
        self.notes.started(
            Harness.MOCK,
            version=optional_text(value, "version"),
            model=optional_text(value, "model"),
            session_id=optional_text(value, "session_id"),
        )

    def _tool_start(self, value: Record) -> None:
        call_id, tool = name(value, "id"), name(value, "tool")
        need(call_id not in self._open, "a tool call starts twice")
        self._open[call_id] = tool
        self.notes.tool_started(call_id, tool, child(value, "arguments"))

    def _tool_end(self, value: Record) -> None:
        call_id = name(value, "id")
        need(call_id in self._open, "a tool call ends that is not open")
        output = fingerprint(value.get("output"))
        self.notes.tool_ended(call_id, self._open.pop(call_id), failed=flag(value, "failed"), output_digest=output)

    def _final(self, number: int, value: Record, line: bytes) -> None:
        status = text(value, "status")
        need(status in _STATUSES, "an unknown status")
        if "usage" in value:
            usage = child(value, "usage")
            self.notes.usage = Usage(optional_count(usage, "input_tokens"), optional_count(usage, "output_tokens"))
        if "cost_usd" in value:
            self.notes.cost_text = part(line, "cost_usd").decode()
            decimal(self.notes.cost_text)
        self.terminal_record = number
        if status == "error":
            self.fault = Fault(number, "the script ends with an error")
