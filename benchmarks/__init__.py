"""Measurements of the ledger, run by hand: `python -m benchmarks.ledger --help`."""
