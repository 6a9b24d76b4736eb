"""How far a solver may go."""

from collections.abc import Callable
from dataclasses import dataclass

from verifier_svc.comparator.errors import StateLimitExceeded, Stopped

DEFAULT_STATE_LIMIT = 500_000
"""Belief states that are visited at most where the caller names no limit."""
MAX_STATE_LIMIT = 2_000_000
"""The highest limit that a caller may name: what the memory of one machine holds."""

_LOOK_EVERY = 256
"""States between two looks at whether somebody still waits."""


@dataclass(frozen=True, slots=True)
class Budget:
    """At most `state_limit` belief states, for as long as `stopped` says no."""

    state_limit: int = DEFAULT_STATE_LIMIT
    stopped: Callable[[], bool] = lambda: False

    def admit(self, states_count: int) -> None:
        """Allow the visit of the `states_count`-th state; raises StateLimitExceeded, or Stopped."""
        if states_count > self.state_limit:
            message = "the case has more belief states than the limit: raise the limit, or shorten the case"
            raise StateLimitExceeded(message, state_limit=self.state_limit)
        if states_count % _LOOK_EVERY == 0 and self.stopped():
            raise Stopped
