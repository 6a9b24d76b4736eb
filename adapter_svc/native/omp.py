"""OMP, `--mode rpc` and `-p --mode json` (design/native-harness.md, section 5, OMP)."""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import ClassVar, Final

from adapter_svc.native.framing import Record
from adapter_svc.native.lifecycle import Lifecycle, LifecycleProfile
from adapter_svc.native.protocol import Meaning, Opened, profile_of
from adapter_svc.native.shapes import child, flag, name, need, number, objects, optional_text, text
from adapter_svc.native.verdict import Harness, HarnessFailed, Malformed

PRESENTATION_MEMBERS: Final = {
    "notify": frozenset({"message", "notifyType"}),
    "setStatus": frozenset({"statusKey", "statusText"}),
    "setTitle": frozenset({"title"}),
    "set_editor_text": frozenset({"text"}),
    "setWidget": frozenset({"widgetKey", "widgetLines", "widgetPlacement", "widgetOpaque"}),
}
"""What a presentation request may hold beside type, id and method; it is ignored."""
PERSON_METHODS: Final = frozenset({"select", "confirm", "input", "editor", "open_url"})
REQUEST_MEMBERS: Final = frozenset({"type", "id", "method"})


class Mode(Enum):
    """How OMP was started; its first record tells."""

    UNKNOWN = auto()
    JSON = auto()
    RPC = auto()


def _profiles(*, updates_carry_message: bool) -> Sequence[LifecycleProfile]:
    return (
        LifecycleProfile(
            since=(18,),
            system_first=False,
            restarts_open_agent=True,
            updates_carry_message=updates_carry_message,
        ),
    )


PROFILES: Final[Mapping[Mode, Sequence[LifecycleProfile]]] = {
    Mode.JSON: _profiles(updates_carry_message=False),
    Mode.RPC: _profiles(updates_carry_message=True),
}
OLD_VERSION: Final = "OMP before 18 writes other records"


class OmpProtocol(Lifecycle):
    """Reads OMP; the first record tells the mode.

    `get_state` is answered at most once, and before the agent starts; a runner that does not ask gets no answer.
    """

    meaning: ClassVar = Meaning(
        start="`ready` (rpc) or `session` (json), then `agent_start`",
        terminal="`agent_end` with isTerminal true and, in rpc, the prompt's acknowledgement",
        success="the last assistant stopReason is `stop`",
        not_meant="that every tool succeeded, or that the answer has a text",
    )
    telemetry: ClassVar = frozenset(
        {
            "advisor_cost_changed",
            "auto_retry_start",
            "auto_retry_end",
            "auto_compaction_start",
            "auto_compaction_end",
            "config_update",
            "cwd_changed",
            "goal_updated",
            "irc_message",
            "notice",
            "retry_fallback_applied",
            "retry_fallback_succeeded",
            "session_info_update",
            "thinking_level_changed",
            "todo_auto_clear",
            "todo_reminder",
            "ttsr_triggered",
        }
    )

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        self.profile = profile_of(PROFILES[Mode.JSON], self.version, OLD_VERSION)
        self._mode = Mode.UNKNOWN
        self._commands = self._state = self._acknowledged = False
        self._agent_end: int | None = None

    def record(self, number: int, value: Record, line: bytes) -> None:
        """See the base."""
        kind = text(value, "type")
        if self._mode is Mode.UNKNOWN:
            self._start(kind, value)
        elif kind == "extension_ui_request":
            check_request(value)
        elif kind == "agent_end":
            self._end(number, value)
        elif self._mode is Mode.RPC and kind in {"available_commands_update", "response"}:
            self._rpc(kind, value)
        else:
            need(self._agent_end is None or kind in self.telemetry, "a record after the terminal event")
            ready = self._commands or self._mode is Mode.JSON
            need(ready or kind != "agent_start", "an agent starts before the commands")
            self.lifecycle_record(number, kind, value, line)

    def _start(self, kind: str, value: Record) -> None:
        if kind == "session":
            self._mode = Mode.JSON
            self.notes.started(Harness.OMP, session_id=name(value, "id"))
        elif kind == "ready":
            self._mode = Mode.RPC
            self.profile = profile_of(PROFILES[Mode.RPC], self.version, OLD_VERSION)
            number(value, "protocolVersion")
            self.notes.started(Harness.OMP)
        else:
            raise Malformed("the first record is neither session nor ready")

    def _end(self, place: int, value: Record) -> None:
        need(self._agent_end is None, "a record after the terminal event")
        self.close_agent(value)
        if flag(value, "isTerminal"):
            self._agent_end = place
            self._conclude()

    def _conclude(self) -> None:
        if self._acknowledged or self._mode is Mode.JSON:
            self.terminal_record = self._agent_end

    def _rpc(self, kind: str, value: Record) -> None:
        if kind == "available_commands_update":
            need(not self._commands and not self.agents, "the commands stand twice, or after the agent's start")
            objects(value, "commands")
            self._commands = True
            return
        command, succeeded = text(value, "command"), flag(value, "success")
        if command == "prompt":
            need(not self._acknowledged, "the prompt is acknowledged twice")
            if not succeeded:
                raise HarnessFailed("the prompt was not accepted")
            self._acknowledged = True
            self._conclude()
        else:
            need(command == "get_state" and succeeded and not self._state, "an answer that was not asked for")
            need(not self.agents, "the state is answered after the agent's start")
            self._state = True
            self._inventory(child(value, "data"))

    def _inventory(self, data: Record) -> None:
        for key in ("dumpTools", "tools"):
            if key in data:
                self.calls.advertise(objects(data, key))


def check_request(value: Record) -> None:
    """A request to the terminal's user: ignored where it only presents, HarnessFailed where it needs a person."""
    name(value, "id")
    method = text(value, "method")
    if method in PERSON_METHODS:
        raise HarnessFailed("the run needs a person")
    members = PRESENTATION_MEMBERS.get(method)
    if members is None:
        raise Malformed("a request of an unknown method")
    need(value.keys() <= REQUEST_MEMBERS | members, "a presentation request has members of its own")
    for key in ("message", "statusKey", "title", "text", "widgetKey"):
        optional_text(value, key)
