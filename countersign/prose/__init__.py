"""`prose`: an agent program as a supervised child, and what its own protocol established (design/native-harness.md)."""
