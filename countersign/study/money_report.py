"""A study's money: from the ledger where it can be asked, beside what the records say (design/study.md, Analysis)."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from countersign.kit.money import nanos_to_text, text_to_nanos_exact
from countersign.kit.money_wire import from_wire
from countersign.ledger.v1 import ledger_pb2 as ledger
from countersign.study.ledger_objects import StudyStanding
from countersign.study.records import ledger_call

STATES = ("CHARGED", "RESERVED", "HELD", "RESOLVED")
_LATER = {"RESERVED": frozenset({"CHARGED", "HELD", "RESOLVED"}), "HELD": frozenset({"CHARGED", "RESOLVED"})}
"""Where a call may have moved since its record was written; the other states are final."""


@dataclass(frozen=True, slots=True)
class LedgerMoney:
    """What the ledger says of one study. `journal` is None where the caller may not have it verified."""

    standing: StudyStanding
    calls: Sequence[ledger.Call]
    journal: ledger.VerifyJournalResponse | None = None


@dataclass(frozen=True, slots=True)
class _Sums:
    """What calls account for by state, in nano-units, and how many they are."""

    nanos: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)


def money_report(records: Iterable[Mapping[str, Any]], currency: str, known: LedgerMoney | None) -> dict[str, Any]:
    """The report's `money`: amounts by state, their source, and every way in which records and ledger differ.

    With no ledger to ask, `adds_up` is null: the records alone cannot contradict themselves.
    """
    records = list(records)
    if known is None:
        found = (call for record in records for call in record["calls"] if call["state"])
        return {
            "source": "records",
            "currency": currency,
            **_amounts(_summed((call["state"], text_to_nanos_exact(call["accounted"])) for call in found)),
            "journal": None,
            "adds_up": None,
            "differences": [],
        }
    sums = _summed(_state_and_nanos(call) for call in known.calls)
    differences = [*_compare(records, known.calls), *_balance_differences(sums.nanos, known.standing.balances)]
    if known.journal is not None and not known.journal.intact:
        differences.append("the ledger's journal is not intact: 'countersign ledger verify' says where")
    return {
        "source": "ledger",
        "currency": currency,
        **_amounts(sums),
        "available_to_study": _text(known.standing.balances.available),
        "available_to_account": _text(known.standing.account.available),
        "blocked": known.standing.blocked,
        "journal": _journal(known.journal),
        "adds_up": not differences,
        "differences": differences,
    }


def _journal(verified: ledger.VerifyJournalResponse | None) -> dict[str, Any] | None:
    return None if verified is None else {"intact": verified.intact, "entries": verified.entries_count}


def _amounts(sums: _Sums) -> dict[str, Any]:
    amounts = {state.lower(): nanos_to_text(sums.nanos[state]) for state in STATES}
    return {**amounts, "calls": {state.lower(): sums.counts[state] for state in STATES}}


def _summed(calls: Iterable[tuple[str, int]]) -> _Sums:
    sums = _Sums()
    for state, nanos in calls:
        sums.nanos[state] += nanos
        sums.counts[state] += 1
    return sums


def _state_and_nanos(call: ledger.Call) -> tuple[str, int]:
    return ledger.CallState.Name(call.state).removeprefix("CALL_STATE_"), from_wire(call.accounted).nanos


def _balance_differences(nanos: Mapping[str, int], balances: ledger.Balances) -> list[str]:
    stated = {
        "CHARGED": balances.charged,
        "RESERVED": balances.reserved,
        "HELD": balances.held,
        "RESOLVED": balances.resolved,
    }
    found = []
    for state, balance in stated.items():
        summed = nanos_to_text(nanos[state])
        if summed != _text(balance):
            found.append(f"the ledger's balance {state} is {_text(balance)}, its calls sum to {summed}")
    return found


def _compare(records: Iterable[Mapping[str, Any]], calls: Sequence[ledger.Call]) -> list[str]:
    """Every call of a record must be the ledger's; every slot's latest attempt must be in its record."""
    stored = {(call.call_id, call.attempt): call for call in calls}
    listed = set()
    found = []
    for record in records:
        for call in record["calls"]:
            if call["state"]:
                key = (bytes.fromhex(call["call_id"]), call["attempt"])
                listed.add(key)
                found += _compare_call(record, call, stored.get(key))
    latest = {call.call_id: call for call in calls}
    for call_id, last in latest.items():
        if (call_id, last.attempt) not in listed:
            slot = f"turn {last.slot.turn} of episode {last.slot.episode_id}"
            found.append(f"the ledger's call for {slot} is in no record: collect again to complete the record")
    return found


def _compare_call(record: Mapping[str, Any], call: Mapping[str, Any], known: ledger.Call | None) -> list[str]:
    name = f"turn {call['turn']} of episode {record['episode_id']}"
    if known is None:
        return [f"the record's call for {name} is not in the ledger"]
    stored = ledger_call(known, replayed=False)
    if stored["state"] in _LATER.get(call["state"], ()):
        return []
    return [
        f"{name}: {key} is {call[key]} in the record and {stored[key]} in the ledger"
        for key in ("state", "accounted", "request_digest", "response_digest")
        if (call[key] or "") != stored[key]
    ]


def _text(money: Any) -> str:
    return nanos_to_text(from_wire(money).nanos)
