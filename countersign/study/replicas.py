"""Several instances of one service: each piece of work to the least busy, none to one that went away."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

S = TypeVar("S")


@dataclass(slots=True, eq=False)
class Replica(Generic[S]):
    """One instance, and how much of our work it has."""

    stub: S
    busy: int = 0


@dataclass(slots=True)
class Replicas(Generic[S]):
    """The instances of one service that still answer; never fewer than one."""

    alive: list[Replica[S]] = field(default_factory=list)

    @classmethod
    def of(cls, stubs: Sequence[S]) -> "Replicas[S]":
        """All of `stubs`, none of them busy."""
        return cls([Replica(stub) for stub in stubs])

    @contextmanager
    def least_busy(self) -> Iterator[Replica[S]]:
        """The instance with the least work, the first among equals; busy for as long as the context lasts."""
        chosen = min(self.alive, key=lambda replica: replica.busy)
        chosen.busy += 1
        try:
            yield chosen
        finally:
            chosen.busy -= 1

    def drop(self, replica: Replica[S]) -> bool:
        """Give no more work to `replica`; whether another is left. The last one is kept: there is no other to ask."""
        if replica in self.alive and len(self.alive) > 1:
            self.alive.remove(replica)
            return True
        return replica not in self.alive
