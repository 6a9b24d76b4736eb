"""Where a journal first differs, in words (design/ledger.md, Journal)."""

from collections.abc import Mapping
from typing import Any

from countersign.ledger.v1 import ledger_pb2 as ledger

_FIELDS = {
    "account": "it has entries but no balances",
    "currency": "its stored currency is not the one that its entries name",
    "granted_nanos": "its stored grants are not what its entries add up to",
    "prior_spend_nanos": "its stored prior spend is not what its entries add up to",
    "totals": "its stored amounts or counts by state are not what its entries add up to",
}


def difference_of(difference: ledger.JournalDifference, heads: Mapping[str, int]) -> dict[str, Any]:
    """A difference as a plain value; `words` says it. `heads` gives each account's last sequence."""
    return {
        "account_id": difference.account_id,
        "sequence": difference.sequence,
        "what": difference.what,
        "subject": difference.subject,
        "words": f"account {difference.account_id}: {_words(difference, heads.get(difference.account_id, 0))}",
    }


def _words(difference: ledger.JournalDifference, last: int) -> str:
    sequence, subject = difference.sequence, difference.subject
    match difference.what:
        case "sequence" if subject:
            return f"its journal and its balances do not agree on which entry is the last, from entry {sequence} on"
        case "sequence":
            return f"where entry {sequence} should be is another one: entries are missing, or out of order"
        case "body_digest" if subject:
            return f"entry {sequence}, a {subject}, cannot be read"
        case "body_digest":
            return f"entry {sequence} was changed: its body is not the one that its digest names"
        case "chain" if subject:
            return f"its balances were saved with another entry than its last, {sequence}"
        case "chain":
            return f"entry {sequence} was changed: it does not follow from the entry before it"
        case "balance":
            return _FIELDS.get(subject, f"study {subject} is not stored as its entries say")
        case "call" if sequence:
            return f"entry {sequence} moves call {subject} to where it could not go"
        case "call":
            return f"call {subject} is not stored as its last entry says"
        case "receipt" | "request":
            kind = "response" if difference.what == "receipt" else "request"
            return f"the {kind} stored for call {subject} is missing, or not the one that its entry names"
        case "expected_head" if sequence > last:
            return f"its journal ends at entry {last}, before entry {sequence}, which was noted down: it was cut short"
        case "expected_head":
            return f"entry {sequence} is not the one that was noted down: it or one before it was rewritten"
        case other:
            return f"{other} differs at entry {sequence} {subject}".rstrip()
