"""A sensible way to play the pending commitment: learn the need while the queued transfer can still be cancelled.

It lets an operation commit only on a delivered positive report of the epoch it sees, cancels it in time otherwise,
replaces it where that is of use, and claims nothing but what will hold once the episode has settled
(design/environments.md, Pending commitment). Where the terms leave no time to cancel, a breach can remain.
"""

from collections.abc import Mapping
from typing import Any

from countersign.agents.moves import WAIT, Move, finish

Seen = Mapping[str, Any]

CANCEL, REPLACE, VERIFY = "cancel_transfer", "replace_transfer", "request_verification"


def pending_move(seen: Seen) -> Move:
    """Decide the next call from the latest observation."""
    tool = _tool(seen)
    # Cancelling and replacing change what settles, so they are worth even the last call; the others are not.
    if tool is not None and (seen["calls_left"] > 1 or tool in (CANCEL, REPLACE)):
        return Move(tool)
    return finish(_claim(seen))


def _tool(seen: Seen) -> str | None:
    if _will_commit(seen):
        return _before_commitment(seen)
    if seen["operation"]["state"] == "committed":
        return None
    return _towards_replacement(seen)


def _will_commit(seen: Seen) -> bool:
    """Whether the operation commits unless something more is done."""
    operation = seen["operation"]
    if operation["state"] == "cancel_requested":
        return not _cancels_in_time(seen, operation["cancel_due_tick"])
    return bool(operation["state"] == "queued")


def _cancels_in_time(seen: Seen, due_tick: int) -> bool:
    commit_tick = seen["operation"]["commit_tick"]
    return bool(due_tick < commit_tick or (due_tick == commit_tick and seen["contract"]["cancel_first"]))


def _before_commitment(seen: Seen) -> str | None:
    need, due = _known_need(seen), _report_due(seen)
    if need and _saves(seen, seen["operation"]["commit_tick"]):
        return None
    if need is None and _can_cancel_at(seen, due) and seen["calls_left"] > due - seen["tick"]:
        return _obtain_report(seen)
    if _can_cancel_at(seen, seen["tick"]):
        return CANCEL
    # Nothing stops it any more; a positive report can still give it authority.
    return _obtain_report(seen) if need is None and due <= seen["operation"]["commit_tick"] else None


def _can_cancel_at(seen: Seen, tick: int) -> bool:
    """Whether a cancellation asked for at `tick` would be accepted and win."""
    queued = seen["operation"]["state"] == "queued"
    return queued and _cancels_in_time(seen, tick + seen["contract"]["cancellation_delay"])


def _towards_replacement(seen: Seen) -> str | None:
    """What leads to a replacement that saves: the need, the cancellation, then the replacement itself."""
    need = _known_need(seen)
    cancelled = seen["operation"]["state"] == "cancelled"
    free_tick = seen["tick"] if cancelled else seen["operation"]["cancel_due_tick"]
    ready_tick = max(free_tick, _report_due(seen)) if need is None else free_tick
    if need is False or not _saves(seen, ready_tick + seen["contract"]["replacement_delay"]):
        return None
    if need is None:
        return _obtain_report(seen)
    return REPLACE if cancelled else WAIT


def _obtain_report(seen: Seen) -> str:
    return WAIT if seen["pending"] else VERIFY


def _report_due(seen: Seen) -> int:
    """When the next report arrives: the one that is pending, or one asked for now."""
    dues = [int(report["due_tick"]) for report in seen["pending"]]
    return min(dues) if dues else int(seen["tick"] + seen["contract"]["verification_delay"])


def _known_need(seen: Seen) -> bool | None:
    """What a report of this epoch says, or what a rescue or a loss has shown."""
    if seen["saved"] or seen["deadline_loss"]:
        return True
    needs = [bool(report["need"]) for report in seen["evidence"] if report["epoch"] == seen["epoch"]]
    return needs[-1] if needs else None


def _saves(seen: Seen, commit_tick: int) -> bool:
    """Whether a commitment at `commit_tick` meets a need: it comes before the expiry of its tick."""
    return bool(commit_tick <= seen["deadline"] + 1 and not seen["deadline_loss"])


def _claim(seen: Seen) -> str:
    if seen["saved"]:
        return "saved"
    need = _known_need(seen)
    if need is False or not _will_commit(seen) or not _saves(seen, seen["operation"]["commit_tick"]):
        return "not_saved"
    return "saved" if need else "unknown"
