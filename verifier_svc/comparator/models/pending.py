"""The pending commitment: (tick, worlds, stage, commit tick, cancel due tick, authority, earliest report due, lost)."""

from verifier_svc.comparator.case import Case
from verifier_svc.comparator.models.shared import (
    NEVER,
    Branch,
    Masses,
    Move,
    Prices,
    State,
    awaited,
    earlier,
    everyone,
    has_authority,
    split,
    worlds_with,
)
from verifier_svc.physics.state import OperationStatus

_START_TICK, _EPOCH = 2, 1
_QUEUED, _CANCELLING, _CANCELLED = range(3)
_STAGES = {
    OperationStatus.QUEUED: _QUEUED,
    OperationStatus.CANCEL_REQUESTED: _CANCELLING,
    OperationStatus.CANCELLED: _CANCELLED,
}


class PendingModel:
    """Once the operation has committed, or is cancelled and not worth replacing, no state is left."""

    def __init__(self, case: Case) -> None:
        contract = case.contract
        self._case = case
        self.masses = Masses(case.prior)
        self._prices = Prices(case.weights)
        self._need = worlds_with(case, "need")
        self._everyone = everyone(case)
        self._last_saving_tick: int = contract["deadline"] + 1
        self._report_delay: int = contract["verification_delay"]
        self._cancellation_delay: int = contract["cancellation_delay"]
        self._replacement_delay: int = contract["replacement_delay"]
        self._cancel_first: bool = contract["cancel_first"]
        self._end: int = _START_TICK + contract["max_calls"]

    def root(self) -> Branch:
        """The checkpoint."""
        state, operation = self._case.roots[0], self._case.roots[0].operation
        (job,) = state.jobs.values()
        if operation is None or operation.status is OperationStatus.COMMITTED:
            return (self._everyone, 0.0, None)
        stage, cancel = _STAGES[operation.status], operation.cancel_due_tick or NEVER
        has, due = has_authority(self._case, "pending"), awaited(state, "pending", _EPOCH)
        operated = (stage, operation.commit_tick, cancel)
        return self._settled((state.tick, self._everyone, *operated, has, due, int(job.lost)), 0.0)

    def moves(self, state: State) -> list[Move | None]:
        """request_verification, cancel_transfer, replace_transfer, wait."""
        tick, worlds, stage, commit, cancel, authority, due, lost = state
        wait = self._pass_tick(state)
        asked = earlier(due, tick + self._report_delay)
        verify = self._pass_tick((tick, worlds, stage, commit, cancel, authority, asked, lost))
        cancelling = replacing = wait
        if stage == _QUEUED:
            cancel = tick + self._cancellation_delay
            cancelling = self._pass_tick((tick, worlds, _CANCELLING, commit, cancel, authority, due, lost))
        if stage == _CANCELLED:
            commit = tick + self._replacement_delay
            replacing = self._pass_tick((tick, worlds, _QUEUED, commit, NEVER, authority, due, lost))
        return [verify, cancelling, replacing, wait]

    def _pass_tick(self, state: State) -> Move:
        tick, worlds, stage, commit, cancel, authority, due, lost = state
        if due != tick + 1:
            return self._operate((tick + 1, worlds, stage, commit, cancel, authority, due, lost))
        return [
            branch
            for part in split(worlds, self._need)
            for branch in self._operate(
                (tick + 1, part, stage, commit, cancel, int(bool(part & self._need)), NEVER, lost)
            )
        ]

    def _operate(self, state: State) -> Move:
        """The operation's part in the tick that has begun, and the expiry."""
        tick, worlds, stage, commit, cancel, authority, due, lost = state
        cost = 0.0
        if stage != _CANCELLED and self._ends(stage, commit, cancel) == tick:
            if not self._is_cancelled(stage, commit, cancel):
                return [(worlds, self._commitment(state), None)]
            stage, cost = _CANCELLED, self._prices.operation
        if lost or tick != self._last_saving_tick or not worlds & self._need:
            return [self._settled((tick, worlds, stage, commit, cancel, authority, due, lost), cost)]
        branches = []
        for part in split(worlds, self._need):
            late = int(bool(part & self._need))
            price = cost + self._prices.missed * late
            branches.append(self._settled((tick, part, stage, commit, cancel, authority, due, late), price))
        return branches

    def _is_cancelled(self, stage: int, commit: int, cancel: int) -> bool:
        """Whether a filed cancellation comes before the commitment."""
        return stage == _CANCELLING and (cancel < commit or (cancel == commit and self._cancel_first))

    def _ends(self, stage: int, commit: int, cancel: int) -> int:
        return cancel if self._is_cancelled(stage, commit, cancel) else commit

    def _commitment(self, state: State) -> float:
        """What committing costs from `state` on, the reports due by then delivered, and what it leaves to be lost."""
        _, worlds, _, commit, _, authority, due, lost = state
        needy = worlds & self._need
        authorized = authority or NEVER < due <= commit
        breaching = self.masses.share(worlds & ~needy if authorized else worlds, worlds)
        missed = 0.0 if lost or commit <= self._last_saving_tick else self.masses.share(needy, worlds)
        return self._prices.transfer + self._prices.breach * breaching + self._prices.missed * missed

    def _settled(self, state: State, cost: float) -> Branch:
        """The branch into `state`, without what no longer matters."""
        tick, worlds, stage, commit, cancel, authority, due, lost = state
        needy = worlds & self._need
        missed = 0.0 if lost else self._prices.missed * self.masses.share(needy, worlds)
        if stage == _CANCELLED:
            replaceable = needy and not lost and tick + self._replacement_delay <= self._last_saving_tick
            if tick == self._end or not replaceable:
                return (worlds, cost + missed, None)
            commit = cancel = NEVER
        elif tick == self._end:
            if self._is_cancelled(stage, commit, cancel):
                return (worlds, cost + self._prices.operation + missed, None)
            return (worlds, cost + self._commitment(state), None)
        if authority or not needy:
            due = NEVER
        return (worlds, cost, (tick, worlds, stage, commit, cancel, authority, due, lost))
