"""A scripted provider on loopback for real agent programs, in a process of its own.

It speaks the formats of `countersign.agents` with that package's server and writers; its own are the requests that such
programs make beside their turns, and the ways in which a provider fails. A script is a list of acts, one for each turn;
the last one goes on. Standard output has the address, then one line for each request; it ends with standard input.
"""

import asyncio
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from countersign.agents.http_server import Abort, Request, Response, serve
from countersign.agents.wire import ChatRequest, Completion, ToolCall, WireName
from countersign.agents.wires import WIRES

REQUESTS_CAP = 60
"""After so many turns the provider only refuses: a program that never gives up is not fed for ever."""
TARGETS = {
    WireName.MESSAGES: "/messages",
    WireName.RESPONSES: "/responses",
    WireName.GENERATE_CONTENT: ":streamGenerateContent",
}
SHELLS = ("Bash", "exec_command", "shell_command", "shell", "bash", "run_shell_command")
WRITERS = ("Write", "write", "write_file")
ERROR_TYPES = {400: "invalid_request_error", 401: "authentication_error", 500: "api_error"}


@dataclass
class Turns:
    """What was asked, and the script that is being played."""

    script: list[dict[str, Any]]
    every: bool = False
    asked: int = 0
    never: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: Request) -> Response | Abort:
        """The next act for a turn; what a program asks for beside its turns is answered plainly."""
        path = request.path.split("?")[0]
        wire = next((name for name, target in TARGETS.items() if path.endswith(target)), None)
        body = json.loads(request.body) if request.body.startswith(b"{") else {}
        turn = wire is not None and (self.every or bool(body.get("tools")))
        tell({"path": path, "turn": turn, "key": _key(request)})
        if wire is None:
            return Response(200, b'{"input_tokens":100}') if path.endswith("count_tokens") else Response(404, b"{}")
        if not turn:
            return _answer({"text": "ok"}, _chat(wire, request, body))
        self.asked += 1
        if self.asked > REQUESTS_CAP:
            return _refused(400)
        act = {"id": f"call_{self.asked}"} | self.script[min(self.asked, len(self.script)) - 1]
        return await self._play(act, _chat(wire, request, body))

    async def _play(self, act: dict[str, Any], chat: ChatRequest) -> Response | Abort:
        if act.get("hang"):
            await self.never.wait()
        if "status" in act:
            return _refused(act["status"])
        answer = _answer(act, chat)
        if act.get("cut"):
            return Abort(answer, body_bytes=len(answer.body) // 2)
        if act.get("endless"):
            whole = answer.body.rstrip().rpartition(b"\n\n")[0] + b"\n\n"
            return Response(200, whole, answer.content_type)
        return answer


def tell(line: dict[str, Any]) -> None:
    """One line for whoever started this."""
    print(json.dumps(line), flush=True)


def _key(request: Request) -> str:
    headers = dict(request.headers)
    shown = headers.get("x-api-key") or headers.get("x-goog-api-key") or headers.get("authorization", "")
    return shown.removeprefix("Bearer ")


def _refused(status: int) -> Response:
    about = {"type": ERROR_TYPES.get(status, "api_error"), "message": f"scripted {status}", "code": status}
    return Response(status, json.dumps({"type": "error", "error": about}).encode())


def _chat(wire: WireName, request: Request, body: dict[str, Any]) -> ChatRequest:
    return ChatRequest(request.body, body, str(body.get("model", "scripted")), (), (), None, wire, True)


def _answer(act: dict[str, Any], chat: ChatRequest) -> Response:
    """The act as a provider says it: whole where it was asked so, else as events."""
    calls = tuple(_calls(act, chat))
    # Where a format has no part of its own for a refusal, its stop reason says it.
    refused = "content_filter" if act.get("refusal") and chat.wire is not WireName.RESPONSES else None
    reason = act.get("stop") or refused or ("tool_calls" if calls else "stop")
    completion = Completion(chat.model, act.get("text"), reason, calls)
    wire = WIRES[chat.wire]
    events = wire.events
    if events is None or (chat.wire is not WireName.GENERATE_CONTENT and not chat.body.get("stream")):
        return Response(200, wire.write(completion, chat))
    told = events(completion, chat)
    in_part = act.get("refusal") and chat.wire is WireName.RESPONSES
    return Response(200, _as_refusal(told) if in_part else told, "text/event-stream")


def _as_refusal(told: bytes) -> bytes:
    """The responses format has a part of its own for a refusal, which the project's writer does not write."""
    part = told.replace(b'"type": "output_text", "text"', b'"type": "refusal", "refusal"')
    return part.replace(b"response.output_text.", b"response.refusal.")


def _calls(act: dict[str, Any], chat: ChatRequest) -> list[ToolCall]:
    names = list(_tool_names(chat.body.get("tools", [])))
    if "write" in act:
        name = next((name for name in WRITERS if name in names), None)
        if name is None:
            return _calls({"id": act["id"], "shell": f"printf %s {act['content']} > {act['write']}"}, chat)
        place = "path" if name == "write" else "file_path"
        return [ToolCall(act["id"], name, json.dumps({place: act["write"], "content": act["content"]}))]
    if "shell" in act:
        name = next(name for name in SHELLS if name in names)
        return [ToolCall(act["id"], name, json.dumps(_shell_arguments(name, act)))]
    return []


def _shell_arguments(name: str, act: dict[str, Any]) -> dict[str, Any]:
    command = act["shell"]
    if name == "exec_command":
        return {"cmd": command}
    if name == "shell":
        return {"command": ["bash", "-lc", command]}
    if act.get("background"):
        return {"command": command, "run_in_background": True}
    return {"command": command}


def _tool_names(tools: list[dict[str, Any]]) -> list[str]:
    declared = [function for tool in tools for function in tool.get("functionDeclarations", [tool])]
    return [str(function["name"]) for function in declared if "name" in function]


async def main() -> None:
    """Serve the script in the file that is named until standard input ends; with `--every`, each request is a turn."""
    turns = Turns(json.loads(Path(sys.argv[1]).read_text()), "--every" in sys.argv)
    async with await serve(turns.answer) as server:
        tell({"url": server.url})
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
