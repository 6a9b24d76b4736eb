"""The front over real sockets, before a scripted model server."""

import json
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from countersign.agents.chat import CHAT_PATH
from countersign.agents.errors import NotLoopbackError
from countersign.agents.http_server import Abort, Request, Response, serve
from countersign.agents.tool_front import main, serve_front
from tests.countersign.agents.conversations import request_body
from tests.countersign.agents.processes import next_event, running


def completion(content: str, reason: str = "stop") -> Response:
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
    return Response(200, json.dumps({"model": "small", "choices": [choice], "usage": usage}).encode())


async def through_front(
    upstream: Response | Abort, body: object, log_path: Path | None = None
) -> tuple[httpx.Response, list[Any]]:
    """The front's answer to `body` and the bodies that reached the model server."""
    reached = []

    async def model(request: Request) -> Response | Abort:
        reached.append(json.loads(request.body))
        return upstream

    async with (
        await serve(model) as server,
        serve_front(server.address, log_path=log_path) as front,
        httpx.AsyncClient(base_url=front.url, trust_env=False) as client,
    ):
        return await client.post(CHAT_PATH, json=body), reached


async def test_a_choice_is_answered_as_a_tool_call() -> None:
    answer, reached = await through_front(completion('{"tool": "wait"}'), request_body("small"))
    assert answer.status_code == 200
    (choice,) = answer.json()["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "wait", "arguments": "{}"}
    assert answer.json()["usage"] == {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
    assert [("tools" in body, "response_format" in body) for body in reached] == [(False, True)]


@pytest.mark.parametrize(
    "upstream",
    [
        Response(500, b"{}"),
        Response(400, b'{"error":{"message":"too long"}}'),
        Response(302, b"", headers=(("Location", CHAT_PATH),)),
        Response(200, b"not JSON"),
        Response(200, b"[]"),
        Response(200, b"{}"),
        completion("I would wait."),
        Abort(),
        Abort(completion('{"tool": "wait"}'), 5),
    ],
)
async def test_a_failure_upstream_is_502_after_one_attempt(upstream: Response | Abort) -> None:
    answer, reached = await through_front(upstream, request_body("small"))
    assert answer.status_code == 502
    assert answer.json()["error"]["type"] == "upstream_error"
    assert len(reached) == 1


async def test_a_request_that_cannot_be_translated_is_400_and_goes_nowhere() -> None:
    for body in ({}, request_body("small", stream=True), request_body("small", later=({"role": "x"},))):
        answer, reached = await through_front(completion(""), body)
        assert (answer.status_code, reached) == (400, [])


async def test_no_model_server_is_502() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    async with serve_front(address) as front, httpx.AsyncClient(base_url=front.url, trust_env=False) as client:
        assert (await client.post(CHAT_PATH, json=request_body("small"))).status_code == 502
        assert (await client.get(CHAT_PATH)).status_code == 404


async def test_the_wire_log_counts_what_reached_the_front(tmp_path: Path) -> None:
    path = tmp_path / "wire.jsonl"
    await through_front(completion('{"tool": "wait"}'), request_body("small"), path)
    (line,) = path.read_text().splitlines()
    assert json.loads(line)["path"] == CHAT_PATH


async def test_only_a_loopback_model_server_is_asked() -> None:
    with pytest.raises(NotLoopbackError):
        async with serve_front("192.168.1.1:80"):
            raise AssertionError("unreachable")


def test_it_runs_as_a_process() -> None:
    with running("countersign.agents.tool_front", "--upstream", "127.0.0.1:9") as process:
        event = next_event(process)
        assert (event["event"], event["service"]) == ("listening", "tool_front")
        process.terminate()
        assert process.communicate(timeout=20) == ("", "")
        assert process.returncode == 0


def test_a_wrong_upstream_is_one_line_and_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--upstream", "example.org:80"]) == 2
    assert capsys.readouterr().err == "error: 'example.org' is not a literal loopback address such as 127.0.0.1\n"
