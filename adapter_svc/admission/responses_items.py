"""The kinds of output items, as data: who acts on each (design/admission.md, Order of checks 5, 7 and 8).

Decided here by analogy, each pinned by a test:

- What the provider itself ran, looked up or listed is an external action, whether it succeeded or not: an item of the
  result says so as much as an item of the call. Calls that either side can run say who does: `execution` of a tool
  search, `environment` of a shell.
- A call of another kind than a function's waits for us to run something that was never offered.
- Any other kind, a compaction of the conversation included, is not known: nothing is left out to make an answer work.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from adapter_svc.admission.rules import JsonObject
from adapter_svc.admission.strict_json import JsonValue
from adapter_svc.admission.verdict import Inadmissible, Reason


class ItemKind(Enum):
    """What an output item is to admission."""

    MESSAGE = "MESSAGE"
    REASONING = "REASONING"
    FUNCTION_CALL = "FUNCTION_CALL"
    OTHER_CALL = "OTHER_CALL"
    """Waits for us, and is not of the one kind that was offered."""
    SERVER_TOOL = "SERVER_TOOL"
    """The provider acted, or says what came of it."""


KINDS: Mapping[str, ItemKind] = {
    "message": ItemKind.MESSAGE,
    "reasoning": ItemKind.REASONING,
    "function_call": ItemKind.FUNCTION_CALL,
    "custom_tool_call": ItemKind.OTHER_CALL,
    "computer_call": ItemKind.OTHER_CALL,
    "local_shell_call": ItemKind.OTHER_CALL,
    "shell_call": ItemKind.OTHER_CALL,
    "apply_patch_call": ItemKind.OTHER_CALL,
    "tool_search_call": ItemKind.OTHER_CALL,
    "mcp_approval_request": ItemKind.OTHER_CALL,
    "web_search_call": ItemKind.SERVER_TOOL,
    "file_search_call": ItemKind.SERVER_TOOL,
    "code_interpreter_call": ItemKind.SERVER_TOOL,
    "image_generation_call": ItemKind.SERVER_TOOL,
    "mcp_call": ItemKind.SERVER_TOOL,
    "mcp_list_tools": ItemKind.SERVER_TOOL,
    "mcp_approval_response": ItemKind.SERVER_TOOL,
    "tool_search_output": ItemKind.SERVER_TOOL,
    "function_call_output": ItemKind.SERVER_TOOL,
    "custom_tool_call_output": ItemKind.SERVER_TOOL,
    "computer_call_output": ItemKind.SERVER_TOOL,
    "local_shell_call_output": ItemKind.SERVER_TOOL,
    "shell_call_output": ItemKind.SERVER_TOOL,
    "apply_patch_call_output": ItemKind.SERVER_TOOL,
}
"""The kind of each `type`, where nothing else in the item says who runs it."""

_HOSTED_SHELL = "container_reference"
"""The `environment.type` of a shell that the provider keeps."""

TEXT_PARTS: Mapping[str, str] = {"output_text": "text", "refusal": "refusal"}
"""The known parts of a message's content: each with the member that holds its text."""


@dataclass(frozen=True, slots=True)
class Item:
    """One output item, with its pointer and its kind."""

    where: str
    kind: ItemKind
    members: JsonObject


def read_items(output: JsonValue) -> list[Item]:
    """Check 5: a list of items of known kinds, the messages the assistant's and of known parts.

    Raises Inadmissible `INVALID_MESSAGE` at what is not.
    """
    if not isinstance(output, list):
        raise Inadmissible(Reason.INVALID_MESSAGE, "/output")
    return [_item(value, f"/output/{position}") for position, value in enumerate(output)]


def _item(value: JsonValue, where: str) -> Item:
    if not isinstance(value, dict):
        raise Inadmissible(Reason.INVALID_MESSAGE, where)
    name = value.get("type")
    if not isinstance(name, str) or name not in KINDS:
        raise Inadmissible(Reason.INVALID_MESSAGE, f"{where}/type")
    item = Item(where, _kind(name, value), value)
    if item.kind is ItemKind.MESSAGE:
        _require_assistants(item)
    return item


def _kind(name: str, value: JsonObject) -> ItemKind:
    environment = value.get("environment")
    hosted = isinstance(environment, dict) and environment.get("type") == _HOSTED_SHELL
    if (name == "tool_search_call" and value.get("execution") == "server") or (name == "shell_call" and hosted):
        return ItemKind.SERVER_TOOL
    return KINDS[name]


def _require_assistants(message: Item) -> None:
    if message.members.get("role") != "assistant":
        raise Inadmissible(Reason.INVALID_MESSAGE, f"{message.where}/role")
    content = message.members.get("content")
    if not isinstance(content, list):
        raise Inadmissible(Reason.INVALID_MESSAGE, f"{message.where}/content")
    for position, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        member = TEXT_PARTS.get(kind) if isinstance(kind, str) else None
        if member is None or not isinstance(part, dict) or not isinstance(part.get(member), str):
            raise Inadmissible(Reason.INVALID_MESSAGE, f"{message.where}/content/{position}")


def texts_of(message: Item, part_type: str) -> list[tuple[str, str]]:
    """The texts of the message's parts of one type, each with its pointer; the message is one of `read_items`."""
    content = message.members["content"]
    return [
        (f"{message.where}/content/{position}", str(part[TEXT_PARTS[part_type]]))
        for position, part in enumerate(content if isinstance(content, list) else [])
        if isinstance(part, dict) and part.get("type") == part_type
    ]
