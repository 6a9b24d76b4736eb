"""Several ledgers on one database: together they keep what one keeps (design/ledger.md, Storage)."""

import asyncio
from collections.abc import Coroutine

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ledger_svc import errors
from ledger_svc.budgets import Tally, Totals
from ledger_svc.calls import CallState
from ledger_svc.commands.reservations import Admitted
from ledger_svc.ledger import Ledger
from ledger_svc.storage import postgres_rows
from ledger_svc.storage.postgres import MAX_ATTEMPTS
from ledger_svc.workspace import Workspace
from tests.ledger_svc import support
from tests.ledger_svc.postgres_cluster import Cluster
from tests.ledger_svc.postgres_support import admitted, carry_out, opened, replicas
from tests.ledger_svc.support import OTHER_TOKEN, TOKEN, furnish

Answers = list[object]


@pytest.fixture
def dsn(cluster: Cluster) -> str:
    """An empty schema."""
    return cluster.new_schema()


async def together(*asked: Coroutine[object, object, object]) -> Answers:
    """What each is answered, refusals among it."""
    return list(await asyncio.gather(*asked, return_exceptions=True))


def kinds(answers: Answers) -> list[str]:
    """The answers' classes, sorted."""
    return sorted(type(answer).__name__ for answer in answers)


async def totals(ledger: Ledger) -> Totals:
    """The account's totals, once its journal was found to agree."""
    assert (await ledger.verify(None)).differences == []
    return (await ledger.summarize("lab", None, 0, 10)).balances.account.totals


async def test_last_unit_of_a_budget_is_admitted_once(dsn: str) -> None:
    async with replicas(dsn) as (one, other):
        await furnish(one, 100, 1_000, max_in_flight=100)
        await one.reserve(support.reserve(99, at=support.slot("before")))
        answers = await together(
            *(
                ledger.reserve(support.reserve(1, at=support.slot(turn=turn)))
                for turn, ledger in enumerate([one, other] * 8, 1)
            )
        )
        assert kinds(answers) == ["Admitted"] + ["BudgetExhaustedError"] * 15
        assert await totals(other) == Totals(reserved=Tally(100, 2))


async def test_studies_served_by_different_ledgers_share_one_budget(dsn: str) -> None:
    async with replicas(dsn, 3) as ledgers:
        await furnish(ledgers[0], 100, 1_000, max_in_flight=100)
        await ledgers[1].submit(support.open_study(1_000, study_id="second", max_in_flight=100))
        answers = await together(
            *(
                ledgers[turn % 3].reserve(support.reserve(10, at=support.slot(turn=turn, study_id=study_id)))
                for turn in range(1, 19)
                for study_id in ("study", "second")
            )
        )
        assert kinds(answers) == ["Admitted"] * 10 + ["BudgetExhaustedError"] * 26
        assert await totals(ledgers[2]) == Totals(reserved=Tally(100, 10))


async def test_slot_is_admitted_to_one_of_two_ledgers(dsn: str) -> None:
    async with replicas(dsn) as (one, other):
        await furnish(one)
        answers = await together(
            one.reserve(support.reserve(10, token=TOKEN)), other.reserve(support.reserve(10, token=OTHER_TOKEN))
        )
        assert kinds(answers) == ["Admitted", "ReplayDeniedError"]
        assert await totals(other) == Totals(reserved=Tally(10, 1))


async def test_same_token_at_two_ledgers_is_one_reservation(dsn: str) -> None:
    async with replicas(dsn) as (one, other):
        await furnish(one)
        answers = await asyncio.gather(*(admitted(ledger, support.reserve(10)) for ledger in (one, other) * 4))
        assert sorted(answer.replayed for answer in answers) == [False] + [True] * 7
        assert len({answer.call for answer in answers}) == 1
        assert await totals(one) == Totals(reserved=Tally(10, 1))


async def test_serial_study_has_one_call_in_flight_over_all_ledgers(dsn: str) -> None:
    async with replicas(dsn) as (one, other):
        await furnish(one, 1_000, 1_000, max_in_flight=1)
        answers = await together(
            *(
                ledger.reserve(support.reserve(1, at=support.slot(turn=turn)))
                for turn, ledger in enumerate([one, other] * 6, 1)
            )
        )
        assert kinds(answers) == ["Admitted"] + ["TooManyInFlightError"] * 11


async def test_receipt_at_two_ledgers_charges_once(dsn: str) -> None:
    async with replicas(dsn) as (one, other):
        await furnish(one)
        await one.reserve(support.reserve(10))
        answers = await asyncio.gather(*(ledger.submit(support.receipt()) for ledger in (one, other) * 4))
        assert sorted(answer.replayed for answer in answers) == [False] + [True] * 7
        assert await totals(other) == Totals(charged=Tally(7, 1))


async def test_everything_opened_and_granted_at_once_is_there_once(dsn: str) -> None:
    """Each with its own request id, so that only the accounts' and studies' own keys decide."""
    async with replicas(dsn, 3) as ledgers:
        opened_accounts = await asyncio.gather(
            *(ledger.submit(support.open_account(request_id=f"open-{number}")) for number, ledger in enumerate(ledgers))
        )
        assert sorted(answer.replayed for answer in opened_accounts) == [False, True, True]
        granted = await asyncio.gather(*(ledger.submit(support.grant(100)) for ledger in ledgers))
        assert sorted(answer.replayed for answer in granted) == [False, True, True]
        await ledgers[0].submit(support.open_account("second"))
        studies = await together(
            ledgers[1].submit(support.open_study(request_id="a")),
            ledgers[2].submit(support.open_study(request_id="b", account_id="second")),
        )
        assert kinds(studies) == ["AlreadyExistsError", "Opened"]
        found = await ledgers[0].verify(None)
        assert (found.entries_count, found.differences) == (4, [])


async def test_batches_over_the_same_accounts_in_any_order_all_land(dsn: str) -> None:
    names = [f"account-{number}" for number in range(6)]
    async with replicas(dsn) as ledgers:
        for name in names:
            await ledgers[0].submit(support.open_account(name))
        answers = await asyncio.gather(
            *(
                ledger.submit(support.grant(1, request_id=f"{number}-{name}-{turn}", account_id=name))
                for turn in range(6)
                for number, ledger in enumerate(ledgers)
                for name in (names if (number + turn) % 2 else reversed(names))
            )
        )
        assert not any(answer.replayed for answer in answers)
        found = await ledgers[1].verify(None)
        assert (found.accounts_count, found.entries_count, found.differences) == (6, 78, [])


async def test_another_ledger_that_was_first_is_seen_by_a_new_attempt(cluster: Cluster, dsn: str) -> None:
    """A request id is taken after it was looked for and before it was kept."""
    runs = []
    command = support.grant(5)

    def work(book: Workspace) -> object:
        runs.append(book.request(command.request_id))
        if len(runs) == 1:
            cluster.execute(dsn, "INSERT INTO requests VALUES ('grant-1', '\\x00', 0)")
        return command.decide(book)

    async with opened(dsn) as store:
        await carry_out(store, support.open_account())
        with pytest.raises(errors.RequestIdConflictError):
            await store.transact(command.wanted(), None, work)
        assert [record is None for record in runs] == [True, False]
        balances = await store.balances("lab", None, 0, 1)
        assert balances is not None
        assert (balances.account.granted_nanos, balances.account.head_sequence) == (0, 1)


@pytest.mark.parametrize("error", [psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure])
async def test_transaction_that_the_database_gave_up_is_tried_anew_a_few_times(
    dsn: str, error: type[psycopg.Error], monkeypatch: pytest.MonkeyPatch
) -> None:
    save = postgres_rows.save
    failures = []

    async def give_up(db: object, changes: object, before: object) -> None:
        await save(db, changes, before)  # type: ignore[arg-type]
        if len(failures) < limit:
            failures.append(changes)
            raise error

    monkeypatch.setattr(postgres_rows, "save", give_up)
    async with opened(dsn) as store:
        limit = MAX_ATTEMPTS - 1
        await carry_out(store, support.open_account())
        assert len(failures) == MAX_ATTEMPTS - 1
        failures.clear()
        limit = MAX_ATTEMPTS
        with pytest.raises(errors.StoreUnavailableError) as refused:
            await carry_out(store, support.grant())
        assert refused.value.metadata == {"problem": "contention"}
        assert len(failures) == MAX_ATTEMPTS
        balances = await store.balances("lab", None, 0, 1)
        assert balances is not None
        assert balances.account.head_sequence == 1


async def test_study_that_appears_before_its_account_is_locked_is_looked_for_anew(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched = postgres_rows._touched_accounts
    looked = []

    async def look_too_early(*given: object) -> list[str]:
        looked.append(given)
        return [] if len(looked) <= blind else await touched(*given)  # type: ignore[arg-type]

    async with replicas(dsn, 1) as (ledger,):
        await furnish(ledger)
        monkeypatch.setattr(postgres_rows, "_touched_accounts", look_too_early)
        blind = 1
        assert not (await admitted(ledger, support.reserve())).replayed
        assert len(looked) == 2
        looked.clear()
        blind = MAX_ATTEMPTS
        with pytest.raises(errors.StoreCorruptError) as refused:
            await ledger.submit(support.receipt())
        assert refused.value.metadata == {"problem": "row"}


@pytest.mark.parametrize("skew_hours", [-5, 5])
async def test_database_clock_decides_and_not_the_machines(cluster: Cluster, dsn: str, skew_hours: int) -> None:
    """The database's clock is set wrong by a function that is found before its own."""
    plain = conninfo_to_dict(dsn)["options"]
    schema = plain.removeprefix("-c search_path=")
    cluster.execute(
        dsn,
        "CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "
        f"$$ SELECT pg_catalog.clock_timestamp() + interval '{skew_hours} hours' $$",
    )
    skewed = make_conninfo(dsn, options=f"-c search_path={schema},pg_catalog")
    now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
    async with replicas(skewed) as (one, other):
        await furnish(one)
        ((before,),) = cluster.execute(skewed, now)
        call = (await admitted(one, support.reserve())).call
        ((after,),) = cluster.execute(skewed, now)
        assert before <= call.reserved_at <= after
        assert call.lease_expires_at == call.reserved_at + support.LEASE
        assert (await other.attempts(call.call_id)) == (call,)


async def test_lease_that_ended_is_a_hold_at_every_ledger(dsn: str) -> None:
    async with opened(dsn) as store:
        for command in (support.open_account(), support.grant(), support.open_study(max_in_flight=9)):
            await carry_out(store, command)
        await carry_out(store, support.reserve(1, at=support.slot(turn=9)))
        for turn in range(1, 9):
            await carry_out(store, support.reserve(1, at=support.slot(turn=turn)), support.START)
    async with replicas(dsn, 3) as ledgers:
        await asyncio.gather(*(ledger.tend() for ledger in ledgers))
        assert await totals(ledgers[0]) == Totals(reserved=Tally(1, 1), held=Tally(8, 8))
        with pytest.raises(errors.StudyBlockedError):
            await ledgers[1].reserve(support.reserve(1, at=support.slot(turn=10)))
        late = await ledgers[2].submit(support.receipt("0.000000001", at=support.slot(turn=1)))
        assert (late.call.state, late.call.receipt is not None and late.call.receipt.late) == (CallState.CHARGED, True)


async def test_answer_of_one_ledger_is_the_answer_of_all(dsn: str) -> None:
    async with replicas(dsn) as (one, other):
        await furnish(one)
        first = await admitted(one, support.reserve(10))
        assert await admitted(other, support.reserve(10)) == Admitted(first.call, replayed=True)
        await other.submit(support.receipt())
        for asking in (
            lambda ledger: ledger.attempts(first.call.call_id),
            lambda ledger: ledger.receipt(first.call.call_id, 0),
            lambda ledger: ledger.summarize("lab", None, 0, 10),
            lambda ledger: ledger.reserve(support.reserve(10, token=OTHER_TOKEN)),
        ):
            assert await asking(one) == await asking(other)
