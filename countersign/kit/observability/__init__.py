"""Traces and metrics, both optional: what is not asked for imports nothing, starts no thread and opens no socket.

`tracing` and `metrics` are what the rest of the code uses. `running` turns them on for a process; `sdk` and
`exposition`, which need the extra `observability`, are imported by it alone, and only where they are asked for.
"""
