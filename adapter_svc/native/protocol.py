"""What every harness's protocol has in common: records in, an ending out (design/native-harness.md, section 5)."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar
from typing import Protocol as TypingProtocol

from adapter_svc.native.framing import Record
from adapter_svc.native.notes import Notes
from adapter_svc.native.verdict import Incompatible, Observation, OutputContract

_VERSION: Final = re.compile(r"[0-9]+(?:\.[0-9]+)*")

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Meaning:
    """One row of section 5's table: what starts and ends a run, and what its completion does not say."""

    start: str
    terminal: str
    success: str
    not_meant: str


@dataclass(frozen=True, slots=True)
class Fault:
    """The program's own statement that it did not succeed, at a record."""

    record: int
    detail: str


@dataclass(frozen=True, slots=True)
class Opened:
    """What a protocol is made with: where it writes, the output contract, the version where one is stated."""

    notes: Notes
    contract: OutputContract
    version: str


class StreamProtocol(ABC):
    """One harness's protocol over one stream. `record` takes each record once, in order; `finish` comes last.

    `terminal_record` is the number of the last terminal event, or None. `fault` is what speaks against success: it
    stands unless the stream itself takes it back. `final_text` is the answer's text, where there is one.
    """

    meaning: ClassVar[Meaning]
    text_may_be_cut: ClassVar[bool] = False
    """Whether the harness calls an answer whole that was cut."""
    status_outranks_absence: ClassVar[bool] = False
    """Whether a nonzero exit status counts before a missing terminal event."""

    def __init__(self, opened: Opened) -> None:
        self.notes = opened.notes
        self.contract = opened.contract
        self.version = opened.version
        self.terminal_record: int | None = None
        self.fault: Fault | None = None
        self.final_text = ""

    @abstractmethod
    def record(self, number: int, value: Record, line: bytes) -> None:
        """Read one record; `line` is its bytes.

        Raises Malformed, HarnessFailed or Incompatible: the stream can then not be complete, and nothing follows.
        """

    def finish(self) -> None:  # noqa: B027 - most have nothing to say
        """The output ended: add what only its end tells. Takes `terminal_record` back where it no longer counts."""

    def count(self, observation: Observation, times: int = 1) -> None:
        """Count something that was observed."""
        if times:
            self.notes.counts[observation] += times


class _Since(TypingProtocol):
    @property
    def since(self) -> Version: ...


ProfileT = TypeVar("ProfileT", bound=_Since)


def profile_of(profiles: Sequence[ProfileT], version: str, reason: str) -> ProfileT:
    """The last profile that `version` reaches; the newest where no version is known.

    Raises Incompatible with `reason` for a version before the first.
    """
    found = _VERSION.search(version)
    if found is None:
        return profiles[-1]
    stated = tuple(int(part[:9]) for part in found[0].split("."))
    reached = [profile for profile in profiles if profile.since <= stated]
    if not reached:
        raise Incompatible(reason)
    return reached[-1]
