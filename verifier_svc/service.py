"""`VerifierService` on gRPC: maps messages to the verifier's own facts and back."""

from collections.abc import AsyncIterator

from countersign.kit.canonical import sha256
from countersign.kit.errors import InvalidArgument, ServiceNotConfigured
from countersign.kit.interceptors.context import Context
from countersign.kit.money import Money
from countersign.kit.money_wire import to_wire
from countersign.kit.observability import tracing
from countersign.kit.server import ServiceSpec
from countersign.kit.wording import Wording
from countersign.verifier.v1 import verifier_pb2 as pb
from countersign.verifier.v1 import verifier_pb2_grpc
from verifier_svc import messages, metrics
from verifier_svc.episode import EpisodeFacts, verify_episode
from verifier_svc.evidence import Evidence
from verifier_svc.metrics import Subject
from verifier_svc.packets import audit_packet
from verifier_svc.physics.trace import verify_trace
from verifier_svc.solving import Solving
from verifier_svc.studies import analyse_study, read_parts

FULL_NAME = pb.DESCRIPTOR.services_by_name["VerifierService"].full_name


class VerifierServicer(verifier_pb2_grpc.VerifierServiceServicer):
    """Serves the verifier. `evidence` is absent where no ledger is configured."""

    def __init__(self, wording: Wording, evidence: Evidence | None) -> None:
        self._wording = wording
        self._evidence = evidence
        self._solving = Solving()

    async def VerifyTrace(self, request: pb.VerifyTraceRequest, context: Context) -> pb.VerifyTraceResponse:
        """Replay a trace and compare."""
        environment = messages.environment_of(request.contract)
        default_message = str(self._wording.document["untrusted_messages"]["default"])
        verdict = verify_trace(
            environment,
            messages.world_of(environment, request.world, "world"),
            messages.terms_of(request.contract),
            list(request.operator_prefix),
            messages.trace_of(request.events),
            messages.stated_outcome(request.outcome) if request.HasField("outcome") else None,
            request.untrusted_message or default_message,
            self._wording.document,
        )
        metrics.verified(Subject.TRACE, (difference.field for difference in verdict.differences))
        answer = pb.VerifyTraceResponse(
            agrees=verdict.agrees,
            differences=[messages.write_difference(difference) for difference in verdict.differences],
        )
        if verdict.outcome is not None:
            answer.outcome.CopyFrom(messages.write_outcome(verdict.outcome))
        return answer

    async def VerifyEpisode(self, request: pb.VerifyEpisodeRequest, context: Context) -> pb.VerifyEpisodeResponse:
        """Rebuild an episode from the ledger's receipts and compare it with its record."""
        evidence = self._require_evidence()
        for field in ("study_id", "episode_id", "currency_code"):
            if not getattr(request, field):
                raise InvalidArgument(f"{field} is missing", field=field)
        facts = self._facts(request)
        stored = await evidence.of_episode(request.study_id, request.episode_id)
        verdict = verify_episode(request.record, facts, stored)
        metrics.verified(Subject.EPISODE, (difference.field for difference in verdict.differences))
        tracing.annotate({"countersign.agrees": verdict.agrees, "countersign.differences": len(verdict.differences)})
        answer = pb.VerifyEpisodeResponse(
            agrees=verdict.agrees,
            differences=[messages.write_difference(difference) for difference in verdict.differences],
            checked=verdict.checked,
            status=verdict.status.value,
            accounted=to_wire(Money(request.currency_code, verdict.accounted_nanos)),
        )
        if verdict.outcome is not None:
            answer.outcome.CopyFrom(messages.write_outcome(verdict.outcome))
        return answer

    async def AuditPacket(self, request: pb.AuditPacketRequest, context: Context) -> pb.AuditPacketResponse:
        """Audit a public packet."""
        limited = request.HasField("input_limit_bytes")
        limit = request.input_limit_bytes if limited else messages.DEFAULT_INPUT_LIMIT_BYTES
        case = messages.case_of(request.definition)
        findings = audit_packet(request.packet, case, self._wording.document, limit)
        return pb.AuditPacketResponse(
            passed=all(finding.passed for finding in findings),
            findings=[
                pb.AuditFinding(check=finding.check.value, passed=finding.passed, detail=finding.detail)
                for finding in findings
            ],
            packet_digest=sha256(request.packet),
        )

    async def SolveComparator(self, request: pb.SolveComparatorRequest, context: Context) -> pb.SolveComparatorResponse:
        """Solve a case exactly, in a worker thread that stops when nobody waits for it any more."""
        comparator = await self._solving.solve(
            messages.case_of(request.definition), messages.state_limit_of(request), request.raw_histories
        )
        return messages.write_comparator(comparator)

    async def AnalyzeStudy(
        self, request_iterator: AsyncIterator[pb.AnalyzeStudyRequest], context: Context
    ) -> AsyncIterator[pb.AnalyzeStudyResponse]:
        """Analyse a whole study from its receipts and records."""
        evidence = self._require_evidence()
        parts = await read_parts(request_iterator)
        async for message in analyse_study(parts, evidence, self._wording, self._solving.expected_loss):
            yield message

    def _require_evidence(self) -> Evidence:
        if self._evidence is None:
            message = "this verifier has no ledger: start it with --ledger ADDRESS"
            raise ServiceNotConfigured(message, service="ledger")
        return self._evidence

    def _facts(self, request: pb.VerifyEpisodeRequest) -> EpisodeFacts:
        case = messages.case_of(request.definition)
        return EpisodeFacts(
            study_id=request.study_id,
            episode_id=request.episode_id,
            case=case,
            world=messages.world_of(case.environment, request.world, "world"),
            route=messages.route_of(request.route),
            wording=self._wording.document,
            wording_digest=self._wording.digest.hex(),
        )


def service_spec(servicer: VerifierServicer) -> ServiceSpec:
    """The verifier as the kit serves it; it changes nothing anywhere."""
    return ServiceSpec(
        name="verifier",
        full_name=FULL_NAME,
        register=lambda server: verifier_pb2_grpc.add_VerifierServiceServicer_to_server(servicer, server),
    )
