"""A sensible way to play the resource probe: read the certificate, which spends nothing, and keep the unit.

It rescues only on a delivered positive report and in time, and claims what the observation shows
(design/environments.md, Resource probe).
"""

from collections.abc import Mapping
from typing import Any

from countersign.agents.moves import Move, finish


def probe_move(seen: Mapping[str, Any]) -> Move:
    """Decide the next call from the latest observation."""
    possible = seen["reserve_remaining"] > 0 and not seen["saved"] and not seen["deadline_loss"]
    need = seen["evidence"][-1]["need"] if seen["evidence"] else None
    if possible and need and seen["tick"] + 1 <= seen["deadline"]:
        return Move("rescue")
    if possible and need is None and seen["tick"] + 2 <= seen["deadline"] and seen["calls_left"] > 1:
        return Move("read_certificate")
    # Nothing is saved without a call: what the observation shows is what settles.
    return finish("saved" if seen["saved"] else "not_saved")
