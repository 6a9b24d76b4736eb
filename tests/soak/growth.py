"""Memory and descriptors of the services over time, and whether they grow."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MIB = 1024 * 1024
MOST_POINTS = 120
"""A longer series is judged by medians of so many parts."""

WARM_UP_SECONDS = 60.0
"""What a new process is given: caches, channels and thread pools fill."""

LEAST_SECONDS = 90.0
"""A series that is shorter after its warm-up is shown and not judged."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What a series may grow: `mib` at once, whatever its length, and `mib_an_hour` besides; descriptors likewise."""

    mib: float
    mib_an_hour: float
    descriptors: int = 12


@dataclass(slots=True)
class Series:
    """One process from its start to its end: seconds, bytes resident, descriptors."""

    service: str
    store: str
    pid: int
    points: list[tuple[float, int, int]] = field(default_factory=list)

    def judged(self, bound: Bound) -> dict[str, Any]:
        """What became of it; `grows` is None where it was too short to be judged."""
        told: dict[str, Any] = {"service": self.service, "store": self.store, "samples": len(self.points)}
        if not self.points:
            return {**told, "seconds": 0.0, "grows": None}
        told |= {
            "seconds": round(self.points[-1][0] - self.points[0][0], 1),
            "rss_mib": [round(self.points[n][1] / MIB, 1) for n in (0, -1)],
            "rss_mib_most": round(max(one[1] for one in self.points) / MIB, 1),
            "descriptors": [self.points[n][2] for n in (0, -1)],
            "descriptors_most": max(one[2] for one in self.points),
            "grows": None,
        }
        warm = [one for one in self.points if one[0] >= self.points[0][0] + WARM_UP_SECONDS]
        span = warm[-1][0] - warm[0][0] if warm else 0.0
        if span < LEAST_SECONDS:
            return told
        hours = span / 3600
        slope = slope_of([(at / 3600, rss / MIB) for at, rss, _ in warm])
        leak = slope_of([(at / 3600, float(count)) for at, _, count in warm])
        allowed = bound.mib + bound.mib_an_hour * hours
        return told | {
            "judged_seconds": round(span, 1),
            "mib_an_hour": round(slope, 2),
            "grown_mib": round(slope * hours, 2),
            "allowed_mib": round(allowed, 2),
            "grown_descriptors": round(leak * hours, 1),
            "allowed_descriptors": bound.descriptors,
            "grows": slope * hours > allowed or leak * hours > bound.descriptors,
        }


def thinned(points: Sequence[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """At most MOST_POINTS points: the medians of as many parts."""
    size = -(-len(points) // MOST_POINTS)
    parts = [points[n : n + size] for n in range(0, len(points), size)] if points else []
    return [tuple(median(column) for column in zip(*part, strict=True)) for part in parts]


def slope_of(points: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes between all pairs (Theil and Sen): single peaks do not move it."""
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(thinned(points), 2) if x2 > x1]
    return median(slopes) if slopes else 0.0


def look(pid: int) -> tuple[int, int] | None:
    """Bytes resident and descriptors of a process; None where it is gone."""
    try:
        resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
        return resident, len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None
