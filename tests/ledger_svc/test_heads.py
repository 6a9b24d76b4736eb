"""A history that was rewritten consistently passes verification, and no head that was noted down before."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from ledger_svc import errors
from ledger_svc.audit import Difference, Head
from ledger_svc.ledger import Ledger, Verification
from tests.ledger_svc import rewriting, support
from tests.ledger_svc.support import Clock, furnish, make_ledger


async def verified(path: Path, expected: Iterable[Head] = (), account_id: str | None = None) -> Verification:
    """What a fresh ledger finds in the file."""
    ledger = make_ledger(path, Clock())
    found = await ledger.verify(account_id, expected)
    await ledger.close()
    return found


async def make_file(path: Path) -> list[Head]:
    """Six entries of `lab`, the last a second grant, and one of `other`; the heads as they stand."""
    ledger = make_ledger(path, Clock())
    await furnish(ledger)
    await ledger.submit(support.open_account("other"))
    await ledger.reserve(support.reserve(10))
    await ledger.submit(support.receipt())
    await ledger.submit(support.grant(50, request_id="grant-2"))
    found = await ledger.verify(None)
    await ledger.close()
    return list(found.heads)


async def test_heads_are_where_the_chains_stand(database: Path) -> None:
    heads = await make_file(database)
    assert [(head.account_id, head.sequence, len(head.chain)) for head in heads] == [("lab", 6, 32), ("other", 1, 32)]
    assert (await verified(database)).heads == heads
    assert (await verified(database, account_id="other")).heads == heads[1:]


async def test_history_that_went_on_still_contains_its_heads(database: Path) -> None:
    heads = await make_file(database)
    ledger = make_ledger(database, Clock())
    await ledger.submit(support.grant(1, request_id="grant-3"))
    found = await ledger.verify(None, heads)
    await ledger.close()
    assert found.differences == []
    assert [head.sequence for head in found.heads] == [7, 1]


async def test_rewritten_history_passes_alone_and_fails_against_a_head(database: Path) -> None:
    heads = await make_file(database)
    rewriting.rewrite_first_grant(database, "lab", 70)
    alone = await verified(database)
    assert (alone.entries_count, alone.differences) == (7, [])
    against = await verified(database, heads)
    assert against.differences == [Difference("lab", 6, "expected_head", "")]


async def test_truncated_history_passes_alone_and_fails_against_a_head(database: Path) -> None:
    heads = await make_file(database)
    rewriting.erase_last_grant(database, "lab")
    alone = await verified(database)
    assert (alone.entries_count, alone.differences) == (6, [])
    against = await verified(database, heads)
    assert against.differences == [Difference("lab", 6, "expected_head", "")]


async def test_account_that_is_gone_is_a_difference(database: Path) -> None:
    heads = await make_file(database)
    rewriting.erase_account(database, "other")
    assert (await verified(database)).differences == []
    for account_id in (None, "other"):
        against = await verified(database, heads, account_id)
        assert against.differences == [Difference("other", 1, "expected_head", "")]


async def test_earliest_head_that_differs_is_named(ledger: Ledger) -> None:
    (head,) = (await ledger.verify(None)).heads
    wrong = [Head("lab", 9, bytes(32)), Head("lab", 3, bytes(32)), head, Head("lab", 2, bytes(32))]
    assert (await ledger.verify(None, wrong)).differences == [Difference("lab", 2, "expected_head", "")]
    assert (await ledger.verify(None, [Head("lab", 9, b"9" * 32), Head("lab", 7, b"7" * 32)])).differences == [
        Difference("lab", 7, "expected_head", "")
    ]


async def test_two_heads_of_one_entry_cannot_both_hold(ledger: Ledger) -> None:
    (head,) = (await ledger.verify(None)).heads
    assert (await ledger.verify(None, [head, head])).differences == []
    found = await ledger.verify(None, [head, Head("lab", head.sequence, bytes(32))])
    assert found.differences == [Difference("lab", 3, "expected_head", "")]


async def test_head_before_any_entry_is_met_by_every_history(ledger: Ledger) -> None:
    assert (await ledger.verify(None, [Head("lab", 0, b"")])).differences == []


async def test_account_neither_known_nor_expected_is_refused(ledger: Ledger) -> None:
    with pytest.raises(errors.UnknownAccountError):
        await ledger.verify("nowhere")
