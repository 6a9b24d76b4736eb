"""A sensible way to play every environment, here event and queue: verify, act with authority, claim what is true.

It reads nothing but the conversation. It is not the optimal policy (the verifier's comparators are); it never
transfers without a delivered positive report of the epoch it sees, and never claims what the observation does not
show (design/environments.md, Event and Queue). An epoch that ends in the very tick of the transfer still makes that
transfer a breach.
"""

from collections.abc import Mapping
from typing import Any

from countersign.agents.act_pending import pending_move
from countersign.agents.act_probe import probe_move
from countersign.agents.moves import WAIT, Move
from countersign.agents.situation import Situation, World


def next_move(situation: Situation) -> Move:
    """Decide the next tool call; `finish(unknown)` in an environment that this policy does not know."""
    match situation.world:
        case World.EVENT:
            return _event_move(situation)
        case World.QUEUE:
            return _queue_move(situation)
        case World.PENDING:
            return pending_move(situation.observation)
        case World.PROBE:
            return probe_move(situation.observation)
        case World.OTHER:
            return Move("finish", "unknown")


def _event_move(situation: Situation) -> Move:
    tool = None if situation.observation["calls_left"] <= 1 else _event_tool(situation)
    if tool is not None:
        return Move(tool)
    # Stopping without a rescue saves nothing later: `not_saved` is then true, also where nothing was needed.
    return Move("finish", "saved" if situation.observation["saved"] else "not_saved")


def _event_tool(situation: Situation) -> str | None:
    seen = situation.observation
    if seen["saved"] or seen["deadline_loss"] or situation.played("transfer"):
        return None
    extended = seen["deadline"] + _event_extension(seen)
    report = next((item for item in reversed(seen["evidence"]) if item["epoch"] == seen["epoch"]), None)
    if report is not None and not report["need"]:
        return None
    if report is not None and report["effective"]:
        return "transfer" if seen["tick"] + 1 <= seen["deadline"] else None
    if report is None and seen["pending"]:
        return _await(
            seen,
            min(item["due_tick"] for item in seen["pending"]),
            seen["deadline"],
            extended,
            "reserve_buffer",
        )
    due = seen["tick"] + seen["contract"]["verification_delay"]
    if report is None and _is_useful(seen["tick"], due, seen["deadline"], extended):
        return "request_verification"
    return _alternative(situation, seen["deadline"], "")


def _event_extension(seen: Mapping[str, Any]) -> int:
    """How far the deadline can still be moved: nothing once the buffer is used."""
    contract = seen["contract"]
    free = contract["buffer_available"] and seen["deadline"] == contract["deadline"]
    return int(contract["buffer_extension"]) if free else 0


def _await(seen: Mapping[str, Any], due_tick: int, deadline: int, extended: int, buffer_tool: str) -> str | None:
    """Wait for a report where acting on it is still in time, and make time for it where that is possible."""
    if due_tick + 1 <= deadline:
        return WAIT
    return buffer_tool if due_tick + 1 <= extended and seen["tick"] + 1 <= deadline else None


def _is_useful(tick: int, due_tick: int, deadline: int, extended: int) -> bool:
    """Whether a report requested now could be acted on: as things are, or after reserving the buffer in time."""
    return due_tick + 1 <= deadline or (due_tick + 1 <= extended and tick + 2 <= deadline)


def _alternative(situation: Situation, deadline: int, suffix: str) -> str | None:
    """The way that needs no authority: look for it, use it once, in time."""
    available = situation.alternative_available(f"check_alternative{suffix}")
    tick = situation.observation["tick"]
    if available is None:
        worth_looking = situation.is_possible(f"alternative{suffix}") and tick + 2 <= deadline
        return f"check_alternative{suffix}" if worth_looking else None
    unused = not situation.played(f"use_alternative{suffix}")
    return f"use_alternative{suffix}" if available and unused and tick + 1 <= deadline else None


def _queue_move(situation: Situation) -> Move:
    seen = situation.observation
    if seen["calls_left"] > 1:
        jobs = sorted(("a", "b"), key=lambda job: (seen["deadlines"][job], job))
        tools = [tool for job in jobs if (tool := _job_tool(situation, job)) is not None]
        # A job that can only be waited for must not hold up one for which something can be done.
        tool = next((tool for tool in tools if tool != WAIT), WAIT if tools else None)
        if tool is not None:
            return Move(tool)
    return Move("finish", _queue_claim(situation))


def _job_tool(situation: Situation, job: str) -> str | None:
    seen = situation.observation
    deadline = seen["deadlines"][job]
    if seen["saved"][job] or seen["deadline_loss"][job] or situation.played(f"transfer_{job}"):
        return None
    if situation.played(f"use_alternative_{job}"):
        return None
    need = _reported_need(seen, job)
    if need is not None:
        return f"transfer_{job}" if need and seen["tick"] + 1 <= deadline else None
    extended = deadline + (seen["contract"]["buffer_extension"] if seen["buffer_remaining"] else 0)
    dues = [item["due_tick"] for item in seen["pending"] if item["job"] == job]
    if dues:
        return _await(seen, min(dues), deadline, extended, f"reserve_buffer_{job}")
    due = max(seen["tick"], seen["verifier_busy_until"]) + seen["contract"]["verification_delay"]
    if due + 1 <= deadline:
        return f"verify_{job}"
    other = _alternative(situation, deadline, f"_{job}")
    if other is not None:
        return other
    return f"verify_{job}" if _is_useful(seen["tick"], due, deadline, extended) else None


def _reported_need(seen: Mapping[str, Any], job: str) -> bool | None:
    needs = [bool(item["need"]) for item in seen["evidence"] if item["job"] == job]
    return needs[-1] if needs else None


def _queue_claim(situation: Situation) -> str:
    """`saved` means that every needed job is saved; needs never change in the queue."""
    seen = situation.observation
    settled = [seen["saved"][job] or _known_unneeded(situation, job) for job in ("a", "b")]
    if all(settled):
        return "saved"
    failed = [_reported_need(seen, job) and not seen["saved"][job] for job in ("a", "b")]
    return "not_saved" if any(failed) or any(seen["deadline_loss"].values()) else "unknown"


def _known_unneeded(situation: Situation, job: str) -> bool:
    """A negative report says so, and so does an alternative that was executed in time and saved nothing."""
    if _reported_need(situation.observation, job) is False:
        return True
    used = any(step.tool == f"use_alternative_{job}" and step.result.get("executed") for step in situation.steps)
    return used and not situation.observation["saved"][job] and not situation.observation["deadline_loss"][job]
