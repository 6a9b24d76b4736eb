"""Books with everything in them, kept through the contracts alone: by whichever version of the ledger is asked."""

from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.type.money_pb2 import Money

from countersign.ledger.v1 import ledger_pb2 as pb

DEADLINE_SECONDS = 20.0
STUDIES = ("pilot", "doubtful", "elsewhere")
LONG = Duration(seconds=86_400)


def usd(nanos: int) -> Money:
    """An amount of whole nano-dollars."""
    return Money(currency_code="USD", units=nanos // 10**9, nanos=nanos % 10**9)


def slot(study: str, turn: int) -> pb.Slot:
    """A turn of the study's one episode."""
    return pb.Slot(study_id=study, episode_id="episode", turn=turn)


def token(study: str, turn: int, attempt: int = 1) -> bytes:
    """The token of an attempt."""
    return f"the token of {study}, {turn}, {attempt}".encode()


def reservation(study: str, turn: int, attempt: int = 1) -> pb.ReserveRequest:
    """A thousand nano-dollars for a turn, for as long as a reservation may last."""
    return pb.ReserveRequest(
        slot=slot(study, turn),
        attempt_token=token(study, turn, attempt),
        amount=usd(1_000),
        basis=pb.AMOUNT_BASIS_FLAT,
        request=f"the request of {study}, {turn}".encode(),
        lease=LONG,
    )


@dataclass(frozen=True)
class Books:
    """What a ledger is asked over one channel."""

    ask: Any
    """The stub of the ledger on a channel that blocks; the stubs' types are those of asyncio's."""

    def call(self, method: str, request: Message) -> Any:
        """The answer to one unary call; raises grpc.RpcError."""
        return getattr(self.ask, method)(request, timeout=DEADLINE_SECONDS)

    def refusal(self, method: str, request: Message) -> str:
        """The name of the status that the call is refused with."""
        try:
            answer = self.call(method, request)
        except grpc.RpcError as error:
            return str(error.code().name)
        raise AssertionError(f"{method} was carried out: {answer}")

    def reserve(self, study: str, turn: int, attempt: int = 1) -> bytes:
        """Reserve a turn; its call's id."""
        answer = self.call("Reserve", reservation(study, turn, attempt))
        assert answer.WhichOneof("answer") == "admission", answer
        return bytes(answer.admission.call_id)

    def receive(self, study: str, turn: int, amount_text: str = "0.0000007", attempt: int = 1) -> Any:
        """Hand in the answer to a turn that is reserved; no text of an amount means that its cost is not known."""
        basis = pb.COST_BASIS_PROVIDER_REPORTED if amount_text else pb.COST_BASIS_UNSPECIFIED
        request = pb.RecordReceiptRequest(
            call_id=self.call_id(study, turn),
            attempt_token=token(study, turn, attempt),
            http_status=200,
            response=f"the answer to {study}, {turn}".encode(),
            cost=pb.Cost(basis=basis, amount_text=amount_text),
        )
        return self.call("RecordReceipt", request).call

    def hold(self, study: str, turn: int) -> Any:
        """Put a turn that is reserved in doubt."""
        request = pb.HoldRequest(
            call_id=self.call_id(study, turn),
            attempt_token=token(study, turn),
            category=pb.HOLD_CATEGORY_TRANSPORT_UNKNOWN,
            progress=pb.REQUEST_PROGRESS_SENT,
        )
        return self.call("Hold", request).call

    def resolution(self, study: str, turn: int, *, again: bool) -> pb.ResolveHoldRequest:
        """An operator's finding that a turn cost 300 nano-dollars."""
        return pb.ResolveHoldRequest(
            request_id=f"resolve {study} {turn}",
            call_id=self.call_id(study, turn),
            attempt=1,
            charged=usd(300),
            evidence="the provider's log",
            resolved_by="ann",
            open_new_attempt=again,
        )

    def call_id(self, study: str, turn: int) -> bytes:
        """The id of the turn's call, as the ledger has it."""
        answer = self.call("ListCalls", pb.ListCallsRequest(study_id=study))
        return next(bytes(call.call_id) for call in answer.calls if call.slot.turn == turn)

    def everything(self) -> list[bytes]:
        """Balances, calls, and each stored request and response, as bytes to compare."""
        answers: list[Message] = [
            self.call("Summarize", pb.SummarizeRequest(account_id=name)) for name in ("lab", "other")
        ]
        for study in STUDIES:
            page = self.call("ListCalls", pb.ListCallsRequest(study_id=study))
            answers.append(page)
            answers += [self.call("GetReceipt", receipt_of(call)) for call in page.calls if call.response_digest]
        return [answer.SerializeToString(deterministic=True) for answer in answers]


def receipt_of(call: pb.Call) -> pb.GetReceiptRequest:
    """Asks for what is stored of an attempt."""
    return pb.GetReceiptRequest(call_id=call.call_id, attempt=call.attempt)


def account(name: str) -> pb.OpenAccountRequest:
    """Opens an account."""
    return pb.OpenAccountRequest(request_id=f"open {name}", account_id=name, currency_code="USD", opened_by="ann")


def grant(name: str, nanos: int) -> pb.GrantBudgetRequest:
    """Grants an account a budget."""
    return pb.GrantBudgetRequest(
        request_id=f"grant {name} {nanos}", account_id=name, amount=usd(nanos), granted_by="ann", reason="pilot"
    )


def prior_spend(name: str, nanos: int) -> pb.RecordPriorSpendRequest:
    """Records what an account has spent before."""
    return pb.RecordPriorSpendRequest(
        request_id=f"before {name}", account_id=name, amount=usd(nanos), recorded_by="ann", reason="trial"
    )


OPENINGS: tuple[tuple[str, Message], ...] = (
    ("OpenAccount", account("lab")),
    ("OpenAccount", account("other")),
    ("GrantBudget", grant("lab", 50_000)),
    ("GrantBudget", grant("lab", 5_000)),
    ("GrantBudget", grant("other", 9_000)),
    ("RecordPriorSpend", prior_spend("lab", 2_000)),
)
"""Accounts, grants and prior spend; asked again they do nothing."""


def opening_of(study: str) -> pb.OpenStudyRequest:
    """Opens one of `STUDIES`."""
    return pb.OpenStudyRequest(
        request_id=f"open {study}",
        account_id="other" if study == "elsewhere" else "lab",
        study_id=study,
        cap=usd(8_000),
        call_ceiling=usd(2_000),
        max_in_flight=4,
        manifest_digest=bytes(range(32)),
        opened_by="ann",
    )


def keep(books: Books) -> None:
    """Do everything that a ledger can be asked to do, and leave a call in each of the states.

    The study `pilot`: turn 1 charged; turn 2 held and resolved, its second attempt charged; turn 3 held and resolved
    for good; turn 4 reserved. `doubtful`: turn 1 charged, turn 2 held without an answer, turn 3 with an answer of
    unknown cost. `elsewhere`, of another account: turn 1 billed above its reservation, and so held.
    """
    for method, request in OPENINGS:
        books.call(method, request)
    for study in STUDIES:
        books.call("OpenStudy", opening_of(study))
    books.reserve("pilot", 1)
    books.receive("pilot", 1)
    for turn, again in ((2, True), (3, False)):
        books.reserve("pilot", turn)
        books.hold("pilot", turn)
        books.call("ResolveHold", books.resolution("pilot", turn, again=again))
    books.reserve("pilot", 2, attempt=2)
    books.receive("pilot", 2, attempt=2)
    books.reserve("pilot", 4)
    for turn in (1, 2, 3):
        books.reserve("doubtful", turn)
    books.receive("doubtful", 1)
    books.hold("doubtful", 2)
    books.receive("doubtful", 3, "")
    books.reserve("elsewhere", 1)
    books.receive("elsewhere", 1, "0.000001500")


def require_nothing_again(books: Books) -> None:
    """What was asked before is answered as before: nothing is admitted, granted or decided a second time."""
    for method, request in (*OPENINGS, *(("OpenStudy", opening_of(study)) for study in STUDIES)):
        assert books.call(method, request).replayed, method
    for turn, again in ((2, True), (3, False)):
        assert books.call("ResolveHold", books.resolution("pilot", turn, again=again)).replayed
    for turn in (1, 2):
        answer = books.call("Reserve", reservation("pilot", turn, attempt=9))
        assert answer.receipt.response == f"the answer to pilot, {turn}".encode()
    assert books.call("Reserve", reservation("pilot", 4)).admission.replayed
    for study, turn in (("pilot", 3), ("pilot", 4), ("doubtful", 2), ("doubtful", 4), ("elsewhere", 2)):
        assert books.refusal("Reserve", reservation(study, turn, attempt=9)) == "FAILED_PRECONDITION"
    held = books.call(
        "ListCalls",
        pb.ListCallsRequest(study_id="doubtful", states=[pb.CALL_STATE_HELD]),
    )
    assert [call.slot.turn for call in held.calls] == [2, 3]


def go_on(books: Books) -> None:
    """Work goes on: the open reservation is charged, a held call resolved, and a new turn played."""
    assert books.receive("pilot", 4).state == pb.CALL_STATE_CHARGED
    books.reserve("pilot", 5)
    assert books.receive("pilot", 5).state == pb.CALL_STATE_CHARGED
    books.call("ResolveHold", books.resolution("doubtful", 2, again=True))
