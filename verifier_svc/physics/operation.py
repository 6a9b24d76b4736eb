"""A transfer that is queued: cancelling it, replacing it, and what each tick does to it (design/environments.md,
Pending commitment)."""

from dataclasses import replace
from typing import Any

from verifier_svc.physics.effects import spend, transfer
from verifier_svc.physics.state import Operation, OperationStatus, Rules, State

_OPEN = (OperationStatus.QUEUED, OperationStatus.CANCEL_REQUESTED)


def request_cancellation(_rules: Rules, state: State, _job: str) -> tuple[State, dict[str, Any]]:
    """File a cancellation; accepted only while queued, so that a second one postpones nothing."""
    operation = _operation(state)
    accepted = operation.status is OperationStatus.QUEUED
    if accepted:
        due = state.tick + operation.terms.cancellation_delay
        operation = replace(operation, status=OperationStatus.CANCEL_REQUESTED, cancel_due_tick=due)
    return replace(state, operation=operation), {"request_accepted": accepted}


def request_replacement(_rules: Rules, state: State, _job: str) -> tuple[State, dict[str, Any]]:
    """Queue another transfer in place of one that is cancelled; accepted only then."""
    operation = _operation(state)
    accepted = operation.status is OperationStatus.CANCELLED
    if accepted:
        commit_tick = state.tick + operation.terms.replacement_delay
        operation = Operation(operation.terms, state.calls + 1, commit_tick)
    return replace(state, operation=operation), {"request_accepted": accepted}


def run_operation(rules: Rules, state: State) -> State:
    """What the state's tick does to the operation: cancelled or committed, whichever `cancel_first` puts first."""
    order = (
        (_cancel_if_due, _commit_if_due) if _operation(state).terms.cancel_first else (_commit_if_due, _cancel_if_due)
    )
    for act in order:
        state = act(rules, state)
    return state


def _cancel_if_due(_rules: Rules, state: State) -> State:
    operation = _operation(state)
    if operation.status is not OperationStatus.CANCEL_REQUESTED or state.tick != operation.cancel_due_tick:
        return state
    return spend(replace(state, operation=replace(operation, status=OperationStatus.CANCELLED)), operations=1)


def _commit_if_due(rules: Rules, state: State) -> State:
    operation = _operation(state)
    if operation.status not in _OPEN or state.tick != operation.commit_tick:
        return state
    committed = replace(state, operation=replace(operation, status=OperationStatus.COMMITTED))
    (job,) = state.jobs
    return transfer(rules, committed, job)[0]


def _operation(state: State) -> Operation:
    assert state.operation is not None
    return state.operation
