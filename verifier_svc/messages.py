"""Reading the contract's messages into the verifier's own facts, and writing what it found. No rules."""

from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf.message import Message

from countersign.adapter.v1 import adapter_pb2
from countersign.environment.v1 import environment_pb2 as env
from countersign.kit.errors import InvalidArgument
from countersign.verifier.v1 import verifier_pb2 as pb
from verifier_svc.comparator import DEFAULT_STATE_LIMIT, MAX_STATE_LIMIT, Comparator
from verifier_svc.episode import RouteFacts
from verifier_svc.packets import DeclaredCase
from verifier_svc.packets.build import DEFAULT_LOSS_WEIGHTS
from verifier_svc.physics.trace import Difference, TraceEvent
from verifier_svc.receipts.cost import Price
from verifier_svc.receipts.requests import RequestPlan
from verifier_svc.receipts.strict import Limits, read
from verifier_svc.receipts.verdicts import Allowance, Inadmissible
from verifier_svc.receipts.wire import Expectation, WireFormat

SHOWN_CHARACTERS = 400
"""How much of a differing value is shown."""
DEFAULT_INPUT_LIMIT_BYTES = 20_000
DEFAULT_CAP_MEMBER = "max_tokens"


def members(message: Message) -> dict[str, Any]:
    """What is set in a message without nested ones, by field name."""
    return {field.name: value for field, value in message.ListFields()}


def environment_of(contract: env.Contract) -> str:
    """The environment's name by the contract's kind; raises InvalidArgument where there is none."""
    kind = contract.WhichOneof("kind")
    if kind is None:
        raise InvalidArgument("the contract is missing", field="contract")
    return kind


def terms_of(contract: env.Contract) -> dict[str, Any]:
    """The contract as a JSON object with the fields that are set."""
    return members(getattr(contract, environment_of(contract)))


def world_of(environment: str, world: env.World, field: str) -> dict[str, Any]:
    """The world as a JSON object; raises InvalidArgument where it is another environment's."""
    if world.WhichOneof("kind") != environment:
        raise InvalidArgument(f"{field} is not a world of the environment {environment}", field=field)
    return members(getattr(world, environment))


def case_of(definition: env.CaseDefinition) -> DeclaredCase:
    """What a plan says of a case."""
    environment = environment_of(definition.contract)
    return DeclaredCase(
        environment=environment,
        contract=terms_of(definition.contract),
        support=[world_of(environment, world, "support") for world in definition.support],
        prior=[_unsigned_zero(number) for number in definition.prior],
        procedure_instruction=definition.procedure_instruction,
        untrusted_message=definition.untrusted_message,
        operator_prefix=list(definition.operator_prefix),
        loss_weights={**DEFAULT_LOSS_WEIGHTS, **_weights(definition.loss_weights)},
    )


def _weights(message: env.LossWeights) -> dict[str, float]:
    return {name: _unsigned_zero(number) for name, number in members(message).items()}


def _unsigned_zero(number: float) -> float:
    """A packet has one spelling of zero."""
    return number + 0.0


def trace_of(events: Iterable[env.EventRecord]) -> list[TraceEvent]:
    """Events as handed in; one without a result is not compared byte for byte."""
    return [
        TraceEvent(
            sequence=event.sequence,
            tool=event.tool,
            claim=_claim(event.claim),
            start_tick=event.start_tick,
            end_tick=event.end_tick,
            result=event.result or None,
        )
        for event in events
    ]


def _claim(value: "env.Claim.ValueType") -> str | None:
    if value not in env.Claim.values():
        raise InvalidArgument("a claim is not known", field="events.claim")
    return None if value == env.CLAIM_UNSPECIFIED else env.Claim.Name(value).removeprefix("CLAIM_").lower()


def stated_outcome(message: env.Outcome) -> dict[str, Any]:
    """An outcome in the form of docs/formats.md: jobs become objects keyed by job.

    Counts are taken as they are; only what can be absent is left out where it is.
    """
    always = [field.name for field in message.DESCRIPTOR.fields if not field.has_presence and field.name != "jobs"]
    outcome = {name: getattr(message, name) for name in always}
    outcome |= {name: value for name, value in members(message).items() if name not in (*always, "jobs")}
    if message.jobs:
        outcome["saved"] = {job.job: job.saved for job in message.jobs}
        outcome["final_deadlines"] = {job.job: job.final_deadline for job in message.jobs}
    return outcome


def write_outcome(outcome: Mapping[str, Any]) -> env.Outcome:
    """A recomputed outcome on the wire."""
    if "final_deadlines" not in outcome:
        return env.Outcome(**outcome)
    plain = {name: value for name, value in outcome.items() if name not in ("saved", "final_deadlines")}
    deadlines = outcome["final_deadlines"]
    jobs = [env.JobOutcome(job=job, saved=outcome["saved"][job], final_deadline=deadlines[job]) for job in deadlines]
    return env.Outcome(**plain, jobs=jobs)


def state_limit_of(request: pb.SolveComparatorRequest) -> int:
    """The most belief states to visit, 0 being the default; raises InvalidArgument above what may be asked for."""
    if request.state_limit > MAX_STATE_LIMIT:
        raise InvalidArgument(f"state_limit is above {MAX_STATE_LIMIT}", field="state_limit")
    return request.state_limit or DEFAULT_STATE_LIMIT


def write_comparator(comparator: Comparator) -> pb.SolveComparatorResponse:
    """An exact comparator on the wire."""
    return pb.SolveComparatorResponse(
        expected_loss=comparator.expected_loss,
        first_action=comparator.first_action,
        states_count=comparator.states_count,
        policy=comparator.certificate.policy,
        certificate_digest=comparator.certificate.digest,
        certificate=comparator.certificate.statement,
    )


def route_of(route: adapter_pb2.Route) -> RouteFacts:
    """A frozen route as far as evidence can show it; raises InvalidArgument where its options are no JSON object."""
    limited = route.HasField("input_limit_bytes")
    return RouteFacts(
        request=RequestPlan(
            model=route.model,
            output_cap=route.output_cap,
            output_cap_member=route.output_cap_member or DEFAULT_CAP_MEMBER,
            options=_options(route.request_options_json),
            wire_format=_wire_format(route.wire_format),
            streamed=route.streamed,
        ),
        expectation=Expectation(
            model=route.identity.model or route.model,
            model_aliases=frozenset(route.identity.aliases),
            provider_name=route.identity.provider_name or None,
            output_cap=route.output_cap,
            allowances=frozenset(_allowance(value) for value in route.allowances),
        ),
        input_limit_bytes=route.input_limit_bytes if limited else DEFAULT_INPUT_LIMIT_BYTES,
        price=_price(route),
        charges_reported_cost=route.charge_reported_cost,
    )


def _options(text: str) -> dict[str, Any]:
    try:
        options = read((text or "{}").encode("utf-8"), Limits())
    except Inadmissible:
        options = None
    if not isinstance(options, dict):
        raise InvalidArgument("the route's options are not one JSON object", field="route.request_options_json")
    return options


def _wire_format(value: "adapter_pb2.WireFormat.ValueType") -> WireFormat:
    if value not in adapter_pb2.WireFormat.values() or value == adapter_pb2.WIRE_FORMAT_UNSPECIFIED:
        raise InvalidArgument("the route's wire format is not known", field="route.wire_format")
    return WireFormat[adapter_pb2.WireFormat.Name(value).removeprefix("WIRE_FORMAT_")]


def _allowance(value: "adapter_pb2.DialectAllowance.ValueType") -> Allowance:
    if value == adapter_pb2.DIALECT_ALLOWANCE_TOOL_CALLS_WITH_STOP:
        return Allowance.TOOL_CALLS_WITH_STOP
    raise InvalidArgument("an allowance is not known", field="route.allowances")


def _price(route: adapter_pb2.Route) -> Price | None:
    kind = route.WhichOneof("price")
    if kind is None:
        raise InvalidArgument("the route does not say what it costs", field="route.price")
    prices = route.tokens
    return (
        None
        if kind == "free"
        else Price(
            prices.input_per_million,
            prices.output_per_million,
            prices.cached_input_per_million,
            prices.cache_write_per_million,
        )
    )


def write_difference(difference: Difference) -> pb.Difference:
    """A difference on the wire, long values cut."""
    return pb.Difference(
        sequence=difference.sequence,
        field=difference.field,
        expected=_cut(difference.expected),
        actual=_cut(difference.actual),
    )


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}… ({len(text)} characters)"
