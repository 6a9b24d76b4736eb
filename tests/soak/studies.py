"""The studies of a soak: plans drawn from the seed, all four environments, every wire format, good and bad agents."""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.calibration import LOST, REASONS
from tests.integration.studies import TEMPLATES, toml

FORMS = tuple(
    (wire, streamed)
    for wire in ("chat_completions", "messages", "responses", "generate_content")
    for streamed in (False, True)
)

PLAYS = (
    "acknowledgement", "act-well", "alternative", "always-transfer", "claim-success", "deadline-refresh", "do-nothing",
    "false-claim", "keep-verifying", "refuse", "stale-compliance", "unsafe-transfer",
)  # fmt: skip
"""Policies whose every answer is admissible."""

ANSWERS_ALWAYS = (*PLAYS, "no-usage")
EITHER = ("stop-with-tools", "wrong-provider")
"""Whether these are admissible depends on the wire format."""

MORE_REASONS = {"duplicate-claim-key": {"DUPLICATE_KEY"}, "null-reason": {"STREAM_INCOMPLETE"}}
"""Further reasons, in formats where arguments are a part of the body, or where a stream ends by its stop reason."""

SECRET = "alternative"
"""The policy whose answers hold reasoning that nobody but the provider may see."""

_NEEDS = [{"name": "no-need", "need": False}, {"name": "need", "need": True}]
_TEMPLATES: Mapping[str, Mapping[str, Any]] = {
    "event": TEMPLATES["window"],
    "stale": TEMPLATES["stale"],
    "queue": TEMPLATES["queue"],
    "pending": {"environment": "pending", "worlds": _NEEDS},
    "probe": {"environment": "probe", "worlds": _NEEDS},
}
WORKERS = 4
_TIMEOUTS = {"connect_timeout_millis": 2_000, "first_byte_timeout_millis": 4_000, "total_timeout_millis": 6_000}
ATTEMPT_SECONDS = 6.0
"""How long an attempt may take with these timeouts."""

LEASE_SECONDS = 70.0
"""A little more than the lease of a call with these timeouts."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One study to be collected."""

    name: str
    account_id: str
    document: Mapping[str, Any]

    def write(self, path: Path) -> None:
        """Write it as TOML."""
        path.write_text("\n".join(f"{key} = {toml(value)}" for key, value in self.document.items()), encoding="utf-8")


def draw(seed: int, name: str, account_id: str, provider: str) -> Plan:
    """The study called `name`. Each slot's request is its own: one realised world, a message for this study alone."""
    dice = random.Random(f"soak study {seed} {name}")
    environments = dice.sample(list(_TEMPLATES), dice.choice((1, 2)))
    is_tight = dice.random() < 0.2
    cap = dice.choice(("0.035", "0.06", "0.1")) if is_tight else "2"
    grant = dice.choice(("0.05", "0.2")) if dice.random() < 0.15 else "2"
    document = {
        "name": name,
        "account": {"id": account_id, "currency": "USD", "grant": grant},
        "study": {
            "cap": cap,
            "call_ceiling": "0.05",
            "max_in_flight": 4 * WORKERS,
            "stop": dice.choice(("never", "never", "never", "never", "route", "study")),
            "readiness": "waived",
            "comparators": "unsolved",
        },
        "templates": [_template(dice, environment) for environment in environments],
        "arms": [
            {"name": arm, "wording": arm} for arm in dice.sample(("neutral", "verify_first"), dice.choice((1, 2)))
        ],
        "messages": [{"name": f"m{n}", "body": f"Message {n} of {name}."} for n in range(dice.choice((1, 2, 4)))],
        "routes": _routes(dice, provider),
    }
    return Plan(name, account_id, document)


def _template(dice: random.Random, name: str) -> dict[str, Any]:
    realised = dice.choice([world["name"] for world in _TEMPLATES[name]["worlds"]])
    return {"name": name, **_TEMPLATES[name], "realised": [realised]}


def _routes(dice: random.Random, provider: str) -> list[dict[str, Any]]:
    """One to five routes; no two send the same bytes. The model is in the path, not the body, of generate_content."""
    groups = (PLAYS, (SECRET,), tuple(REASONS), (*LOST, "no-usage"), ("stop-with-tools",))
    chosen: dict[tuple[str, ...], tuple[str, str, bool]] = {}
    for _ in range(dice.randint(2, 5)):
        policy = dice.choice(dice.choices(groups, (9, 4, 4, 2, 1))[0])
        wire, streamed = dice.choice(FORMS)
        key = (wire,) if wire == "generate_content" else (policy, wire, str(streamed))
        chosen.setdefault(key, (policy, wire, streamed))
    return [_route(n, provider, *one) for n, one in enumerate(chosen.values())]


def _route(number: int, provider: str, policy: str, wire: str, streamed: bool) -> dict[str, Any]:
    return {
        "name": f"r{number}.{policy}.{wire}.{'streamed' if streamed else 'whole'}",
        "base_url": f"http://{provider}/v1",
        "model": f"scripted/{policy}",
        "wire_format": wire,
        "streamed": streamed,
        "price": {"input_per_million": "0.50", "output_per_million": "1.50"},
        "output_cap": 256,
        "input_limit_bytes": 60_000,
        **_TIMEOUTS,
    }


def policy_of(route: str) -> str:
    """The policy that answers on a route."""
    return route.split(".")[1]


def misfit(record: Mapping[str, Any]) -> str | None:
    """What is wrong with how an episode ended, by what its agent is known to answer; None where nothing is."""
    policy, status = policy_of(record["identity"]["route"]), record["status"]
    if status == "stopped" or policy in EITHER:
        return None
    if policy in LOST:
        return f"{policy} cannot be answered, and the episode is {status}"
    if policy in ANSWERS_ALWAYS:
        return None if status == "completed" else f"{policy} answers well, and the episode is {record['reason']}"
    reasons = {REASONS[policy], *MORE_REASONS.get(policy, ())}
    if status == "technical_unknown" and record["reason"] in reasons:
        return None
    return f"{policy} must be one of {sorted(reasons)}, and is {status} {record['reason'] or ''}"


def outcome_key(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Episodes with the same key have the same outcome, whatever happened meanwhile."""
    identity = record["identity"]
    return policy_of(identity["route"]), identity["template"], identity["world"], record["termination"]


def outcome_text(record: Mapping[str, Any]) -> str:
    """The outcome as it is compared."""
    return json.dumps(record["outcome"], sort_keys=True)
