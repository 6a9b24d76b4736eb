"""The hash chain."""

from typing import Any

import pytest
from msgspec.structs import replace

from countersign.kit.canonical import sha256
from ledger_svc.journal import GENESIS_CHAIN, Entry, EntryKind, first_fault, next_entry

FIRST = next_entry("lab", 1, GENESIS_CHAIN, EntryKind.ACCOUNT_OPENED, {"currency": "USD"}, 5)
SECOND = next_entry("lab", 2, FIRST.chain, EntryKind.BUDGET_GRANTED, {"amount_nanos": 1}, 6)


def test_chain_digest_covers_every_part_of_an_entry() -> None:
    digest = sha256(b'{"currency":"USD"}').hex()
    text = (
        f'{{"account_id":"lab","at_micros":5,"body_digest":"{digest}","kind":"ACCOUNT_OPENED",'
        f'"previous_chain":"{"00" * 32}","sequence":1}}'
    )
    assert FIRST.chain == sha256(text.encode())


def test_untouched_entries_have_no_fault() -> None:
    assert first_fault(FIRST, 1, GENESIS_CHAIN) is None
    assert first_fault(SECOND, 2, FIRST.chain) is None


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"sequence": 3}, "sequence"),
        ({"body": b'{"amount_nanos":2}'}, "body_digest"),
        ({"body_digest": bytes(32)}, "body_digest"),
        ({"body": b"{}", "body_digest": sha256(b"{}")}, "chain"),
        ({"kind": "PRIOR_SPEND_RECORDED"}, "chain"),
        ({"at": 7}, "chain"),
        ({"account_id": "other"}, "chain"),
        ({"chain": bytes(32)}, "chain"),
        ({"previous_chain": GENESIS_CHAIN}, "chain"),
    ],
)
def test_every_changed_part_is_found(changed: dict[str, Any], fault: str) -> None:
    assert first_fault(replace(SECOND, **changed), 2, FIRST.chain) == fault


def test_entry_that_was_forged_whole_does_not_fit_the_chain() -> None:
    forged: Entry = next_entry("lab", 2, GENESIS_CHAIN, EntryKind.BUDGET_GRANTED, {"amount_nanos": 9}, 6)
    assert first_fault(forged, 2, FIRST.chain) == "chain"
