"""The scripted agent's wire formats: what a policy sees of a request, and how an answer is said."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from countersign.agents.errors import BadChatRequestError
from countersign.agents.http_server import Request
from countersign.agents.scripted import conversation_marker, serve_scripted
from countersign.agents.situation import packet_text, read_situation
from countersign.agents.wire import ChatRequest, Completion, ToolCall, WireName
from countersign.agents.wires import WIRES, read_request, write
from tests.countersign.agents.conversations import event_observation

PACKET = json.dumps({"observation": event_observation(), "operator_prefix": [], "generative_support": []})
RESULT = {"request_accepted": True, "observation": event_observation(tick=1)}
MESSAGES = "/v1/messages"
UNARY = "/v1/models/scripted%2Frefuse:generateContent"
STREAMED = "/v1/models/scripted%2Frefuse:streamGenerateContent?alt=sse"


def messages_body(**changes: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": "toolu_1", "name": "wait", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": json.dumps(RESULT)}
    good: dict[str, Any] = {
        "model": "scripted/refuse",
        "max_tokens": 64,
        "system": "Decide.",
        "messages": [
            {"role": "user", "content": PACKET},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}, block]},
            {"role": "user", "content": [result]},
        ],
        "tools": [{"name": "wait", "description": "Wait.", "input_schema": {"type": "object"}}],
    }
    return {**good, **changes}


def generate_body(*, call_id: str | None = None, **changes: Any) -> dict[str, Any]:
    named = {"name": "wait"} if call_id is None else {"name": "wait", "id": call_id}
    good: dict[str, Any] = {
        "contents": [
            {"role": "user", "parts": [{"text": PACKET}]},
            {"role": "model", "parts": [{"text": ""}, {"functionCall": named}]},
            {"role": "user", "parts": [{"functionResponse": {**named, "response": RESULT}}]},
        ],
        "generationConfig": {"maxOutputTokens": 64},
        "tools": [{"functionDeclarations": [{"name": "wait", "parametersJsonSchema": {"type": "object"}}]}],
    }
    return {**good, **changes}


def read(target: str, body: Any) -> ChatRequest:
    chat = read_request(Request(1, "POST", target, (), json.dumps(body).encode()))
    assert chat is not None
    return chat


@pytest.mark.parametrize(
    ("target", "body", "wire", "streamed", "call_id"),
    [
        (MESSAGES, messages_body(), WireName.MESSAGES, False, "toolu_1"),
        (MESSAGES, messages_body(stream=True), WireName.MESSAGES, True, "toolu_1"),
        (UNARY, generate_body(), WireName.GENERATE_CONTENT, False, "wait"),
        (STREAMED, generate_body(call_id="c"), WireName.GENERATE_CONTENT, True, "c"),
    ],
)
def test_a_conversation_has_one_shape(
    target: str, body: dict[str, Any], wire: WireName, streamed: bool, call_id: str
) -> None:
    chat = read(target, body)
    assert (chat.wire, chat.streamed, chat.model, chat.output_cap) == (wire, streamed, "scripted/refuse", 64)
    assert (chat.tools, chat.turn, packet_text(chat)) == (("wait",), 1, PACKET)
    assert chat.messages[1]["tool_calls"] == [{"id": call_id, "function": {"name": "wait"}}]
    situation = read_situation(chat)
    assert situation is not None
    assert [(step.tool, step.result) for step in situation.steps] == [("wait", RESULT)]
    assert situation.observation["tick"] == 1
    request = Request(1, "POST", target, (), json.dumps(body).encode())
    assert conversation_marker(request) is not None


@pytest.mark.parametrize(
    ("target", "body"),
    [
        (MESSAGES, []),
        (MESSAGES, messages_body(messages=None)),
        (MESSAGES, messages_body(messages=[{"role": "user"}])),
        (MESSAGES, messages_body(max_tokens=0)),
        (MESSAGES, {key: value for key, value in messages_body().items() if key != "max_tokens"}),
        (UNARY, []),
        (UNARY, generate_body(contents=[{"role": "user"}])),
        (UNARY, generate_body(tools=[{"name": "wait"}])),
        (UNARY, generate_body(generationConfig={"maxOutputTokens": "64"})),
    ],
)
def test_what_is_no_request_of_the_format_is_refused(target: str, body: Any) -> None:
    with pytest.raises(BadChatRequestError):
        read(target, body)


@pytest.mark.parametrize(
    "target", ["/", "/v1/messages/", "/v1/models/a:countTokens", STREAMED.removesuffix("?alt=sse")]
)
def test_other_targets_are_not_served(target: str) -> None:
    assert read_request(Request(1, "POST", target, (), b"{}")) is None
    assert read_request(Request(1, "GET", MESSAGES, (), b"{}")) is None


def events_of(body: bytes) -> Iterator[dict[str, Any]]:
    for block in body.decode().split("\n\n")[:-1]:
        yield json.loads(block.rpartition("data: ")[2])


CALL = Completion("m", "I wait.", "tool_calls", (ToolCall("c1", "wait", '{"n":[1,2,3]}'),))


def test_messages_say_it_in_blocks() -> None:
    chat = read(MESSAGES, messages_body())
    body = json.loads(write(CALL, chat).body)
    assert (body["type"], body["role"], body["model"], body["stop_reason"]) == ("message", "assistant", "m", "tool_use")
    assert body["content"] == [
        {"type": "text", "text": "I wait."},
        {"type": "tool_use", "id": "c1", "name": "wait", "input": {"n": [1, 2, 3]}},
    ]
    usage = body["usage"]
    assert sum(usage[name] for name in usage if name != "output_tokens") == len(chat.raw) // 4


def test_messages_say_it_in_events() -> None:
    reply = write(CALL, read(MESSAGES, messages_body(stream=True)))
    events = list(events_of(reply.body))
    assert reply.content_type == "text/event-stream"
    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds[1], kinds[-2], kinds[-1]) == ("message_start", "ping", "message_delta", "message_stop")
    pieces = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(piece.get("text", "") for piece in pieces) == "I wait."
    assert "".join(piece.get("partial_json", "") for piece in pieces) == '{"n":[1,2,3]}'
    assert reply.body.startswith(b"event: message_start\n")


def test_generate_content_says_it_in_parts() -> None:
    chat = read(UNARY, generate_body())
    body = json.loads(write(CALL, chat).body)
    (candidate,) = body["candidates"]
    assert (body["modelVersion"], candidate["finishReason"], candidate["content"]["role"]) == ("m", "STOP", "model")
    assert candidate["content"]["parts"] == [
        {"text": "I w"},
        {"text": "ait."},
        {"functionCall": {"id": "c1", "name": "wait", "args": {"n": [1, 2, 3]}}},
    ]
    usage = body["usageMetadata"]
    assert usage["promptTokenCount"] == len(chat.raw) // 4
    assert usage["totalTokenCount"] == sum(
        usage[name] for name in ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
    )


def test_generate_content_says_it_in_chunks() -> None:
    chat = read(STREAMED, generate_body())
    chunks = [event["candidates"][0] for event in events_of(write(CALL, chat).body)]
    assert [chunk.get("finishReason") for chunk in chunks] == [None, None, "STOP"]
    assert [len(chunk["content"]["parts"]) for chunk in chunks] == [1, 1, 1]


@pytest.mark.parametrize("wire", [WireName.MESSAGES, WireName.GENERATE_CONTENT])
def test_opaque_items_stand_in_the_answer_and_are_odd(wire: WireName) -> None:
    chat = read(MESSAGES, messages_body()) if wire is WireName.MESSAGES else read(UNARY, generate_body())
    body = write(Completion("m", None, "stop", opaque_turn=1), chat).body
    written = WIRES[wire].opaque(1, False)
    assert all(text.encode() in body for text in written[:1])
    for spelling in ("0.10", "2E+5", "-0", "[ ]", "1.0"):
        assert spelling in "".join(written)
    assert WIRES[wire].opaque(0, False) != written


async def test_every_format_is_served_at_one_address() -> None:
    async with await serve_scripted() as server, httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
        message = (await client.post(MESSAGES, json=messages_body())).json()
        generated = (await client.post(UNARY, json=generate_body())).json()
        streamed = await client.post(STREAMED, json=generate_body())
    assert message["content"][0]["text"].startswith("I am sorry")
    assert generated["candidates"][0]["content"]["parts"][0]["text"].startswith("I am sorry")
    assert streamed.headers["content-type"] == "text/event-stream"
    assert len(list(events_of(streamed.content))) == 2
