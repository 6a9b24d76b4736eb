"""What both stores keep alike: an account, a study, a call, a request id and a journal entry as a row and back.

A row that is none raises StoreCorruptError. Both keep the same columns; how a body's bytes are read is a store's own
(`READ_ENTRY_COLUMNS` of each gives them as bytes).
"""

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ledger_svc import errors
from ledger_svc.budgets import Account, Study, Tally, Totals
from ledger_svc.calls import Call, CallState
from ledger_svc.codec import call_from_json
from ledger_svc.journal import Entry
from ledger_svc.workspace import RequestRecord

_TALLIES = (
    "charged_nanos, charged_count, reserved_nanos, reserved_count, "
    "held_nanos, held_count, resolved_nanos, resolved_count"
)
ACCOUNT_COLUMNS = f"account_id, currency, granted_nanos, prior_spend_nanos, head_sequence, head_chain, {_TALLIES}"
STUDY_COLUMNS = (
    "study_id, account_id, cap_nanos, call_ceiling_nanos, max_in_flight, manifest_digest, opened_sequence, " + _TALLIES
)
CALL_COLUMNS = "call_id, attempt, body"
REQUEST_COLUMNS = "request_id, inputs_digest, answer_nanos"
ENTRY_COLUMNS = "account_id, sequence, kind, body, body_digest, previous_chain, chain, at"
_TALLY_TYPES = (int,) * 8
_ACCOUNT_TYPES = (str, str, int, int, int, bytes, *_TALLY_TYPES)
_STUDY_TYPES = (str, str, int, int, int, bytes, int, *_TALLY_TYPES)
_ENTRY_TYPES = (str, int, str, bytes, bytes, bytes, bytes, int)
_REQUEST_TYPES = (str, bytes, int)


def in_states(states: Collection[CallState]) -> str:
    """The condition that a call is in one of these states, written so that the indexes of held calls are found.

    A partial index is used only where the query names its state itself, and as the index does.
    """
    names = [f"'{state.value}'" for state in CallState if state in states]
    return f"state = {names[0]}" if len(names) == 1 else f"state IN ({', '.join(names)})" if names else "false"


@contextmanager
def _decoding() -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError):
        raise errors.StoreCorruptError("a stored row cannot be read", problem="row") from None


def typed(row: Sequence[Any], types: Sequence[type]) -> Sequence[Any]:
    """The row where each value is what its column says: damage can turn any value into one of another type."""
    if [type(value) for value in row] != list(types):
        raise errors.StoreCorruptError("a stored row cannot be read", problem="row")
    return row


def _totals(values: Sequence[int]) -> Totals:
    tallies = [Tally(values[index], values[index + 1]) for index in range(0, 8, 2)]
    return Totals(*tallies)


def _tally_values(totals: Totals) -> tuple[int, ...]:
    tallies = (totals.charged, totals.reserved, totals.held, totals.resolved)
    return tuple(value for tally in tallies for value in (tally.nanos, tally.count))


def account_from_row(row: Sequence[Any]) -> Account:
    """An account from `ACCOUNT_COLUMNS`."""
    account_id, currency, granted_nanos, prior_spend_nanos, head_sequence, head_chain, *tallies = typed(
        row, _ACCOUNT_TYPES
    )
    return Account(account_id, currency, granted_nanos, prior_spend_nanos, _totals(tallies), head_sequence, head_chain)


def study_from_row(row: Sequence[Any]) -> Study:
    """A study from `STUDY_COLUMNS`."""
    study_id, account_id, cap_nanos, call_ceiling_nanos, max_in_flight, manifest_digest, opened_sequence, *tallies = (
        typed(row, _STUDY_TYPES)
    )
    return Study(
        study_id,
        account_id,
        cap_nanos,
        call_ceiling_nanos,
        max_in_flight,
        manifest_digest,
        opened_sequence,
        _totals(tallies),
    )


def call_from_row(row: Sequence[Any]) -> Call:
    """A call from `CALL_COLUMNS`."""
    call_id, attempt, body = row
    with _decoding():
        call = call_from_json(json.loads(body))
        if (call.call_id, call.attempt) != (call_id, attempt):
            raise ValueError("the row's key is not its call's")
    return call


def entry_from_row(row: Sequence[Any]) -> Entry:
    """A journal entry from `ENTRY_COLUMNS`, the body as bytes; its digests are unchecked."""
    return Entry(*typed(row, _ENTRY_TYPES))


def request_from_row(row: Sequence[Any]) -> RequestRecord:
    """What was done under a request id, from `REQUEST_COLUMNS`."""
    return RequestRecord(*typed(row, _REQUEST_TYPES))


def account_values(account: Account) -> tuple[Any, ...]:
    """The values of `ACCOUNT_COLUMNS`."""
    return (
        account.account_id,
        account.currency,
        account.granted_nanos,
        account.prior_spend_nanos,
        account.head_sequence,
        account.head_chain,
        *_tally_values(account.totals),
    )


def study_values(study: Study) -> tuple[Any, ...]:
    """The values of `STUDY_COLUMNS`."""
    return (
        study.study_id,
        study.account_id,
        study.cap_nanos,
        study.call_ceiling_nanos,
        study.max_in_flight,
        study.manifest_digest,
        study.opened_sequence,
        *_tally_values(study.totals),
    )


def request_values(record: RequestRecord) -> tuple[Any, ...]:
    """The values of `REQUEST_COLUMNS`."""
    return (record.request_id, record.inputs_digest, record.answer_nanos)


def entry_values(entry: Entry) -> tuple[Any, ...]:
    """The values of `ENTRY_COLUMNS`, the body as text."""
    return (
        entry.account_id,
        entry.sequence,
        entry.kind,
        entry.body.decode(),
        entry.body_digest,
        entry.previous_chain,
        entry.chain,
        entry.at,
    )
