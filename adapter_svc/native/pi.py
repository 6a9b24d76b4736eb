"""pi, `-p --mode json` (design/native-harness.md, section 5, OMP and pi).

Before 1.0 its last record is the same whether it is done or about to try again: there is no terminal event.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from adapter_svc.native.framing import Record
from adapter_svc.native.lifecycle import Lifecycle, LifecycleProfile
from adapter_svc.native.protocol import Fault, Meaning, Opened, profile_of
from adapter_svc.native.shapes import flag, name, need, text
from adapter_svc.native.verdict import Harness, Incompatible

NO_TERMINAL_EVENT: Final = "pi before 1.0 has no terminal event"
PROFILES: Final[Sequence[LifecycleProfile]] = (
    LifecycleProfile(since=(1,), system_first=True, restarts_open_agent=False, updates_carry_message=False),
)


class PiProtocol(Lifecycle):
    """Reads pi. Where no version is stated, an older one is known by its lack of a system message, or of willRetry."""

    meaning: ClassVar = Meaning(
        start="`session`, then `agent_start`",
        terminal="`agent_settled`",
        success="not aborted, and the last stopReason is `stop`",
        not_meant="that every tool succeeded, or that the answer has a text",
    )
    telemetry: ClassVar = frozenset(
        {
            "auto_retry_start",
            "auto_retry_end",
            "entry_appended",
            "compaction_start",
            "compaction_end",
            "extension_error",
            "queue_update",
            "session_info_changed",
            "thinking_level_changed",
        }
    )

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        self.profile = profile_of(PROFILES, self.version, NO_TERMINAL_EVENT)
        self._ended = self._will_retry = False

    def record(self, number: int, value: Record, line: bytes) -> None:
        """See the base."""
        kind = text(value, "type")
        need(bool(self.notes.session_id) != (kind == "session"), "the first record alone is session")
        need(self.terminal_record is None or kind in self.telemetry, "a record after the terminal event")
        if kind == "session":
            self.notes.started(Harness.PI, session_id=name(value, "id"))
        elif kind == "agent_end":
            self._end(value)
        elif kind == "agent_settled":
            self._settle(number, value)
        else:
            self.lifecycle_record(number, kind, value, line)

    def lacks_system(self) -> None:
        """See the base: before 1.0 there was none."""
        if not self.version:
            raise Incompatible(NO_TERMINAL_EVENT)
        super().lacks_system()

    def _end(self, value: Record) -> None:
        if "willRetry" not in value and not self.version:
            raise Incompatible(NO_TERMINAL_EVENT)
        self.close_agent(value)
        self._ended, self._will_retry = True, flag(value, "willRetry")

    def _settle(self, place: int, value: Record) -> None:
        need(self._ended and not self.agent_open, "the run settles before its agent ended")
        aborted = flag(value, "aborted")
        need(aborted or not self._will_retry, "the run settles where it was to be tried again")
        self.terminal_record = place
        if aborted:
            self.fault = Fault(place, "the run was aborted")
