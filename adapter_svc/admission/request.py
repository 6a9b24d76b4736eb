"""What admission is asked: one response and what it must agree with (design/admission.md)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from msgspec import Struct

from adapter_svc.admission.limits import DEFAULT_LIMITS, Limits
from countersign.kit.canonical import canonical_json


class WireFormat(StrEnum):
    """The format that a provider speaks (design/admission.md, Wire formats)."""

    CHAT_COMPLETIONS = "chat_completions"
    MESSAGES = "messages"
    RESPONSES = "responses"
    GENERATE_CONTENT = "generate_content"


class Allowance(StrEnum):
    """A departure from the format that a route's profile allows; none is on by default."""

    TOOL_CALLS_WITH_STOP = "TOOL_CALLS_WITH_STOP"
    """A tool call that arrives with reason `stop` is judged as a tool stop."""


@dataclass(frozen=True, slots=True)
class ExpectedIdentity:
    """The names that the response must serve.

    `model` None asks only that some model is named (then `aliases` say nothing); `provider_name` None asks
    nothing.
    """

    model: str | None = None
    aliases: frozenset[str] = frozenset()
    provider_name: str | None = None


class OfferedTool(Struct, frozen=True):
    """A tool as offered: its name and the JSON text of the schema of its arguments."""

    name: str
    schema: bytes

    @classmethod
    def of(cls, name: str, schema: Mapping[str, Any]) -> "OfferedTool":
        """The tool with a schema given as a plain object."""
        return cls(name, canonical_json(schema))


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """One response to judge. `output_cap` is in tokens, as asked for; None where no cap was sent."""

    body: bytes = field(repr=False)
    http_status: int
    wire_format: WireFormat
    streamed: bool
    expected: ExpectedIdentity
    tools: tuple[OfferedTool, ...]
    seen_tool_call_ids: frozenset[str] = frozenset()
    output_cap: int | None = None
    allowances: frozenset[Allowance] = frozenset()
    limits: Limits = DEFAULT_LIMITS
