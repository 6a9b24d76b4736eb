"""Measurements of the ledger, run by hand (docs/performance.md)."""
