"""Whatever verification can find has words of its own."""

import pytest

from countersign.cli.ledger_words import difference_of
from countersign.ledger.v1 import ledger_pb2 as ledger

CALL = "ab" * 32


@pytest.mark.parametrize(
    ("sequence", "what", "subject", "words"),
    [
        (5, "sequence", "", "where entry 5 should be is another one"),
        (10, "sequence", "head_sequence", "its journal and its balances do not agree on which entry is the last"),
        (2, "body_digest", "", "entry 2 was changed: its body is not the one"),
        (2, "body_digest", "BUDGET_GRANTED", "entry 2, a BUDGET_GRANTED, cannot be read"),
        (7, "chain", "", "entry 7 was changed: it does not follow"),
        (9, "chain", "head_chain", "its balances were saved with another entry than its last, 9"),
        (0, "balance", "account", "it has entries but no balances"),
        (0, "balance", "totals", "its stored amounts or counts by state"),
        (0, "balance", "currency", "its stored currency"),
        (0, "balance", "granted_nanos", "its stored grants"),
        (0, "balance", "prior_spend_nanos", "its stored prior spend"),
        (0, "balance", "pilot", "study pilot is not stored as its entries say"),
        (6, "call", CALL, f"entry 6 moves call {CALL} to where it could not go"),
        (0, "call", CALL, f"call {CALL} is not stored as its last entry says"),
        (0, "receipt", CALL, f"the response stored for call {CALL} is missing"),
        (0, "request", CALL, f"the request stored for call {CALL} is missing"),
        (9, "expected_head", "", "entry 9 is not the one that was noted down"),
        (10, "expected_head", "", "its journal ends at entry 9, before entry 10"),
        (3, "something", "new", "something differs at entry 3 new"),
    ],
)
def test_a_difference_is_said_in_words(sequence: int, what: str, subject: str, words: str) -> None:
    difference = ledger.JournalDifference(account_id="lab", sequence=sequence, what=what, subject=subject)
    found = difference_of(difference, {"lab": 9})
    assert (found["account_id"], found["sequence"], found["what"], found["subject"]) == ("lab", sequence, what, subject)
    assert found["words"].startswith(f"account lab: {words}")
