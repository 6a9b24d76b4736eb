"""What the environments share whose one need never changes (design/environments.md, Pending commitment, Resource
probe)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verifier_svc.physics import fields
from verifier_svc.physics.state import State


@dataclass(frozen=True, slots=True)
class SteadyWorld:
    """What is so: whether the rescue is needed."""

    need: bool

    @classmethod
    def read(cls, source: Mapping[str, Any]) -> "SteadyWorld":
        """Validate a world's JSON object; raises InvalidCase."""
        fields.only_known(source, cls.__slots__)
        return cls(fields.flag(source, "need"))

    def as_json(self) -> dict[str, Any]:
        """The complete world as packets spell it."""
        return {"need": self.need}


class SteadyRules:
    """One world whose need and efficacy never change, without buffer or alternative."""

    __slots__ = ()

    world: SteadyWorld
    job: str

    @property
    def buffer_extension(self) -> int:
        """There is no buffer."""
        return 0

    def need(self, job: str, tick: int) -> bool:
        """The world's need, at every tick."""
        return self.world.need

    def effective(self) -> bool:
        """Always true: efficacy holds."""
        return True

    def has_alternative(self, job: str) -> bool:
        """There is no alternative."""
        return False

    def truth(self, state: State) -> bool:
        """`saved` itself: with no need it is false."""
        return state.jobs[self.job].saved
