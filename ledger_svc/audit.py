"""Verifying a journal: its chain, and every balance derived anew from its entries (design/ledger.md, Journal).

An `Auditor` is fed one account's stored state in the order of its methods and keeps the first difference. It uses none
of the running totals' code: it takes each call's last entry and adds up.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from countersign.kit.canonical import canonical_json, sha256
from ledger_svc.budgets import Account, Study, Tally, Totals
from ledger_svc.calls import CallState
from ledger_svc.commands.base import inputs_digest
from ledger_svc.journal import GENESIS_CHAIN, Entry, EntryKind, first_fault
from ledger_svc.workspace import RequestRecord

_NEXT_STATES: dict[str | None, frozenset[str]] = {
    None: frozenset({"RESERVED"}),
    "RESERVED": frozenset({"CHARGED", "HELD"}),
    "HELD": frozenset({"CHARGED", "HELD", "RESOLVED"}),
    "CHARGED": frozenset(),
    "RESOLVED": frozenset(),
}
"""HELD to CHARGED or HELD is late evidence on an ended lease."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the stored state first differs from the journal; `sequence` is 0 where no entry is at fault.

    `what` is chain, body_digest, sequence, balance, call, receipt, request, request_id or expected_head.
    """

    account_id: str
    sequence: int
    what: str
    subject: str


@dataclass(frozen=True, slots=True)
class Head:
    """Where an account's chain stood after the entry `sequence`; for 0, before any entry, `chain` is empty."""

    account_id: str
    sequence: int
    chain: bytes


@dataclass(frozen=True, slots=True)
class _DerivedCall:
    """A call as its last entry left it."""

    study_id: str
    state: str
    accounted_nanos: int
    body_digest: bytes
    request_digest: bytes
    response_digest: bytes | None


class Auditor:
    """Verifies one account. Feed it every entry, then the account, its studies, calls, request ids and payloads.

    `expected` are heads of this account that were noted down earlier: the chain must still pass through each. A history
    that was rewritten in full, chain and balances included, shows in nothing else.
    """

    def __init__(self, account_id: str, expected: Iterable[Head] = ()) -> None:
        self.account_id = account_id
        self._expected: dict[int, set[bytes]] = {}
        for head in expected:
            self._expected.setdefault(head.sequence, set()).add(head.chain)
        self.entries_count = 0
        self.difference: Difference | None = None
        self._chain = GENESIS_CHAIN
        self._currency = ""
        self._granted_nanos = 0
        self._prior_spend_nanos = 0
        self._studies: dict[str, dict[str, Any]] = {}
        self._calls: dict[tuple[bytes, int], _DerivedCall] = {}
        self._requests: dict[str, RequestRecord] = {}
        self._totals: dict[str | None, Totals] = {}
        self._unseen_studies: set[str] = set()
        self._unseen_calls: set[tuple[bytes, int]] = set()

    def entry(self, entry: Entry) -> None:
        """Take the next entry, in stored order."""
        self.entries_count += 1
        fault = first_fault(entry, self.entries_count, self._chain)
        if fault is not None:
            self._differ(fault, "", self.entries_count)
        expected = self._expected.get(self.entries_count)
        if expected is not None and expected != {entry.chain}:
            self._differ("expected_head", "", self.entries_count)
        self._chain = entry.chain
        if self.difference is not None:
            return
        try:
            self._derive(entry.kind, json.loads(entry.body), entry.sequence)
        except (KeyError, TypeError, ValueError):
            self._differ("body_digest", entry.kind, entry.sequence)

    def _derive(self, kind: str, body: dict[str, Any], sequence: int) -> None:
        match EntryKind(kind):
            case EntryKind.ACCOUNT_OPENED:
                self._currency = body["currency"]
                self._derive_request(kind, body, 0)
            case EntryKind.BUDGET_GRANTED:
                self._granted_nanos += body["amount_nanos"]
                self._derive_request(kind, body, self._granted_nanos)
            case EntryKind.PRIOR_SPEND_RECORDED:
                self._prior_spend_nanos += body["amount_nanos"]
                self._derive_request(kind, body, self._prior_spend_nanos)
            case EntryKind.STUDY_OPENED:
                self._studies[body["study_id"]] = {**body, "opened_sequence": sequence}
                self._derive_request(kind, body, 0)
            case EntryKind.CALL_RESOLVED:
                self._derive_call(kind, body["call"], sequence)
                self._derive_request(kind, {**self._resolved(body["call"]), "request_id": body["request_id"]}, 0)
            case _:
                self._derive_call(kind, body["call"], sequence)

    def _derive_request(self, kind: str, body: dict[str, Any], answer_nanos: int) -> None:
        """What must be remembered under the entry's request id, so that asking again does nothing a second time."""
        inputs = {name: value for name, value in body.items() if name != "request_id"}
        digest = inputs_digest(EntryKind(kind), inputs)
        self._requests[body["request_id"]] = RequestRecord(body["request_id"], digest, answer_nanos)

    def _resolved(self, call: dict[str, Any]) -> dict[str, Any]:
        """A resolution's inputs as `ResolveHold` digests them."""
        resolution = call["resolution"]
        nanos = resolution["charged_nanos"]
        return {
            "attempt": call["attempt"],
            "call_id": call["call_id"],
            "charged": None if nanos is None else [self._currency, nanos],
            "evidence": resolution["evidence"],
            "open_new_attempt": resolution["opened_new_attempt"],
            "resolved_by": resolution["resolved_by"],
        }

    def _derive_call(self, kind: str, call: dict[str, Any], sequence: int) -> None:
        key = (bytes.fromhex(call["call_id"]), call["attempt"])
        before = self._calls.get(key)
        legal = _NEXT_STATES[None if before is None else before.state]
        if call["state"] not in legal or kind != f"CALL_{call['state']}" or call["study_id"] not in self._studies:
            self._differ("call", call["call_id"], sequence)
        self._calls[key] = _DerivedCall(
            study_id=call["study_id"],
            state=call["state"],
            accounted_nanos=call["accounted_nanos"],
            body_digest=sha256(canonical_json(call)),
            request_digest=bytes.fromhex(call["request_digest"]),
            response_digest=None if call["receipt"] is None else bytes.fromhex(call["receipt"]["response_digest"]),
        )

    def account(self, account: Account | None) -> None:
        """Compare the account's row, None where it has none, with what its entries say."""
        self._unseen_studies = set(self._studies)
        self._unseen_calls = set(self._calls)
        self._totals = self._add_up()
        missing = [sequence for sequence in self._expected if sequence > self.entries_count]
        if missing:
            self._differ("expected_head", "", min(missing))
        if account is None:
            self._differ("balance", "account")
            return
        if account.head_sequence != self.entries_count:
            self._differ("sequence", "head_sequence", min(account.head_sequence, self.entries_count) + 1)
        if account.head_chain != self._chain:
            self._differ("chain", "head_chain", self.entries_count)
        derived = Account(
            self.account_id,
            self._currency,
            self._granted_nanos,
            self._prior_spend_nanos,
            self._totals[None],
            account.head_sequence,
            account.head_chain,
        )
        for name in ("currency", "granted_nanos", "prior_spend_nanos", "totals"):
            if getattr(account, name) != getattr(derived, name):
                self._differ("balance", name)

    def study(self, study: Study) -> None:
        """Compare one study's row with what the entries say."""
        self._unseen_studies.discard(study.study_id)
        opened = self._studies.get(study.study_id)
        if opened is None or study != self._derived_study(opened):
            self._differ("balance", study.study_id)

    def _derived_study(self, opened: dict[str, Any]) -> Study:
        return Study(
            study_id=opened["study_id"],
            account_id=opened["account_id"],
            cap_nanos=opened["cap_nanos"],
            call_ceiling_nanos=opened["call_ceiling_nanos"],
            max_in_flight=opened["max_in_flight"],
            manifest_digest=bytes.fromhex(opened["manifest_digest"]),
            opened_sequence=opened["opened_sequence"],
            totals=self._totals[opened["study_id"]],
        )

    def _add_up(self) -> dict[str | None, Totals]:
        """The calls' last entries added up, per study and, under None, for the account."""
        tallies: dict[tuple[str | None, str], Tally] = {}
        for call in self._calls.values():
            for scope in (call.study_id, None):
                tally = tallies.get((scope, call.state), Tally())
                tallies[scope, call.state] = Tally(tally.nanos + call.accounted_nanos, tally.count + 1)
        states = (CallState.CHARGED, CallState.RESERVED, CallState.HELD, CallState.RESOLVED)
        scopes: list[str | None] = [None, *self._studies]
        return {scope: Totals(*(tallies.get((scope, state), Tally()) for state in states)) for scope in scopes}

    def call(self, call_id: bytes, attempt: int, body: bytes) -> None:
        """Compare one call's stored JSON with its last entry; a call that is fed twice is stored twice."""
        derived = self._calls.get((call_id, attempt))
        if (call_id, attempt) not in self._unseen_calls or derived is None or sha256(body) != derived.body_digest:
            self._differ("call", call_id.hex())
        self._unseen_calls.discard((call_id, attempt))

    def wanted_requests(self) -> Iterator[str]:
        """Each request id that must be remembered."""
        yield from self._requests

    def request(self, request_id: str, record: RequestRecord | None) -> None:
        """Compare what is remembered under a request id, None where nothing is, with its entry."""
        if record != self._requests[request_id]:
            self._differ("request_id", request_id)

    def wanted_payloads(self) -> Iterator[tuple[bytes, str, str]]:
        """Each payload that must be stored: its digest, `request` or `receipt`, and its call's id.

        What belongs to a call that was not fed is not asked for: that call is the difference.
        """
        for (call_id, attempt), call in self._calls.items():
            if (call_id, attempt) in self._unseen_calls:
                continue
            yield call.request_digest, "request", call_id.hex()
            if call.response_digest is not None:
                yield call.response_digest, "receipt", call_id.hex()

    def payload(self, digest: bytes, what: str, subject: str, body: bytes | None) -> None:
        """Compare a stored payload, None where it is missing, with the digest that its entry names."""
        if body is None or sha256(body) != digest:
            self._differ(what, subject)

    def finish(self) -> None:
        """Count as a difference whatever has entries but was not fed, and forget all but the verdict.

        Many accounts are verified in turn: together, what was derived of each would be the whole of the books.
        """
        for study_id in sorted(self._unseen_studies):
            self._differ("balance", study_id)
        for call_id, _attempt in sorted(self._unseen_calls):
            self._differ("call", call_id.hex())
        for kept in (self._calls, self._requests, self._studies, self._totals):
            kept.clear()
        self._unseen_calls.clear()
        self._unseen_studies.clear()

    @property
    def head(self) -> Head:
        """Where the chain of the entries fed so far stands."""
        return Head(self.account_id, self.entries_count, self._chain if self.entries_count else b"")

    def _differ(self, what: str, subject: str, sequence: int = 0) -> None:
        if self.difference is None:
            self.difference = Difference(self.account_id, sequence, what, subject)
