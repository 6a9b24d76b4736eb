"""The stream and the unary form of the same answer get the same verdict (design/admission.md, Streams)."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from adapter_svc.admission import Admission, TechnicalUnknown, WireFormat
from adapter_svc.admission.responses_stops import STATUSES
from tests.adapter_svc.admission.recorded import Exchange, admission_of, read_exchanges
from tests.adapter_svc.admission.splitting import chat_stream, response_stream

ROUNDS = 4


def streamed(exchange: Exchange, stream: bytes) -> Admission:
    return admission_of({**exchange, "stream": True}, body=stream)


def without_index(message: Any) -> Any:
    """The message as the merging writes it: a call has no `index` there."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": [{k: v for k, v in call.items() if k != "index"} for call in calls]}


def has_message(exchange: Exchange) -> bool:
    body = json.loads(exchange["response_body"]) if not exchange["stream"] else {}
    return exchange["status"] == 200 and len(body.get("choices") or []) == 1


def has_ended(exchange: Exchange) -> bool:
    body = json.loads(exchange["response_body"]) if not exchange["stream"] else {}
    return exchange["status"] == 200 and "output" in body and STATUSES.get(body["status"]) is None


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_chat_completions_in_chunks_are_the_same_answer(shared_data: Path, seed: int) -> None:
    exchanges = [one for one in read_exchanges(shared_data, WireFormat.CHAT_COMPLETIONS) if has_message(one)]
    assert len(exchanges) == 228
    for exchange in exchanges:
        whole = admission_of(exchange)
        parts = streamed(exchange, chat_stream(json.loads(exchange["response_body"]), Random(seed)))
        assert parts.verdict == whole.verdict, exchange["id"]
        assert (parts.usage, parts.served) == (whole.usage, whole.served)
        assert as_number(parts.reported_cost) == as_number(whole.reported_cost)
        assert (parts.continuation is None) == (whole.continuation is None)
        if parts.continuation is not None and whole.continuation is not None:
            expected = without_index(json.loads(whole.continuation.message))
            assert json.loads(parts.continuation.message) == expected, exchange["id"]


def as_number(cost: str | None) -> float | None:
    return None if cost is None else float(cost)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_responses_in_events_are_the_same_answer(shared_data: Path, seed: int) -> None:
    exchanges = [one for one in read_exchanges(shared_data, WireFormat.RESPONSES) if has_ended(one)]
    assert len(exchanges) == 148
    for exchange in exchanges:
        whole = admission_of(exchange)
        parts = streamed(exchange, response_stream(exchange["response_body"], Random(seed)))
        assert (parts.verdict, parts.continuation) == (whole.verdict, whole.continuation), exchange["id"]
        assert (parts.usage, parts.reported_cost, parts.served) == (whole.usage, whole.reported_cost, whole.served)


def test_an_unrecognized_status_is_told_alike(shared_data: Path) -> None:
    (odd,) = [one for one in read_exchanges(shared_data, WireFormat.RESPONSES) if one["id"] == "a9c90a2cf64d"]
    verdict = streamed(odd, response_stream(odd["response_body"], Random(0))).verdict
    assert isinstance(verdict, TechnicalUnknown)
    assert (verdict.reason.value, verdict.where) == ("UNRECOGNIZED_STOP_REASON", "/status")
