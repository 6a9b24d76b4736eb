"""How often an attack is made, and with which seeds."""

import os

SCALE = int(os.environ.get("COUNTERSIGN_ATTACK", "1"))
FIRST_SEED = int(os.environ.get("COUNTERSIGN_ATTACK_SEED", "1"))


def rounds(count: int) -> int:
    """The number of rounds, multiplied for a run by hand."""
    return count * SCALE


def seeds(count: int) -> range:
    """As many seeds as there are rounds."""
    return range(FIRST_SEED, FIRST_SEED + rounds(count))
