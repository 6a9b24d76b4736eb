"""The scripted agent over real sockets, in process and as a process."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from countersign.agents.chat import CHAT_PATH
from countersign.agents.policies import Policy
from countersign.agents.scripted import ScriptedConfig, main, serve_scripted
from tests.countersign.agents.conversations import request_body
from tests.countersign.agents.processes import next_event, running


async def test_the_model_name_chooses_the_policy_and_is_served_back() -> None:
    async with await serve_scripted() as server, httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
        answer = await client.post(CHAT_PATH, json=request_body("scripted/refuse"))
    assert answer.status_code == 200
    assert answer.json()["model"] == "scripted/refuse"
    assert answer.json()["choices"][0]["message"]["content"].startswith("I am sorry")


async def test_other_models_get_the_default_policy_under_their_own_name() -> None:
    config = ScriptedConfig(Policy.CLAIM_SUCCESS)
    async with (
        await serve_scripted(config) as server,
        httpx.AsyncClient(base_url=server.url, trust_env=False) as client,
    ):
        answer = (await client.post(CHAT_PATH, json=request_body("some/model"))).json()
    assert (answer["model"], answer["choices"][0]["finish_reason"]) == ("some/model", "stop")


@pytest.mark.parametrize(
    ("path", "content", "status"),
    [
        (CHAT_PATH, request_body("some/model"), 404),
        (CHAT_PATH, request_body("scripted/nothing"), 404),
        (CHAT_PATH, {"model": "scripted/refuse"}, 400),
        (CHAT_PATH, request_body("scripted/refuse", max_tokens=0), 400),
        (CHAT_PATH, [], 400),
        ("/v1/models", request_body("scripted/refuse"), 404),
    ],
)
async def test_what_it_cannot_serve_is_refused(path: str, content: object, status: int) -> None:
    async with await serve_scripted() as server, httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
        answer = await client.post(path, json=content)
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}


async def test_late_waits_as_long_as_configured_before_it_answers() -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    config = ScriptedConfig(late_seconds=2.5)
    async with (
        await serve_scripted(config, sleep=sleep) as server,
        httpx.AsyncClient(base_url=server.url, trust_env=False) as client,
    ):
        answer = await client.post(CHAT_PATH, json=request_body("scripted/late"))
    assert (answer.status_code, waited) == (200, [2.5])


async def test_drops_are_seen_as_broken_connections_and_counted() -> None:
    async with await serve_scripted() as server, httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
        for policy in (Policy.DROP, Policy.DROP_MID_BODY):
            with pytest.raises(httpx.RemoteProtocolError):
                await client.post(CHAT_PATH, json=request_body(f"scripted/{policy}"))
        assert (server.connections, server.requests) == (2, 2)


async def test_a_client_that_follows_the_redirect_comes_back_here() -> None:
    async with (
        await serve_scripted() as server,
        httpx.AsyncClient(base_url=server.url, trust_env=False, max_redirects=3) as client,
    ):
        answer = await client.post(CHAT_PATH, json=request_body("scripted/redirect"))
        assert (answer.status_code, answer.headers["location"]) == (302, CHAT_PATH)
        assert str(answer.next_request.url if answer.next_request else "") == f"{server.url}{CHAT_PATH}"


async def test_the_wire_log_tells_conversations_apart(tmp_path: Path) -> None:
    path = tmp_path / "wire.jsonl"
    async with (
        await serve_scripted(log_path=path) as server,
        httpx.AsyncClient(base_url=server.url, trust_env=False) as client,
    ):
        for instruction in ("One.", "One.", "Two."):
            await client.post(CHAT_PATH, json=request_body("scripted/refuse", instruction=instruction))
        await client.post(CHAT_PATH, content=b"not JSON")
    episodes = [json.loads(line)["episode"] for line in path.read_text().splitlines()]
    assert episodes[0] == episodes[1] != episodes[2]
    assert episodes[3] is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_announces_itself_serves_and_stops_on_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    log = tmp_path / "wire.jsonl"
    with running("countersign.agents.scripted", "--policy", "refuse", "--log", str(log)) as process:
        event = next_event(process)
        assert (event["event"], event["service"]) == ("listening", "scripted_agent")
        url = f"http://{event['address']}{CHAT_PATH}"
        assert httpx.post(url, json=request_body("a-model"), trust_env=False).status_code == 200
        process.send_signal(number)
        assert process.communicate(timeout=20) == ("", "")
        assert process.returncode == 0
    assert len(log.read_text().splitlines()) == 1


SHORT_LIVED_PARENT = """
import os, subprocess, sys
agent = subprocess.Popen(
    [sys.executable, "-m", "countersign.agents.scripted"],
    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, pass_fds=[int(sys.argv[1])],
)
os.write(1, agent.stdout.readline())
os._exit(0)
"""


def test_a_process_ends_with_its_parent() -> None:
    reading, writing = os.pipe()
    command = [sys.executable, "-c", SHORT_LIVED_PARENT, str(writing)]
    output = subprocess.run(command, stdout=subprocess.PIPE, pass_fds=[writing], check=True).stdout
    os.close(writing)
    assert json.loads(output)["event"] == "listening"
    # The agent holds the last writing end of this pipe: the end of the pipe is the end of the agent.
    assert os.read(reading, 1) == b""
    os.close(reading)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "lazy"], "error: no policy 'lazy'"),
        (["--listen", "0.0.0.0:0"], "error: '0.0.0.0' is not a literal loopback address"),
        (["--log", "/nowhere/wire.jsonl"], "error: cannot append to /nowhere/wire.jsonl: No such file"),
        (["--listen", "127.0.0.1"], "error: '127.0.0.1' is not an address"),
        (["--listen", "127.0.0.1:70000"], "error: '127.0.0.1:70000' is not an address"),
    ],
)
def test_wrong_arguments_are_one_line_and_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(message)
    assert captured.err.count("\n") == 1
