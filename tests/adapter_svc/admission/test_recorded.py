"""Recorded answers of real providers: every verdict is pinned (design/admission.md; data/exchanges/README.md)."""

import csv
import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from adapter_svc.admission import Action, Admission, ExpectedIdentity, OfferedTool, Reason, TechnicalUnknown
from tests.adapter_svc.admission.helpers import judge

PINNED = Path(__file__).parent / "expected_chat_completions.tsv"
Exchange = dict[str, Any]


@pytest.fixture(scope="module")
def exchanges(shared_data: Path) -> list[Exchange]:
    with gzip.open(shared_data / "exchanges" / "exchanges.jsonl.gz", "rt", encoding="utf-8") as lines:
        every = [json.loads(line) for line in lines]
    return [one for one in every if one["format"] == "chat_completions" and not one["stream"]]


def offered(exchange: Exchange) -> tuple[OfferedTool, ...]:
    functions = [tool["function"] for tool in exchange["request"].get("tools") or [] if "function" in tool]
    return tuple(OfferedTool.of(function["name"], function["parameters"]) for function in functions)


def admission_of(exchange: Exchange) -> Admission:
    return judge(
        exchange["response_body"].encode(),
        http_status=exchange["status"],
        tools=offered(exchange),
        expected=ExpectedIdentity(),
        output_cap=exchange["request"].get("max_completion_tokens"),
    )


def row(exchange: Exchange) -> dict[str, str]:
    verdict = admission_of(exchange).verdict
    reason = verdict.reason.value if isinstance(verdict, TechnicalUnknown) else ""
    return {"id": exchange["id"], "verdict": type(verdict).__name__, "reason": reason}


def test_every_recorded_answer_has_its_pinned_verdict(exchanges: list[Exchange]) -> None:
    with PINNED.open(newline="") as lines:
        pinned = list(csv.DictReader(lines, delimiter="\t"))
    assert [row(exchange) for exchange in exchanges] == pinned


def test_what_goes_back_is_the_message_as_it_came(exchanges: list[Exchange]) -> None:
    actions = [(exchange, admission_of(exchange)) for exchange in exchanges]
    actions = [(exchange, admission) for exchange, admission in actions if isinstance(admission.verdict, Action)]
    assert len(actions) == 77
    for exchange, admission in actions:
        assert admission.continuation is not None
        message = json.dumps(
            json.loads(exchange["response_body"])["choices"][0]["message"], separators=(",", ":"), ensure_ascii=False
        ).encode()
        assert json.loads(admission.continuation.message) == json.loads(message)
        assert exchange["response_body"].encode().count(admission.continuation.message) == 1
        assert admission.continuation.digest == hashlib.sha256(admission.continuation.message).digest()


def test_the_same_answer_from_another_model_is_a_mismatch(exchanges: list[Exchange]) -> None:
    for exchange in exchanges:
        if isinstance(admission_of(exchange).verdict, TechnicalUnknown):
            continue
        served = json.loads(exchange["response_body"])["model"]
        other = judge(
            exchange["response_body"].encode(), tools=offered(exchange), expected=ExpectedIdentity(model=served + "x")
        )
        assert other.verdict == TechnicalUnknown(Reason.IDENTITY_MISMATCH, "/model")
