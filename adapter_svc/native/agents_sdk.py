"""Our driver over the OpenAI Agents SDK (design/native-harness.md, section 5).

`start` {library_version, model}, then the library's own stream events, last `final` {final_output, exception, usage}.
The captured streams come from an earlier driver, which had no start of its own and called its last record differently.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from adapter_svc.native.framing import Record
from adapter_svc.native.matching import fingerprint, same
from adapter_svc.native.protocol import Fault, Meaning, Opened, StreamProtocol
from adapter_svc.native.shapes import child, count, is_one_of, name, need, objects, optional_count, optional_text, text
from adapter_svc.native.verdict import Harness, Malformed, Observation, Usage

LIBRARY_EVENTS: Final = frozenset({"agent_updated_stream_event", "raw_response_event", "run_item_stream_event"})
RESPONSE_ERRORS: Final = frozenset({"response.failed", "response.error"})
RESPONSE_ENDS: Final = frozenset({"response.completed", "response.incomplete", *RESPONSE_ERRORS})
RUN_ITEMS: Final = frozenset({"function_call", "message"})
"""Items of a response that the run must take up as its own."""


@dataclass(frozen=True, slots=True)
class Driver:
    """One driver's own records. `counts_events`: the library numbers a response's events, so that a lost one shows."""

    terminal: str
    counts_events: bool


DRIVERS: Final[Mapping[str, Driver]] = {
    "start": Driver(terminal="final", counts_events=True),
    "agent_updated_stream_event": Driver(terminal="DRIVER_final", counts_events=True),
}
"""By the first record's type: ours, and the captured one's."""


class AgentsSdkProtocol(StreamProtocol):
    """Reads the driver's output."""

    meaning: ClassVar = Meaning(
        start="`start`",
        terminal="`final`",
        success="no exception, and the final output is a string",
        not_meant="that the provider ended the answer by itself, or that a tool's output is not an error's text",
    )

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        self._driver: Driver | None = None
        self._next_event: int | None = None
        self._open: dict[str, str] = {}
        self._done: set[str] = set()
        self._items: Counter[bytes] = Counter()

    def record(self, number: int, value: Record, line: bytes) -> None:
        """See the base."""
        kind = text(value, "type")
        if self._driver is None:
            self._start(kind, value)
            return
        need(self.terminal_record is None, "a record after the terminal event")
        if kind == self._driver.terminal:
            self._final(number, value)
            return
        need(kind in LIBRARY_EVENTS, "an unknown type of record")
        if kind == "raw_response_event":
            self._response_event(text(value, "subtype"), child(value, "data"))
        elif kind == "run_item_stream_event":
            self._run_item(text(value, "subtype"), child(value, "raw_item"), value)
        else:
            text(value, "agent")

    def finish(self) -> None:
        """See the base."""
        self.count(Observation.ITEM_NOT_FINISHED, len(self._open))

    def _start(self, kind: str, value: Record) -> None:
        self._driver = DRIVERS.get(kind)
        if self._driver is None:
            raise Malformed("the first record is the driver's start")
        version, model = optional_text(value, "library_version"), optional_text(value, "model")
        self.notes.started(Harness.AGENTS_SDK, version=version, model=model)

    def _response_event(self, subtype: str, data: Record) -> None:
        need(text(data, "type") == subtype, "a response event of two types")
        if self._driver is not None and self._driver.counts_events:
            self._count_event(subtype, count(data, "sequence_number"))
        if subtype == "response.output_item.done":
            item = child(data, "item")
            self._items[fingerprint(item)] += int(is_one_of(item.get("type"), RUN_ITEMS))
        elif subtype == "response.created" and not self.notes.model:
            self.notes.model = optional_text(child(data, "response"), "model")

    def _count_event(self, subtype: str, sequence: int) -> None:
        """A response's events are numbered from 0; a provider's error may have any number, and stand alone."""
        if subtype not in RESPONSE_ERRORS:
            first = self._next_event is None
            need(not first or subtype == "response.created", "a response begins without its first event")
            need(sequence == (self._next_event or 0), "an event of a response is missing")
        self._next_event = None if subtype in RESPONSE_ENDS else sequence + 1

    def _run_item(self, subtype: str, item: Record, value: Record) -> None:
        taken = fingerprint(item)
        if is_one_of(item.get("type"), RUN_ITEMS):
            need(self._items[taken] > 0, "a run item that no response had")
            self._items[taken] -= 1
        match subtype:
            case "tool_called":
                self._tool_called(item)
            case "tool_output":
                self._tool_output(item, value)
            case "message_output_created":
                self._message(item)
            case _:
                pass

    def _tool_called(self, item: Record) -> None:
        call_id, tool = name(item, "call_id"), optional_text(item, "name") or text(item, "type")
        need(call_id not in self._open and call_id not in self._done, "a tool call's id stands twice")
        self._open[call_id] = tool
        self.notes.tool_started(call_id, tool, item.get("arguments"))

    def _tool_output(self, item: Record, value: Record) -> None:
        call_id = name(item, "call_id")
        need(call_id in self._open, "a tool output without its open call")
        output = item.get("output")
        if isinstance(output, str) and isinstance(value.get("output"), str):
            need(same(output, value["output"]), "a tool output that stands in two ways")
        self._done.add(call_id)
        self.notes.tool_ended(call_id, self._open.pop(call_id), failed=False, output_digest=fingerprint(output))

    def _message(self, item: Record) -> None:
        texts = [text(part, "text") for part in objects(item, "content") if part.get("type") == "output_text"]
        self.notes.say("".join(texts))

    def _final(self, number: int, value: Record) -> None:
        need(self._next_event is None, "the run ends inside a response")
        need(not +self._items, "an item of a response was not taken up by the run")
        need("final_output" in value, "the final record has no output")
        output = value["final_output"]
        usage = child(value, "usage")
        cached = child(usage, "input_tokens_details") if "input_tokens_details" in usage else {}
        reasoning = child(usage, "output_tokens_details") if "output_tokens_details" in usage else {}
        self.notes.usage = Usage(
            optional_count(usage, "input_tokens"),
            optional_count(usage, "output_tokens"),
            optional_count(cached, "cached_tokens"),
            optional_count(cached, "cache_write_tokens"),
            optional_count(reasoning, "reasoning_tokens"),
        )
        self.terminal_record = number
        if value.get("exception") is not None:
            self.fault = Fault(number, "the driver reports an exception")
        elif isinstance(output, str):
            self.final_text = output
        else:
            self.fault = Fault(number, "the final output is not a string")
