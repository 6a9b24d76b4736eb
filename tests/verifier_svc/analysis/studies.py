"""A small frozen study as its manifest says it, and analysed episodes of it."""

from typing import Any

from countersign.kit.canonical import canonical_json, sha256
from verifier_svc.analysis import AnalysedEpisode, FrozenStudy, read_study

WORLDS = [{"name": "calm", "need": False, "effective": True}, {"name": "need", "need": True, "effective": True}]
ARMS = ("neutral", "verify")


def identity(world: str = "calm", arm: str = "neutral", repetition: int = 1, route: str = "r") -> dict[str, Any]:
    names = {"route": route, "template": "window", "world": world, "arm": arm, "message": "default"}
    return {**names, "repetition": repetition}


def planned(one: dict[str, Any]) -> dict[str, Any]:
    return {"episode_id": sha256(canonical_json(one)).hex(), "identity": one, "packet_digest": "00" * 32}


def body(**changes: Any) -> dict[str, Any]:
    """A manifest's members without its digest."""
    route = {
        "name": "r",
        "wire_format": "chat_completions",
        "streamed": False,
        "model": "m",
        "aliases": [],
        "provider_name": "",
        "price": {"input_per_million": "1", "output_per_million": "2", "source": ""},
        "charge_reported_cost": False,
        "output_cap": 100,
        "output_cap_member": "",
        "input_limit_bytes": 20_000,
        "allowances": [],
        "request_options": {},
    }
    template = {
        "name": "window",
        "environment": "event",
        "contract": {"max_calls": 4},
        "operator_prefix": [],
        "worlds": WORLDS,
        "prior": [0.25, 0.75],
        "loss_weights": {},
    }
    return {
        "schema": "countersign.manifest/1",
        "name": "small",
        "account": {"id": "lab", "currency": "USD", "grant": "1"},
        "study": {"cap": "1"},
        "templates": [template],
        "arms": [{"name": name, "instruction": "Decide."} for name in ARMS],
        "messages": [{"name": "default", "body": "A note."}],
        "routes": [route],
        "episodes": [planned(identity(world["name"], arm)) for world in WORLDS for arm in ARMS],
        **changes,
    }


def digested(members: dict[str, Any], name: str = "manifest_digest") -> bytes:
    return canonical_json({**members, name: sha256(canonical_json(members)).hex()})


def amendment(parent: str, **replace: Any) -> bytes:
    members = {"schema": "countersign.amendment/1", "parent": parent, "reason": "more", "replace": replace}
    return digested(members, "amendment_digest")


def digest_of(members: dict[str, Any]) -> str:
    return sha256(canonical_json(members)).hex()


def study(**changes: Any) -> FrozenStudy:
    return read_study(digested(body(**changes)), [])


def completed(of: FrozenStudy, number: int, loss: float, **members: Any) -> AnalysedEpisode:
    """The planned episode `number`, completed with a loss that is all primary."""
    outcome = {
        "primary_loss": int(loss),
        "protected_loss": 0,
        "authority_breaches": 0,
        "operation_cost": 0,
        "false_outcome_claims": 0,
        "saved": loss == 0,
    }
    known: dict[str, Any] = {
        "split": "development",
        "status": "completed",
        "termination": "explicit_finish",
        "outcome": outcome,
        "weighted_loss": loss,
        "achieved": loss == 0,
        "claim": "saved",
        "comparator": 1.0,
        "calls": 2,
        "money": {"CHARGED": 10**9},
    }
    return AnalysedEpisode(planned=of.episodes[number], **{**known, **members})


def unknown(of: FrozenStudy, number: int) -> AnalysedEpisode:
    """The planned episode `number`, not admitted."""
    money = {"CHARGED": 5 * 10**8}
    return AnalysedEpisode(
        of.episodes[number],
        "development",
        "technical_unknown",
        reason="TRUNCATED",
        comparator=1.0,
        calls=1,
        money=money,
    )
