"""The decoder over recorded traffic: every unary chat-completions exchange gets the verdict that the design gives."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from verifier_svc.receipts.chat import decode_chat_completion
from verifier_svc.receipts.verdicts import Action, Decoded, Reason, TechnicalUnknown, TextFinish

UNKNOWN = {
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
"""Reviewed by hand against design/admission.md; every other exchange is an action or a text finish."""


@pytest.fixture(scope="module")
def exchanges(shared_data: Path) -> list[dict[str, Any]]:
    with gzip.open(shared_data / "exchanges" / "exchanges.jsonl.gz", "rt", encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    return [item for item in found if item["format"] == "chat_completions" and not item["stream"]]


def decode(exchange: dict[str, Any]) -> Decoded:
    offered = [tool["function"] for tool in exchange["request"].get("tools") or [] if "function" in tool]
    tools = {tool["name"]: tool.get("parameters") or {} for tool in offered}
    return decode_chat_completion(exchange["response_body"].encode(), exchange["status"], tools)


def test_every_exchange_gets_its_verdict(exchanges: list[dict[str, Any]]) -> None:
    kinds: Counter[type] = Counter()
    unknown = {}
    for exchange in exchanges:
        verdict = decode(exchange).verdict
        kinds[type(verdict)] += 1
        if isinstance(verdict, TechnicalUnknown):
            unknown[exchange["id"]] = verdict.reason
    assert unknown == UNKNOWN
    assert kinds == {TextFinish: 138, Action: 77, TechnicalUnknown: 21}


def test_what_was_admitted_is_what_the_body_says(exchanges: list[dict[str, Any]]) -> None:
    for exchange in exchanges:
        decoded, body = decode(exchange), json.loads(exchange["response_body"])
        if isinstance(decoded.verdict, TechnicalUnknown):
            continue
        message = body["choices"][0]["message"]
        assert decoded.assistant_message is not None
        assert decoded.assistant_message.decode() in exchange["response_body"]
        assert json.loads(decoded.assistant_message) == message
        assert decoded.model == body["model"]
        if isinstance(decoded.verdict, Action):
            called = message["tool_calls"][0]
            assert (decoded.verdict.call_id, decoded.verdict.tool) == (called["id"], called["function"]["name"])
            assert decoded.verdict.arguments == json.loads(called["function"]["arguments"])
        if decoded.reported_cost is not None:
            assert f'"cost":{decoded.reported_cost}' in exchange["response_body"]


def test_an_exchange_cut_anywhere_is_malformed(exchanges: list[dict[str, Any]]) -> None:
    body = exchanges[0]["response_body"].encode()
    for length in range(0, len(body), 7):
        verdict = decode_chat_completion(body[:length], 200, {}).verdict
        assert verdict == TechnicalUnknown(Reason.MALFORMED_JSON, "")
