"""What the reading of a native stream takes and gives: plain types (design/native-harness.md, sections 2 and 5)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

NOT_APPLICABLE = "not-applicable"
"""The semantic status under the native contract: whether requirements hold is not the harness's to say."""


class Harness(StrEnum):
    """An agent program, by the name that a person gives."""

    CLAUDE = "claude"
    CODEX = "codex"
    OMP = "omp"
    PI = "pi"
    GEMINI = "gemini"
    AGENTS_SDK = "agents-sdk"
    MOCK = "mock"
    OPENCODE = "opencode"


class OutputContract(StrEnum):
    """What makes a run count as complete (section 1)."""

    NATIVE = "native"
    IMAGE_ENVELOPE = "image-envelope"


class Code(StrEnum):
    """The error codes of section 2 that a stream and its process's end can lead to."""

    HARNESS_INCOMPATIBLE = "HARNESS_INCOMPATIBLE"
    IMAGE_INVALID = "IMAGE_INVALID"
    IMAGE_TOO_LARGE = "IMAGE_TOO_LARGE"
    PROTOCOL_MALFORMED = "PROTOCOL_MALFORMED"
    PROTOCOL_TRUNCATED = "PROTOCOL_TRUNCATED"
    HARNESS_FAILED = "HARNESS_FAILED"
    SEMANTIC_STATUS_UNKNOWN = "SEMANTIC_STATUS_UNKNOWN"
    PROCESS_CLEANUP_FAILED = "PROCESS_CLEANUP_FAILED"


class Observation(StrEnum):
    """What a completion does not decide (section 5): said, never a verdict."""

    EMPTY_FINAL_TEXT = "EMPTY_FINAL_TEXT"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    TRANSIENT_ERROR = "TRANSIENT_ERROR"
    PROVIDER_RETRY = "PROVIDER_RETRY"
    TOOL_FAILED = "TOOL_FAILED"
    ITEM_NOT_FINISHED = "ITEM_NOT_FINISHED"
    MULTIPLE_TERMINAL = "MULTIPLE_TERMINAL"
    TEXT_POSSIBLY_TRUNCATED = "TEXT_POSSIBLY_TRUNCATED"


class Rejected(Exception):
    """The record at hand, or the opening, settles that there is no completion; `detail` names the broken rule."""

    code: Code

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Malformed(Rejected):
    """The bytes or the record break the protocol."""

    code = Code.PROTOCOL_MALFORMED


class Truncated(Rejected):
    """What the protocol promises did not come."""

    code = Code.PROTOCOL_TRUNCATED


class HarnessFailed(Rejected):
    """The program itself says that it did not succeed, or wants a person."""

    code = Code.HARNESS_FAILED


class Incompatible(Rejected):
    """This program, or this version of it, has no protocol that a completion could rest on."""

    code = Code.HARNESS_INCOMPATIBLE


class ImageInvalid(Rejected):
    """The image cannot be used."""

    code = Code.IMAGE_INVALID


class ImageOverLimit(Rejected):
    """The image has more files or bytes than one may have."""

    code = Code.IMAGE_TOO_LARGE


class SemanticUnknown(Rejected):
    """The envelope says that it does not know."""

    code = Code.SEMANTIC_STATUS_UNKNOWN


class CleanupFailed(Rejected):
    """Something of the program is still running."""

    code = Code.PROCESS_CLEANUP_FAILED


@dataclass(frozen=True, slots=True)
class Opening:
    """How a stream is to be read. `image` maps every file of the bundle to its content."""

    harness: Harness
    contract: OutputContract = OutputContract.NATIVE
    harness_version: str = ""
    argv: tuple[str, ...] = ()
    image: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How the process ended. `signal` ended it; `signalled_before_terminal`: we sent one before the terminal event."""

    exit_status: int | None = None
    signal: int | None = None
    signalled_before_terminal: bool = False
    drained: bool = True
    survivors: int = 0

    @property
    def well(self) -> bool:
        """Whether the process exited by itself with status 0."""
        return self.exit_status == 0 and self.signal is None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as reported; None was not reported. Input holds the cached and the written part, output the reasoning."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class NativeEvent:
    """One normalised event: `body` is canonical JSON, `sequence` counts from 0 without gaps."""

    sequence: int
    kind: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Facts:
    """What the stream says of itself, whatever the verdict."""

    harness_version: str
    model: str
    session_id: str
    usage: Usage
    cost_text: str | None
    records: int
    output_bytes: int
    output_digest: bytes
    events: int
    events_digest: bytes
    terminal_record: int | None
    image_digest: bytes


@dataclass(frozen=True, slots=True)
class Completion:
    """The program finished by its own protocol, and what the output contract asks beyond that is there."""

    assistant_text: str
    observations: Mapping[Observation, int]
    facts: Facts
    semantic_status: str = NOT_APPLICABLE
    envelope: bytes = b""
    envelope_digest: bytes = b""


@dataclass(frozen=True, slots=True)
class Failure:
    """It did not; `record` is the number of the record at which that showed, 0 where none did."""

    code: Code
    record: int
    detail: str
    observations: Mapping[Observation, int]
    facts: Facts
