"""Answers that are made to be expensive: both readers refuse them alike, in time and memory that grow with their size.

Each test has a time limit that a reader which grows faster than its input does not keep. `make fuzz` (FUZZ_SECONDS)
makes them as large as an answer may be: a stream of 800,000 events, for example.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.readers import ENVIRONMENT_TOOLS, Exchange, both

LARGEST = 8 * 1024 * 1024
IS_WHOLE = "FUZZ_SECONDS" in os.environ
SIZE = LARGEST if IS_WHOLE else LARGEST // 16
HALF = SIZE // 2
pytestmark = pytest.mark.timeout(240 if IS_WHOLE else 60)


@dataclass(frozen=True)
class Bomb:
    """A body that is filled up with one unit, and the reason that refuses it."""

    head: bytes
    unit: bytes
    tail: bytes
    reason: str

    @property
    def body(self) -> bytes:
        return self.head + self.unit * ((SIZE - len(self.head) - len(self.tail)) // len(self.unit)) + self.tail


LONG = b"9" * 4301
BODIES: dict[str, Callable[[], Bomb]] = {
    "open arrays": lambda: Bomb(b"", b"[", b"", "LIMIT_EXCEEDED"),
    "open objects": lambda: Bomb(b"", b'{"a":', b"", "LIMIT_EXCEEDED"),
    "brackets in a string": lambda: Bomb(b'{"a":"', b"[", b'"}', "IDENTITY_MISSING"),
    "empty arrays": lambda: Bomb(b'{"a":[', b"[],", b"[]]}", "IDENTITY_MISSING"),
    "an unended string of quotes": lambda: Bomb(b'["', b'\\"', b"", "MALFORMED_JSON"),
    "the same after a long number": lambda: Bomb(b"[" + LONG + b',"', b'\\"', b"", "MALFORMED_JSON"),
    "long runs of digits": lambda: Bomb(b'{"a":[' + LONG + b",", b"1" * 4299 + b",", b"1]}", "LIMIT_EXCEEDED"),
    "ones after a long number": lambda: Bomb(b'{"a":[' + LONG + b",", b"1,", b"1]}", "LIMIT_EXCEEDED"),
    "a long string": lambda: Bomb(b'{"model":"', b"x", b'"}', "INVALID"),
    "a long integer": lambda: Bomb(b'{"a":1', b"1", b"}", "LIMIT_EXCEEDED"),
    "a long fraction": lambda: Bomb(b'{"a":1.', b"1", b"}", "IDENTITY_MISSING"),
    "a long exponent": lambda: Bomb(b'{"a":1e', b"9", b"}", "LIMIT_EXCEEDED"),
    "numbers beyond a double": lambda: Bomb(b'{"a":[', b"1e400,-1e400,", b"1]}", "LIMIT_EXCEEDED"),
    "one key again and again": lambda: Bomb(b"{", b'"a":1,', b'"a":1}', "DUPLICATE_KEY"),
    "duplicates under a long key": lambda: Bomb(b'{"' + b"k" * HALF + b'":{', b'"a":1,', b'"a":1}}', "DUPLICATE_KEY"),
    "values under a long key": lambda: Bomb(b'{"' + b"k" * HALF + b'":[', b"1,", b"1]}", "IDENTITY_MISSING"),
    "lone surrogates": lambda: Bomb(b'{"a":[', b'"\\ud800",', b"1]}", "MALFORMED_JSON"),
    "lone surrogates under a long key": lambda: Bomb(
        b'{"' + b"k" * HALF + b'":[', b'"\\udfff",', b"1]}", "MALFORMED_JSON"
    ),
}
DONE = b"data: [DONE]\n\n"
START = b'data: {"type":"message_start","message":{}}\n\n'
ITEM = b'data: {"type":"response.output_item.added","output_index":0,"item":{"type":"message"}}\n\n'
TEXT_BLOCK = b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
ZEROS = b"0" * HALF
STREAMS: dict[str, tuple[str, Callable[[], Bomb]]] = {
    "empty events": ("chat_completions", lambda: Bomb(b"", b"data:{}\n\n", DONE, "IDENTITY_MISSING")),
    "blank lines": ("chat_completions", lambda: Bomb(b"", b"\n", b"", "STREAM_INCOMPLETE")),
    "one event of many lines": ("chat_completions", lambda: Bomb(b"", b"data:\n", b"\n", "MALFORMED_JSON")),
    "end marks": ("chat_completions", lambda: Bomb(b"", DONE, b"", "IDENTITY_MISSING")),
    "pieces of text": (
        "chat_completions",
        lambda: Bomb(b"", b'data:{"choices":[{"delta":{"content":"x"}}]}\n\n', DONE, "IDENTITY_MISSING"),
    ),
    "pieces of a call": (
        "chat_completions",
        lambda: Bomb(
            b"",
            b'data:{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":""}}]}}]}\n\n',
            DONE,
            "IDENTITY_MISSING",
        ),
    ),
    "repeats of a long value": (
        "chat_completions",
        lambda: Bomb(
            b'data:{"choices":[{"delta":{"a":1.' + ZEROS + b"}}]}\n\n",
            b'data:{"choices":[{"delta":{"a":1}}]}\n\n',
            DONE,
            "IDENTITY_MISSING",
        ),
    ),
    "pings": ("messages", lambda: Bomb(b"", b'data:{"type":"ping"}\n\n', b"", "STREAM_INCOMPLETE")),
    "empty deltas": (
        "messages",
        lambda: Bomb(
            START + TEXT_BLOCK,
            b'data:{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}\n\n',
            b"",
            "STREAM_INCOMPLETE",
        ),
    ),
    "repeats of a long delta": (
        "messages",
        lambda: Bomb(
            START + b'data:{"type":"message_delta","delta":{"a":1.' + ZEROS + b"}}\n\n",
            b'data:{"type":"message_delta","delta":{"a":1}}\n\n',
            b"",
            "STREAM_INCOMPLETE",
        ),
    ),
    "unknown events": ("responses", lambda: Bomb(b"", b'data:{"type":"a"}\n\n', b"", "STREAM_INCOMPLETE")),
    "a text done over and over": (
        "responses",
        lambda: Bomb(
            ITEM
            + b'data:{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":""}\n\n'
            * (HALF // 100),
            b'data:{"type":"response.output_text.done","output_index":0,"content_index":0,"text":""}\n\n',
            b"",
            "STREAM_INCOMPLETE",
        ),
    ),
    "chunks that say the same": (
        "generate_content",
        lambda: Bomb(
            b'data:{"promptFeedback":{"a":1.' + ZEROS + b"}}\n\n",
            b'data:{"promptFeedback":{"a":1}}\n\n',
            b"",
            "STREAM_INCOMPLETE",
        ),
    ),
}


def reasons(wire: str, streamed: bool, body: bytes) -> tuple[str, str]:
    exchange = Exchange("bomb", wire, streamed, 200, body, ENVIRONMENT_TOOLS, frozenset(), None)
    mine, theirs = both(exchange, body)
    return mine["reason"], theirs["reason"]


@pytest.mark.parametrize("name", BODIES)
def test_a_body_is_refused_in_bounded_time(name: str) -> None:
    bomb = BODIES[name]()
    mine, theirs = reasons("chat_completions", False, bomb.body)
    assert mine == theirs
    assert mine.startswith(bomb.reason)


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_refused_in_bounded_time(name: str) -> None:
    wire, make = STREAMS[name]
    bomb = make()
    assert reasons(wire, True, bomb.body) == (bomb.reason, bomb.reason)


def test_many_different_keys_are_read_in_bounded_time() -> None:
    body = b"{" + b",".join(b'"%d":1' % number for number in range(SIZE // 11)) + b"}"
    assert reasons("chat_completions", False, body) == ("IDENTITY_MISSING", "IDENTITY_MISSING")


@pytest.mark.parametrize("depth", range(1, 60, 7))
def test_a_key_given_twice_is_found_at_every_depth(depth: int) -> None:
    body = b'{"a":' * depth + b'{"b":1,"b":1}' + b"}" * depth
    assert reasons("messages", False, body) == ("DUPLICATE_KEY", "DUPLICATE_KEY")


ARGUMENTS = (
    *("[" * 100_000, "[" * 65 + "]" * 65, '{"a":1,"a":1}', '{"a":' * 50 + '{"b":1,"b":1}' + "}" * 50),
    *('{"a":NaN}', '{"a":1e400}', '{"a":' + "9" * 100_000 + "}", '{"a":"\\ud800"}', "{} {}", "\ufeff{}", ""),
)


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=range(len(ARGUMENTS)))
def test_arguments_as_a_text_are_read_as_strictly(arguments: str) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "wait", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    body = json.dumps({"model": "m", "choices": [{"finish_reason": "tool_calls", "message": message}]}).encode()
    assert reasons("chat_completions", False, body) == ("MALFORMED_ARGUMENTS", "MALFORMED_ARGUMENTS")


@pytest.mark.parametrize("count", ["-1", "1.0", "1e400", "9" * 100, "9" * 100_000, "true", '"7"'])
def test_a_count_that_is_none_is_no_bill(count: str) -> None:
    usage = f'{{"prompt_tokens":{count},"completion_tokens":1}}'
    body = f'{{"model":"m","choices":[],"usage":{usage}}}'.encode()
    exchange = Exchange("count", "chat_completions", False, 200, body, {}, frozenset(), None)
    mine, theirs = both(exchange, body)
    assert mine == theirs
    assert mine["usage"][0] is None
