"""What a receipt is read with: the form of its bytes, the route's expectations, and the turn that it answers."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from verifier_svc.receipts.strict import Limits
from verifier_svc.receipts.verdicts import Allowance


class WireFormat(StrEnum):
    """The form in which a provider speaks (design/admission.md, Wire formats)."""

    CHAT_COMPLETIONS = "chat_completions"
    MESSAGES = "messages"
    RESPONSES = "responses"
    GENERATE_CONTENT = "generate_content"


@dataclass(frozen=True, slots=True)
class Answer:
    """A stored response: its bytes as received, and whether they are a stream of server-sent events."""

    wire_format: WireFormat
    body: bytes
    http_status: int
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a route's profile says of its responses; `model` None asks only that a model is named."""

    model: str | None = None
    model_aliases: frozenset[str] = frozenset()
    provider_name: str | None = None
    output_cap: int | None = None
    allowances: frozenset[Allowance] = frozenset()
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Turn:
    """What a response is judged against.

    `tools` maps each offered name to its JSON schema; `seen_ids` are the episode's earlier tool-call ids.
    """

    tools: Mapping[str, Mapping[str, Any]]
    seen_ids: Collection[str]
    route: Expectation
