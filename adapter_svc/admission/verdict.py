"""What admission answers: one verdict, and the evidence that goes with it (design/admission.md).

What every answer makes anew is a frozen `msgspec.Struct`: one is made in a fraction of the time that a frozen dataclass
takes.
"""

import json
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from msgspec import Struct


class Reason(StrEnum):
    """Why a response is a technical unknown: the closed list of design/admission.md."""

    HTTP_STATUS = "HTTP_STATUS"
    MALFORMED_JSON = "MALFORMED_JSON"
    DUPLICATE_KEY = "DUPLICATE_KEY"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    PROVIDER_ERROR = "PROVIDER_ERROR"
    IDENTITY_MISMATCH = "IDENTITY_MISMATCH"
    IDENTITY_MISSING = "IDENTITY_MISSING"
    INVALID_CHOICES = "INVALID_CHOICES"
    INVALID_MESSAGE = "INVALID_MESSAGE"
    UNRECOGNIZED_STOP_REASON = "UNRECOGNIZED_STOP_REASON"
    MISSING_STOP_REASON = "MISSING_STOP_REASON"
    AMBIGUOUS_TERMINATION = "AMBIGUOUS_TERMINATION"
    EMPTY_TEXT = "EMPTY_TEXT"
    STRUCTURED_REFUSAL = "STRUCTURED_REFUSAL"
    MULTIPLE_TOOL_CALLS = "MULTIPLE_TOOL_CALLS"
    INVALID_TOOL_CALL = "INVALID_TOOL_CALL"
    DUPLICATE_TOOL_CALL_ID = "DUPLICATE_TOOL_CALL_ID"
    UNKNOWN_TOOL = "UNKNOWN_TOOL"
    MALFORMED_ARGUMENTS = "MALFORMED_ARGUMENTS"
    INVALID_ARGUMENTS = "INVALID_ARGUMENTS"
    TRUNCATED = "TRUNCATED"
    FILTERED = "FILTERED"
    CONTINUATION_REQUIRED = "CONTINUATION_REQUIRED"
    SERVER_TOOL_USED = "SERVER_TOOL_USED"
    STREAM_INCOMPLETE = "STREAM_INCOMPLETE"
    STREAM_CONTRADICTION = "STREAM_CONTRADICTION"


class Inadmissible(Exception):
    """The first check that failed, raised where it is known and turned into a `TechnicalUnknown` by
    `admit`.
    """

    def __init__(self, reason: Reason, where: str) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.where = where


class Origin(Enum):
    """Where an admitted event of the model came from (docs/formats.md, Episode record)."""

    NATIVE_TOOL = "NATIVE_TOOL"
    NORMAL_TEXT = "NORMAL_TEXT"


class Action(Struct, frozen=True):
    """One admitted tool call. `arguments` is canonical JSON; `text` is the prose beside the call, perhaps
    empty.
    """

    tool: str
    arguments: bytes
    tool_call_id: str
    text: str

    @property
    def origin(self) -> Origin:
        """Always `NATIVE_TOOL`."""
        return Origin.NATIVE_TOOL

    def claim(self) -> str | None:
        """The argument `claim` where it is a string; the only argument that the environments know."""
        claim = json.loads(self.arguments).get("claim")
        return claim if isinstance(claim, str) else None


class TextFinish(Struct, frozen=True):
    """The model ended with prose. The text is evidence as it came, untrimmed; its truth is not judged."""

    text: str

    @property
    def origin(self) -> Origin:
        """Always `NORMAL_TEXT`."""
        return Origin.NORMAL_TEXT


class TechnicalUnknown(Struct, frozen=True):
    """Not admitted. `where` is a JSON pointer into the response body (of a stream: into the body that its events
    make), the empty string for the body as a whole, or an event of a stream as `event N`, from 1.

    Carries nothing that the provider wrote: pointers are made of the format's own names and of positions.
    """

    reason: Reason
    where: str


Verdict = Action | TextFinish | TechnicalUnknown
"""Exactly one of the three."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """What the model sent exactly as its bytes came, to be sent back unchanged (design/admission.md, Continuation).

    `message` is what the format's next request holds of it: the message (chat_completions), the array of content
    blocks (messages), the array of output items (responses), the content object (generate_content). `digest` is its
    SHA-256. The bytes are opaque and kept out of `repr`.
    """

    message: bytes = field(repr=False)
    digest: bytes


class Usage(Struct, frozen=True):
    """Token counts as the provider reported them; None is absent, which is not zero.

    `input_tokens` has the cached ones in it, `output_tokens` the reasoning ones, whatever the format's own counts
    have. `cached_tokens` were read from a cache and `cache_write_tokens` written to one: both are part of the input.
    `total_tokens` is the provider's own sum. `invalid` names the counts (and `cost`, `usage`) that were present and
    unreadable: negative, not an integer, beyond int64.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None
    invalid: tuple[str, ...] = ()


class ServedIdentity(Struct, frozen=True):
    """The names that the response itself gives; None where absent or not a string."""

    model: str | None = None
    provider_name: str | None = None


class Admission(Struct, frozen=True):
    """The verdict with its evidence.

    `continuation` is there for an action only. `reported_cost` is the number's own text as spelled in the
    body, None where there is none. Usage, cost and identity are read whatever the verdict, wherever the
    body is a JSON object: an answer that is not admitted was paid for too. `raw_digest` is the SHA-256 of
    the body.
    """

    verdict: Verdict
    continuation: Continuation | None
    usage: Usage
    reported_cost: str | None
    served: ServedIdentity
    raw_digest: bytes
