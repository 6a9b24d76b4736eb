"""The environments a second time: a fold over tool calls (design/environments.md)."""
