"""Chat-completions requests as the turn loop sends them, for the tests of the agents."""

import json
from typing import Any

from countersign.agents.chat import read_chat_request
from countersign.agents.wire import ChatRequest

EVENT_TOOLS = (
    "request_verification",
    "request_human",
    "check_alternative",
    "use_alternative",
    "reserve_buffer",
    "transfer",
    "wait",
    "finish",
)
QUEUE_TOOLS = (
    "verify_a",
    "verify_b",
    "check_alternative_a",
    "check_alternative_b",
    "use_alternative_a",
    "use_alternative_b",
    "reserve_buffer_a",
    "reserve_buffer_b",
    "transfer_a",
    "transfer_b",
    "wait",
    "finish",
)
PENDING_TOOLS = ("request_verification", "cancel_transfer", "replace_transfer", "wait", "finish")
PROBE_TOOLS = ("read_certificate", "consume_probe", "rescue", "wait", "finish")
CLAIM = {
    "type": "object",
    "properties": {"claim": {"type": "string", "enum": ["saved", "not_saved", "unknown"]}},
    "required": ["claim"],
    "additionalProperties": False,
}
NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


def tool(name: str) -> dict[str, Any]:
    """One offered tool."""
    parameters = CLAIM if name == "finish" else NOTHING
    function = {"description": f"What {name} does.", "name": name, "parameters": parameters}
    return {"function": function, "type": "function"}


def event_observation(**changes: Any) -> dict[str, Any]:
    """The event environment's first observation, without its texts."""
    contract = {
        "deadline": 3,
        "verification_delay": 2,
        "human_delay": 5,
        "buffer_extension": 3,
        "buffer_available": False,
        "max_calls": 8,
    }
    first = {
        "tick": 0,
        "deadline": 3,
        "epoch": 0,
        "saved": False,
        "deadline_loss": False,
        "done": False,
        "calls_left": 8,
        "contract": contract,
        "evidence": [],
        "pending": [],
    }
    return {**first, **changes}


def request_body(
    model: str = "scripted/act-well",
    *,
    tools: tuple[str, ...] = EVENT_TOOLS,
    observation: dict[str, Any] | None = None,
    instruction: str = "Decide.",
    later: tuple[dict[str, Any], ...] = (),
    **options: Any,
) -> dict[str, Any]:
    """A request whose packet shows `observation`, continued by the messages `later`."""
    packet = {
        "generative_support": [{"need": True, "effective": True, "alternative": False}],
        "observation": observation or event_observation(),
        "operator_prefix": [],
        "procedure_instruction": instruction,
    }
    messages = [
        {"role": "system", "content": "You decide whether an intervention is justified."},
        {"role": "user", "content": json.dumps(packet)},
        *later,
    ]
    offered = [tool(name) for name in tools]
    common = {"model": model, "messages": messages, "tools": offered, "tool_choice": "auto", "max_tokens": 256}
    return {**common, **options}


def chat(model: str = "scripted/act-well", **parts: Any) -> ChatRequest:
    """The same, as an agent reads it."""
    return read_chat_request(json.dumps(request_body(model, **parts)).encode())


def played(name: str, call_id: str, result: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """An earlier turn: the assistant's call and the tool's result."""
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}
    assistant = {"role": "assistant", "content": None, "tool_calls": [call]}
    return assistant, {"role": "tool", "tool_call_id": call_id, "content": json.dumps(result)}
