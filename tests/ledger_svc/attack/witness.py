"""The checker outside: its own list of what was acknowledged and of what is in doubt, and its own arithmetic.

It never looks into the ledger's file and shares no code with the ledger; it knows only what clients sent and heard.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from countersign.kit.rpc_errors import ServiceError
from countersign.ledger.v1 import ledger_pb2 as pb
from tests.ledger_svc.attack import wire

STATES = {
    "reserved": pb.CALL_STATE_RESERVED,
    "charged": pb.CALL_STATE_CHARGED,
    "held": pb.CALL_STATE_HELD,
    "resolved": pb.CALL_STATE_RESOLVED,
}
TIMES = ("reserved_at", "lease_expires_at", "changed_at")


def timeless(call: pb.Call) -> pb.Call:
    """The call without what only the ledger's clock can know."""
    copy = pb.Call()
    copy.CopyFrom(call)
    for name in TIMES:
        copy.ClearField(name)
    return copy


@dataclass
class Line:
    """One slot, driven by one client at a time: its attempts as acknowledged, and the one request in doubt."""

    at: pb.Slot
    attempts: list[pb.Call] = field(default_factory=list)
    doubt: Any = None

    def after(self, request: Any) -> list[pb.Call]:
        """What the attempts must be once the request is carried out; times are left out where it sets them."""
        calls = [timeless(call) for call in self.attempts]
        if isinstance(request, pb.ReserveRequest):
            return [*calls, _reserved(self.at, len(calls) + 1, request)]
        call = calls[-1]
        if isinstance(request, pb.RecordReceiptRequest):
            call.state = pb.CALL_STATE_CHARGED
            call.accounted.CopyFrom(wire.usd(int(request.cost.amount_text.removesuffix("e-9"))))
            call.response_digest = hashlib.sha256(request.response).digest()
            call.cost.CopyFrom(request.cost)
        elif isinstance(request, pb.HoldRequest):
            call.state = pb.CALL_STATE_HELD
            call.hold_category, call.progress = request.category, request.progress
        else:
            call.state = pb.CALL_STATE_RESOLVED
            call.accounted.CopyFrom(request.charged if request.HasField("charged") else wire.usd(0))
            call.resolution.CopyFrom(_resolution(request))
        return calls


def _reserved(at: pb.Slot, attempt: int, request: pb.ReserveRequest) -> pb.Call:
    return pb.Call(
        call_id=call_id_of(at),
        slot=at,
        attempt=attempt,
        state=pb.CALL_STATE_RESERVED,
        reserved=request.amount,
        accounted=request.amount,
        basis=request.basis,
        request_digest=hashlib.sha256(request.request).digest(),
    )


def _resolution(request: pb.ResolveHoldRequest) -> pb.Resolution:
    return pb.Resolution(
        charged=request.charged if request.HasField("charged") else None,
        evidence=request.evidence,
        resolved_by=request.resolved_by,
        opened_new_attempt=request.open_new_attempt,
    )


def is_doubt(error: ServiceError) -> bool:
    """Whether the error leaves open if the request was carried out."""
    return error.is_unreachable or error.reason == "STORE_UNAVAILABLE"


def call_id_of(at: pb.Slot) -> bytes:
    """The id of a slot, as docs and protos define it."""
    digest = hashlib.sha256()
    for part in (at.study_id, at.episode_id, str(at.turn)):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()


@dataclass
class Witness:
    """Everything that was ever acknowledged to any client of one account."""

    account_id: str
    caps: dict[str, int]
    granted: int = 0
    mutations_count: int = 0
    acknowledged_count: int = 0
    refused_count: int = 0
    doubts_count: int = 0
    landed_count: int = 0
    problems: Counter[str] = field(default_factory=Counter)
    lines: dict[bytes, Line] = field(default_factory=dict)
    grants_in_doubt: list[pb.GrantBudgetRequest] = field(default_factory=list)
    responses: dict[tuple[bytes, int], pb.RecordReceiptRequest] = field(default_factory=dict)
    unread: set[tuple[bytes, int]] = field(default_factory=set)

    async def mutate(self, stub: Any, line: Line, request: Any) -> str:
        """Send a call's mutation and note what is heard: `done`, `doubt`, or the refusal's reason."""
        self.lines[call_id_of(line.at)] = line
        line.doubt = request
        try:
            reply = await wire.ask(stub, request)
        except ServiceError as error:
            if is_doubt(error):
                self.problems.update(error.metadata.get("problem", "").split())
                return "doubt"
            line.doubt = None
            self.refused_count += 1
            return error.reason
        self._heard(line, request, reply)
        return "done"

    def _heard(self, line: Line, request: Any, reply: Any) -> None:
        calls = line.after(request)
        if isinstance(request, pb.ReserveRequest):
            assert not reply.admission.replayed
            assert (reply.admission.call_id, reply.admission.attempt) == (calls[-1].call_id, len(calls))
            calls[-1].lease_expires_at.CopyFrom(reply.admission.lease_expires_at)
        else:
            assert not reply.replayed
            assert timeless(reply.call) == calls[-1]
            calls[-1] = reply.call
        line.attempts[len(calls) - 1 :] = [calls[-1]]
        self._count(line, request)
        self.acknowledged_count += 1

    def _count(self, line: Line, request: Any) -> None:
        line.doubt = None
        self.mutations_count += 1
        if isinstance(request, pb.RecordReceiptRequest):
            key = (request.call_id, len(line.attempts))
            self.responses[key] = request
            self.unread.add(key)

    async def grant(self, stub: Any, request: pb.GrantBudgetRequest) -> None:
        """Send a grant and note what is heard."""
        self.grants_in_doubt.append(request)
        try:
            reply = await wire.ask(stub, request)
        except ServiceError as error:
            if not is_doubt(error):
                raise
            return
        assert not reply.replayed
        self._granted(request)
        self.acknowledged_count += 1

    def _granted(self, request: pb.GrantBudgetRequest) -> None:
        self.grants_in_doubt.remove(request)
        self.granted += wire.nanos(request.amount)
        self.mutations_count += 1

    async def check(self, stub: Any) -> None:
        """Compare the restarted ledger with the list, settle every doubt by asking again, and compare once more."""
        self.doubts_count += len(self.grants_in_doubt) + sum(line.doubt is not None for line in self.lines.values())
        found = await self._found(stub)
        assert found.keys() <= self.lines.keys()
        for call_id, line in self.lines.items():
            await self._settle(stub, line, found.get(call_id, []))
        for grant in list(self.grants_in_doubt):
            landed = (await wire.ask(stub, grant)).replayed
            self.landed_count += landed
            self._granted(grant)
            assert (await wire.ask(stub, grant)).replayed
        await self._check_receipts(stub)
        await self._check_sums(stub)

    async def _found(self, stub: Any) -> dict[bytes, list[pb.Call]]:
        found: dict[bytes, list[pb.Call]] = {}
        for study_id in self.caps:
            page_token, is_last = "", False
            while not is_last:
                request = pb.ListCallsRequest(study_id=study_id, page_size=1_000, page_token=page_token)
                page = await wire.ask(stub, request)
                for call in page.calls:
                    found.setdefault(call.call_id, []).append(call)
                page_token = page.next_page_token
                is_last = not page_token
        return found

    async def _settle(self, stub: Any, line: Line, found: list[pb.Call]) -> None:
        """The slot is as it was acknowledged, or as the one request in doubt leaves it; asking again agrees."""
        request = line.doubt
        if _agrees(line.attempts, found):
            line.attempts = found
            landed = False
        else:
            assert request is not None, f"changed after it was acknowledged: {line.attempts} became {found}"
            assert [timeless(call) for call in found] == line.after(request), "half of a request landed"
            assert _agrees(line.attempts[: len(found) - 1], found[:-1])
            landed = True
        if request is not None:
            await self._ask_again(stub, line, request, found, landed)

    async def _ask_again(self, stub: Any, line: Line, request: Any, found: list[pb.Call], landed: bool) -> None:
        self.landed_count += landed
        try:
            reply = await wire.ask(stub, request)
        except ServiceError as refusal:
            if landed or refusal.reason not in ("BUDGET_EXHAUSTED", "STUDY_CAP_EXCEEDED", "STUDY_BLOCKED"):
                raise
            line.doubt = None
            return
        admission = reply.admission if isinstance(request, pb.ReserveRequest) else None
        assert (reply.replayed if admission is None else admission.replayed) == landed
        if landed and admission is not None:
            assert (admission.attempt, admission.lease_expires_at) == (len(found), found[-1].lease_expires_at)
        elif landed:
            assert reply.call == found[-1]
        calls = line.after(request) if not landed else found
        now = await wire.ask(stub, pb.GetCallRequest(slot=line.at))
        assert [timeless(call) for call in now.attempts] == [timeless(call) for call in calls]
        line.attempts = list(now.attempts)
        self._count(line, request)

    async def _check_receipts(self, stub: Any) -> None:
        """Each response that has not been read back yet is there, byte for byte."""
        for call_id, attempt in sorted(self.unread):
            sent = self.responses[call_id, attempt]
            stored = (await wire.ask(stub, pb.GetReceiptRequest(call_id=call_id, attempt=attempt))).receipt
            assert (stored.response, stored.cost, stored.http_status) == (sent.response, sent.cost, 200)
        self.unread.clear()

    async def _check_sums(self, stub: Any) -> None:
        """Balances are the sums of what was acknowledged, no cap is exceeded, and the journal says the same."""
        summary = await wire.ask(stub, pb.SummarizeRequest(account_id=self.account_id, page_size=1_000))
        assert wire.nanos(summary.balances.granted) == self.granted
        assert self._sums(None) == _balances(summary.balances)
        assert wire.nanos(summary.balances.available) == self.granted - sum(
            self._sums(None)[name][0] for name in STATES
        )
        assert wire.nanos(summary.balances.available) >= 0
        assert {study.study_id for study in summary.studies} == set(self.caps)
        for study in summary.studies:
            assert self._sums(study.study_id) == _balances(study.balances)
            assert sum(amount for amount, _ in self._sums(study.study_id).values()) <= self.caps[study.study_id]
        verified = await wire.ask(stub, pb.VerifyJournalRequest(account_id=self.account_id))
        assert verified.intact, verified
        assert verified.entries_count == self.mutations_count

    def _sums(self, study_id: str | None) -> dict[str, tuple[int, int]]:
        lines = [line for line in self.lines.values() if study_id in (None, line.at.study_id)]
        calls = [call for line in lines for call in line.attempts]
        sums = {}
        for name, state in STATES.items():
            amounts = [wire.nanos(call.accounted) for call in calls if call.state == state]
            sums[name] = (sum(amounts), len(amounts))
        return sums


def _agrees(acknowledged: list[pb.Call], found: list[pb.Call]) -> bool:
    """Whether the calls are those acknowledged; a time counts where an acknowledgement named it."""
    if [timeless(call) for call in acknowledged] != [timeless(call) for call in found]:
        return False
    pairs = zip(acknowledged, found, strict=True)
    return all(
        getattr(mine, name) == getattr(theirs, name) for mine, theirs in pairs for name in TIMES if mine.HasField(name)
    )


def _balances(balances: pb.Balances) -> dict[str, tuple[int, int]]:
    return {name: (wire.nanos(getattr(balances, name)), getattr(balances, f"{name}_count")) for name in STATES}
