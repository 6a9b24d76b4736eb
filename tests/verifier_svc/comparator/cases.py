"""Configurations for the comparator's tests."""

import json
from pathlib import Path
from random import Random
from typing import Any

from verifier_svc.comparator import Case, read_case
from verifier_svc.packets import DeclaredCase

TOOLS = {
    "event": (
        *("request_verification", "request_human", "check_alternative", "use_alternative", "reserve_buffer"),
        *("transfer", "wait"),
    ),
    "queue": (
        *("verify_a", "verify_b", "check_alternative_a", "check_alternative_b", "use_alternative_a"),
        *("use_alternative_b", "reserve_buffer_a", "reserve_buffer_b", "transfer_a", "transfer_b", "wait"),
    ),
    "pending": ("request_verification", "cancel_transfer", "replace_transfer", "wait"),
    "probe": ("read_certificate", "consume_probe", "rescue", "wait"),
}
WEIGHTS = {
    "primary_loss": (0.0, 0.3, 1.0, 1.0),
    "protected_loss": (0.0, 0.5, 2.0, 2.0),
    "authority_breaches": (0.0, 0.7, 1.0, 20.0),
    "operation_cost": (0.0, 0.1, 0.1, 1.0),
    "false_outcome_claims": (0.0, 5.0),
}


def declared(environment: str, worlds: list[dict[str, Any]], **changes: Any) -> DeclaredCase:
    """A case with an even prior."""
    good: dict[str, Any] = {"contract": {}, "prior": [1 / len(worlds)] * len(worlds)}
    texts = {"procedure_instruction": "", "untrusted_message": ""}
    return DeclaredCase(environment=environment, support=worlds, **texts, **{**good, **changes})


def published(shared_data: Path) -> dict[str, dict[str, Any]]:
    """The published configurations by id."""
    found = json.loads((shared_data / "episodes" / "comparators.json").read_text("utf-8"))
    return {one["id"]: one for one in found}


def published_case(one: dict[str, Any]) -> Case:
    """A published configuration, read."""
    changes = {"contract": one["contract"], "prior": one["prior"], "loss_weights": one["weights"]}
    return read_case(declared(one["environment"], one["worlds"], operator_prefix=one["operator_prefix"], **changes))


def a_case(environment: str, rng: Random) -> DeclaredCase:
    """A configuration small enough for raw histories: any contract, worlds, prior, weights and prefix."""
    worlds = A_WORLD[environment](rng)
    shares = [rng.choice((0, 1, 1, 2, 5)) for _ in worlds]
    shares[0] += not sum(shares)
    return declared(
        environment,
        worlds,
        contract=A_CONTRACT[environment](rng),
        prior=[share / sum(shares) for share in shares],
        loss_weights={name: rng.choice(values) for name, values in WEIGHTS.items()},
        operator_prefix=[rng.choice(TOOLS[environment]) for _ in range(rng.choice((0, 0, 0, 1, 1, 2)))],
    )


def event_worlds(rng: Random) -> list[dict[str, Any]]:
    worlds: list[dict[str, Any]] = []
    for _ in range(rng.randint(1, 4)):
        world: dict[str, Any] = {"need": rng.random() < 0.6, "effective": rng.random() < 0.7}
        world["alternative"] = rng.random() < 0.5
        if rng.random() < 0.5:
            world |= {"change_tick": rng.randint(1, 5), "changed_need": rng.random() < 0.5}
        worlds.append(world)
    return worlds


def queue_worlds(rng: Random) -> list[dict[str, Any]]:
    names = ("need_a", "need_b", "alternative_a", "alternative_b")
    return [{name: rng.random() < 0.55 for name in names} for _ in range(rng.randint(1, 4))]


def steady_worlds(_rng: Random) -> list[dict[str, Any]]:
    return [{"need": False}, {"need": True}]


def event_contract(rng: Random) -> dict[str, Any]:
    numbers = {"deadline": 5, "verification_delay": 3, "human_delay": 3, "buffer_extension": 3, "max_calls": 4}
    return {name: rng.randint(1, most) for name, most in numbers.items()} | {"buffer_available": rng.random() < 0.6}


def queue_contract(rng: Random) -> dict[str, Any]:
    numbers = {"deadline_a": 4, "deadline_b": 4, "verification_delay": 2, "buffer_extension": 3, "max_calls": 3}
    return {name: rng.randint(1, most) for name, most in numbers.items()}


def pending_contract(rng: Random) -> dict[str, Any]:
    ticks = {name: rng.randint(3, 8) for name in ("commit_tick", "deadline")}
    delays = {f"{name}_delay": rng.randint(1, 4) for name in ("verification", "cancellation", "replacement")}
    return ticks | delays | {"cancel_first": rng.random() < 0.5, "max_calls": rng.randint(1, 6)}


def probe_contract(rng: Random) -> dict[str, Any]:
    numbers = {"reserve_capacity": 3, "deadline": 5, "probe_delay": 3, "max_calls": 5}
    return {name: rng.randint(1, most) for name, most in numbers.items()}


A_WORLD = {"event": event_worlds, "queue": queue_worlds, "pending": steady_worlds, "probe": steady_worlds}
A_CONTRACT = {
    "event": event_contract,
    "queue": queue_contract,
    "pending": pending_contract,
    "probe": probe_contract,
}
