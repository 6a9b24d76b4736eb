"""Claude Code, `-p --output-format stream-json --verbose` (design/native-harness.md, section 5, Claude)."""

from typing import ClassVar, Final

from adapter_svc.admission.raw_json import part
from adapter_svc.native.claude_tasks import BackgroundTasks, check_telemetry
from adapter_svc.native.framing import Record
from adapter_svc.native.matching import fingerprint, without
from adapter_svc.native.notes import decimal
from adapter_svc.native.protocol import Fault, Meaning, Opened, StreamProtocol
from adapter_svc.native.shapes import child, flag, items, name, need, objects, optional_count, optional_text, text
from adapter_svc.native.verdict import Harness, Malformed, Observation, OutputContract, Usage

RECORD_TYPES: Final = frozenset(
    {
        "system",
        "assistant",
        "user",
        "result",
        "stream_event",
        "rate_limit_event",
        "tool_progress",
        "tool_use_summary",
        "auth_status",
        "prompt_suggestion",
    }
)
"""Everything but the first four is telemetry, as are all subtypes of `system` but init."""
VARYING_INIT_MEMBERS: Final = ("uuid", "messaging_socket_path")
SHUTDOWN_SUBTYPES: Final = frozenset({"background_tasks_changed", "task_updated", "task_notification"})


class ClaudeProtocol(StreamProtocol):
    """Reads Claude Code. In the envelope contract the first good result is terminal, else the last that stays fresh."""

    meaning: ClassVar = Meaning(
        start="`system` of subtype `init`",
        terminal="`result`, the last one, still fresh when the output ends",
        success="subtype success and is_error false",
        not_meant="that every tool was allowed or succeeded, or that the answer has a text",
    )
    status_outranks_absence: ClassVar = True

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        self._init = b""
        self._tool_of: dict[str, str] = {}
        self._reported: set[str] = set()
        self._tasks = BackgroundTasks()
        self._results = 0
        self._denied = 0
        self._last_subtype = ""
        self._uuids: set[str] = set()

    def record(self, number: int, value: Record, line: bytes) -> None:
        """See the base."""
        kind = text(value, "type")
        need(kind in RECORD_TYPES, "an unknown type of record")
        subtype = text(value, "subtype") if kind == "system" else ""
        need(bool(self._init) or subtype == "init", "the first record is system/init")
        if self._init:
            need(value.get("session_id") == self.notes.session_id, "a record of another session")
        if self.terminal_record is not None and self.fault is None and self._follows_result(kind, subtype, value):
            return
        match kind:
            case "system":
                self._system(subtype, value)
            case "assistant":
                self._require_new(value)
                self._assistant(child(value, "message"))
            case "user":
                self._require_new(value)
                self._user(child(value, "message"))
            case "result":
                self._result(number, value, line)
            case _:
                pass
        self._last_subtype = subtype

    def finish(self) -> None:
        """See the base: a background task that never ended takes the result back."""
        if self._tasks.left and self.fault is None:
            self.terminal_record = None
        self.count(Observation.PERMISSION_DENIED, self._denied)
        self.count(Observation.ITEM_NOT_FINISHED, len(self._tool_of) - len(self._reported))
        if self._results > 1:
            self.count(Observation.MULTIPLE_TERMINAL, self._results)

    def _follows_result(self, kind: str, subtype: str, value: Record) -> bool:
        """Whether a record after a good result belongs to it; where it does not, the result is stale."""
        if subtype in SHUTDOWN_SUBTYPES:
            check_telemetry(subtype, value)
            if self._tasks.shuts_down(subtype, value):
                return True
        if self.contract is OutputContract.IMAGE_ENVELOPE:
            raise Malformed("a record after the terminal event")
        if kind != "result":
            self.terminal_record = None
        return False

    def _system(self, subtype: str, value: Record) -> None:
        if subtype == "init":
            self._start(value)
            return
        check_telemetry(subtype, value)
        match subtype:
            case "api_retry":
                self.count(Observation.PROVIDER_RETRY)
            case "permission_denied":
                self._denied += 1
            case "task_started":
                self._tasks.start(value, self._tool_of)
            case "task_updated":
                self._tasks.update(value)
            case "task_notification":
                self._tasks.notify(value)
            case _:
                pass

    def _start(self, value: Record) -> None:
        init = fingerprint(without(value, *VARYING_INIT_MEMBERS))
        if self._init:
            after_notification = self._last_subtype == "task_notification"
            need(init == self._init, "a second init differs from the first")
            need(self.contract is OutputContract.NATIVE or after_notification, "a second init without a cause")
            return
        self._init = init
        self.notes.started(
            Harness.CLAUDE,
            version=optional_text(value, "claude_code_version"),
            model=optional_text(value, "model"),
            session_id=name(value, "session_id"),
        )

    def _require_new(self, value: Record) -> None:
        """A message that comes twice would be said twice."""
        uuid = optional_text(value, "uuid")
        need(uuid not in self._uuids, "a message stands twice")
        if uuid:
            self._uuids.add(uuid)

    def _assistant(self, message: Record) -> None:
        need(message.get("role") == "assistant", "an assistant record of another role")
        for block in objects(message, "content"):
            kind = text(block, "type")
            if kind == "text":
                self.notes.say(text(block, "text"))
            elif kind == "tool_use":
                call_id, tool = name(block, "id"), name(block, "name")
                need(call_id not in self._tool_of, "a tool use's id stands twice")
                self._tool_of[call_id] = tool
                self.notes.tool_started(call_id, tool, child(block, "input"))

    def _user(self, message: Record) -> None:
        need(message.get("role") == "user", "a user record of another role")
        if isinstance(message.get("content"), str):
            return
        for block in objects(message, "content"):
            if text(block, "type") == "tool_result":
                self._tool_result(block)

    def _tool_result(self, block: Record) -> None:
        call_id = name(block, "tool_use_id")
        need(call_id in self._tool_of, "a tool result without its tool use")
        need(call_id not in self._reported, "a tool use has two results")
        self._reported.add(call_id)
        failed = flag(block, "is_error") if "is_error" in block else False
        output = fingerprint(block.get("content"))
        self.notes.tool_ended(call_id, self._tool_of[call_id], failed=failed, output_digest=output)

    def _result(self, number: int, value: Record, line: bytes) -> None:
        subtype, failed = text(value, "subtype"), flag(value, "is_error")
        good = subtype == "success" and not failed
        self._results += 1
        self._tasks.result()
        self.terminal_record = number
        self.fault = None if good else Fault(number, "the result says that the run failed")
        self.final_text = text(value, "result") if subtype == "success" else ""
        self.notes.usage = _usage(child(value, "usage"))
        self._denied = max(self._denied, len(items(value, "permission_denials")))
        if "total_cost_usd" in value:
            self.notes.cost_text = part(line, "total_cost_usd").decode()
            decimal(self.notes.cost_text)


def _usage(usage: Record) -> Usage:
    """Claude leaves the cached and the written part out of its input tokens."""
    fresh, cached = optional_count(usage, "input_tokens"), optional_count(usage, "cache_read_input_tokens")
    written = optional_count(usage, "cache_creation_input_tokens")
    whole = None if fresh is None else fresh + (cached or 0) + (written or 0)
    return Usage(whole, optional_count(usage, "output_tokens"), cached, written)
