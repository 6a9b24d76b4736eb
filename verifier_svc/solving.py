"""Solving beside the event loop: a long solution keeps nobody else waiting."""

import asyncio
import threading

from verifier_svc.comparator import (
    DEFAULT_STATE_LIMIT,
    Budget,
    Comparator,
    StateLimitExceeded,
    read_case,
    solve,
)
from verifier_svc.packets import DeclaredCase
from verifier_svc.physics.errors import InvalidCase

SOLVED_AT_ONCE = 2
"""How many cases are solved at a time; the others wait for their turn, or for their own deadline."""


class Solving:
    """Solves cases in worker threads."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(SOLVED_AT_ONCE)

    async def expected_loss(self, declared: DeclaredCase) -> float | None:
        """The comparator's expected loss; None where the case is too large or has no comparator, never a guess."""
        try:
            comparator = await self.solve(declared, DEFAULT_STATE_LIMIT, raw_histories=False)
        except (StateLimitExceeded, InvalidCase):
            return None
        return comparator.expected_loss

    async def solve(self, declared: DeclaredCase, state_limit: int, raw_histories: bool) -> Comparator:
        """The comparator of a case; raises as `read_case` and `solve` do.

        Where the caller's deadline passes or the caller goes, the call is cancelled here and its thread ends soon.
        """
        left = threading.Event()

        def work() -> Comparator:
            return solve(read_case(declared), Budget(state_limit, left.is_set), raw_histories)

        async with self._turns:
            try:
                return await asyncio.to_thread(work)
            finally:
                left.set()
