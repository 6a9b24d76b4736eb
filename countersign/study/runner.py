"""Running one episode: the adapter's stream in, one record out (design/study.md, Running)."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import grpc

from countersign.adapter.v1 import adapter_pb2 as adapter
from countersign.environment.v1 import environment_pb2 as env
from countersign.kit.canonical import canonical_json
from countersign.kit.rpc_errors import ServiceError, from_rpc_error
from countersign.ledger.v1 import ledger_pb2 as ledger
from countersign.study.cases import BuiltCase
from countersign.study.errors import ServiceFailed
from countersign.study.identities import Identity
from countersign.study.records import SCHEMA, Trace, ledger_call, stopped_members
from countersign.study.services import CALL_SECONDS, VERIFY_SECONDS, Services, ask, is_failure, service_trouble
from countersign.verifier.v1 import verifier_pb2 as verifier

DEADLINE_MARGIN_SECONDS = 120.0
"""What an episode gets beyond its turns' own limits."""

SETTLE_SECONDS = 60.0
"""How long an interrupted episode's last call may take to its receipt, before it is left to the ledger."""

SETTLE_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class EpisodeOrder:
    """One episode ready to run: what was planned, and the route at its address."""

    study_id: str
    manifest_digest: str
    currency: str
    identity: Identity
    environment: str
    case: BuiltCase
    world_index: int
    route: adapter.Route

    @property
    def world(self) -> env.World:
        """The realised world."""
        return self.case.definition.support[self.world_index]

    @property
    def deadline_seconds(self) -> float:
        """More than every turn at its longest."""
        return self.route.total_timeout.ToTimedelta().total_seconds() * self.case.calls_left + DEADLINE_MARGIN_SECONDS

    def planned_members(self) -> dict[str, Any]:
        """The record's members that were fixed before the run."""
        return {
            "schema": SCHEMA,
            "study_id": self.study_id,
            "episode_id": self.identity.episode_id,
            "manifest_digest": self.manifest_digest,
            "identity": self.identity.to_json(),
            "environment": self.environment,
            "world": self.case.packet["generative_support"][self.world_index],
            "contract": self.case.contract,
            "operator_prefix": list(self.case.definition.operator_prefix),
            "packet_digest": self.case.packet_digest.hex(),
            "wording_digest": self.case.wording_digest.hex(),
            "verification": None,
        }


async def run_episode(
    services: Services, order: EpisodeOrder, interrupted: asyncio.Event, settle_seconds: float = SETTLE_SECONDS
) -> dict[str, Any]:
    """Run the episode to its record, not yet verified; `interrupted` cancels it.

    A service that cannot be reached gives a stopped record. An interrupted episode's last call gets `settle_seconds`
    to be paid. Raises ServiceRefused where the adapter refuses the episode.
    """
    trace = Trace()
    stop = await _read_stream(services, order, trace, interrupted)
    ending = trace.ending() if stop is None else stopped_members(stop)
    if stop is not None or trace.ended is None:
        patience = settle_seconds if stop == "interrupted" else 0.0
        await _learn_calls(services, order, trace, patience)
    return {**order.planned_members(), **ending, **trace.members()}


async def verify_record(services: Services, order: EpisodeOrder, record: Mapping[str, Any]) -> dict[str, Any]:
    """The record's `verification`, from the verifier. Raises ServiceFailed and ServiceRefused."""
    answer = await ask(
        "verifier",
        services.verifier.VerifyEpisode,
        verifier.VerifyEpisodeRequest(
            study_id=order.study_id,
            episode_id=order.identity.episode_id,
            definition=order.case.definition,
            world=order.world,
            route=order.route,
            record=canonical_json({**record, "verification": None}),
            currency_code=order.currency,
        ),
        VERIFY_SECONDS,
    )
    return verification_json(answer)


def verification_json(answer: verifier.VerifyEpisodeResponse) -> dict[str, Any]:
    """The verifier's answer as a record holds it."""
    return {
        "agrees": answer.agrees,
        "differences": [difference_json(difference) for difference in answer.differences],
        "checked": list(answer.checked),
    }


def difference_json(difference: verifier.Difference) -> dict[str, Any]:
    """One difference between a recomputation (`expected`) and a statement (`actual`)."""
    return {
        "sequence": difference.sequence,
        "field": difference.field,
        "expected": difference.expected,
        "actual": difference.actual,
    }


async def _read_stream(services: Services, order: EpisodeOrder, trace: Trace, interrupted: asyncio.Event) -> str | None:
    """Read to the end; the category of a stop that came from this side of the stream, else None."""
    request = adapter.RunEpisodeRequest(
        study_id=order.study_id,
        episode_id=order.identity.episode_id,
        definition=order.case.definition,
        packet_digest=order.case.packet_digest,
        world=order.world,
        route=order.route,
        currency_code=order.currency,
    )
    stream = services.adapter.RunEpisode(request, timeout=order.deadline_seconds)
    watcher = asyncio.create_task(_cancel_when(interrupted, stream))
    try:
        async for message in stream:
            trace.accept(message)
    except asyncio.CancelledError:
        if not stream.cancelled() or not interrupted.is_set():
            raise
        return "interrupted"
    except grpc.aio.AioRpcError as error:
        return _category(from_rpc_error(error), interrupted)
    finally:
        watcher.cancel()
    return None


def _category(error: ServiceError, interrupted: asyncio.Event) -> str:
    if interrupted.is_set():
        return "interrupted"
    if is_failure(error):
        return "service_unavailable"
    raise service_trouble("adapter", error)


async def _cancel_when(interrupted: asyncio.Event, stream: Any) -> None:
    await interrupted.wait()
    stream.cancel()


async def _learn_calls(services: Services, order: EpisodeOrder, trace: Trace, patience_seconds: float) -> None:
    """Ask the ledger where the episode's calls stand; wait for one under way for as long as the patience lasts.

    The adapter takes a turn to its receipt or hold though its caller has gone: what it costs belongs to the record.
    """
    known = {key: call["replayed"] for key, call in trace.calls.items()}
    loop = asyncio.get_running_loop()
    give_up = loop.time() + patience_seconds
    while True:
        try:
            attempts = await _attempts(services, order)
        except ServiceFailed:
            return
        for call in attempts:
            key = (call.slot.turn, call.attempt)
            trace.calls[key] = ledger_call(call, replayed=known.get(key, False))
        under_way = any(call.state == ledger.CALL_STATE_RESERVED for call in attempts)
        if not under_way or loop.time() >= give_up:
            return
        await asyncio.sleep(SETTLE_POLL_SECONDS)


async def _attempts(services: Services, order: EpisodeOrder) -> list[ledger.Call]:
    """Every attempt of every slot of the episode that the ledger knows."""
    found: list[ledger.Call] = []
    for turn in range(1, order.case.calls_left + 1):
        slot = ledger.Slot(study_id=order.study_id, episode_id=order.identity.episode_id, turn=turn)
        try:
            answer = await services.ledger.GetCall(ledger.GetCallRequest(slot=slot), timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            trouble = from_rpc_error(error)
            if trouble.reason == "UNKNOWN_CALL":
                break
            raise ServiceFailed(service_trouble("ledger", trouble).message) from None
        found += answer.attempts
    return found
