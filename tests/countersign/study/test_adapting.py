"""Recorded exchanges: what is asked of the adapter, what a line is answered with, what is refused."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from countersign.adapter.v1 import adapter_pb2 as adapter
from countersign.study.adapting import adapt_line, adapt_request
from countersign.study.errors import BadInput
from countersign.study.lines import read_lines
from countersign.study.services import Services
from tests.countersign.study.fakes import Fakes

LINE: dict[str, Any] = {
    "id": "x1",
    "format": "chat_completions",
    "stream": False,
    "status": 200,
    "request": {
        "model": "m",
        "max_tokens": 50,
        "messages": [
            {"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]},
            {"role": "assistant", "tool_calls": [{"id": "a"}]},
        ],
        "tools": [
            {"type": "function", "function": {"name": "go", "description": "Go.", "parameters": {"type": "object"}}},
            {"type": "web_search"},
        ],
    },
    "response_body": '{"é":1}',
}


def test_the_request_offers_what_the_exchange_offered() -> None:
    request = adapt_request(LINE, None, "f line 1")
    assert request.body == '{"é":1}'.encode()
    assert (request.http_status, request.streamed, request.output_cap) == (200, False, 50)
    assert [(tool.name, tool.description, tool.parameters_json) for tool in request.tools] == [
        ("go", "Go.", '{"type":"object"}')
    ]
    assert list(request.seen_tool_call_ids) == ["a", "b"]
    assert request.identity.model == ""


def test_a_route_says_who_is_expected() -> None:
    route = adapter.Route(
        identity=adapter.ExpectedIdentity(model="m"),
        output_cap=9,
        allowances=[adapter.DIALECT_ALLOWANCE_TOOL_CALLS_WITH_STOP],
    )
    request = adapt_request(LINE, route, "f line 1")
    assert (request.identity.model, request.output_cap, len(request.allowances)) == ("m", 9, 1)


async def test_verdicts_are_lines(fakes: Fakes, services: Services) -> None:
    about = {"id": "x1", "format": "chat_completions", "stream": False}
    blank = {"reason": None, "where": None, "tool": None, "arguments": None}
    action = adapter.AdmittedAction(tool="go", arguments=b'{"n":1}')
    unknown = adapter.TechnicalUnknown(reason=adapter.UNKNOWN_REASON_TRUNCATED, where="/x")
    for answer, expected in (
        (adapter.AdaptResponse(action=action), {"verdict": "action", "tool": "go", "arguments": {"n": 1}}),
        (adapter.AdaptResponse(text_finish=adapter.AdmittedText(text="t")), {"verdict": "text_finish"}),
        (
            adapter.AdaptResponse(technical_unknown=unknown),
            {"verdict": "technical_unknown", "reason": "TRUNCATED", "where": "/x"},
        ),
    ):
        fakes.adapter.adapt_answer = answer
        line = await adapt_line(services.adapter, LINE, None, "f line 1")
        assert line == {**about, **blank, **expected}
    other = await adapt_line(services.adapter, {**LINE, "format": "messages"}, None, "f line 1")
    expected = {"verdict": "unsupported", "reason": "UNSUPPORTED_WIRE_FORMAT"}
    assert other == {**about, "format": "messages", **blank, **expected}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"format": "telegram"}, "f line 1: format: must be one of"),
        ({"stream": 0}, "f line 1: stream: must be true or false"),
        ({"status": True}, "f line 1: status: must be a whole number"),
        ({"status": 1}, "f line 1: status: must be an HTTP status"),
        ({"request": []}, "f line 1: request: must be an object"),
        ({"response_body": None}, "f line 1: response_body: must be a text"),
        ({"request": {"tools": {}}}, None),
        ({"request": {"tools": "x"}}, "f line 1: request.tools: must be a list"),
    ],
)
def test_a_malformed_exchange_names_its_line(change: dict[str, Any], line: str | None) -> None:
    if line is None:
        assert list(adapt_request({**LINE, **change}, None, "f line 1").tools) == []
        return
    with pytest.raises(BadInput, match="f line 1") as caught:
        adapt_request({**LINE, **change}, None, "f line 1")
    assert line in caught.value.message


def test_lines_are_read_plain_or_zipped(tmp_path: Path) -> None:
    content = b'{"a":1}\n\n{"a":2}\n'
    (tmp_path / "plain").write_bytes(content)
    (tmp_path / "zipped").write_bytes(gzip.compress(content))
    for name in ("plain", "zipped"):
        assert list(read_lines(tmp_path / name)) == [(1, {"a": 1}), (3, {"a": 2})]


@pytest.mark.parametrize(
    ("content", "given", "line"),
    [
        (b'{"a":1}\n{"a":', 1, "line 2: is not JSON"),
        (b'{"a":1}\n[1]\n', 1, "line 2: is not a JSON object"),
        (b'{"a":NaN}\n', 0, "line 1: is not JSON"),
        (b'{"a":"\xff"}\n', 0, "line 1: is not JSON"),
        (gzip.compress(b'{"a":1}\n' * 9)[:-4], 9, "line 10: the gzip data is damaged"),
    ],
)
def test_a_bad_line_comes_after_the_good_ones(tmp_path: Path, content: bytes, given: int, line: str) -> None:
    (tmp_path / "f").write_bytes(content)
    lines = read_lines(tmp_path / "f")
    for number in range(given):
        assert next(lines) == (number + 1, {"a": 1})
    with pytest.raises(BadInput) as caught:
        next(lines)
    assert line in caught.value.message


def test_a_missing_file_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        list(read_lines(tmp_path / "none"))


def test_every_recorded_exchange_can_be_asked(shared_data: Path) -> None:
    lines = list(read_lines(shared_data / "exchanges" / "exchanges.jsonl.gz"))
    requests = [adapt_request(line, None, f"line {number}") for number, line in lines]
    assert len(requests) == 841
    assert json.loads(requests[0].body)["model"]


def test_without_a_route_the_requested_model_may_be_expected() -> None:
    request = adapt_request(LINE, None, "f line 1", requested_model=True)
    assert request.identity == adapter.ExpectedIdentity(model="m")
    route = adapter.Route(identity=adapter.ExpectedIdentity(model="n"))
    assert adapt_request(LINE, route, "f line 1", requested_model=True).identity.model == "n"
