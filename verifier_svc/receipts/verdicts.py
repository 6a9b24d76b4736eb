"""What a response can be found to be (design/admission.md)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Reason(StrEnum):
    """Why a response is a technical unknown: the design's closed list, streams included."""

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


class Allowance(StrEnum):
    """A dialect's departure that a route may permit; all are off by default."""

    TOOL_CALLS_WITH_STOP = "tool_calls_with_stop"
    """One tool call that arrives with the reason `stop` counts as a tool stop."""


@dataclass(frozen=True, slots=True)
class Action:
    """One admitted tool call; `call_id` exactly as it came, `arguments` as parsed."""

    tool: str
    arguments: Mapping[str, Any]
    call_id: str


@dataclass(frozen=True, slots=True)
class TextFinish:
    """An ordinary final text; its truth is not judged."""

    text: str


@dataclass(frozen=True, slots=True)
class TechnicalUnknown:
    """Not admitted: why, and where in the response.

    `where` is a JSON pointer (RFC 6901) into the body, a stream's being the assembled one; "" is the whole of it. What
    a stream itself fails at is named by the number of the event, counted from 1: `event 7`.
    """

    reason: Reason
    where: str


Verdict = Action | TextFinish | TechnicalUnknown


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counts them; what it did not state is None, which is not zero.

    The input is made of three classes that have no token in common: `uncached_input`, `cache_read` and `cache_write`;
    `reasoning` is a part of the output. Not consistent: a part is more than its whole, a stated total is another number
    than the sum, or a count is there and cannot be read.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    is_consistent: bool = True

    @property
    def uncached_input(self) -> int | None:
        """The input that no cache had a part in; None where the whole is not stated."""
        if self.input_tokens is None:
            return None
        return self.input_tokens - (self.cache_read or 0) - (self.cache_write or 0)


@dataclass(frozen=True, slots=True)
class Decoded:
    """One response as read again.

    `continuation` holds the opaque items that go back with the next request (docs/formats.md, Conversation), byte for
    byte: the message, the content array, the output array or the content object; None where there is no single one.
    `reported_cost` is the number's exact spelling; usage is None where the response states none.
    """

    verdict: Verdict
    model: str | None = None
    provider: str | None = None
    usage: Usage | None = None
    reported_cost: str | None = None
    continuation: bytes | None = None


class Inadmissible(Exception):
    """Carries a technical unknown out of a stage of checks; never leaves this package."""

    def __init__(self, reason: Reason, where: str = "") -> None:
        super().__init__(reason)
        self.unknown = TechnicalUnknown(reason, where)
