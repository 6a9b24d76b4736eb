"""`LedgerService` on gRPC: maps messages to the ledger's own types and back, and holds no rules."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import aclosing
from typing import TypeVar

from google.protobuf.message import Message

from countersign.kit.interceptors.context import Context
from countersign.kit.server import ServiceSpec
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1 import ledger_pb2_grpc
from ledger_svc import errors, limits, mutations, wire
from ledger_svc.calls import Call, CallState
from ledger_svc.commands import checks
from ledger_svc.ledger import CallPage, Ledger
from ledger_svc.transact import transact

M = TypeVar("M", bound=Message)

FULL_NAME = pb.DESCRIPTOR.services_by_name["LedgerService"].full_name

MUTATIONS = frozenset(mutation.method for mutation in mutations.ALL)
"""The unary calls that need a deadline."""


class LedgerServicer(ledger_pb2_grpc.LedgerServiceServicer):
    """Serves one ledger. Once `draining` is set, streams of mutations end after what they have taken."""

    def __init__(self, ledger: Ledger, draining: asyncio.Event | None = None) -> None:
        self._ledger = ledger
        self._draining = draining or asyncio.Event()

    async def OpenAccount(self, request: pb.OpenAccountRequest, context: Context) -> pb.OpenAccountResponse:
        """Open an account with no budget."""
        return await mutations.OPEN_ACCOUNT.carry_out(self._ledger, request)

    async def GrantBudget(self, request: pb.GrantBudgetRequest, context: Context) -> pb.GrantBudgetResponse:
        """Add a grant."""
        return await mutations.GRANT_BUDGET.carry_out(self._ledger, request)

    async def RecordPriorSpend(
        self, request: pb.RecordPriorSpendRequest, context: Context
    ) -> pb.RecordPriorSpendResponse:
        """Record spend from before the ledger."""
        return await mutations.RECORD_PRIOR_SPEND.carry_out(self._ledger, request)

    async def OpenStudy(self, request: pb.OpenStudyRequest, context: Context) -> pb.OpenStudyResponse:
        """Open a study under an account."""
        return await mutations.OPEN_STUDY.carry_out(self._ledger, request)

    async def Reserve(self, request: pb.ReserveRequest, context: Context) -> pb.ReserveResponse:
        """Set money aside for one slot, or give the receipt that it has."""
        return await mutations.RESERVE.carry_out(self._ledger, request)

    async def RecordReceipt(self, request: pb.RecordReceiptRequest, context: Context) -> pb.RecordReceiptResponse:
        """Store the provider's raw answer and charge it, or hold the call."""
        return await mutations.RECORD_RECEIPT.carry_out(self._ledger, request)

    async def Hold(self, request: pb.HoldRequest, context: Context) -> pb.HoldResponse:
        """Put a call in doubt."""
        return await mutations.HOLD.carry_out(self._ledger, request)

    async def ResolveHold(self, request: pb.ResolveHoldRequest, context: Context) -> pb.ResolveHoldResponse:
        """Carry out an operator's decision on a held call."""
        return await mutations.RESOLVE_HOLD.carry_out(self._ledger, request)

    async def Transact(
        self, request_iterator: AsyncIterator[pb.TransactRequest], context: Context
    ) -> AsyncIterator[pb.TransactResponse]:
        """Many mutations over one stream."""
        async with aclosing(transact(self._ledger, request_iterator, self._draining)) as responses:
            async for response in responses:
                yield response

    async def GetCall(self, request: pb.GetCallRequest, context: Context) -> pb.GetCallResponse:
        """All attempts of one slot."""
        match request.WhichOneof("key"):
            case "call_id":
                call_id = request.call_id
            case "slot":
                call_id = wire.read_slot(request.slot).call_id()
            case None:
                raise errors.InvalidArgumentError("key is missing: call_id or slot", field="key")
        checks.check_digest("call_id", call_id)
        attempts = await self._ledger.attempts(call_id)
        return pb.GetCallResponse(attempts=[await self._call(call) for call in attempts])

    async def ListCalls(self, request: pb.ListCallsRequest, context: Context) -> pb.ListCallsResponse:
        """A page of a study's or an account's calls; it ends early where the reply would grow too large."""
        states = {wire.read_state(value) for value in request.states}
        after = wire.read_page_token(request.page_token)
        page = await self._listed(request, states or set(CallState), after)
        response = pb.ListCallsResponse(next_page_token=wire.write_page_token(page.next_sequence))
        size_bytes = 0
        for call in page.calls:
            message = await self._call(call)
            size_bytes += message.ByteSize()
            if response.calls and size_bytes > limits.MAX_PAGE_BYTES:
                response.next_page_token = wire.write_page_token(after)
                break
            response.calls.append(message)
            after = call.reserved_sequence
        return response

    async def GetReceipt(self, request: pb.GetReceiptRequest, context: Context) -> pb.GetReceiptResponse:
        """One attempt's request and raw response."""
        checks.check_digest("call_id", request.call_id)
        receipt = await self._ledger.receipt(request.call_id, request.attempt)
        return pb.GetReceiptResponse(receipt=wire.write_receipt(receipt))

    async def ListReceipts(
        self, request: pb.ListReceiptsRequest, context: Context
    ) -> AsyncIterator[pb.ListReceiptsResponse]:
        """Stream an episode's attempts with their receipts, in messages that never grow too large."""
        checks.check_id("study_id", request.study_id)
        checks.check_id("episode_id", request.episode_id)
        async for page in self._ledger.receipts(request.study_id, request.episode_id):
            attempts = [
                pb.AttemptReceipt(call=await self._call(receipt.call), receipt=wire.write_receipt(receipt))
                for receipt in page
            ]
            for part in _in_parts(attempts):
                yield pb.ListReceiptsResponse(attempts=part)

    async def Summarize(self, request: pb.SummarizeRequest, context: Context) -> pb.SummarizeResponse:
        """An account's balances and a page of its studies'."""
        page = await self._ledger.summarize(
            request.account_id or await self._account_of(request.study_id),
            request.study_id or None,
            wire.read_page_token(request.page_token),
            wire.read_page_size(request.page_size),
        )
        account = page.balances.account
        return pb.SummarizeResponse(
            account_id=account.account_id,
            balances=wire.write_account_balances(account),
            studies=[wire.write_study(study, account.currency) for study in page.balances.studies],
            next_page_token=wire.write_page_token(page.next_sequence),
        )

    async def ListAccounts(self, request: pb.ListAccountsRequest, context: Context) -> pb.ListAccountsResponse:
        """A page of all accounts' balances."""
        if request.page_token:
            checks.check_id("page_token", request.page_token)
        page = await self._ledger.accounts(request.page_token, wire.read_page_size(request.page_size))
        return pb.ListAccountsResponse(
            accounts=[
                pb.AccountSummary(account_id=each.account_id, balances=wire.write_account_balances(each))
                for each in page.accounts
            ],
            next_page_token=page.next_id,
        )

    async def VerifyJournal(self, request: pb.VerifyJournalRequest, context: Context) -> pb.VerifyJournalResponse:
        """Recompute the journals and compare."""
        expected = wire.read_heads(request.expected_heads, request.account_id)
        found = await self._ledger.verify(request.account_id or None, expected)
        return pb.VerifyJournalResponse(
            intact=not found.differences,
            entries_count=found.entries_count,
            differences=[wire.write_difference(difference) for difference in found.differences],
            accounts_count=found.accounts_count,
            heads=[wire.write_head(head) for head in found.heads],
        )

    async def _call(self, call: Call) -> pb.Call:
        return wire.write_call(call, await self._ledger.currency_of(call.account_id))

    async def _account_of(self, study_id: str) -> str:
        """The account of a study that is asked for by its own id alone."""
        return (await self._ledger.study(study_id)).account_id if study_id else ""

    async def _listed(self, request: pb.ListCallsRequest, states: Collection[CallState], after: int) -> CallPage:
        page_size = wire.read_page_size(request.page_size)
        if request.study_id and request.account_id:
            raise errors.InvalidArgumentError("name a study or an account, not both", field="account_id")
        if request.account_id:
            return await self._ledger.calls_of_account(request.account_id, states, after, page_size)
        return await self._ledger.calls(request.study_id, states, after, page_size)

    async def ExportJournal(
        self, request: pb.ExportJournalRequest, context: Context
    ) -> AsyncIterator[pb.ExportJournalResponse]:
        """Stream an account's journal, in messages that never grow too large."""
        checks.check_range("from_sequence", request.from_sequence, 0, limits.MAX_SEQUENCE)
        async for page in self._ledger.journal(request.account_id, request.from_sequence):
            for part in _in_parts(map(wire.write_entry, page)):
                yield pb.ExportJournalResponse(entries=part)


def _in_parts(messages: Iterable[M]) -> Iterator[list[M]]:
    """The messages in order, together at most `limits.MAX_PAGE_BYTES` in each part unless it is a single one."""
    part: list[M] = []
    size_bytes = 0
    for message in messages:
        size_bytes += message.ByteSize()
        if part and size_bytes > limits.MAX_PAGE_BYTES:
            yield part
            part, size_bytes = [], message.ByteSize()
        part.append(message)
    if part:
        yield part


def service_spec(servicer: LedgerServicer) -> ServiceSpec:
    """The ledger as the kit serves it."""
    return ServiceSpec(
        name="ledger",
        full_name=FULL_NAME,
        register=lambda server: ledger_pb2_grpc.add_LedgerServiceServicer_to_server(servicer, server),
        mutations=MUTATIONS,
    )
