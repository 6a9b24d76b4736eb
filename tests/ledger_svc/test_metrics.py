"""What a commit is counted as: by what happened to calls and money, never by whose they are."""

from collections.abc import Iterator

import pytest

from countersign.kit.errors import CountersignError
from ledger_svc import errors, metrics
from ledger_svc.calls import CostBasis
from ledger_svc.commands.leases import ExpireOverdue
from ledger_svc.ledger import Ledger
from tests.countersign.kit.observability.recording import Recorded, recording
from tests.ledger_svc import support
from tests.ledger_svc.support import LEASE, Clock, hold, open_study, receipt, reserve, resolve

NANO = 1e-9


@pytest.fixture(autouse=True)
def recorded() -> Iterator[Recorded]:
    with recording() as recorded:
        yield recorded


async def test_reservations_by_their_answer(ledger: Ledger, recorded: Recorded) -> None:
    await ledger.submit(reserve(10))
    await ledger.submit(reserve(10))
    await ledger.submit(receipt())
    await ledger.submit(reserve(10))
    assert recorded.values("countersign_ledger_reservations_total") == {
        ("admitted",): 1,
        ("repeated",): 1,
        ("answered",): 1,
    }
    assert recorded.values("countersign_ledger_charged_amount_total") == {("USD",): pytest.approx(7 * NANO)}
    assert recorded.values("countersign_ledger_holds_total") == {}


async def test_refusals_by_kind_and_reason(ledger: Ledger, recorded: Recorded) -> None:
    with pytest.raises(CountersignError):
        await ledger.submit(reserve(101))
    with pytest.raises(errors.UnknownCallError):
        await ledger.submit(hold())
    assert recorded.values("countersign_ledger_refusals_total") == {
        ("Reserve", "STUDY_CAP_EXCEEDED"): 1,
        ("Hold", "UNKNOWN_CALL"): 1,
    }


async def test_holds_by_category_and_what_becomes_of_their_amount(ledger: Ledger, recorded: Recorded) -> None:
    await ledger.submit(reserve(10))
    await ledger.submit(hold())
    await ledger.submit(hold())
    assert recorded.values("countersign_ledger_holds_total") == {("TRANSPORT_UNKNOWN",): 1}
    assert recorded.values("countersign_ledger_held_amount_total") == {("USD",): pytest.approx(10 * NANO)}
    await ledger.submit(resolve(3))
    assert recorded.value("countersign_ledger_resolutions_total") == 1
    assert recorded.values("countersign_ledger_charged_amount_total") == {("USD",): pytest.approx(3 * NANO)}
    assert recorded.values("countersign_ledger_held_amount_total") == {("USD",): pytest.approx(10 * NANO)}


async def test_a_lease_that_ends_is_a_hold_whatever_found_it(ledger: Ledger, clock: Clock, recorded: Recorded) -> None:
    await ledger.submit(open_study(study_id="other"))
    await ledger.submit(reserve(10))
    await ledger.submit(reserve(20, at=support.slot(study_id="other")))
    clock.advance(LEASE)
    # A late receipt of no known cost finds the first one overdue, and doubts it anew; the sweep finds the second.
    await ledger.submit(receipt("", basis=CostBasis.UNSPECIFIED))
    await ledger.submit(ExpireOverdue())
    assert recorded.values("countersign_ledger_holds_total") == {("LEASE_EXPIRED",): 2, ("COST_UNRESOLVED",): 1}
    assert recorded.values("countersign_ledger_held_amount_total") == {("USD",): pytest.approx(30 * NANO)}


async def test_batches_by_size_and_the_queue_as_it_stands(ledger: Ledger, recorded: Recorded) -> None:
    commits = recorded.value("countersign_ledger_commit_seconds_count")
    async for _ in ledger.submit_parts([reserve(10, at=support.slot(turn=turn)) for turn in range(1, 4)]):
        assert recorded.value("countersign_ledger_queue_depth") == 0
    assert commits is not None
    assert recorded.value("countersign_ledger_commit_seconds_count") == commits + 1
    assert recorded.value("countersign_ledger_batch_mutations_sum") == commits + 3
    assert recorded.value("countersign_ledger_store_healthy") == 1


async def test_a_fault_in_counting_stops_nothing(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "BATCH_MUTATIONS", None)
    await ledger.submit(reserve(10))
    assert (await ledger.submit(hold())).call.state == "HELD"
