"""The queue: (tick, worlds, buffer, verifier busy until, due, authority, inventory checked; the last three a job)."""

from typing import TypeAlias

from verifier_svc.comparator.case import Case
from verifier_svc.comparator.models.shared import (
    NEVER,
    NOBODY,
    Branch,
    Masses,
    Move,
    Prices,
    State,
    awaited,
    everyone,
    has_authority,
    split,
    worlds_with,
)

_JOBS = (0, 1)
_NAMES = ("a", "b")
_FREE, _SPENT = 0, 3
"""The buffer: free, spent on job 1 - 1 or job 2 - 1, or spent on a job that is closed."""
_CLOSED = -1
"""In place of a job's report due: saved, lost or known not to be needed; nothing can help or harm it."""
_BUSY_FOR_GOOD = 1_000
"""A verifier whose next report would help nobody any more."""

Part: TypeAlias = tuple[State, float]
"""A class of worlds in the middle of a call, and what was lost on the way."""


class QueueModel:
    """Once both jobs are closed, no state is left. A job's reports all say the same, so that the first one due, the
    earliest of a serial verifier, stands for all."""

    def __init__(self, case: Case) -> None:
        contract = case.contract
        self._case = case
        self.masses = Masses(case.prior)
        self._prices = Prices(case.weights)
        self._known: dict[State, tuple[float, State | None]] = {}
        self._everyone = everyone(case)
        self._needy = [worlds_with(case, f"need_{name}") for name in _NAMES]
        self._alternative = [worlds_with(case, f"alternative_{name}") for name in _NAMES]
        self._deadlines: list[int] = [contract[f"deadline_{name}"] for name in _NAMES]
        self._delay: int = contract["verification_delay"]
        self._extension: int = contract["buffer_extension"]
        self._end: int = contract["max_calls"]

    def root(self) -> Branch:
        """The checkpoint."""
        state = self._case.roots[0]
        buffer, jobs = _FREE if state.buffer_free else _SPENT, []
        for number, (name, job) in enumerate(state.jobs.items()):
            if job.deadline > self._deadlines[number]:
                buffer = number + 1
            due = _CLOSED if job.saved or job.lost else awaited(state, name, 0)
            jobs += [due, has_authority(self._case, name), int(job.inventory_checked)]
        return self._settled((state.tick, self._everyone, buffer, state.busy_until, *jobs), 0.0)

    def moves(self, state: State) -> list[Move | None]:
        """verify, check_alternative, use_alternative, reserve_buffer and transfer for a and b; wait."""
        found = self._pass_tick(state)
        wait = [self._settled(part, cost) for part, cost in found]
        moves: list[Move | None] = [
            [self._settled(part, cost) for part, cost in self._pass_tick(self._ask(state, job))] for job in _JOBS
        ]
        moves += [self._check(found, job) for job in _JOBS]
        for deed in (self._use, self._reserve, self._transfer):
            moves += [deed(found, job) if self._can_help(state, job) else None for job in _JOBS]
        return [*moves, wait]

    def _can_help(self, state: State, job: int) -> bool:
        """Whether a deed for the job can still be in time; otherwise checking its inventory costs no more than any."""
        return state[4 + 3 * job] != _CLOSED and state[0] < self._deadline(state, job)

    def _ask(self, state: State, job: int) -> State:
        """The verifier serves one request after another; an earlier report on the job says what this one will."""
        tick, worlds, buffer, busy, *jobs = state
        due = max(tick, busy) + self._delay
        if jobs[3 * job] == NEVER:
            jobs[3 * job] = due
        return (tick, worlds, buffer, due, *jobs)

    def _pass_tick(self, state: State) -> list[Part]:
        """The classes of worlds that the new tick's reports and losses tell apart."""
        tick, *rest = state
        parts: list[Part] = [((tick + 1, *rest), 0.0)]
        for job in _JOBS:
            parts = [piece for part in parts for piece in self._learn(part, job)]
        return parts

    def _learn(self, part: Part, job: int) -> list[Part]:
        """Deliver the job's report if it is due, and lose the job if it is overdue."""
        state, cost = part
        tick, worlds, due = state[0], state[1], state[4 + 3 * job]
        overdue = tick > self._deadline(state, job)
        if due == _CLOSED or (due != tick and not overdue):
            return [part]
        pieces: list[Part] = []
        for piece in split(worlds, self._needy[job]):
            needy, known = int(bool(piece & self._needy[job])), _among(state, piece)
            if overdue:
                pieces.append((_closed(known, job), cost + self._prices.missed * needy))
            else:
                pieces.append((_with_job(known, job, NEVER, needy, state[6 + 3 * job]), cost))
        return pieces

    def _deadline(self, state: State, job: int) -> int:
        return self._deadlines[job] + (self._extension if state[2] == job + 1 else 0)

    def _last_deadline(self, state: State, job: int) -> int:
        """The latest that the job's deadline can still become."""
        return self._deadlines[job] + (self._extension if state[2] in (_FREE, job + 1) else 0)

    def _check(self, found: list[Part], job: int) -> Move:
        move = []
        for state, cost in found:
            for piece in split(state[1], self._alternative[job]):
                due, authority = state[4 + 3 * job], state[5 + 3 * job]
                checked = _with_job(_among(state, piece), job, due, authority, 1)
                move.append(self._settled(checked, cost))
        return move

    def _use(self, found: list[Part], job: int) -> Move:
        move = []
        for state, cost in found:
            executes = state[6 + 3 * job] and state[1] & self._alternative[job]
            move += self._save(state, job, cost + self._prices.operation) if executes else [self._settled(state, cost)]
        return move

    def _reserve(self, found: list[Part], job: int) -> Move:
        move = []
        for state, cost in found:
            tick, worlds, buffer, *rest = state
            if buffer == _FREE:
                state, cost = (tick, worlds, job + 1, *rest), cost + self._prices.operation
            move.append(self._settled(state, cost))
        return move

    def _transfer(self, found: list[Part], job: int) -> Move:
        move = []
        for state, cost in found:
            price = self._prices.transfer + (0.0 if state[5 + 3 * job] else self._prices.breach)
            move += self._save(state, job, cost + price)
        return move

    def _save(self, state: State, job: int, cost: float) -> Move:
        return [
            self._settled(
                _closed(_among(state, piece), job) if piece & self._needy[job] else _among(state, piece), cost
            )
            for piece in split(state[1], self._needy[job])
        ]

    def _settled(self, state: State, cost: float) -> Branch:
        """The branch into `state`, without what no longer matters; many tools lead to the same."""
        known = self._known.get(state)
        if known is None:
            known = self._known[state] = self._settle(state)
        return (state[1], cost + known[0], known[1])

    def _settle(self, state: State) -> tuple[float, State | None]:
        """What is still to be lost where nothing can help any more, and what matters of `state`."""
        tick, worlds, buffer, busy, *_ = state
        for job in _JOBS:
            state = self._job_settled(state, job)
        is_open = [state[4 + 3 * job] != _CLOSED for job in _JOBS]
        if tick == self._end or not any(is_open):
            missed = [self.masses.share(worlds & self._needy[job], worlds) for job in _JOBS if is_open[job]]
            return self._prices.missed * sum(missed), None
        if buffer != _FREE and not (buffer != _SPENT and is_open[buffer - 1]):
            buffer = _SPENT
        busy = NEVER if busy <= tick else busy
        if not any(self._can_verify(state, job, max(busy, tick)) for job in _JOBS):
            busy = _BUSY_FOR_GOOD
        return 0.0, (tick, worlds, buffer, busy, *state[4:])

    def _job_settled(self, state: State, job: int) -> State:
        tick, worlds, due, authority, checked = state[0], state[1], *state[4 + 3 * job : 7 + 3 * job]
        if due == _CLOSED or worlds & self._needy[job] == NOBODY:
            return _closed(state, job)
        if tick >= self._deadline(state, job):
            return _with_job(state, job, NEVER, 0, 0)
        if authority or due > min(self._end, self._last_deadline(state, job)):
            due = NEVER
        return _with_job(state, job, due, authority, int(bool(checked and worlds & self._alternative[job])))

    def _can_verify(self, state: State, job: int, start: int) -> bool:
        """Whether a report on the job that is asked for later could still help."""
        due, authority = state[4 + 3 * job], state[5 + 3 * job]
        in_time = start + self._delay <= min(self._end, self._last_deadline(state, job))
        return due == NEVER and not authority and in_time and state[0] < self._deadline(state, job)


def _among(state: State, worlds: int) -> State:
    return (state[0], worlds, *state[2:])


def _with_job(state: State, job: int, due: int, authority: int, checked: int) -> State:
    start = 4 + 3 * job
    return (*state[:start], due, authority, checked, *state[start + 3 :])


def _closed(state: State, job: int) -> State:
    return _with_job(state, job, _CLOSED, 0, 0)
