"""Where the ledger is kept: one narrow interface (`base`) and its implementations."""
