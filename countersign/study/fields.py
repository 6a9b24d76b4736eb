"""Worlds, contracts, weights and outcomes between JSON or TOML and the wire (docs/formats.md).

The contracts' own messages say which fields there are and of which kind; a bool is never taken for an integer.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from countersign.environment.v1 import environment_pb2 as env
from countersign.study.errors import BadFields

ENVIRONMENTS = ("event", "queue", "pending", "probe")
"""The environments of the contract; which of them a service supports is the service's to say."""

COMMON_OUTCOME = (
    "primary_loss",
    "protected_loss",
    "authority_breaches",
    "operation_cost",
    "false_outcome_claims",
    "decision_tick",
    "settlement_tick",
)
LOSSES = COMMON_OUTCOME[:5]
"""The five counts that a loss weighs."""

CLAIMS = {"saved": env.CLAIM_SAVED, "not_saved": env.CLAIM_NOT_SAVED, "unknown": env.CLAIM_UNKNOWN}
"""Claims as written in JSON."""

_OPTIONAL_OUTCOME = (
    "final_deadline",
    "final_operation_state",
    "reserve_remaining",
    "diagnostic_consumption",
    "executed_rescues",
)
_REQUIRED_WORLD = {
    "event": ("need", "effective"),
    "queue": ("need_a", "need_b"),
    "pending": ("need",),
    "probe": ("need",),
}
_LOWEST_TERMS = {("pending", "commit_tick"): 3, ("pending", "deadline"): 3}
"""Where a term must be above the tick at which its environment starts (design/environments.md, Pending commitment)."""

M = TypeVar("M", bound=Message)


def read_world(environment: str, fields: Mapping[str, Any]) -> env.World:
    """The world that `fields` describe; null means absent. Raises BadFields, which names the field."""
    world = env.World()
    given = {key: value for key, value in fields.items() if value is not None}
    _fill(_kind(world, environment), given, "world")
    for name in _REQUIRED_WORLD[environment]:
        if name not in given:
            raise BadFields(f"world.{name}: missing")
    if ("change_tick" in given) != ("changed_need" in given):
        raise BadFields("world.changed_need: goes with change_tick, give both or neither")
    return world


def read_contract(environment: str, fields: Mapping[str, Any]) -> env.Contract:
    """The contract that `fields` describe; absent ones take the service's defaults. Raises BadFields."""
    contract = env.Contract()
    _fill(_kind(contract, environment), fields, "contract")
    for name, value in fields.items():
        lowest = _LOWEST_TERMS.get((environment, name), 1)
        if type(value) is int and not lowest <= value <= 100:
            raise BadFields(f"contract.{name}: must be {lowest} to 100")
    return contract


def contract_fields(environment: str) -> list[str]:
    """The fields of the environment's contract. Raises BadFields."""
    return [field.name for field in _kind(env.Contract(), environment).DESCRIPTOR.fields]


def read_weights(fields: Mapping[str, Any]) -> env.LossWeights:
    """Loss weights; absent ones take the defaults. Raises BadFields."""
    weights = env.LossWeights()
    _fill(weights, fields, "loss_weights")
    return weights


def read_claim(text: Any) -> "env.Claim.ValueType":
    """A claim as JSON writes it; null is none. Raises BadFields."""
    if text is None:
        return env.CLAIM_UNSPECIFIED
    if not isinstance(text, str) or text not in CLAIMS:
        raise BadFields(f"claim: must be one of {', '.join(CLAIMS)}, or null")
    return CLAIMS[text]


def claim_text(claim: "env.Claim.ValueType") -> str | None:
    """The claim as JSON writes it."""
    return next((text for text, value in CLAIMS.items() if value == claim), None)


def read_outcome(fields: Mapping[str, Any]) -> env.Outcome:
    """An outcome as docs/formats.md writes it. Raises BadFields."""
    flat = dict(fields)
    saved, deadlines = flat.get("saved"), flat.pop("final_deadlines", None)
    outcome = env.Outcome()
    if isinstance(saved, Mapping):
        del flat["saved"]
        if not isinstance(deadlines, Mapping) or set(deadlines) != set(saved):
            raise BadFields("outcome.final_deadlines: must name the same jobs as saved")
        for job in sorted(saved):
            line = {"job": job, "saved": saved[job], "final_deadline": deadlines[job]}
            _fill(outcome.jobs.add(), line, f"outcome.{job}")
    _fill(outcome, flat, "outcome")
    return outcome


def outcome_json(outcome: env.Outcome) -> dict[str, Any]:
    """The outcome's members as docs/formats.md writes them."""
    answer: dict[str, Any] = {name: getattr(outcome, name) for name in COMMON_OUTCOME}
    if outcome.jobs:
        answer["saved"] = {job.job: job.saved for job in outcome.jobs}
        answer["final_deadlines"] = {job.job: job.final_deadline for job in outcome.jobs}
    else:
        answer["saved"] = outcome.saved
    present = {field.name for field, _ in outcome.ListFields()}
    return answer | {name: getattr(outcome, name) for name in _OPTIONAL_OUTCOME if name in present}


def _kind(message: env.World | env.Contract, environment: str) -> Message:
    if environment not in ENVIRONMENTS:
        raise BadFields(f"environment: must be one of {', '.join(ENVIRONMENTS)}")
    kind: Message = getattr(message, environment)
    kind.SetInParent()
    return kind


def _fill(message: Message, fields: Mapping[str, Any], path: str) -> None:
    for name, value in fields.items():
        field = message.DESCRIPTOR.fields_by_name.get(name)
        if field is None or field.is_repeated:
            known = ", ".join(one.name for one in message.DESCRIPTOR.fields if not one.is_repeated)
            raise BadFields(f"{path}.{name}: no such field, there are {known}")
        _check(field, value, f"{path}.{name}")
    json_format.ParseDict(dict(fields), message)


def _check(field: Any, value: Any, path: str) -> None:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_BOOL:
            fits, wanted = type(value) is bool, "true or false"
        case FieldDescriptor.CPPTYPE_UINT32:
            fits, wanted = type(value) is int and 0 <= value < 2**32, "a whole number, 0 or above"
        case FieldDescriptor.CPPTYPE_DOUBLE:
            fits, wanted = type(value) in (int, float) and 0 <= value < float("inf"), "a number, 0 or above"
        case _:
            fits, wanted = type(value) is str, "a text"
    if not fits:
        raise BadFields(f"{path}: must be {wanted}")
