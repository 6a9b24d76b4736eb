"""Between protobuf and the adapter's own types. No rules: what a type refuses, it refuses itself."""

from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf.message import Message

from adapter_svc.admission import TechnicalUnknown
from adapter_svc.attempts import StopCategory
from adapter_svc.cases import Case, CaseSpec, LossWeights
from adapter_svc.environments import (
    Action,
    Claim,
    Contract,
    EventRecord,
    Outcome,
    Setting,
    World,
    contract_from_json,
    world_from_json,
)
from adapter_svc.environments.errors import CaseFault
from adapter_svc.environments.fields import from_json
from adapter_svc.episode import CallKnown, Completed, EventHappened, Progress, Stopped
from countersign.adapter.v1 import adapter_pb2 as pb
from countersign.environment.v1 import environment_pb2 as env
from countersign.kit.canonical import canonical_json
from countersign.kit.errors import InvalidArgument
from countersign.kit.money_wire import to_wire

CLAIMS: "dict[env.Claim.ValueType, Claim | None]" = {
    env.CLAIM_UNSPECIFIED: None,
    env.CLAIM_SAVED: Claim.SAVED,
    env.CLAIM_NOT_SAVED: Claim.NOT_SAVED,
    env.CLAIM_UNKNOWN: Claim.UNKNOWN,
}
CLAIM_VALUES = {claim: value for value, claim in CLAIMS.items()}


def set_fields(message: Message) -> dict[str, Any]:
    """The fields that are set in `message`, by name."""
    return {descriptor.name: value for descriptor, value in message.ListFields()}


def read_contract(message: env.Contract) -> tuple[str, Contract]:
    """The environment's name and its contract; raises InvalidArgument, InvalidCase or UnsupportedEnvironment."""
    kind = message.WhichOneof("kind")
    if kind is None:
        raise InvalidArgument("the contract is missing", field="contract")
    return kind, contract_from_json(kind, set_fields(getattr(message, kind)))


def read_world(environment: str, message: env.World, field: str) -> World:
    """A world of `environment`; raises InvalidArgument where it is another's, or InvalidCase."""
    kind = message.WhichOneof("kind")
    if kind != environment:
        raise InvalidArgument(f"{field} is not a world of the environment {environment}", field=field)
    return world_from_json(environment, set_fields(getattr(message, kind)))


def read_setting(contract: env.Contract, prefix: Iterable[str], untrusted_message: str) -> Setting:
    """Everything about an episode but its world."""
    environment, terms = read_contract(contract)
    return Setting(environment, terms, tuple(prefix), untrusted_message)


def read_case(definition: env.CaseDefinition) -> CaseSpec:
    """What a case is built from."""
    setting = read_setting(definition.contract, definition.operator_prefix, definition.untrusted_message)
    support = (read_world(setting.environment, world, "support") for world in definition.support)
    return CaseSpec(
        setting=setting,
        support=tuple(support),
        prior=tuple(definition.prior),
        weights=from_json(CaseFault.LOSS_WEIGHTS, LossWeights, set_fields(definition.loss_weights)),
        procedure_instruction=definition.procedure_instruction,
    )


def read_action(message: env.Action) -> Action:
    """An action as asked for, not yet judged."""
    return Action(message.tool, CLAIMS.get(message.claim))


def write_event(event: EventRecord) -> env.EventRecord:
    """An event on the wire."""
    return env.EventRecord(
        sequence=event.sequence,
        tool=event.tool,
        claim=CLAIM_VALUES[event.claim],
        start_tick=event.start_tick,
        end_tick=event.end_tick,
        result=event.result,
    )


def write_events(events: Sequence[EventRecord]) -> list[env.EventRecord]:
    """Events on the wire."""
    return [write_event(event) for event in events]


def write_outcome(outcome: Outcome) -> env.Outcome:
    """An outcome on the wire: jobs where the environment has them."""
    fields = outcome.to_json()
    deadlines = fields.pop("final_deadlines", None)
    if deadlines is None:
        return env.Outcome(**fields)
    saved = fields.pop("saved")
    jobs = [env.JobOutcome(job=job, saved=saved[job], final_deadline=deadlines[job]) for job in sorted(saved)]
    return env.Outcome(jobs=jobs, **fields)


def write_tools(case: Case) -> list[pb.Tool]:
    """The offered tools on the wire."""
    return [
        pb.Tool(
            name=tool["name"],
            description=tool["description"],
            parameters_json=canonical_json(tool["parameters"]).decode("utf-8"),
        )
        for tool in case.tools
    ]


def write_progress(item: Progress) -> pb.RunEpisodeResponse:
    """One thing that happened, on the wire."""
    if isinstance(item, CallKnown):
        return pb.RunEpisodeResponse(call=pb.CallReported(call=_write_call(item)))
    if isinstance(item, EventHappened):
        origin = env.Origin.Value(f"ORIGIN_{item.origin.value}")
        return pb.RunEpisodeResponse(event=pb.EventHappened(event=write_event(item.event), origin=origin))
    if isinstance(item, Completed):
        termination = pb.Termination.Value(f"TERMINATION_{item.termination.value}")
        completed = pb.EpisodeCompleted(termination=termination, outcome=write_outcome(item.outcome))
        return pb.RunEpisodeResponse(ended=pb.EpisodeEnded(completed=completed))
    if isinstance(item, Stopped):
        stopped = pb.EpisodeStopped(category=_stop_category(item.category))
        return pb.RunEpisodeResponse(ended=pb.EpisodeEnded(stopped=stopped))
    return pb.RunEpisodeResponse(ended=pb.EpisodeEnded(technical_unknown=write_unknown(item)))


def write_unknown(verdict: TechnicalUnknown) -> pb.TechnicalUnknown:
    """A technical unknown on the wire."""
    reason = pb.UnknownReason.Value(f"UNKNOWN_REASON_{verdict.reason.value}")
    return pb.TechnicalUnknown(reason=reason, where=verdict.where)


def _stop_category(category: StopCategory) -> "pb.StopCategory.ValueType":
    return pb.StopCategory.Value(f"STOP_CATEGORY_{category.value}")


def _write_call(known: CallKnown) -> pb.CallReference:
    call = known.call
    return pb.CallReference(
        turn=call.turn,
        call_id=call.call_id,
        attempt=call.attempt,
        request_digest=call.request_digest,
        response_digest=call.response_digest,
        replayed=known.replayed,
        state=call.state.value,
        accounted=to_wire(call.accounted),
    )
