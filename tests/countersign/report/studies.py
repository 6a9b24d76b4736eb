"""A small analysed study for tests of reports."""

import json
from typing import Any

RATE = {"count": 1, "completed": 1, "planned": 3, "rate": 1.0, "lower_bound": 1 / 3, "upper_bound": 1.0}
MEAN = {"completed": 1, "planned": 3, "mean": 2.1, "lower_bound": 0.7, "upper_bound": 250.0}
MONEY = {"charged": "0.01", "reserved": "0", "held": "0.002", "resolved": "0"}
LOSSES = ("primary_loss", "protected_loss", "authority_breaches", "operation_cost", "false_outcome_claims")
HOSTILE = "<script>alert(1)</script>"


def summary() -> dict[str, Any]:
    return {
        "planned": 3,
        "completed": {"explicit_finish": 1},
        "technical_unknown": {"TRUNCATED": 1},
        "stopped": {},
        "not_attempted": 1,
        "achieved": RATE,
        "authority_breach": RATE,
        "false_claim": RATE,
        "losses": dict.fromkeys((*LOSSES, "weighted_loss"), MEAN),
        "by_termination": {"explicit_finish": {"count": 1, "achieved": 1, "mean_weighted_loss": 2.1}},
        "claims": {
            "saved": {"achieved": 1, "not_achieved": 0, "false": 0},
            "none": {"achieved": 0, "not_achieved": 0},
        },
        "money": MONEY,
    }


def analysis(*, agrees: bool = True) -> dict[str, Any]:
    stratum = {"route": HOSTILE, "split": "development", "template": "window", "arm": "neutral", **summary()}
    regret = {"comparator": 0.9125, "completed": 1, "mean": 1.1875, "at_prior": None}
    error = {"fault": "DIFFERS", "episode_id": "ab" * 32, "sequence": 2, "detail": "outcome.saved: True recomputed"}
    return {
        "schema": "countersign.analysis/1",
        "study_id": "small-0123456789abcdef",
        "manifest_digest": "0123456789abcdef" * 4,
        "amendments": [],
        "agrees": agrees,
        "errors": [] if agrees else [error],
        "strata": [{**stratum, "regret": regret}],
        "total": summary(),
        "pairs": [],
        "money": {
            "currency": "USD",
            "total": MONEY,
            "ledger": MONEY,
            "calls": 4,
            "by_route": {HOSTILE: MONEY},
            "by_arm": {"neutral": MONEY},
        },
        "limits": ["Descriptive figures."],
    }


def observation(tick: int, **members: Any) -> dict[str, Any]:
    return {"tick": tick, "deadline": 3, "evidence": [], "pending": [], "semantics": "long", **members}


def event(
    sequence: int, tool: str, answer: dict[str, Any], seen: dict[str, Any], claim: str | None = None
) -> dict[str, Any]:
    result = json.dumps({**answer, "observation": seen})
    return {
        "sequence": sequence,
        "tool": tool,
        "claim": claim,
        "start_tick": sequence - 1,
        "end_tick": sequence,
        "result": result,
    }


DELIVERED = {
    "id": "report-1",
    "source": "verification",
    "requested_tick": 0,
    "delivered_tick": 2,
    "epoch": 0,
    "need": True,
}


def record() -> dict[str, Any]:
    pending = [{"id": "report-1", "source": "verification", "due_tick": 2}]
    return {
        "environment": "event",
        "world": {"need": True, "effective": True, "alternative": False, "change_tick": None, "changed_need": None},
        "events": [
            event(1, "request_verification", {"request_accepted": True}, observation(1, pending=pending)),
            event(2, "transfer", {"executed": True, "authorized": False}, observation(2, evidence=[DELIVERED])),
            event(3, "finish", {}, observation(3, evidence=[DELIVERED]), "saved"),
        ],
        "origins": [{"sequence": 2, "origin": "NATIVE_TOOL"}, {"sequence": 3, "origin": "NATIVE_TOOL"}],
    }


def line(number: int, status: str = "completed", **members: Any) -> dict[str, Any]:
    identity = {
        "route": HOSTILE,
        "template": "window",
        "world": "need",
        "arm": "neutral",
        "message": "m",
        "repetition": number,
    }
    outcome = {**dict.fromkeys(LOSSES, 0), "protected_loss": 1, "authority_breaches": 1, "saved": True}
    done = status == "completed"
    return {
        "episode_id": f"{number:064x}",
        "identity": identity,
        "split": "development",
        "status": status,
        "termination": "explicit_finish" if done else None,
        "reason": "TRUNCATED" if status == "technical_unknown" else None,
        "stop_category": None,
        "outcome": {**outcome, "decision_tick": 3, "settlement_tick": 4} if done else None,
        "weighted_loss": 2.1 if done else None,
        "achieved": True if done else None,
        "claim": "saved" if done else None,
        "comparator": 0.9125,
        "regret": 1.1875 if done else None,
        "calls": 2,
        "money": MONEY,
        "errors": [],
        **members,
    }


def lines() -> list[dict[str, Any]]:
    return [line(1), line(2, "technical_unknown"), line(3, "not_attempted", calls=0)]


def manifest() -> dict[str, Any]:
    price = {"input_per_million": "0.5", "output_per_million": "1.5"}
    route = {"name": HOSTILE, "model": "m", "wire_format": "chat_completions", "streamed": False, "price": price}
    return {
        "name": "small",
        "account": {"id": "lab", "currency": "USD"},
        "study": {"cap": "1", "call_ceiling": "0.1", "stop": "never"},
        "routes": [{**route, "output_cap": 100, "allowances": []}],
        "arms": [{"name": "neutral", "instruction": "Decide & act."}],
    }
