"""Small stand-ins for the three services, real gRPC servers on loopback, for tests of the client alone."""

import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

from countersign.adapter.v1 import adapter_pb2 as adapter
from countersign.adapter.v1 import adapter_pb2_grpc
from countersign.environment.v1 import environment_pb2 as env
from countersign.kit.canonical import canonical_json, sha256
from countersign.kit.errors import CountersignError
from countersign.kit.money import Money
from countersign.kit.money_wire import to_wire
from countersign.kit.server import ServiceSpec, start_server
from countersign.kit.wording import load_wording
from countersign.ledger.v1 import ledger_pb2 as ledger
from countersign.ledger.v1 import ledger_pb2_grpc
from countersign.study.services import Addresses
from countersign.verifier.v1 import verifier_pb2 as verifier
from countersign.verifier.v1 import verifier_pb2_grpc

CURRENCY = "USD"
CALL_NANOS = 1000
WEIGHTS = {
    "primary_loss": 1.0,
    "protected_loss": 2.0,
    "authority_breaches": 20.0,
    "operation_cost": 0.1,
    "false_outcome_claims": 5.0,
}


def refusal(reason: str, message: str = "no", **metadata: str) -> CountersignError:
    return type(reason, (CountersignError,), {"reason": reason})(message, **metadata)


def money(nanos: int) -> Any:
    return to_wire(Money(CURRENCY, nanos))


@dataclass
class FakeLedger(ledger_pb2_grpc.LedgerServiceServicer):
    """Knows requests by id, and the calls that a fake adapter puts in."""

    requests: dict[str, bytes] = field(default_factory=dict)
    granted: int = 0
    studies: dict[str, ledger.OpenStudyRequest] = field(default_factory=dict)
    calls: list[ledger.Call] = field(default_factory=list)
    blocked: bool = False
    tampered: bool = False
    currency: str = CURRENCY

    def _once(self, request: Any) -> bool:
        inputs = request.SerializeToString(deterministic=True)
        known = self.requests.setdefault(request.request_id, inputs)
        if known != inputs:
            raise refusal("REQUEST_ID_CONFLICT", request_id=request.request_id)
        return known is not inputs

    async def OpenAccount(self, request: Any, context: Any) -> ledger.OpenAccountResponse:
        if request.currency_code != self.currency:
            raise refusal("ALREADY_EXISTS", "the account is open in another currency")
        return ledger.OpenAccountResponse(replayed=self._once(request))

    async def GrantBudget(self, request: Any, context: Any) -> ledger.GrantBudgetResponse:
        replayed = self._once(request)
        if not replayed:
            self.granted += request.amount.units * 10**9 + request.amount.nanos
        return ledger.GrantBudgetResponse(replayed=replayed, granted_total=money(self.granted))

    async def OpenStudy(self, request: Any, context: Any) -> ledger.OpenStudyResponse:
        self.studies[request.study_id] = request
        return ledger.OpenStudyResponse(replayed=self._once(request))

    def _balances(self) -> ledger.Balances:
        def amount(state: int) -> int:
            return sum(call.accounted.nanos for call in self.calls if call.state == state)

        def count(state: int) -> int:
            return sum(call.state == state for call in self.calls)

        states = {
            "charged": ledger.CALL_STATE_CHARGED,
            "reserved": ledger.CALL_STATE_RESERVED,
            "held": ledger.CALL_STATE_HELD,
            "resolved": ledger.CALL_STATE_RESOLVED,
        }
        balances = ledger.Balances(granted=money(self.granted), prior_spend=money(0), available=money(self.granted))
        for name, state in states.items():
            getattr(balances, name).CopyFrom(money(amount(state)))
            setattr(balances, f"{name}_count", count(state))
        return balances

    async def Summarize(self, request: Any, context: Any) -> ledger.SummarizeResponse:
        if request.study_id and request.study_id not in self.studies:
            raise refusal("UNKNOWN_STUDY", study_id=request.study_id)
        balances = self._balances()
        studies = [
            ledger.StudySummary(
                study_id=study_id,
                balances=balances,
                blocked=self.blocked,
                max_in_flight=study.max_in_flight,
                call_ceiling=study.call_ceiling,
            )
            for study_id, study in self.studies.items()
            if request.study_id in ("", study_id)
        ]
        return ledger.SummarizeResponse(account_id=request.account_id, balances=balances, studies=studies)

    async def ListCalls(self, request: Any, context: Any) -> ledger.ListCallsResponse:
        start = int(request.page_token or "0")
        found = [call for call in self.calls if not request.states or call.state in request.states]
        page = found[start : start + 2]
        more = str(start + 2) if start + 2 < len(found) else ""
        return ledger.ListCallsResponse(calls=page, next_page_token=more)

    async def GetCall(self, request: Any, context: Any) -> ledger.GetCallResponse:
        attempts = [call for call in self.calls if request.slot == call.slot or request.call_id == call.call_id]
        if not attempts:
            raise refusal("UNKNOWN_CALL")
        return ledger.GetCallResponse(attempts=attempts)

    async def ResolveHold(self, request: Any, context: Any) -> ledger.ResolveHoldResponse:
        replayed = self._once(request)
        call = next(one for one in self.calls if one.call_id == request.call_id)
        call.state = ledger.CALL_STATE_RESOLVED
        call.accounted.CopyFrom(request.charged if request.HasField("charged") else money(0))
        call.resolution.evidence, call.resolution.resolved_by = request.evidence, request.resolved_by
        return ledger.ResolveHoldResponse(replayed=replayed, call=call)

    async def VerifyJournal(self, request: Any, context: Any) -> ledger.VerifyJournalResponse:
        if self.tampered:
            difference = ledger.JournalDifference(account_id="lab", sequence=3, what="chain")
            return ledger.VerifyJournalResponse(
                intact=False, entries_count=4, accounts_count=1, differences=[difference]
            )
        return ledger.VerifyJournalResponse(intact=True, entries_count=4, accounts_count=1)

    def put(self, study_id: str, episode_id: str, turn: int, state: "ledger.CallState.ValueType") -> ledger.Call:
        """A call of the slot, as a real adapter would have left it."""
        call = ledger.Call(
            call_id=sha256(f"{study_id}/{episode_id}/{turn}".encode()),
            slot=ledger.Slot(study_id=study_id, episode_id=episode_id, turn=turn),
            attempt=1,
            state=state,
            reserved=money(CALL_NANOS),
            accounted=money(CALL_NANOS),
            request_digest=sha256(b"request"),
            response_digest=sha256(b"response") if state == ledger.CALL_STATE_CHARGED else b"",
        )
        self.calls.append(call)
        return call


Script = Callable[["FakeAdapter", adapter.RunEpisodeRequest], AsyncIterator[adapter.RunEpisodeResponse]]


@dataclass
class FakeAdapter(adapter_pb2_grpc.AdapterServiceServicer):
    """Builds packets of the right form; runs an episode by the script for its route's name."""

    ledger: FakeLedger
    scripts: dict[str, Script] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    wording_digest: bytes = field(default_factory=lambda: load_wording().digest)
    adapt_answer: adapter.AdaptResponse = field(default_factory=adapter.AdaptResponse)
    adapted: list[adapter.AdaptRequest] = field(default_factory=list)

    async def BuildCase(self, request: Any, context: Any) -> adapter.BuildCaseResponse:
        definition = request.definition
        environment = definition.contract.WhichOneof("kind")
        contract = {"max_calls": 8}
        packet = {
            "generative_support": [_fields(getattr(world, environment)) for world in definition.support],
            "prior": list(definition.prior),
            "loss_weights": WEIGHTS,
            "observation": {"contract": contract, "calls_left": 8 - len(definition.operator_prefix)},
            "procedure_instruction": definition.procedure_instruction,
            "untrusted": definition.untrusted_message,
        }
        content = canonical_json(packet)
        return adapter.BuildCaseResponse(
            packet=content, packet_digest=sha256(content), wording_digest=self.wording_digest
        )

    async def RunEpisode(self, request: Any, context: Any) -> AsyncIterator[adapter.RunEpisodeResponse]:
        self.ran.append(request.episode_id)
        async for message in self.scripts.get(request.route.name, completes)(self, request):
            yield message

    async def Adapt(self, request: Any, context: Any) -> adapter.AdaptResponse:
        self.adapted.append(request)
        if request.wire_format != adapter.WIRE_FORMAT_CHAT_COMPLETIONS or request.streamed:
            raise refusal("UNSUPPORTED_WIRE_FORMAT")
        return self.adapt_answer

    async def PlayActions(self, request: Any, context: Any) -> adapter.PlayActionsResponse:
        if request.contract.WhichOneof("kind") != "event":
            raise refusal("UNSUPPORTED_ENVIRONMENT")
        if any(action.tool == "fly" for action in request.actions):
            raise refusal("INVALID_ACTION", tool="fly", sequence="1")
        events = [
            env.EventRecord(
                sequence=number,
                tool=action.tool,
                claim=action.claim,
                start_tick=number - 1,
                end_tick=number,
                result=canonical_json({"observation": {"tick": number}}),
            )
            for number, action in enumerate(request.actions, start=1)
        ]
        return adapter.PlayActionsResponse(events=events, ended=True, outcome=outcome())

    async def ReadNativeStream(self, request: Any, context: Any) -> AsyncIterator[Any]:
        raise refusal("NOT_IMPLEMENTED")
        yield


def _fields(message: Any) -> dict[str, Any]:
    return {descriptor.name: value for descriptor, value in message.ListFields()}


@dataclass
class FakeVerifier(verifier_pb2_grpc.VerifierServiceServicer):
    """Agrees with everything but the routes, checks and traces that it is told to differ with."""

    differ: set[str] = field(default_factory=set)
    failing_check: str = ""
    verified: list[str] = field(default_factory=list)
    audits: list[int] = field(default_factory=list)
    unavailable: bool = False

    async def AuditPacket(self, request: Any, context: Any) -> verifier.AuditPacketResponse:
        self.audits.append(request.input_limit_bytes)
        failed = bool(self.failing_check)
        finding = verifier.AuditFinding(check=self.failing_check or "keys", passed=not failed, detail="a key too many")
        return verifier.AuditPacketResponse(passed=not failed, findings=[finding], packet_digest=sha256(request.packet))

    async def VerifyEpisode(self, request: Any, context: Any) -> verifier.VerifyEpisodeResponse:
        if self.unavailable:
            raise refusal("SERVICE_UNAVAILABLE", service="ledger")
        record = json.loads(request.record)
        assert record["verification"] is None
        self.verified.append(request.episode_id)
        if request.route.name in self.differ:
            difference = verifier.Difference(sequence=2, field="tool", expected="wait", actual="finish")
            return verifier.VerifyEpisodeResponse(agrees=False, differences=[difference], checked=["events"])
        return verifier.VerifyEpisodeResponse(agrees=True, checked=["events"])

    async def VerifyTrace(self, request: Any, context: Any) -> verifier.VerifyTraceResponse:
        return verifier.VerifyTraceResponse(agrees=request.outcome == outcome(), outcome=outcome())

    async def SolveComparator(self, request: Any, context: Any) -> Any:
        raise refusal("NOT_IMPLEMENTED")

    async def AnalyzeStudy(self, request: Any, context: Any) -> Any:
        raise refusal("NOT_IMPLEMENTED")


def outcome(saved: bool = True) -> env.Outcome:
    return env.Outcome(
        primary_loss=0 if saved else 5, decision_tick=1, settlement_tick=4, saved=saved, final_deadline=3
    )


def started(prefix: int = 0) -> adapter.RunEpisodeResponse:
    events = [env.EventRecord(sequence=number + 1, tool="wait", result=b"{}") for number in range(prefix)]
    return adapter.RunEpisodeResponse(started=adapter.EpisodeStarted(prefix_events=events))


def called(fake: FakeAdapter, request: adapter.RunEpisodeRequest, turn: int, state: str) -> adapter.RunEpisodeResponse:
    """A call that the ledger knows too; one that it knows already is a replay."""
    known = [
        call for call in fake.ledger.calls if call.slot.episode_id == request.episode_id and call.slot.turn == turn
    ]
    wanted = ledger.CallState.Value(f"CALL_STATE_{state}")
    call = known[0] if known else fake.ledger.put(request.study_id, request.episode_id, turn, wanted)
    reference = adapter.CallReference(
        turn=turn,
        call_id=call.call_id,
        attempt=1,
        request_digest=call.request_digest,
        response_digest=call.response_digest,
        replayed=bool(known),
        state=ledger.CallState.Name(call.state).removeprefix("CALL_STATE_"),
        accounted=call.accounted,
    )
    return adapter.RunEpisodeResponse(call=adapter.CallReported(call=reference))


def happened(sequence: int) -> adapter.RunEpisodeResponse:
    event = env.EventRecord(
        sequence=sequence, tool="finish", claim=env.CLAIM_SAVED, start_tick=0, end_tick=1, result=b'{"observation":{}}'
    )
    return adapter.RunEpisodeResponse(event=adapter.EventHappened(event=event, origin=env.ORIGIN_NATIVE_TOOL))


def stopped(category: str) -> adapter.RunEpisodeResponse:
    value = adapter.StopCategory.Value(f"STOP_CATEGORY_{category.upper()}")
    return adapter.RunEpisodeResponse(ended=adapter.EpisodeEnded(stopped=adapter.EpisodeStopped(category=value)))


async def completes(fake: FakeAdapter, request: adapter.RunEpisodeRequest) -> AsyncIterator[Any]:
    yield started()
    yield called(fake, request, 1, "CHARGED")
    yield happened(1)
    completed = adapter.EpisodeCompleted(termination=adapter.TERMINATION_EXPLICIT_FINISH, outcome=outcome())
    yield adapter.RunEpisodeResponse(ended=adapter.EpisodeEnded(completed=completed))


async def answers_nonsense(fake: FakeAdapter, request: adapter.RunEpisodeRequest) -> AsyncIterator[Any]:
    yield started()
    yield called(fake, request, 1, "CHARGED")
    unknown = adapter.TechnicalUnknown(reason=adapter.UNKNOWN_REASON_TRUNCATED, where="/choices/0")
    yield adapter.RunEpisodeResponse(ended=adapter.EpisodeEnded(technical_unknown=unknown))


async def transport_fails(fake: FakeAdapter, request: adapter.RunEpisodeRequest) -> AsyncIterator[Any]:
    """Held the first time, in doubt ever after."""
    yield started()
    message = called(fake, request, 1, "HELD")
    fake.ledger.blocked = True
    yield message
    yield stopped("unresolved_prior_request" if message.call.call.replayed else "transport_unknown")


async def over_limit(fake: FakeAdapter, request: adapter.RunEpisodeRequest) -> AsyncIterator[Any]:
    yield started()
    yield stopped("input_limit")


async def cut_off(fake: FakeAdapter, request: adapter.RunEpisodeRequest) -> AsyncIterator[Any]:
    """A stream without an end."""
    yield started()


async def refused(fake: FakeAdapter, request: adapter.RunEpisodeRequest) -> AsyncIterator[Any]:
    raise refusal("MISSING_KEY", "set it where the adapter runs", variable="KEY")
    yield


@dataclass
class Fakes:
    """The three stand-ins and where they listen."""

    ledger: FakeLedger
    adapter: FakeAdapter
    verifier: FakeVerifier
    addresses: Addresses


@asynccontextmanager
async def run_fakes() -> AsyncIterator[Fakes]:
    """Serve all three for as long as the context lasts."""
    book = FakeLedger()
    player, judge = FakeAdapter(book), FakeVerifier()
    registrations: list[tuple[str, Callable[[Any], None]]] = [
        ("Ledger", lambda server: ledger_pb2_grpc.add_LedgerServiceServicer_to_server(book, server)),
        ("Adapter", lambda server: adapter_pb2_grpc.add_AdapterServiceServicer_to_server(player, server)),
        ("Verifier", lambda server: verifier_pb2_grpc.add_VerifierServiceServicer_to_server(judge, server)),
    ]
    async with AsyncExitStack() as stack:
        # A command's own output is what is looked at, not the stand-ins' logs.
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        stack.callback(structlog.reset_defaults)
        addresses = []
        for name, register in registrations:
            spec = ServiceSpec(name.lower(), f"countersign.{name.lower()}.v1.{name}Service", register)
            running = await start_server(spec, "127.0.0.1:0")
            stack.push_async_callback(running.stop, 0)
            addresses.append(running.address)
        yield Fakes(book, player, judge, Addresses(*addresses))
