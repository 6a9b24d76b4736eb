"""Every limit of the transport between the parties, in one table."""

MAX_BODY_BYTES = 8 * 1024 * 1024
"""A provider's request or response body (design/admission.md, Reading bytes)."""

MAX_MESSAGE_BYTES = 20 * 1024 * 1024
"""A gRPC message: a request and a response body of the largest size, and their frame."""

KEEPALIVE_MILLIS = 60_000
"""How often an idle connection is probed by a client."""

KEEPALIVE_TIMEOUT_MILLIS = 20_000
"""How long a probe may stay unanswered."""

MIN_PING_INTERVAL_MILLIS = 30_000
"""The fastest that a client may probe; below KEEPALIVE_MILLIS, so that no client of ours is turned away."""

MAX_ID_CHARACTERS = 200
"""An id that a caller chooses."""

MAX_NOTE_CHARACTERS = 4_000
"""A name, a reason or an evidence text that a caller writes."""

MAX_STREAM_BATCH = 1_000
"""Mutations in one message of a ledger's stream."""

MAX_STREAM_MESSAGE_BYTES = 16 * 1024 * 1024
"""Where a client begins another message of a ledger's stream; one mutation alone may be as large as a message may."""
