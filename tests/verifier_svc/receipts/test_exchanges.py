"""The decoders over recorded traffic: all 841 exchanges get the verdict that the design gives."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.verifier_svc.receipts.recorded import Exchange, load, read
from tests.verifier_svc.receipts.streaming import streamed
from verifier_svc.receipts.verdicts import Action, Decoded, Reason, TechnicalUnknown, TextFinish

CHAT_UNKNOWN = {
    "3aea2c7de07e": Reason.MULTIPLE_TOOL_CALLS,
    "9210177c27c8": Reason.MULTIPLE_TOOL_CALLS,
    "8e49e7a289cc": Reason.MULTIPLE_TOOL_CALLS,
    "db1d92b9bd1c": Reason.INVALID_TOOL_CALL,
    "2a0c299684ac": Reason.IDENTITY_MISSING,
    "28fd04afb981": Reason.SERVER_TOOL_USED,
    "d14434aa1a2e": Reason.SERVER_TOOL_USED,
    "7eb3448b7e3d": Reason.MALFORMED_ARGUMENTS,
    "27607cc77e87": Reason.UNRECOGNIZED_STOP_REASON,
    "95fa8397b7a6": Reason.UNRECOGNIZED_STOP_REASON,
    "1eea016c962b": Reason.UNRECOGNIZED_STOP_REASON,
    "2fdedba67c57": Reason.UNRECOGNIZED_STOP_REASON,
    "bb8e2e950703": Reason.TRUNCATED,
    "132545969e5a": Reason.TRUNCATED,
    **dict.fromkeys(("bfa56bbb6319", "c2bb55dfe4a3", "c975cbeac6e5", "04c75cccfcc0"), Reason.HTTP_STATUS),
    **dict.fromkeys(("d51696346f96", "38692ff3e75c", "ff367fecbb6b"), Reason.HTTP_STATUS),
}
"""Unary chat completions, reviewed by hand against design/admission.md; every other one is admitted."""

SUMMARY = {
    ("chat_completions", False, "Action"): 77,
    ("chat_completions", False, "TextFinish"): 138,
    ("chat_completions", False, "HTTP_STATUS"): 7,
    ("chat_completions", False, "IDENTITY_MISSING"): 1,
    ("chat_completions", False, "INVALID_TOOL_CALL"): 1,
    ("chat_completions", False, "MALFORMED_ARGUMENTS"): 1,
    ("chat_completions", False, "MULTIPLE_TOOL_CALLS"): 3,
    ("chat_completions", False, "SERVER_TOOL_USED"): 2,
    ("chat_completions", False, "TRUNCATED"): 2,
    ("chat_completions", False, "UNRECOGNIZED_STOP_REASON"): 4,
    ("chat_completions", True, "Action"): 8,
    ("chat_completions", True, "TextFinish"): 13,
    ("chat_completions", True, "MISSING_STOP_REASON"): 2,
    ("chat_completions", True, "MULTIPLE_TOOL_CALLS"): 2,
    ("chat_completions", True, "PROVIDER_ERROR"): 2,
    ("chat_completions", True, "SERVER_TOOL_USED"): 2,
    ("messages", False, "Action"): 55,
    ("messages", False, "TextFinish"): 81,
    ("messages", False, "HTTP_STATUS"): 1,
    ("messages", False, "MULTIPLE_TOOL_CALLS"): 4,
    ("messages", False, "SERVER_TOOL_USED"): 23,
    ("messages", False, "UNKNOWN_TOOL"): 1,
    ("messages", False, "UNRECOGNIZED_STOP_REASON"): 1,
    ("messages", True, "TextFinish"): 3,
    ("messages", True, "SERVER_TOOL_USED"): 4,
    ("responses", False, "Action"): 43,
    ("responses", False, "TextFinish"): 82,
    ("responses", False, "CONTINUATION_REQUIRED"): 5,
    ("responses", False, "HTTP_STATUS"): 3,
    ("responses", False, "MULTIPLE_TOOL_CALLS"): 1,
    ("responses", False, "SERVER_TOOL_USED"): 16,
    ("responses", False, "INVALID_TOOL_CALL"): 1,
    ("responses", True, "INVALID_TOOL_CALL"): 1,
    ("responses", False, "UNKNOWN_TOOL"): 4,
    ("responses", False, "UNRECOGNIZED_STOP_REASON"): 1,
    ("responses", True, "Action"): 3,
    ("responses", True, "TextFinish"): 10,
    ("responses", True, "SERVER_TOOL_USED"): 4,
    ("generate_content", False, "Action"): 82,
    ("generate_content", False, "TextFinish"): 89,
    ("generate_content", False, "FILTERED"): 2,
    ("generate_content", False, "HTTP_STATUS"): 1,
    ("generate_content", False, "INVALID_ARGUMENTS"): 30,
    ("generate_content", False, "MULTIPLE_TOOL_CALLS"): 1,
    ("generate_content", False, "SERVER_TOOL_USED"): 6,
    ("generate_content", False, "UNKNOWN_TOOL"): 4,
    ("generate_content", False, "UNRECOGNIZED_STOP_REASON"): 3,
    ("generate_content", True, "Action"): 3,
    ("generate_content", True, "TextFinish"): 3,
    ("generate_content", True, "SERVER_TOOL_USED"): 5,
}
SERVER_MARKS = {
    "chat_completions": r'"url_citation"|"executed_tools":\s*\[\{|"(tool_calls_executed|web_search_requests)":[1-9]',
    "messages": r'"type":\s*"(server_tool_use|mcp_tool_use|\w+_tool_result)"',
    "responses": r'"type":\s*"(web_search|file_search|code_interpreter|mcp|tool_search|image_generation)_call"'
    r'|"type":\s*"mcp_list_tools"',
    "generate_content": r'"(executableCode|toolCall|groundingChunks|webSearchQueries|retrievedUrl)"',
}
"""What the body of an answer looks like in which the provider's own tools had a part."""
STATUSES = ("completed", "incomplete", "failed", "cancelled")


@pytest.fixture(scope="module")
def exchanges(shared_data: Path) -> list[Exchange]:
    return load(shared_data)


def kind(decoded: Decoded) -> str:
    verdict = decoded.verdict
    return verdict.reason.value if isinstance(verdict, TechnicalUnknown) else type(verdict).__name__


def test_every_exchange_gets_its_verdict(exchanges: list[Exchange]) -> None:
    assert len(exchanges) == 841
    assert Counter((each.format, each.streamed, kind(read(each))) for each in exchanges) == SUMMARY


def test_unary_chat_completions_one_by_one(exchanges: list[Exchange]) -> None:
    unknown = {}
    for exchange in exchanges:
        verdict = read(exchange).verdict
        if (exchange.format, exchange.streamed) == ("chat_completions", False) and isinstance(
            verdict, TechnicalUnknown
        ):
            unknown[exchange.id] = verdict.reason
    assert unknown == CHAT_UNKNOWN


def test_no_answer_with_the_marks_of_a_providers_own_tool_is_admitted(exchanges: list[Exchange]) -> None:
    for exchange in exchanges:
        marked = re.search(SERVER_MARKS[exchange.format], exchange.body) is not None
        found = kind(read(exchange))
        if found in ("Action", "TextFinish", "SERVER_TOOL_USED"):
            assert (exchange.id, found == "SERVER_TOOL_USED") == (exchange.id, marked)


def test_what_was_admitted_is_what_the_body_says(exchanges: list[Exchange]) -> None:
    for exchange in exchanges:
        decoded = read(exchange)
        if exchange.streamed or isinstance(decoded.verdict, TechnicalUnknown):
            continue
        body = json.loads(exchange.body)
        assert decoded.continuation is not None
        assert decoded.continuation.decode() in exchange.body
        assert json.loads(decoded.continuation) == opaque(exchange.format, body)
        assert decoded.model == body["modelVersion" if exchange.format == "generate_content" else "model"]
        if isinstance(decoded.verdict, Action):
            said = (decoded.verdict.call_id, decoded.verdict.tool, decoded.verdict.arguments)
            assert said == only_call(exchange.format, opaque(exchange.format, body))
        if decoded.reported_cost is not None:
            assert f'"cost":{decoded.reported_cost}' in exchange.body


def opaque(wire_format: str, body: Any) -> Any:
    if wire_format == "chat_completions":
        return body["choices"][0]["message"]
    if wire_format == "generate_content":
        return body["candidates"][0]["content"]
    return body["content" if wire_format == "messages" else "output"]


def only_call(wire_format: str, items: Any) -> tuple[Any, Any, Any]:
    if wire_format == "chat_completions":
        (call,) = items["tool_calls"]
        return call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])
    if wire_format == "messages":
        (call,) = [block for block in items if block["type"] == "tool_use"]
        return call["id"], call["name"], call["input"]
    if wire_format == "responses":
        (call,) = [item for item in items if item["type"] == "function_call"]
        return call["call_id"], call["name"], json.loads(call["arguments"])
    (call,) = [part["functionCall"] for part in items["parts"] if "functionCall" in part]
    return call.get("id", ""), call["name"], call["args"]


def test_a_stream_of_the_same_answer_gets_the_same_verdict(exchanges: list[Exchange]) -> None:
    compared: Counter[str] = Counter()
    for exchange in exchanges:
        body = None if exchange.streamed or exchange.status != 200 else json.loads(exchange.body)
        if body is None or (exchange.format == "responses" and body["status"] not in STATUSES):
            continue
        unary, stream = read(exchange), read(exchange, streamed(exchange.format, body), True)
        assert (exchange.id, stream.verdict) == (exchange.id, unary.verdict)
        assert (stream.model, stream.provider, stream.usage) == (unary.model, unary.provider, unary.usage)
        assert cost(stream) == cost(unary)
        if unary.continuation is not None and not isinstance(unary.verdict, TechnicalUnknown):
            assert json.loads(stream.continuation or b"") == unnumbered(json.loads(unary.continuation))
        compared[exchange.format] += 1
    assert compared == {"chat_completions": 229, "messages": 165, "responses": 147, "generate_content": 217}


def unnumbered(opaque: Any) -> Any:
    """The message without its calls' `index`, which in a stream is the number of the piece (docs/formats.md)."""
    for call in (isinstance(opaque, dict) and opaque.get("tool_calls")) or []:
        call.pop("index", None)
    return opaque


def cost(decoded: Decoded) -> float | None:
    return None if decoded.reported_cost is None else float(decoded.reported_cost)


def test_usage_is_read_in_every_format_and_sums(exchanges: list[Exchange]) -> None:
    inconsistent = set()
    counted: Counter[tuple[str, bool]] = Counter()
    for exchange in exchanges:
        usage = read(exchange).usage
        if usage is not None and not usage.is_consistent:
            inconsistent.add(exchange.id)
        elif usage is not None and usage.uncached_input is not None and usage.output_tokens is not None:
            counted[exchange.format, exchange.streamed] += 1
    assert inconsistent == {"db1d92b9bd1c", "1f44b8d5b05e"}, "thoughts that only the total counts"
    assert counted == {
        ("chat_completions", False): 226,
        ("chat_completions", True): 27,
        ("messages", False): 165,
        ("messages", True): 7,
        ("responses", False): 148,
        ("responses", True): 18,
        ("generate_content", False): 215,
        ("generate_content", True): 10,
    }


def prefixes(exchange: Exchange) -> list[bytes]:
    """The stream cut after each event but its last one, a router's mark after a finished response aside."""
    body = exchange.text.replace(b"\r\n", b"\n")
    if exchange.format == "responses":
        body = body.removesuffix(b"data: [DONE]\n\n")
    ends = [found.end() for found in re.finditer(b"\n\n", body)]
    return [body[:end] for end in ends[:-1]]


def test_a_stream_cut_after_any_event_is_never_admitted(exchanges: list[Exchange]) -> None:
    cut = 0
    for exchange in exchanges:
        for prefix in prefixes(exchange) if exchange.streamed else ():
            found = kind(read(exchange, prefix))
            assert (exchange.id, len(prefix), found) in (
                (exchange.id, len(prefix), "STREAM_INCOMPLETE"),
                (exchange.id, len(prefix), "PROVIDER_ERROR"),
            )
            cut += 1
    assert cut > 1000


def test_a_stream_cut_inside_its_last_event_is_incomplete(exchanges: list[Exchange]) -> None:
    for exchange in exchanges:
        if not exchange.streamed or kind(read(exchange)) not in ("Action", "TextFinish"):
            continue
        body = exchange.text.replace(b"\r\n", b"\n")
        last = len(prefixes(exchange)[-1]) if prefixes(exchange) else 0
        whole = len(body.removesuffix(b"data: [DONE]\n\n")) if exchange.format == "responses" else len(body)
        for at in range(last, whole, max(1, (whole - last) // 9)):
            assert (exchange.id, at, kind(read(exchange, body[:at]))) == (exchange.id, at, "STREAM_INCOMPLETE")


def test_an_exchange_cut_anywhere_is_malformed(exchanges: list[Exchange]) -> None:
    for wire_format in ("chat_completions", "messages", "responses", "generate_content"):
        exchange = next(each for each in exchanges if (each.format, each.streamed) == (wire_format, False))
        for length in range(0, len(exchange.text), 37):
            cut = read(Exchange(exchange.id, wire_format, False, 200, "", {}), exchange.text[:length])
            assert cut.verdict == TechnicalUnknown(Reason.MALFORMED_JSON, "")


def test_a_text_of_a_stream_is_its_joined_pieces(exchanges: list[Exchange]) -> None:
    """Counted by hand from the pieces of the recorded events, without any of the decoder's steps."""
    members = {
        "chat_completions": r'"delta":\{[^\n]*?"content":("(?:[^"\\]|\\.)*")',
        "messages": r'"type":"text_delta","text":("(?:[^"\\]|\\.)*")',
        "responses": r'"response.output_text.delta"[^\n]*?"delta":\s*("(?:[^"\\]|\\.)*")',
        "generate_content": r'"text": ("(?:[^"\\]|\\.)*")',
    }
    texts = 0
    for exchange in exchanges:
        verdict = read(exchange).verdict
        if exchange.streamed and isinstance(verdict, TextFinish):
            found = re.findall(members[exchange.format], exchange.body)
            assert (exchange.id, verdict.text) == (exchange.id, "".join(json.loads(piece) for piece in found))
            texts += 1
    assert texts == 29
