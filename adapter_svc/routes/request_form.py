"""What is particular to a wire format's requests (docs/formats.md, Conversation)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adapter_svc.admission import Continuation
from adapter_svc.routes.profile import Route


@dataclass(frozen=True, slots=True)
class Turn:
    """A past turn: what the model sent as it came, its call's id and tool, and the event's result text.

    `tool_call_id` is empty where the format gave none.
    """

    continuation: Continuation
    tool_call_id: str
    result: str
    tool: str


@dataclass(frozen=True, slots=True)
class RequestForm:
    """How one wire format asks.

    - `conversation`: the members that hold what the model is shown but for the tools, each as JSON bytes, from system
      message, packet and turns; continuations stand in them byte for byte.
    - `tools`: the value of the member `tools`.
    - `settings`: what else the adapter sets for a route (model, output cap, tool choice, streaming).
    - `returned`: the continuations as they stand in a finished body, in the turns' order; raises Inadmissible.
    """

    conversation: Callable[[str, bytes, Sequence[Turn]], Mapping[str, bytes]]
    tools: Callable[[Sequence[Mapping[str, Any]]], Any]
    settings: Callable[[Route], Mapping[str, Any]]
    returned: Callable[[bytes, Sequence[Turn]], Sequence[bytes]]
