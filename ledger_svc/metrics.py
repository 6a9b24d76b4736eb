"""What the ledger's metrics count, and where a commit turns into counts (docs/observability.md).

Amounts are floats here and here alone: what a graph shows, never what a balance is.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import structlog

from countersign.kit.errors import CountersignError
from countersign.kit.money import NANOS_PER_UNIT
from countersign.kit.observability.metrics import counter, gauge, histogram
from ledger_svc.calls import Call, CallState, HoldCategory
from ledger_svc.commands.base import Command
from ledger_svc.commands.reservations import Admitted, Answered
from ledger_svc.workspace import Workspace

log = structlog.get_logger()

QUEUE_DEPTH = gauge("countersign_ledger_queue_depth", "Mutations that wait for the writer.")
STORE_HEALTHY = gauge("countersign_ledger_store_healthy", "1 while the store can be written, 0 once it has failed.")
COMMIT_SECONDS = histogram("countersign_ledger_commit_seconds", "How long the transaction of a batch took.")
BATCH_MUTATIONS = histogram(
    "countersign_ledger_batch_mutations",
    "How many mutations were committed together.",
    buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
)
RESERVATIONS = counter(
    "countersign_ledger_reservations",
    "Reservations that were answered: admitted, repeated (the same attempt asked again), answered (by its receipt).",
    "answer",
    known=(("admitted",), ("repeated",), ("answered",)),
)
REFUSALS = counter(
    "countersign_ledger_refusals", "Mutations that were refused, by kind and reason.", "mutation", "reason"
)
HOLDS = counter(
    "countersign_ledger_holds",
    "Calls that were put in doubt, by why.",
    "category",
    known=((category.value,) for category in HoldCategory),
)
RESOLUTIONS = counter("countersign_ledger_resolutions", "Calls in doubt that an operator decided.")
CHARGED_AMOUNT = counter(
    "countersign_ledger_charged_amount", "What calls were charged, in units of the currency, as a float.", "currency"
)
HELD_AMOUNT = counter(
    "countersign_ledger_held_amount",
    "What was put in doubt, in units of the currency, as a float; what was decided since is not taken off.",
    "currency",
)

FAULT = "INTERNAL"
"""The reason of a mutation that failed with anything but a refusal."""


def committed(
    book: Workspace | None,
    commands: Sequence[Sequence[Command[Any]]],
    outcomes: Sequence[Sequence[Any]],
    seconds: float,
) -> None:
    """Count a batch: its commands and their outcomes, and what it changed; no `book` where nothing was committed."""
    try:
        _count(book, list(chain.from_iterable(commands)), list(chain.from_iterable(outcomes)), seconds)
    except Exception as failure:  # noqa: BLE001 - the ledger goes on, whatever becomes of whoever watches it
        log.error("counting_failed", exception=type(failure).__name__)


def _count(book: Workspace | None, commands: Sequence[Command[Any]], outcomes: Sequence[Any], seconds: float) -> None:
    COMMIT_SECONDS.record(seconds)
    BATCH_MUTATIONS.record(len(commands))
    for command, outcome in zip(commands, outcomes, strict=True):
        _answered(type(command).__name__, outcome)
    if book is not None:
        for before, after in book.moves:
            _moved(before, after, book.account(after.account_id).currency)


def _answered(mutation: str, outcome: Any) -> None:
    match outcome:
        case Admitted(replayed=replayed):
            RESERVATIONS.add(1, "repeated" if replayed else "admitted")
        case Answered():
            RESERVATIONS.add(1, "answered")
        case Exception():
            REFUSALS.add(1, mutation, outcome.reason if isinstance(outcome, CountersignError) else FAULT)


def _moved(before: Call | None, after: Call, currency: str) -> None:
    """Count a call's change. A hold that late evidence gives another category is doubted by no more than its rise."""
    match after.state:
        case CallState.HELD:
            assert after.hold is not None
            HOLDS.add(1, after.hold.category.value)
            known = before.accounted_nanos if before is not None and before.state is CallState.HELD else 0
            HELD_AMOUNT.add(_units(max(0, after.accounted_nanos - known)), currency)
        case CallState.CHARGED:
            CHARGED_AMOUNT.add(_units(after.accounted_nanos), currency)
        case CallState.RESOLVED:
            RESOLUTIONS.add(1)
            CHARGED_AMOUNT.add(_units(after.accounted_nanos), currency)


def _units(nanos: int) -> float:
    return nanos / NANOS_PER_UNIT
