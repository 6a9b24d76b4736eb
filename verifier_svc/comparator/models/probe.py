"""The resource probe: (tick, worlds, units left, authority, earliest report due)."""

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


class ProbeModel:
    """Once need is known to be false, met or lost, no state is left; a report that can tell nothing is none."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.masses = Masses(case.prior)
        self._prices = Prices(case.weights)
        self._need = worlds_with(case, "need")
        self._everyone = everyone(case)
        self._deadline: int = case.contract["deadline"]
        self._delay: int = case.contract["probe_delay"]
        self._end: int = case.contract["max_calls"]

    def root(self) -> Branch:
        """The checkpoint."""
        state, reserve = self._case.roots[0], self._case.roots[0].reserve
        (job,) = state.jobs.values()
        if reserve is None or job.saved or job.lost:
            return (self._everyone, 0.0, None)
        has, due = has_authority(self._case, "probe"), awaited(state, "probe", 0)
        return self._settled((state.tick, self._everyone, reserve.left, has, due), 0.0)

    def moves(self, state: State) -> list[Move | None]:
        """read_certificate, consume_probe, rescue, wait."""
        tick, worlds, left, authority, due = state
        wait = self._pass_tick(state)
        if left:
            cost, probed = self._prices.operation, earlier(due, tick + self._delay)
            consume = self._pass_tick((tick, worlds, left - 1, authority, probed), cost)
        else:
            consume = wait
        certificate = self._pass_tick((tick, worlds, left, authority, tick + 1))
        return [certificate, consume, self._rescue(state), wait]

    def _pass_tick(self, state: State, cost: float = 0.0) -> Move:
        tick, worlds, left, authority, due = state
        tick += 1
        if due != tick:
            return [self._settled((tick, worlds, left, authority, due), cost)]
        return [
            self._settled((tick, part, left, int(bool(part & self._need)), NEVER), cost)
            for part in split(worlds, self._need)
        ]

    def _rescue(self, state: State) -> Move:
        """In time, as every state is; with a unit it saves what is needed, and nothing is left to do."""
        tick, worlds, left, authority, due = state
        if left == 0:
            return self._pass_tick(state)
        parts = split(worlds, self._need) if due == tick + 1 else (worlds,)
        authorized = [authority or (due == tick + 1 and part & self._need) for part in parts]
        price, breach = self._prices.operation, self._prices.breach
        return [(part, price if has else price + breach, None) for part, has in zip(parts, authorized, strict=True)]

    def _settled(self, state: State, cost: float) -> Branch:
        """The branch into `state`, without what no longer matters."""
        tick, worlds, left, authority, due = state
        needy = worlds & self._need
        if not needy or left == 0 or tick >= min(self._deadline, self._end):
            return (worlds, cost + self._prices.missed * self.masses.share(needy, worlds), None)
        if authority or due > min(self._deadline, self._end):
            due = NEVER
        return (worlds, cost, (tick, worlds, min(left, self._end - tick), authority, due))
