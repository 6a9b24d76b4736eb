"""Where calls are found: the newest calls' keys in memory, all others' in a table."""

import sqlite3
from pathlib import Path

import pytest

from ledger_svc import errors, limits
from ledger_svc.calls import Call, CallState
from ledger_svc.ledger import Ledger, StoredReceipt
from ledger_svc.storage import sqlite_keys
from ledger_svc.storage.sqlite import SqliteStore
from tests.ledger_svc import support
from tests.ledger_svc.storage.test_sqlite import make_file
from tests.ledger_svc.support import Clock, furnish, make_ledger


def store_of(ledger: Ledger) -> SqliteStore:
    """The ledger's own store."""
    store = ledger._store
    assert isinstance(store, SqliteStore)
    return store


async def test_keys_that_are_moved_are_found_as_before(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_keys, "RECENT_KEYS", 4)
    ledger = make_ledger(database, Clock())
    await furnish(ledger, 1_000, 1_000, max_in_flight=20)
    for turn in range(1, 11):
        await ledger.reserve(support.reserve(10, at=support.slot(turn=turn)))
    for turn in range(1, 11):
        assert (await ledger.reserve(support.reserve(10, at=support.slot(turn=turn)))).replayed
        assert not (await ledger.submit(support.receipt(at=support.slot(turn=turn)))).replayed
    assert (await ledger.verify(None)).differences == []
    await ledger.close()
    ledger = make_ledger(database, Clock())
    for turn in range(1, 11):
        answer = await ledger.reserve(support.reserve(10, at=support.slot(turn=turn)))
        assert isinstance(answer, StoredReceipt)
        assert (await ledger.attempts(support.slot(turn=turn).call_id())) == (answer.call,)
    await ledger.close()
    db = sqlite3.connect(database)
    assert db.execute("SELECT count(*), max(id) FROM call_keys").fetchone() == (8, 8)
    db.close()


async def test_key_that_moves_while_a_reader_looks_is_found_once(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_keys, "RECENT_KEYS", 2)
    ledger = make_ledger(database, Clock())
    await furnish(ledger, max_in_flight=9)
    store, first = store_of(ledger), support.slot(turn=1)
    await ledger.reserve(support.reserve(10, at=first))
    before = store._keys.find(first.call_id())
    await ledger.reserve(support.reserve(10, at=support.slot(turn=2)))
    assert (before, store._keys.find(first.call_id())) == ((1,), ())
    assert sqlite_keys.find_ids(store._reading, before, first.call_id()) == [1]
    assert sqlite_keys.find_ids(store._reading, (), first.call_id()) == [1]
    await ledger.close()


async def test_key_that_leads_to_another_call_is_damage(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_keys, "RECENT_KEYS", 1)
    await make_file(database)
    with sqlite3.connect(database) as db:
        db.execute("UPDATE call_keys SET call_id = zeroblob(32)")
    db.close()
    store = SqliteStore.open(database)
    with pytest.raises(errors.StoreCorruptError) as refused:
        await store.attempts(bytes(32))
    assert refused.value.metadata == {"problem": "row"}
    await store.close()


async def test_call_that_its_row_calls_another_name_blocks_what_rests_on_it(ledger: Ledger, database: Path) -> None:
    """Its slot would look new. What another process does to the file is seen before anything is decided."""
    await ledger.reserve(support.reserve(10))
    with sqlite3.connect(database) as db:
        db.execute("UPDATE calls SET call_id = zeroblob(32)")
    db.close()
    with pytest.raises(errors.StoreCorruptError) as refused:
        await ledger.reserve(support.reserve(10))
    assert refused.value.metadata == {"problem": "row"}
    with pytest.raises(errors.StoreCorruptError):
        await ledger.attempts(support.slot().call_id())
    assert [difference.what for difference in (await ledger.verify(None)).differences] == ["call"]


async def test_an_episode_is_found_whole_wherever_its_keys_are(
    database: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_keys, "RECENT_KEYS", 4)
    monkeypatch.setattr(limits, "MAX_PAGE_SLOTS", 5)
    ledger = make_ledger(database, clock)
    await furnish(ledger, 1_000, 1_000, max_in_flight=20)
    turns = [*range(1, 12)]
    for turn in turns:
        await ledger.reserve(support.reserve(10, at=support.slot(turn=turn)))
        assert [call.slot.turn for call in await stored_of(ledger)] == turns[:turn]
    with pytest.raises(ZeroDivisionError):
        await store_of(ledger).transact(support.reserve(10).wanted(), clock.now, lambda book: 1 // 0)
    assert [call.slot.turn for call in await stored_of(ledger)] == turns
    await ledger.close()


async def stored_of(ledger: Ledger) -> list[Call]:
    """The attempts of the episode `episode`, as they are read with their payloads."""
    return [one.call async for page in ledger.receipts("study", "episode") for one in page]


async def test_calls_are_found_after_a_failed_transaction(database: Path, clock: Clock) -> None:
    ledger = make_ledger(database, clock)
    await furnish(ledger)
    await ledger.reserve(support.reserve(10))
    store = store_of(ledger)
    with pytest.raises(ZeroDivisionError):
        await store.transact(support.reserve(10).wanted(), clock.now, lambda book: 1 // 0)
    # The keys in memory are doubtful now: the file itself answers until the next transaction has read them anew.
    assert store._keys.find(support.slot().call_id()) is None
    (call,) = await ledger.attempts(support.slot().call_id())
    assert (call.attempt, call.state) == (1, CallState.RESERVED)
    assert (await ledger.receipt(support.slot().call_id(), 1)).request == b"request"
    assert (await ledger.reserve(support.reserve(10))).replayed
    assert store._keys.find(support.slot().call_id()) == (1,)
    await ledger.close()
