"""The ledger: accounts, budgets, reservations, receipts, holds and the hash-chained journal."""
