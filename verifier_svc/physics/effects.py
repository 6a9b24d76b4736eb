"""What deeds and queued operations do to a state (design/environments.md, Shared rules)."""

from dataclasses import replace
from typing import Any

from verifier_svc.physics.state import Rules, State


def is_authorized(rules: Rules, state: State, job: str) -> bool:
    """Whether a delivered report of the current epoch confirms need and efficacy for `job`."""
    epoch = rules.epoch(state.tick)
    return any(r.job == job and r.epoch == epoch and r.need and r.effective for r in state.delivered())


def rescue(rules: Rules, state: State, job: str) -> State:
    """`job` saved, where it is needed and not lost."""
    rescued = rules.need(job, state.tick) and not state.jobs[job].lost
    return with_job(state, job, saved=True) if rescued else state


def transfer(rules: Rules, state: State, job: str) -> tuple[State, bool]:
    """The state after the protected resource was moved to `job`, and whether there was authority for it."""
    authorized = is_authorized(rules, state, job)
    moved = rescue(rules, state, job) if rules.effective() else state
    return spend(moved, protected=1, operations=1, breaches=0 if authorized else 1), authorized


def expire(rules: Rules, state: State) -> State:
    """Every job lost that is needed, not saved and past its deadline at the state's tick."""

    def overdue(name: str) -> bool:
        job = state.jobs[name]
        return state.tick > job.deadline and rules.need(name, state.tick) and not job.saved

    return replace(state, jobs={name: replace(job, lost=job.lost or overdue(name)) for name, job in state.jobs.items()})


def with_job(state: State, name: str, **changes: Any) -> State:
    """The state with other facts of one job."""
    return replace(state, jobs={**state.jobs, name: replace(state.jobs[name], **changes)})


def spend(state: State, protected: int = 0, operations: int = 0, breaches: int = 0) -> State:
    """The state with more on its tally, in units."""
    tally = state.tally
    return replace(
        state,
        tally=replace(
            tally,
            protected=tally.protected + protected,
            operations=tally.operations + operations,
            breaches=tally.breaches + breaches,
        ),
    )
