"""A bounded soak of the real services under faults drawn from a seed (docs/soak.md)."""

import os

# Its processes are started beside its calls; none of them calls anything before it is another program.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
