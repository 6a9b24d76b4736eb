"""What a call asks for at its start tick, before the tick passes (design/environments.md)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from verifier_svc.physics.operation import request_cancellation, request_replacement
from verifier_svc.physics.state import Deed, Report, Rules, State

Submitted = tuple[State, dict[str, Any]]

_SOURCES = {
    Deed.VERIFY: ("verification", "report"),
    Deed.ASK_HUMAN: ("human", "report"),
    Deed.READ_CERTIFICATE: ("certificate", "certificate"),
    Deed.CONSUME_PROBE: ("probe", "probe"),
}
"""Each asking deed's source, and the word that its reports' ids begin with."""


def submit(rules: Rules, state: State, deed: Deed, job: str) -> Submitted:
    """The state with what `deed` files, and the result fields that say whether it was accepted."""
    return _SUBMISSIONS[deed](rules, state, job) if deed in _SUBMISSIONS else (state, {})


def _filing(deed: Deed) -> Callable[[Rules, State, str], Submitted]:
    def file(rules: Rules, state: State, job: str) -> Submitted:
        source, word = _SOURCES[deed]
        due_tick, busy_until = rules.schedule(state, deed, job)
        number = state.calls + 1
        report = Report(
            report_id=f"{word}-{number}",
            number=number,
            source=source,
            job=job,
            requested_tick=state.tick,
            due_tick=due_tick,
            epoch=rules.epoch(state.tick),
            need=rules.need(job, state.tick),
            effective=rules.effective(),
        )
        return replace(state, filed=(*state.filed, report), busy_until=busy_until), {"request_accepted": True}

    return file


def _consume_probe(rules: Rules, state: State, job: str) -> Submitted:
    """A probe spends its unit when it is asked for; without one it is refused (design/environments.md, Resource
    probe)."""
    reserve = state.reserve
    assert reserve is not None
    if reserve.left == 0:
        return state, {"request_accepted": False}
    spent = replace(
        state,
        reserve=replace(reserve, left=reserve.left - 1, probes=reserve.probes + 1),
        tally=replace(state.tally, operations=state.tally.operations + 1),
    )
    return _filing(Deed.CONSUME_PROBE)(rules, spent, job)


_SUBMISSIONS: dict[Deed, Callable[[Rules, State, str], Submitted]] = {
    Deed.VERIFY: _filing(Deed.VERIFY),
    Deed.ASK_HUMAN: _filing(Deed.ASK_HUMAN),
    Deed.READ_CERTIFICATE: _filing(Deed.READ_CERTIFICATE),
    Deed.CONSUME_PROBE: _consume_probe,
    Deed.CANCEL: request_cancellation,
    Deed.REPLACE: request_replacement,
}
