"""What every implementation of `storage.base.Store` must do; a new one joins `STORES`."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from countersign.kit.canonical import sha256
from ledger_svc import errors
from ledger_svc.audit import Auditor
from ledger_svc.calls import CallState
from ledger_svc.commands.base import Command
from ledger_svc.journal import GENESIS_CHAIN, first_fault
from ledger_svc.storage.base import Store
from ledger_svc.storage.postgres import PostgresStore
from ledger_svc.storage.sqlite import SqliteStore
from ledger_svc.workspace import Wanted, Workspace
from tests.ledger_svc import support
from tests.ledger_svc.postgres_cluster import Cluster
from tests.ledger_svc.support import LEASE, START

Reopen = Callable[[], Awaitable[Store]]


def sqlite(request: pytest.FixtureRequest) -> Reopen:
    """Opens a file."""
    folder: Path = request.getfixturevalue("tmp_path")

    async def reopen() -> Store:
        return SqliteStore.open(folder / "ledger.db")

    return reopen


def postgres(request: pytest.FixtureRequest) -> Reopen:
    """Opens a schema."""
    cluster: Cluster = request.getfixturevalue("cluster")
    dsn = cluster.new_schema()

    async def reopen() -> Store:
        return await PostgresStore.open(dsn)

    return reopen


STORES: dict[str, Callable[[pytest.FixtureRequest], Reopen]] = {"postgres": postgres, "sqlite": sqlite}


class Broken(Exception):
    """Raised inside a transaction."""


@pytest.fixture(params=sorted(STORES))
def reopen(request: pytest.FixtureRequest) -> Reopen:
    """Opens the store of one test, again and again."""
    return STORES[str(request.param)](request)


@pytest.fixture
async def store(reopen: Reopen) -> AsyncIterator[Store]:
    """A store with an account, a budget and a study."""
    store = await reopen()
    for command in (support.open_account(), support.grant(), support.open_study(max_in_flight=9)):
        await carry_out(store, command)
    yield store
    await store.close()


async def carry_out(store: Store, command: Command[object], now: int = START) -> object:
    """One command in one transaction."""
    return await store.transact(command.wanted(), now, command.decide)


async def test_what_was_saved_is_loaded(store: Store) -> None:
    await carry_out(store, support.reserve(10))
    call_id = support.slot().call_id()

    def look(book: Workspace) -> tuple[int, int, int]:
        account, study = book.account("lab"), book.study("study")
        return account.totals.reserved.nanos, study.totals.reserved.count, len(book.attempts(call_id))

    assert await store.transact(Wanted(call_ids=frozenset({call_id})), START, look) == (10, 1, 1)


async def test_what_does_not_exist_is_loaded_as_absent(store: Store) -> None:
    wanted = Wanted(frozenset({"x"}), frozenset({"y"}), frozenset({bytes(32)}), frozenset({"z"}))

    def look(book: Workspace) -> tuple[object, ...]:
        return book.find_account("x"), book.find_study("y"), book.attempts(bytes(32)), book.request("z")

    assert await store.transact(wanted, START, look) == (None, None, (), None)


async def test_what_was_not_wanted_is_not_there(store: Store) -> None:
    with pytest.raises(KeyError):
        await store.transact(Wanted(), START, lambda book: book.find_account("lab"))


async def test_raising_inside_a_transaction_saves_nothing(store: Store) -> None:
    reservation = support.reserve(10)

    def work(book: Workspace) -> None:
        reservation.decide(book)
        raise Broken

    with pytest.raises(Broken):
        await store.transact(reservation.wanted(), START, work)
    assert await store.attempts(support.slot().call_id()) == ()
    assert await store.payload(support.slot().call_id(), sha256(b"request")) is None
    auditor = Auditor("lab")
    await store.audit(auditor)
    assert (auditor.entries_count, auditor.difference) == (3, None)


async def test_slots_are_read_with_their_payloads_up_to_the_first_that_has_none(store: Store) -> None:
    for turn in (1, 2, 4):
        await carry_out(store, support.reserve(1, at=support.slot(turn=turn), request=b"turn %d" % turn))
    await carry_out(store, support.receipt(at=support.slot(turn=2), response=b"four"))
    call_ids = [support.slot(turn=turn).call_id() for turn in (1, 2, 3, 4)]
    page = await store.stored_attempts(call_ids, 0, 100)
    assert page.ended
    assert [(one.call.slot.turn, one.request, one.response) for one in page.attempts] == [
        (1, b"turn 1", None),
        (2, b"turn 2", b"four"),
    ]
    assert tuple(one.call for one in page.attempts[1:]) == await store.attempts(call_ids[1])
    for most, ended, turns in ((16, True, [1, 2]), (15, False, [1]), (0, False, [1])):
        page = await store.stored_attempts(call_ids, 0, most)
        assert (page.ended, [one.call.slot.turn for one in page.attempts]) == (ended, turns)
    page = await store.stored_attempts(call_ids[:2], 1, 0)
    assert (page.ended, [one.call.slot.turn for one in page.attempts]) == (False, [2])
    page = await store.stored_attempts(call_ids[2:], 0, 100)
    assert (page.ended, page.attempts) == (True, [])


async def test_everything_is_there_after_a_restart(store: Store, reopen: Reopen) -> None:
    await carry_out(store, support.reserve(10))
    await carry_out(store, support.receipt())
    calls = await store.attempts(support.slot().call_id())
    balances = await store.balances("lab", None, 0, 10)
    await store.close()
    again = await reopen()
    try:
        assert await again.attempts(support.slot().call_id()) == calls
        assert await again.balances("lab", None, 0, 10) == balances
        assert await again.payload(support.slot().call_id(), sha256(b"response")) == b"response"
        with pytest.raises(errors.RequestIdConflictError):
            await carry_out(again, support.grant(7))
    finally:
        await again.close()


async def test_overdue_calls_of_a_wanted_study_are_loaded(store: Store) -> None:
    await carry_out(store, support.reserve(1))
    await carry_out(store, support.reserve(1, at=support.slot("longer"), lease=LEASE + 1))
    wanted = Wanted(study_ids=frozenset({"study"}))
    overdue = await store.transact(wanted, START + LEASE, lambda book: book.overdue("study"))
    assert [call.slot.episode_id for call in overdue] == ["episode"]
    assert await store.transact(wanted, START + LEASE - 1, lambda book: book.overdue(None)) == []


async def test_overdue_calls_of_any_study_are_loaded_up_to_a_number(store: Store) -> None:
    for number in range(1, 4):
        await carry_out(store, support.reserve(1, at=support.slot(turn=number), lease=LEASE + number))
    now = START + LEASE + 3
    overdue = await store.transact(Wanted(overdue_count=2), now, lambda book: len(book.overdue(None)))
    # The study of a loaded call brings the rest of its overdue calls along.
    assert overdue == 3
    assert await store.transact(Wanted(), now, lambda book: len(book.overdue(None))) == 0


async def test_whether_anything_is_overdue(store: Store) -> None:
    assert not await store.has_overdue(START + LEASE)
    await carry_out(store, support.reserve(1))
    assert not await store.has_overdue(START + LEASE - 1)
    assert await store.has_overdue(START + LEASE)
    await carry_out(store, support.receipt("0"))
    assert not await store.has_overdue(START + LEASE)


async def test_calls_come_in_the_order_of_reservation(store: Store) -> None:
    for episode in ("c", "a", "b"):
        await carry_out(store, support.reserve(1, at=support.slot(episode)))
    await carry_out(store, support.receipt("0", at=support.slot("a")))
    found = await store.calls("study", set(CallState), 0, 10)
    assert [call.slot.episode_id for call in found] == ["c", "a", "b"]
    following = await store.calls("study", {CallState.RESERVED}, found[0].reserved_sequence, 10)
    assert [call.slot.episode_id for call in following] == ["b"]
    assert [call.slot.episode_id for call in await store.calls("study", set(CallState), 0, 1)] == ["c"]
    assert await store.calls("other", set(CallState), 0, 10) == []


async def test_calls_of_an_account_come_from_all_its_studies(store: Store) -> None:
    await carry_out(store, support.open_study(study_id="second", max_in_flight=9))
    await carry_out(store, support.open_account("other"))
    for study_id, episode in (("study", "c"), ("second", "a"), ("study", "b")):
        await carry_out(store, support.reserve(1, at=support.slot(episode, study_id=study_id)))
    await carry_out(store, support.receipt("0", at=support.slot("a", study_id="second")))
    found = await store.calls_of_account("lab", set(CallState), 0, 10)
    assert [call.slot.episode_id for call in found] == ["c", "a", "b"]
    following = await store.calls_of_account("lab", {CallState.RESERVED}, found[0].reserved_sequence, 10)
    assert [call.slot.episode_id for call in following] == ["b"]
    assert [call.slot.episode_id for call in await store.calls_of_account("lab", set(CallState), 0, 2)] == ["c", "a"]
    assert await store.calls_of_account("other", set(CallState), 0, 10) == []


async def test_entries_come_in_order_as_they_were_made(store: Store) -> None:
    await carry_out(store, support.open_account("other"))
    found = await store.entries("lab", 0, 10)
    assert [(entry.sequence, entry.kind) for entry in found] == [
        (1, "ACCOUNT_OPENED"),
        (2, "BUDGET_GRANTED"),
        (3, "STUDY_OPENED"),
    ]
    assert {entry.account_id for entry in found} == {"lab"}
    chain = GENESIS_CHAIN
    for entry in found:
        assert first_fault(entry, entry.sequence, chain) is None
        assert entry.at == START
        chain = entry.chain
    assert await store.entries("lab", 1, 1) == found[1:2]
    assert await store.entries("lab", 3, 10) == []
    assert await store.entries("nowhere", 0, 10) == []


async def test_balances_of_one_study_of_some_and_of_none(store: Store) -> None:
    await carry_out(store, support.open_study(study_id="second"))
    await carry_out(store, support.open_account("other"))
    everything = await store.balances("lab", None, 0, 10)
    assert everything is not None
    assert [study.study_id for study in everything.studies] == ["study", "second"]
    after = await store.balances("lab", None, everything.studies[0].opened_sequence, 10)
    assert after is not None
    assert [study.study_id for study in after.studies] == ["second"]
    one = await store.balances("lab", "second", 0, 10)
    assert one is not None
    assert [study.study_id for study in one.studies] == ["second"]
    foreign = await store.balances("other", "second", 0, 10)
    assert foreign is not None
    assert list(foreign.studies) == []
    assert await store.balances("nowhere", None, 0, 10) is None


async def test_accounts_are_known_by_id_and_currency(store: Store) -> None:
    await carry_out(store, support.open_account("euros", currency="EUR"))
    assert await store.account_ids() == ["euros", "lab"]
    assert await store.currency_of_account("euros") == "EUR"
    assert await store.currency_of_account("nowhere") is None
    assert await store.study("nowhere") is None


async def test_chains_of_accounts_are_independent(store: Store) -> None:
    await carry_out(store, support.open_account("other"))
    for account_id, count in (("lab", 3), ("other", 1)):
        auditor = Auditor(account_id)
        await store.audit(auditor)
        assert (auditor.entries_count, auditor.difference) == (count, None)


async def test_an_account_that_was_audited_leaves_its_verdict_alone(store: Store) -> None:
    """Many are audited in turn: what was derived of all of them together would be the whole of the books."""
    await carry_out(store, support.reserve(10))
    await carry_out(store, support.receipt())
    auditor = Auditor("lab")
    await store.audit(auditor)
    assert (auditor.head.sequence, auditor.difference) == (5, None)
    assert [kept for kept in vars(auditor).values() if isinstance(kept, dict | set) and kept] == []


async def test_check_writes_nothing_that_means_anything(store: Store) -> None:
    before = await store.balances("lab", None, 0, 10)
    await store.check()
    assert await store.balances("lab", None, 0, 10) == before


async def test_closed_store_is_unavailable(store: Store) -> None:
    await store.close()
    with pytest.raises(errors.StoreUnavailableError):
        await store.check()
    with pytest.raises(errors.StoreUnavailableError):
        await store.account_ids()
    await store.close()


async def test_accounts_come_in_the_order_of_their_ids_bytes(store: Store) -> None:
    for account_id in ("Z", "\U0001f600", "a", "\uffee", "\u00e9"):
        await carry_out(store, support.open_account(account_id))
    listed = [account.account_id for account in await store.accounts("", 10)]
    assert listed == ["Z", "a", "lab", "\u00e9", "\uffee", "\U0001f600"]
    assert [account.account_id for account in await store.accounts("a", 2)] == ["lab", "\u00e9"]
    assert await store.accounts("\U0001f600", 10) == []
    (account,) = [each for each in await store.accounts("", 10) if each.account_id == "lab"]
    assert (account.currency, account.granted_nanos) == ("USD", 100)
