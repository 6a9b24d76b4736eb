"""The event environment: (tick, worlds, buffer, inventory checked, authority, earliest report due of each epoch)."""

from collections.abc import Mapping
from functools import partial
from typing import Any

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
    split_by,
    worlds_where,
    worlds_with,
)

_FREE, _EXTENDED, _UNAVAILABLE = range(3)
_EPOCHS = (0, 1)
_JOB = "event"


class EventModel:
    """Once the need is met, lost, or beyond all help, no state is left.

    Every report of one epoch has the same content in a world, so that the earliest that is due stands for all.
    """

    def __init__(self, case: Case) -> None:
        contract = case.contract
        self.masses = Masses(case.prior)
        self._case = case
        self._prices = Prices(case.weights)
        self._known: dict[State, tuple[float, State | None]] = {}
        self._everyone = everyone(case)
        self._effective = worlds_with(case, "effective")
        self._alternative = worlds_with(case, "alternative")
        self._needy = tuple(worlds_where(case, partial(_need, epoch)) for epoch in _EPOCHS)
        self._end: int = contract["max_calls"]
        self._changed = [worlds_where(case, partial(_has_changed, tick)) for tick in range(self._end + 1)]
        deadline, extended = contract["deadline"], contract["deadline"] + contract["buffer_extension"]
        self._deadlines = (deadline, extended, deadline)
        self._last_ticks = (extended, extended, deadline)
        self._missed = [worlds_where(case, partial(_is_missed, one)) for one in self._deadlines]
        self._delays = (contract["verification_delay"], contract["human_delay"])

    def root(self) -> Branch:
        """The checkpoint."""
        state = self._case.roots[0]
        job = state.jobs[_JOB]
        if job.saved or job.lost:
            return (self._everyone, 0.0, None)
        taken = _EXTENDED if job.deadline > self._deadlines[_FREE] else _UNAVAILABLE
        buffer = _FREE if state.buffer_free else taken
        dues = [awaited(state, _JOB, epoch) for epoch in _EPOCHS]
        known = (int(job.inventory_checked), has_authority(self._case, _JOB), *dues)
        return self._settled((state.tick, self._everyone, buffer, *known), 0.0)

    def moves(self, state: State) -> list[Move | None]:
        """The two requests, the inventory's two tools, reserve_buffer, transfer, wait."""
        found = self._pass_tick(state)
        requests: list[Move | None] = [
            [branch for part in self._pass_tick(self._ask(state, delay)) for branch in self._rest(part)]
            for delay in self._delays
        ]
        deeds = (self._check, self._use, self._reserve, self._transfer, self._rest)
        return requests + [[branch for part in found for branch in deed(part)] for deed in deeds]

    def _ask(self, state: State, delay: int) -> State:
        tick, worlds, buffer, checked, authority, due_0, due_1 = state
        if worlds & self._changed[tick]:
            return (tick, worlds, buffer, checked, authority, due_0, earlier(due_1, tick + delay))
        return (tick, worlds, buffer, checked, authority, earlier(due_0, tick + delay), due_1)

    def _pass_tick(self, state: State) -> list[State]:
        """The classes of worlds that the new tick's epoch, reports and losses tell apart; the lost are told by a
        buffer of -1."""
        tick, worlds, buffer, checked, authority, due_0, due_1 = state
        before, now = self._changed[tick], self._changed[tick + 1]
        later = []
        for part in split(worlds, now):
            epoch = int(bool(part & now))
            has = authority if not epoch or part & before else 0
            later += self._deliver((tick + 1, part, buffer, checked, has, due_0, due_1), epoch)
        return [piece for part in later for piece in self._expire(part)]

    def _deliver(self, state: State, epoch: int) -> list[State]:
        tick, worlds, buffer, checked, authority, due_0, due_1 = state
        parts = [(worlds, authority)]
        for of, due in enumerate((due_0, due_1)):
            if due != tick:
                continue
            positive = self._needy[of] & self._effective
            parts = [
                (piece, has or int(of == epoch and bool(piece & positive)))
                for part, has in parts
                for piece in split_by(part, self._needy[of], self._effective)
            ]
        due_0, due_1 = (NEVER if due == tick else due for due in (due_0, due_1))
        return [(tick, part, buffer, checked, has, due_0, due_1) for part, has in parts]

    def _expire(self, state: State) -> list[State]:
        tick, worlds, buffer, *rest = state
        needy = self._needy_at(tick, worlds)
        if tick <= self._deadlines[buffer] or not needy:
            return [state]
        return [(tick, part, -1 if part & needy else buffer, *rest) for part in split(worlds, needy)]

    def _needy_at(self, tick: int, worlds: int) -> int:
        """Those of `worlds` that are in need; one class has one epoch."""
        return worlds & self._needy[int(bool(worlds & self._changed[tick]))]

    def _rest(self, state: State) -> Move:
        return [self._settled(state, 0.0)]

    def _check(self, state: State) -> Move:
        tick, worlds, buffer, _, *rest = state
        parts = split(worlds, self._alternative)
        return [self._settled((tick, part, buffer, 1, *rest), 0.0) for part in parts]

    def _use(self, state: State) -> Move:
        executes = state[3] and state[1] & self._alternative
        return self._save(state, state[1], self._prices.operation) if executes else self._rest(state)

    def _reserve(self, state: State) -> Move:
        tick, worlds, buffer, *rest = state
        if buffer != _FREE:
            return self._rest(state)
        return [self._settled((tick, worlds, _EXTENDED, *rest), self._prices.operation)]

    def _transfer(self, state: State) -> Move:
        price = self._prices.transfer + (0.0 if state[4] else self._prices.breach)
        return self._save(state, state[1] & self._effective, price)

    def _save(self, state: State, able: int, price: float) -> Move:
        """The needy among those `able` to be saved are, unless the loss is final; all pay `price`."""
        tick, worlds, buffer, *rest = state
        if buffer == -1:
            return [self._settled(state, price)]
        saved = self._needy_at(tick, worlds) & able
        return [
            (part, price, None) if part & saved else self._settled((tick, part, buffer, *rest), price)
            for part in split(worlds, saved)
        ]

    def _settled(self, state: State, cost: float) -> Branch:
        """The branch into `state`, without what no longer matters; many tools lead to the same."""
        known = self._known.get(state)
        if known is None:
            known = self._known[state] = self._settle(state)
        return (state[1], cost + known[0], known[1])

    def _settle(self, state: State) -> tuple[float, State | None]:
        """What is still to be lost where nothing can help any more, and what matters of `state`."""
        tick, worlds, buffer, checked, authority, due_0, due_1 = state
        if buffer == -1:
            return self._prices.missed, None
        missed = worlds & self._missed[buffer]
        last_tick = min(self._end, self._last_ticks[buffer])
        if tick >= last_tick or not missed:
            return self._prices.missed * self.masses.share(missed, worlds), None
        epoch = int(bool(worlds & self._changed[tick]))
        due_0 = NEVER if due_0 > last_tick else self._awaited(0, due_0, worlds, epoch, authority)
        due_1 = NEVER if due_1 > last_tick else self._awaited(1, due_1, worlds, epoch, authority)
        checked = int(bool(checked and worlds & self._alternative))
        return 0.0, (tick, worlds, buffer, checked, authority, due_0, due_1)

    def _awaited(self, of: int, due: int, worlds: int, epoch: int, authority: int) -> int:
        """`due`, or NEVER where the report tells nothing and authorizes nothing that is not yet."""
        if len(split(worlds, self._needy[of])) > 1 or len(split(worlds, self._effective)) > 1:
            return due
        authorizes = of == epoch and not authority and worlds & self._needy[of] & self._effective
        return due if authorizes else NEVER


def _need(epoch: int, world: Mapping[str, Any]) -> bool:
    changed = world["changed_need"]
    return bool(world["need"] if epoch == 0 or changed is None else changed)


def _has_changed(tick: int, world: Mapping[str, Any]) -> bool:
    return world["change_tick"] is not None and bool(tick >= world["change_tick"])


def _is_missed(deadline: int, world: Mapping[str, Any]) -> bool:
    """Whether a need that nobody meets is lost: there after the deadline, at first or ever after."""
    return _need(1, world) or (_need(0, world) and not _has_changed(deadline + 1, world))
