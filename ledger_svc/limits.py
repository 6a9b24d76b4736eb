"""Every limit of the ledger in one table (protos/countersign/ledger/v1/ledger.proto)."""

from countersign.kit import limits as kit_limits

MAX_ID_CHARACTERS = kit_limits.MAX_ID_CHARACTERS
"""Of an account, study, episode or request id, and of a person's name."""

MAX_TEXT_CHARACTERS = kit_limits.MAX_NOTE_CHARACTERS
"""Of a reason or of an operator's evidence."""

MAX_COST_CHARACTERS = 1_000
"""Of the cost's text as the provider wrote it."""

MAX_PAYLOAD_BYTES = kit_limits.MAX_BODY_BYTES
"""Of a request or of a response."""

MIN_TOKEN_BYTES = 16
MAX_TOKEN_BYTES = 64
DIGEST_BYTES = 32

MIN_LEASE_MICROS = 1_000_000
MAX_LEASE_MICROS = 86_400_000_000

MAX_UINT32 = 2**32 - 1
"""Of a turn, of an attempt's number and of the calls in flight."""

MAX_SEQUENCE = 2**63 - 1
"""Of a journal entry's number, as far as a store can hold one."""

DEFAULT_PAGE_SIZE = 100
MAX_PAGE_SIZE = 1_000

MAX_QUEUED = 16_384
"""Mutations that may wait for the writer; more are turned away."""

MAX_BATCH = 512
"""Mutations that one transaction commits together."""

MIN_SHARE = 128
"""Mutations that one transaction commits together at least, where so many wait; of more, some may wait for the next."""

MAX_STREAM_BATCH = kit_limits.MAX_STREAM_BATCH
"""Mutations in one message of a stream."""

MAX_STREAM_MESSAGES = 4
"""Messages of one stream that are under way; the next one is read when one of them is answered."""

MAX_SWEEP = 500
"""Overdue reservations that one sweep turns into holds."""

MAX_PAGE_BYTES = 8 * 1024 * 1024
"""Of the calls, journal entries or payloads in one reply."""

MAX_PAGE_SLOTS = 32
"""Of the slots whose payloads are read at one moment."""

LINGER_SHARE = 0.125
"""Of the last commit's time that the next one waits for the callers whom it released."""
