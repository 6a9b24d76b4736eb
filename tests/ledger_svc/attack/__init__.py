"""The ledger under attack: kills, races, full disks, damage, cancelled clients, jumping clocks.

Each attack is bounded. `COUNTERSIGN_ATTACK=N` multiplies the rounds of all of them for a run by hand; the seed of the
first round is `COUNTERSIGN_ATTACK_SEED`.
"""
