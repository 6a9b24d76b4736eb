"""The table of wire formats that the scripted agent speaks: the request's target chooses one."""

from collections.abc import Mapping
from types import MappingProxyType

from countersign.agents.errors import BadChatRequestError
from countersign.agents.http_server import Request, Response
from countersign.agents.wire import ChatRequest, Completion, Wire, WireName
from countersign.agents.wire_chat import CHAT_WIRE
from countersign.agents.wire_generate_content import GENERATE_CONTENT_WIRE
from countersign.agents.wire_messages import MESSAGES_WIRE
from countersign.agents.wire_responses import RESPONSES_WIRE

WIRES: Mapping[WireName, Wire] = MappingProxyType(
    {
        WireName.CHAT_COMPLETIONS: CHAT_WIRE,
        WireName.MESSAGES: MESSAGES_WIRE,
        WireName.RESPONSES: RESPONSES_WIRE,
        WireName.GENERATE_CONTENT: GENERATE_CONTENT_WIRE,
    }
)
"""Every format by its name."""


def read_request(request: Request) -> ChatRequest | None:
    """Read a request in the format that its target names; None where it names none.

    Raises BadChatRequestError where the body is not such a request, or asks for events that the format has not.
    """
    for wire in WIRES.values():
        found = wire.target.fullmatch(request.path) if request.method == "POST" else None
        if found is not None:
            chat = wire.read(found, request.body)
            if chat.streamed and wire.events is None:
                raise BadChatRequestError("only unary requests are served")
            return chat
    return None


def write(completion: Completion, chat: ChatRequest) -> Response:
    """The answer to `chat` in the format and the form that it asked for."""
    wire = WIRES[chat.wire]
    if not chat.streamed or wire.events is None:
        return Response(200, wire.write(completion, chat))
    return Response(200, wire.events(completion, chat), content_type="text/event-stream")
