"""What a run may end with: the closed set of error codes, each with a fixed boundary, message, action and retryable.

design/native-harness.md, section 2. What is fixed here is never made from a foreign text; `detail` says the particular.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Boundary(StrEnum):
    """Where a failure was seen."""

    INVOCATION = "invocation"
    CONFIGURATION = "configuration"
    HARNESS = "harness"
    IMAGE = "image"
    PROTOCOL = "protocol"
    SUPERVISION = "supervision"
    INTERNAL = "internal"


class Code(StrEnum):
    """Why a run is no success."""

    CONFIG_INVALID = "CONFIG_INVALID"
    INVOCATION_INVALID = "INVOCATION_INVALID"
    HARNESS_UNAVAILABLE = "HARNESS_UNAVAILABLE"
    HARNESS_INCOMPATIBLE = "HARNESS_INCOMPATIBLE"
    HARNESS_NEEDS_AUTH = "HARNESS_NEEDS_AUTH"
    TRANSPORT_UNSUPPORTED = "TRANSPORT_UNSUPPORTED"
    PROMPT_CHANNEL_UNSUPPORTED = "PROMPT_CHANNEL_UNSUPPORTED"
    IMAGE_INVALID = "IMAGE_INVALID"
    IMAGE_TOO_LARGE = "IMAGE_TOO_LARGE"
    RECURSIVE_INVOCATION = "RECURSIVE_INVOCATION"
    STARTUP_TIMEOUT = "STARTUP_TIMEOUT"
    PROTOCOL_MALFORMED = "PROTOCOL_MALFORMED"
    PROTOCOL_TRUNCATED = "PROTOCOL_TRUNCATED"
    HARNESS_FAILED = "HARNESS_FAILED"
    SEMANTIC_STATUS_UNKNOWN = "SEMANTIC_STATUS_UNKNOWN"
    CANCELLED = "CANCELLED"
    PROCESS_CLEANUP_FAILED = "PROCESS_CLEANUP_FAILED"
    INTERNAL_ERROR = "INTERNAL_ERROR"


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """What is fixed about a code. `retryable` is said to a person, and never acted on here."""

    status: int
    boundary: Boundary
    message: str
    action: str
    retryable: bool = False


SUCCESS_STATUS: Final = 0
SEMANTIC_FAILED_STATUS: Final = 30
"""The envelope says that the program failed: a result, not an error."""

FACTS: Final[dict[Code, CodeFacts]] = {
    Code.CONFIG_INVALID: CodeFacts(
        2, Boundary.CONFIGURATION, "The configuration cannot be used.", "Correct the named file or variable."
    ),
    Code.INVOCATION_INVALID: CodeFacts(
        2, Boundary.INVOCATION, "The invocation cannot be used.", "Correct the arguments; see --help."
    ),
    Code.HARNESS_UNAVAILABLE: CodeFacts(
        10, Boundary.HARNESS, "The harness cannot be started.", "Install it, or put it on PATH; see 'cli doctor'."
    ),
    Code.HARNESS_INCOMPATIBLE: CodeFacts(
        10, Boundary.HARNESS, "The harness, or its version, cannot be judged.", "Use one that 'cli harness list' names."
    ),
    Code.HARNESS_NEEDS_AUTH: CodeFacts(
        10, Boundary.HARNESS, "The harness has no credentials.", "Set the auth profile's variable, or log in with it."
    ),
    Code.TRANSPORT_UNSUPPORTED: CodeFacts(
        10, Boundary.HARNESS, "The harness cannot be run in this way.", "Leave out the named option, or its value."
    ),
    Code.PROMPT_CHANNEL_UNSUPPORTED: CodeFacts(
        20, Boundary.IMAGE, "The harness lacks a channel that the image needs.", "Use another harness, or image."
    ),
    Code.IMAGE_INVALID: CodeFacts(
        20, Boundary.IMAGE, "The image bundle cannot be used.", "Make the bundle again from its source."
    ),
    Code.IMAGE_TOO_LARGE: CodeFacts(
        20, Boundary.IMAGE, "The image bundle is too large.", "Give a bundle within the documented limits."
    ),
    Code.RECURSIVE_INVOCATION: CodeFacts(
        2, Boundary.INVOCATION, "A run may not start another.", "Run the program outside of the harness."
    ),
    Code.STARTUP_TIMEOUT: CodeFacts(
        21,
        Boundary.SUPERVISION,
        "The harness said nothing in time.",
        "See its standard error with --verbose.",
        retryable=True,
    ),
    Code.PROTOCOL_MALFORMED: CodeFacts(
        22, Boundary.PROTOCOL, "The harness broke its own protocol.", "Keep the native log, and check its version."
    ),
    Code.PROTOCOL_TRUNCATED: CodeFacts(
        22,
        Boundary.PROTOCOL,
        "The harness ended without its terminal event.",
        "See its standard error with --verbose.",
        retryable=True,
    ),
    Code.HARNESS_FAILED: CodeFacts(
        22, Boundary.HARNESS, "The harness reports that it failed.", "Read what it says, and correct the cause."
    ),
    Code.SEMANTIC_STATUS_UNKNOWN: CodeFacts(
        23, Boundary.PROTOCOL, "The program does not know how it ended.", "Assess the artifacts by hand."
    ),
    Code.CANCELLED: CodeFacts(
        24, Boundary.SUPERVISION, "The run was ended before it was complete.", "Give it more time.", retryable=True
    ),
    Code.PROCESS_CLEANUP_FAILED: CodeFacts(
        25, Boundary.SUPERVISION, "The harness left processes behind.", "Look for them, and at what they changed."
    ),
    Code.INTERNAL_ERROR: CodeFacts(
        70, Boundary.INTERNAL, "The runner itself failed.", "Report it with the detail and the adapter's log."
    ),
}


class ProseError(Exception):
    """The run ends with `code`; `detail` is one line that names what is particular, never a value that was rejected."""

    def __init__(self, code: Code, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
