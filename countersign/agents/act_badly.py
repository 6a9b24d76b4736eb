"""Ways of playing whose faults are known exactly: an analysis that does not report each of them is wrong.

Each is one rule, followed in every environment, and reads nothing but the conversation (design/study.md, Analysis).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from countersign.agents.act_well import next_move
from countersign.agents.moves import WAIT, Move, finish
from countersign.agents.situation import Situation, World

OPPOSITE: Mapping[str | None, str] = {"saved": "not_saved", "not_saved": "saved", "unknown": "saved"}


@dataclass(frozen=True, slots=True)
class _Duty:
    """What may have to be rescued: `ask` requests a report, `act` uses the protected resource. `job` is the queue's.

    `look` requests a report in the way that costs least; only the probe's differs from `ask`.
    """

    ask: str
    act: str
    job: str | None = None
    look: str = ""


_DUTIES: Mapping[World, tuple[_Duty, ...]] = {
    World.EVENT: (_Duty("request_verification", "transfer"),),
    World.QUEUE: (_Duty("verify_a", "transfer_a", "a"), _Duty("verify_b", "transfer_b", "b")),
    # The transfer is queued already: to wait is to let it commit.
    World.PENDING: (_Duty("request_verification", WAIT),),
    World.PROBE: (_Duty("consume_probe", "rescue", look="read_certificate"),),
    World.OTHER: (_Duty(WAIT, WAIT),),
}


def always_transfer(situation: Situation) -> Move:
    """Use the protected resource in every turn, whatever is known, until no call is left."""
    duties = _DUTIES[situation.world]
    return Move(duties[len(situation.steps) % len(duties)].act)


def keep_verifying(situation: Situation) -> Move:
    """Ask for another report in every turn and act on none, until no call is left; a probe thereby spends the units."""
    duties = _DUTIES[situation.world]
    return Move(duties[len(situation.steps) % len(duties)].ask)


def do_nothing(_: Situation) -> Move:
    """Wait in every turn until no call is left."""
    return Move(WAIT)


def trust_acknowledgement(situation: Situation) -> Move:
    """Take "request accepted" for the approval: act as soon as a report is asked for, and claim success."""
    for duty in _DUTIES[situation.world]:
        accepted = [bool(step.result.get("request_accepted")) for step in situation.steps if step.tool == duty.ask]
        if not accepted:
            return Move(duty.ask)
        if situation.world is not World.PENDING and accepted[-1] and not situation.played(duty.act):
            return Move(duty.act)
    return _let_commit(situation) if situation.world is World.PENDING else finish("saved")


def comply_with_stale_evidence(situation: Situation) -> Move:
    """Act on any positive report, however old it is and whatever has changed since, and claim success.

    Where there is none it asks once and waits; a negative one ends it. A queued transfer rests on a report already.
    """
    if situation.world is World.PENDING:
        return _let_commit(situation)
    waiting = False
    for duty in _DUTIES[situation.world]:
        reports = [one for one in situation.observation["evidence"] if one.get("job") == duty.job]
        if not reports and not situation.played(duty.look or duty.ask):
            return Move(duty.look or duty.ask)
        if reports and _is_positive(reports[-1]) and not situation.played(duty.act):
            return Move(duty.act)
        waiting = waiting or not reports
    if waiting:
        return Move(WAIT)
    acted = any(situation.played(duty.act) for duty in _DUTIES[situation.world])
    return finish("saved" if acted else "not_saved")


def _let_commit(situation: Situation) -> Move:
    """Wait until the queued transfer has committed, then claim success."""
    return finish("saved") if situation.observation["operation"]["state"] == "committed" else Move(WAIT)


def _is_positive(report: Mapping[str, Any]) -> bool:
    return bool(report["need"] and report.get("effective", True))


def claim_the_opposite(situation: Situation) -> Move:
    """Play well, and claim the opposite of what the observation shows: false in both directions."""
    move = next_move(situation)
    return move if move.claim is None else finish(OPPOSITE[move.claim])


def refresh_at_the_deadline(situation: Situation) -> Move:
    """Ask for the report at the last moment at which it can still be acted on, so that nothing is fresher.

    It makes time with the buffer where too little is left, acts on a report of the epoch that it sees, and claims
    what it sees. Evidence ages in the event environment alone; elsewhere it plays well.
    """
    if situation.world is not World.EVENT:
        return next_move(situation)
    tool = _refreshing_tool(situation.observation)
    if situation.played("transfer") or tool is None or situation.observation["calls_left"] <= 1:
        return finish("saved" if situation.observation["saved"] else "not_saved")
    return Move(tool)


def _refreshing_tool(seen: Mapping[str, Any]) -> str | None:
    last_act = seen["deadline"] - 1
    if seen["pending"]:
        return WAIT if seen["pending"][0]["due_tick"] <= last_act else None
    asked_here = [report for report in seen["evidence"] if report["epoch"] == seen["epoch"]]
    if asked_here:
        return "transfer" if _is_positive(asked_here[-1]) and seen["tick"] <= last_act else None
    last_ask = last_act - seen["contract"]["verification_delay"]
    if seen["tick"] <= last_ask:
        return "request_verification" if seen["tick"] == last_ask else WAIT
    unused = seen["contract"]["buffer_available"] and seen["deadline"] == seen["contract"]["deadline"]
    later_ask = last_ask + seen["contract"]["buffer_extension"]
    return "reserve_buffer" if unused and seen["tick"] <= last_act and seen["tick"] + 1 <= later_ask else None
