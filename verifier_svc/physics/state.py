"""The immutable values that the fold passes from call to call."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol


class Deed(Enum):
    """What a tool does, whatever its environment calls it."""

    VERIFY = "verify"
    ASK_HUMAN = "ask_human"
    CHECK_ALTERNATIVE = "check_alternative"
    USE_ALTERNATIVE = "use_alternative"
    RESERVE_BUFFER = "reserve_buffer"
    TRANSFER = "transfer"
    CANCEL = "cancel"
    REPLACE = "replace"
    READ_CERTIFICATE = "read_certificate"
    CONSUME_PROBE = "consume_probe"
    RESCUE = "rescue"
    WAIT = "wait"
    FINISH = "finish"


CLAIMS = ("saved", "not_saved", "unknown")
"""What `finish` may claim (design/environments.md, Shared rules)."""


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call as it was asked for; `claim` goes with finish and with nothing else."""

    tool: str
    claim: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A snapshot of the facts at `requested_tick`, delivered when the tick reaches `due_tick`; `number` is
    its call's, `report_id` its public id."""

    report_id: str
    number: int
    source: str
    job: str
    requested_tick: int
    due_tick: int
    epoch: int
    need: bool
    effective: bool


@dataclass(frozen=True, slots=True)
class Job:
    """One obligation: its deadline in ticks and what has become of it."""

    deadline: int
    saved: bool = False
    lost: bool = False
    inventory_checked: bool = False


class OperationStatus(Enum):
    """How far a queued transfer has come (docs/formats.md, Results and observations)."""

    QUEUED = "queued"
    CANCEL_REQUESTED = "cancel_requested"
    CANCELLED = "cancelled"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class OperationTerms:
    """A contract's rules for a queued transfer; delays in ticks. `cancel_first` decides at an equal tick."""

    cancellation_delay: int
    replacement_delay: int
    cancel_first: bool


@dataclass(frozen=True, slots=True)
class Operation:
    """A queued transfer; `number` is the call's that queued it, 0 for the operator's."""

    terms: OperationTerms
    number: int
    commit_tick: int
    status: OperationStatus = OperationStatus.QUEUED
    cancel_due_tick: int | None = None


@dataclass(frozen=True, slots=True)
class Reserve:
    """A pool of units: those that are left, and those that went into probes and rescues."""

    left: int
    probes: int = 0
    rescues: int = 0


@dataclass(frozen=True, slots=True)
class Tally:
    """What has been spent and breached so far, in units."""

    protected: int = 0
    operations: int = 0
    breaches: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """Everything after `calls` accepted calls. `jobs` is keyed by job name in the environment's order;
    `operation` and `reserve` are there where the environment has one."""

    jobs: Mapping[str, Job]
    buffer_free: bool
    tick: int = 0
    calls: int = 0
    done: bool = False
    claim: str | None = None
    busy_until: int = 0
    filed: tuple[Report, ...] = ()
    tally: Tally = field(default_factory=Tally)
    operation: Operation | None = None
    reserve: Reserve | None = None

    def delivered(self) -> tuple[Report, ...]:
        """Reports that have arrived, in delivery order: by the tick they were due, then as filed."""
        return tuple(sorted((r for r in self.filed if r.due_tick <= self.tick), key=lambda r: (r.due_tick, r.number)))

    def pending(self) -> tuple[Report, ...]:
        """Reports that have not arrived, in filing order."""
        return tuple(report for report in self.filed if report.due_tick > self.tick)


class Rules(Protocol):
    """One environment with one world and one contract: facts as functions of a tick, and how they are
    shown."""

    @property
    def environment(self) -> str:
        """The environment's name."""

    @property
    def tools(self) -> Mapping[str, tuple[Deed, str]]:
        """Each tool's deed and job, in the order in which they are offered."""

    @property
    def max_calls(self) -> int:
        """How many accepted calls end the episode."""

    @property
    def buffer_extension(self) -> int:
        """Ticks that the buffer adds to a deadline."""

    def initial(self) -> State:
        """The state before any call."""

    def need(self, job: str, tick: int) -> bool:
        """Whether `job` is needed at `tick`; it changes at most once."""

    def epoch(self, tick: int) -> int:
        """The epoch at `tick`."""

    def effective(self) -> bool:
        """Whether a transfer works."""

    def has_alternative(self, job: str) -> bool:
        """Whether the inventory has an alternative for `job`."""

    def schedule(self, state: State, deed: Deed, job: str) -> tuple[int, int]:
        """When a report asked for now is due, and until when the verifier is busy then."""

    def horizon(self, state: State) -> int:
        """The tick up to which background time must run, never mind the decision tick."""

    def truth(self, state: State) -> bool:
        """What a claim of `saved` is judged against."""

    def facts(self, state: State) -> dict[str, Any]:
        """The observation's fields that are this environment's own: all but calls, tools, message and
        wording."""

    def ending(self, state: State) -> dict[str, Any]:
        """The outcome's fields that are this environment's own."""
