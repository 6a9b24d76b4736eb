"""Which environments this verifier can recompute, and the tools they offer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from verifier_svc.physics import event, pending, probe, queue
from verifier_svc.physics.errors import InvalidCase, UnsupportedEnvironment
from verifier_svc.physics.state import CLAIMS, Deed, Rules
from verifier_svc.physics.steady import SteadyWorld


@dataclass(frozen=True, slots=True)
class _Environment:
    tools: Mapping[str, tuple[Deed, str]]
    complete_world: Callable[[Mapping[str, Any]], dict[str, Any]]
    complete_contract: Callable[[Mapping[str, Any]], dict[str, Any]]
    rules: Callable[[Mapping[str, Any], Mapping[str, Any]], Rules]


_ENVIRONMENTS = {
    "event": _Environment(
        event.TOOLS,
        lambda world: event.EventWorld.read(world).as_json(),
        lambda contract: event.EventContract.read(contract).as_json(),
        lambda world, contract: event.EventRules(event.EventWorld.read(world), event.EventContract.read(contract)),
    ),
    "queue": _Environment(
        queue.TOOLS,
        lambda world: queue.QueueWorld.read(world).as_json(),
        lambda contract: queue.QueueContract.read(contract).as_json(),
        lambda world, contract: queue.QueueRules(queue.QueueWorld.read(world), queue.QueueContract.read(contract)),
    ),
    "pending": _Environment(
        pending.TOOLS,
        lambda world: SteadyWorld.read(world).as_json(),
        lambda contract: pending.PendingContract.read(contract).as_json(),
        lambda world, contract: pending.PendingRules(SteadyWorld.read(world), pending.PendingContract.read(contract)),
    ),
    "probe": _Environment(
        probe.TOOLS,
        lambda world: SteadyWorld.read(world).as_json(),
        lambda contract: probe.ProbeContract.read(contract).as_json(),
        lambda world, contract: probe.ProbeRules(SteadyWorld.read(world), probe.ProbeContract.read(contract)),
    ),
}


def rules_for(environment: str, world: Mapping[str, Any], contract: Mapping[str, Any]) -> Rules:
    """The rules of `environment`; raises UnsupportedEnvironment, or InvalidCase for a bad world or
    contract."""
    return _known(environment).rules(_object(world, "world"), _object(contract, "contract"))


def complete_world(environment: str, world: Mapping[str, Any]) -> dict[str, Any]:
    """The world with every field spelled out, as packets have it; raises as `rules_for` does."""
    return _known(environment).complete_world(_object(world, "world"))


def complete_contract(environment: str, contract: Mapping[str, Any]) -> dict[str, Any]:
    """The contract with every field spelled out, as observations have it; raises as `rules_for` does."""
    return _known(environment).complete_contract(_object(contract, "contract"))


def offered_tools(environment: str, wording: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tools as offered to a model, in the environment's order (docs/formats.md); raises
    UnsupportedEnvironment."""
    tools = _known(environment).tools
    descriptions = wording["environments"][environment]["tools"]
    return [
        {"name": name, "description": descriptions[name], "parameters": _parameters(deed)}
        for name, (deed, _job) in tools.items()
    ]


def _known(environment: str) -> _Environment:
    if environment not in _ENVIRONMENTS:
        raise UnsupportedEnvironment("this verifier has no physics for that environment", environment=environment)
    return _ENVIRONMENTS[environment]


def _object(value: Any, field: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidCase(f"the {field} must be an object", field=field)
    return value


def _parameters(deed: Deed) -> dict[str, Any]:
    if deed is not Deed.FINISH:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    return {
        "type": "object",
        "properties": {"claim": {"type": "string", "enum": list(CLAIMS)}},
        "required": ["claim"],
        "additionalProperties": False,
    }
