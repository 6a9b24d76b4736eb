"""Builders that the ledger's tests share: small, explicit, in US dollars."""

from pathlib import Path

from msgspec.structs import replace

from countersign.kit.money import Money
from ledger_svc.calls import (
    AmountBasis,
    Call,
    CallState,
    Cost,
    CostBasis,
    HoldCategory,
    HoldFacts,
    RequestProgress,
    Slot,
)
from ledger_svc.commands.accounts import GrantBudget, OpenAccount
from ledger_svc.commands.outcomes import Hold, RecordReceipt
from ledger_svc.commands.reservations import Reserve
from ledger_svc.commands.resolutions import ResolveHold
from ledger_svc.commands.studies import OpenStudy
from ledger_svc.ledger import Ledger
from ledger_svc.storage.sqlite import SqliteStore

START = 1_700_000_000_000_000
LEASE = 60_000_000
TOKEN = b"token-of-attempt-1"
OTHER_TOKEN = b"token-of-attempt-2"
MANIFEST = bytes(range(32))
REPORTED = CostBasis.PROVIDER_REPORTED


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now

    def advance(self, micros: int) -> None:
        self.now += micros


def usd(nanos: int) -> Money:
    return Money("USD", nanos)


def slot(episode_id: str = "episode", turn: int = 1, study_id: str = "study") -> Slot:
    return Slot(study_id, episode_id, turn)


def reserve(
    nanos: int = 10, *, at: Slot | None = None, token: bytes = TOKEN, request: bytes = b"request", lease: int = LEASE
) -> Reserve:
    return Reserve(at or slot(), token, usd(nanos), AmountBasis.FLAT, b"", request, lease)


def receipt(
    text: str = "0.000000007",
    *,
    at: Slot | None = None,
    token: bytes = TOKEN,
    response: bytes = b"response",
    basis: CostBasis = REPORTED,
) -> RecordReceipt:
    return RecordReceipt((at or slot()).call_id(), token, 200, response, Cost(basis, text))


def hold(
    category: HoldCategory = HoldCategory.TRANSPORT_UNKNOWN, *, at: Slot | None = None, token: bytes = TOKEN
) -> Hold:
    return Hold((at or slot()).call_id(), token, HoldFacts(category, RequestProgress.SENT))


def resolve(
    charged_nanos: int | None,
    *,
    at: Slot | None = None,
    attempt: int = 1,
    again: bool = False,
    request_id: str = "resolve-1",
) -> ResolveHold:
    charged = None if charged_nanos is None else usd(charged_nanos)
    return ResolveHold(request_id, (at or slot()).call_id(), attempt, charged, "the bill says so", "Ann", again)


def open_study(
    cap_nanos: int = 100,
    *,
    study_id: str = "study",
    account_id: str = "lab",
    ceiling_nanos: int | None = None,
    max_in_flight: int = 1,
    request_id: str | None = None,
) -> OpenStudy:
    ceiling = None if ceiling_nanos is None else usd(ceiling_nanos)
    return OpenStudy(
        request_id or f"open-{study_id}", account_id, study_id, usd(cap_nanos), MANIFEST, "Ann", ceiling, max_in_flight
    )


def grant(nanos: int = 100, *, request_id: str = "grant-1", account_id: str = "lab") -> GrantBudget:
    return GrantBudget(request_id, account_id, usd(nanos), "Ann", "the pilot")


def open_account(account_id: str = "lab", *, request_id: str | None = None, currency: str = "USD") -> OpenAccount:
    return OpenAccount(request_id or f"open-{account_id}", account_id, currency, "Ann")


def make_ledger(path: Path, clock: Clock) -> Ledger:
    """A started ledger on a file; needs a running event loop."""
    ledger = Ledger(SqliteStore.open(path, busy_timeout_millis=20), clock)
    ledger.start()
    return ledger


async def furnish(ledger: Ledger, granted_nanos: int = 100, cap_nanos: int = 100, max_in_flight: int = 1) -> None:
    """An account `lab` with a budget and a study `study`."""
    await ledger.submit(open_account())
    await ledger.submit(grant(granted_nanos))
    await ledger.submit(open_study(cap_nanos, max_in_flight=max_in_flight))


def is_healthy(ledger: Ledger) -> bool:
    """Whether the ledger's store works, as far as it knows."""
    return ledger.healthy


def reserved_call() -> Call:
    """A reservation of 10 nano-units as the state machine makes it."""
    return Call(
        account_id="lab",
        slot=slot(),
        attempt=1,
        state=CallState.RESERVED,
        token_digest=bytes(32),
        basis=AmountBasis.FLAT,
        price_table_digest=b"",
        request_digest=b"\1" * 32,
        reserved_nanos=10,
        accounted_nanos=10,
        reserved_at=START,
        reserved_sequence=4,
        lease_expires_at=START + LEASE,
        changed_at=START,
    )


def held_call(category: HoldCategory = HoldCategory.TRANSPORT_UNKNOWN) -> Call:
    """The same call, held."""
    return replace(reserved_call(), state=CallState.HELD, hold=HoldFacts(category))
