"""The adapter: provider requests, admission, simulated environments, the turn loop."""
