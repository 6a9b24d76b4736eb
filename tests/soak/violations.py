"""What an invariant that does not hold is told as."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Invariant(StrEnum):
    """The invariants of design/architecture.md, and what a soak asks besides."""

    I1 = "I1"
    """No durable reservation, no request; one request at most for one reservation."""
    I2 = "I2"
    """Charges and open reservations never exceed what is authorised; the ledger's answers are its journal's."""
    I3 = "I3"
    """No hold is freed but by the operator's own decision."""
    I4 = "I4"
    """A slot with a receipt is never asked again."""
    I5 = "I5"
    """What is inadmissible executes nothing; no outcome and no answer is invented."""
    I6 = "I6"
    """The model is shown the packet that was frozen."""
    I7 = "I7"
    """The verifier agrees with every outcome."""
    I8 = "I8"
    """Planned is the sum of all categories."""
    I9 = "I9"
    """Reasoning goes back unchanged, and into no log, record or report."""
    JOURNAL = "journal"
    """The journal's chain holds, and nothing of it goes away."""
    MEMORY = "memory"
    """A service that lives keeps neither memory nor descriptors."""
    CONDUCT = "conduct"
    """Services start, end and answer as they say."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One finding."""

    invariant: Invariant
    what: str

    def to_json(self) -> dict[str, Any]:
        """As it stands in the result."""
        return asdict(self)
