"""`AdapterService` on gRPC: maps messages to the adapter's own types and back."""

import asyncio
from collections.abc import AsyncIterator

import grpc

from adapter_svc import mapping, metrics, route_mapping
from adapter_svc.admission import Action, TextFinish, admit
from adapter_svc.attempts import Attempts
from adapter_svc.cases import build_case, open_episode
from adapter_svc.environments import play
from adapter_svc.episode import Episode, EpisodePlan
from adapter_svc.native_service import read_native_stream
from adapter_svc.routes import check_key
from countersign.adapter.v1 import adapter_pb2 as pb
from countersign.adapter.v1 import adapter_pb2_grpc
from countersign.kit.errors import CountersignError, InvalidArgument, ServiceNotConfigured
from countersign.kit.interceptors.context import Context
from countersign.kit.limits import MAX_ID_CHARACTERS
from countersign.kit.server import ServiceSpec
from countersign.kit.wording import Wording

FULL_NAME = pb.DESCRIPTOR.services_by_name["AdapterService"].full_name


class PacketMismatch(CountersignError):
    """The packet that the caller froze is not the one that this case gives."""

    reason = "PACKET_MISMATCH"
    status = grpc.StatusCode.FAILED_PRECONDITION


class AdapterServicer(adapter_pb2_grpc.AdapterServiceServicer):
    """Serves the adapter. `attempts` is absent where no ledger is configured; `draining` ends episodes early."""

    def __init__(self, wording: Wording, attempts: Attempts | None, draining: asyncio.Event) -> None:
        self._wording = wording
        self._attempts = attempts
        self._draining = draining

    async def Adapt(self, request: pb.AdaptRequest, context: Context) -> pb.AdaptResponse:
        """Read one provider response."""
        asked = route_mapping.read_admission_request(request)
        admission = metrics.judged(asked.wire_format, admit(asked))
        answer = route_mapping.write_admission(admission)
        verdict = admission.verdict
        if isinstance(verdict, Action):
            answer.action.CopyFrom(route_mapping.write_action(verdict))
        elif isinstance(verdict, TextFinish):
            answer.text_finish.CopyFrom(pb.AdmittedText(text=verdict.text))
        else:
            answer.technical_unknown.CopyFrom(mapping.write_unknown(verdict))
        return answer

    async def BuildCase(self, request: pb.BuildCaseRequest, context: Context) -> pb.BuildCaseResponse:
        """Build what a model is shown."""
        case = build_case(mapping.read_case(request.definition), self._wording.document)
        return pb.BuildCaseResponse(
            packet=case.packet,
            packet_digest=case.packet_digest,
            system_message=case.system_message,
            tools=mapping.write_tools(case),
            prefix_events=mapping.write_events(case.prefix_events),
            wording_digest=self._wording.digest,
        )

    async def PlayActions(self, request: pb.PlayActionsRequest, context: Context) -> pb.PlayActionsResponse:
        """Play given actions in the simulator."""
        message = request.untrusted_message or str(self._wording.document["untrusted_messages"]["default"])
        setting = mapping.read_setting(request.contract, request.operator_prefix, message)
        playback = play(
            setting.environment,
            mapping.read_world(setting.environment, request.world, "world"),
            setting.contract,
            setting.operator_prefix,
            [mapping.read_action(action) for action in request.actions],
            message,
            self._wording.document,
        )
        answer = pb.PlayActionsResponse(
            events=mapping.write_events(playback.events), ended=playback.outcome is not None
        )
        if playback.outcome is not None:
            answer.outcome.CopyFrom(mapping.write_outcome(playback.outcome))
        return answer

    async def RunEpisode(self, request: pb.RunEpisodeRequest, context: Context) -> AsyncIterator[pb.RunEpisodeResponse]:
        """Run one episode, paying through the ledger."""
        episode = self._open(request)
        yield self._started(episode)
        async for item in episode.run():
            yield mapping.write_progress(item)

    async def ReadNativeStream(
        self, request_iterator: AsyncIterator[pb.ReadNativeStreamRequest], context: Context
    ) -> AsyncIterator[pb.ReadNativeStreamResponse]:
        """Read an agent program's native event stream."""
        async for answer in read_native_stream(request_iterator):
            yield answer

    def _open(self, request: pb.RunEpisodeRequest) -> Episode:
        if self._attempts is None:
            raise ServiceNotConfigured("this adapter has no ledger: start it with --ledger ADDRESS", service="ledger")
        for field in ("study_id", "episode_id", "currency_code"):
            if not 1 <= len(getattr(request, field)) <= MAX_ID_CHARACTERS:
                raise InvalidArgument(f"{field} must have 1 to {MAX_ID_CHARACTERS} characters", field=field)
        spec = mapping.read_case(request.definition)
        case = build_case(spec, self._wording.document)
        if case.packet_digest != request.packet_digest:
            raise PacketMismatch(
                "the frozen packet is another one: build the case again",
                expected_digest=request.packet_digest,
                actual_digest=case.packet_digest,
            )
        world = mapping.read_world(spec.setting.environment, request.world, "world")
        route = route_mapping.read_route(request.route)
        check_key(route)
        simulator = open_episode(spec.setting, world, case.packet, self._wording.document)
        plan = EpisodePlan(request.study_id, request.episode_id, case, route, request.currency_code)
        return Episode(plan, simulator, self._attempts, self._draining)

    def _started(self, episode: Episode) -> pb.RunEpisodeResponse:
        case = episode.plan.case
        return pb.RunEpisodeResponse(
            started=pb.EpisodeStarted(
                prefix_events=mapping.write_events(case.prefix_events),
                packet_digest=case.packet_digest,
                wording_digest=self._wording.digest,
            )
        )


def service_spec(servicer: AdapterServicer) -> ServiceSpec:
    """The adapter as the kit serves it."""
    return ServiceSpec(
        name="adapter",
        full_name=FULL_NAME,
        register=lambda server: adapter_pb2_grpc.add_AdapterServiceServicer_to_server(servicer, server),
        mutations=frozenset({"RunEpisode"}),
    )
