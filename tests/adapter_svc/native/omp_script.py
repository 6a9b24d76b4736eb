"""OMP runs, built record by record: one user message, one turn with the given calls, one turn with the answer."""

from typing import Any

from adapter_svc.native import Harness
from tests.adapter_svc.native.helpers import Record, Verdict, code_of, judge, lines

USER = {"role": "user", "content": [{"type": "text", "text": "do"}], "timestamp": 1}
USAGE = {"input": 1, "output": 1}
DONE = {"role": "assistant", "content": [{"type": "text", "text": "done"}], "stopReason": "stop", "usage": USAGE}


def message(value: Record) -> list[Record]:
    """A message's start and end."""
    return [{"type": "message_start", "message": value}, {"type": "message_end", "message": value}]


class Call:
    """One tool call with what every record about it says; change a member before the run is built."""

    def __init__(self, call_id: str = "c1", tool: str = "bash", **arguments: Any) -> None:
        content = [{"type": "text", "text": f"result of {call_id}"}]
        self.block: Record = {"type": "toolCall", "id": call_id, "name": tool, "arguments": arguments}
        about = {"toolCallId": call_id, "toolName": tool}
        self.start: Record = {"type": "tool_execution_start", **about, "args": arguments}
        self.updates: list[Record] = []
        self.late: list[Record] = []
        self.end: Record = {
            "type": "tool_execution_end",
            **about,
            "result": {"content": content, "details": {}},
            "isError": False,
        }
        self.message: Record = {"role": "toolResult", **about, "content": content, "isError": False, "timestamp": 2}

    def executed(self, **arguments: Any) -> "Call":
        """With other arguments in its execution."""
        self.start["args"] = arguments
        return self

    def update(self, **changes: Any) -> Record:
        """One progress record of it."""
        same = {key: self.start[key] for key in ("toolCallId", "toolName", "args")}
        return {"type": "tool_execution_update", **same, "partialResult": {"content": []}, **changes}


def run(*calls: Call, **changes: Any) -> list[Record]:
    """A whole run in json mode. `inventory` adds an rpc start; `history` replaces the terminal messages."""
    asked = {
        "role": "assistant",
        "content": [call.block for call in calls],
        "stopReason": "toolUse",
        "usage": USAGE,
    }
    first = [{"type": "turn_start"}, *message(USER), *message(asked)]
    for call in calls:
        first += [call.start, *call.updates, call.end, *message(call.message), *call.late]
    first.append({"type": "turn_end", "message": asked, "toolResults": [call.message for call in calls]})
    second = [{"type": "turn_start"}, *([] if calls else message(USER)), *message(DONE)]
    second.append({"type": "turn_end", "message": DONE, "toolResults": []})
    history = [USER, *([asked, *(call.message for call in calls)] if calls else []), DONE]
    inventory = changes.get("inventory")
    start = [{"type": "session", "id": "s"}] if inventory is None else _rpc_start(inventory)
    end = {"type": "agent_end", "messages": changes.get("history", history), "isTerminal": True}
    return [*start, {"type": "agent_start"}, *(first if calls else []), *second, end]


def _rpc_start(inventory: list[Record]) -> list[Record]:
    return [
        {"type": "ready", "protocolVersion": 1},
        {"type": "available_commands_update", "commands": []},
        {"type": "response", "command": "get_state", "success": True, "data": {"dumpTools": inventory}},
        {"type": "response", "command": "prompt", "success": True},
    ]


def judged(records: list[Record]) -> Verdict:
    """The verdict on an OMP stream of these records."""
    return judge(Harness.OMP, lines(records))


def code(records: list[Record]) -> str:
    """`complete`, or the error code."""
    return code_of(judged(records))


def changed(records: list[Record], kind: str, **members: Any) -> list[Record]:
    """The last record of `kind` with other members."""
    at = max(at for at, record in enumerate(records) if record["type"] == kind)
    return [*records[:at], {**records[at], **members}, *records[at + 1 :]]
