"""Recorded messages and generate_content answers: every verdict is pinned, class by class, with its reason in the file
(design/admission.md; data/exchanges/README.md).
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from adapter_svc.admission import Action, ExpectedIdentity, Reason, TechnicalUnknown, Usage, WireFormat
from adapter_svc.admission.limits import DEFAULT_LIMITS
from adapter_svc.admission.server_sent_events import read_events
from tests.adapter_svc.admission.bodies import joined, split_generated, split_message
from tests.adapter_svc.admission.recorded_exchanges import Exchange, admission_of, exchanges_of, pinned, row

FORMATS = (WireFormat.MESSAGES, WireFormat.GENERATE_CONTENT)
SIZES = {WireFormat.MESSAGES: 173, WireFormat.GENERATE_CONTENT: 229}
ACTIONS = {WireFormat.MESSAGES: 55, WireFormat.GENERATE_CONTENT: 85}
MODEL_MEMBER = {WireFormat.MESSAGES: "model", WireFormat.GENERATE_CONTENT: "modelVersion"}


@pytest.fixture(scope="module", params=FORMATS, ids=str)
def wire_format(request: pytest.FixtureRequest) -> WireFormat:
    found: WireFormat = request.param
    return found


@pytest.fixture(scope="module")
def exchanges(shared_data: Path, wire_format: WireFormat) -> list[Exchange]:
    return exchanges_of(shared_data, wire_format)


def test_every_recorded_answer_has_its_pinned_verdict(exchanges: list[Exchange], wire_format: WireFormat) -> None:
    assert len(exchanges) == SIZES[wire_format]
    expected = {line["id"]: line for line in pinned(f"expected_{wire_format.value}.tsv")}
    assert {exchange["id"]: row(exchange) for exchange in exchanges} == expected


def content_of(body: dict[str, Any], wire_format: WireFormat) -> Any:
    return body["content"] if wire_format is WireFormat.MESSAGES else body["candidates"][0]["content"]


def test_what_goes_back_is_the_content_as_it_came(exchanges: list[Exchange], wire_format: WireFormat) -> None:
    admissions = [(exchange, admission_of(exchange)) for exchange in exchanges]
    actions = [(exchange, admission) for exchange, admission in admissions if isinstance(admission.verdict, Action)]
    assert len(actions) == ACTIONS[wire_format]
    for exchange, admission in actions:
        assert admission.continuation is not None
        sent_back = admission.continuation.message
        assert admission.continuation.digest == hashlib.sha256(sent_back).digest()
        if not exchange["stream"]:
            assert json.loads(sent_back) == content_of(json.loads(exchange["response_body"]), wire_format)
            assert exchange["response_body"].encode().count(sent_back) == 1


def parts_that_came(exchange: Exchange) -> list[bytes]:
    """Every part of a stream's chunks as it stands there, cut out by hand: none of these holds a brace in a text."""
    found = []
    for event in read_events(exchange["response_body"].encode(), DEFAULT_LIMITS):
        start = event.data.index(b'"parts": [') + len(b'"parts": [')
        found.append(event.data[start : event.data.index(b'],"role"')])
    return found


def test_streamed_parts_go_back_as_they_came(exchanges: list[Exchange], wire_format: WireFormat) -> None:
    streamed = [one for one in exchanges if one["stream"] and wire_format is WireFormat.GENERATE_CONTENT]
    actions = [one for one in streamed if isinstance(admission_of(one).verdict, Action)]
    assert len(actions) == (3 if wire_format is WireFormat.GENERATE_CONTENT else 0)
    for exchange in actions:
        continuation = admission_of(exchange).continuation
        assert continuation is not None
        assert continuation.message == b'{"parts":[' + b",".join(parts_that_came(exchange)) + b'],"role":"model"}'


def test_the_same_answer_from_another_model_is_a_mismatch(exchanges: list[Exchange], wire_format: WireFormat) -> None:
    for exchange in exchanges:
        admission = admission_of(exchange)
        if isinstance(admission.verdict, TechnicalUnknown):
            continue
        served = admission.served.model
        assert served is not None
        assert admission_of(exchange, expected=ExpectedIdentity(model=served)).verdict == admission.verdict
        other = admission_of(exchange, expected=ExpectedIdentity(model=served + "x"))
        assert other.verdict == TechnicalUnknown(Reason.IDENTITY_MISMATCH, f"/{MODEL_MEMBER[wire_format]}")


def test_counts_are_all_read(exchanges: list[Exchange], wire_format: WireFormat) -> None:
    for exchange in exchanges:
        usage = admission_of(exchange).usage
        assert usage.invalid == ()
        if wire_format is WireFormat.GENERATE_CONTENT and None not in (usage.input_tokens, usage.output_tokens):
            assert usage.input_tokens is not None
            assert usage.output_tokens is not None
            assert usage.total_tokens == usage.input_tokens + usage.output_tokens


def as_stream(exchange: Exchange, wire_format: WireFormat) -> bytes:
    body = json.loads(exchange["response_body"])
    return joined(split_message(body) if wire_format is WireFormat.MESSAGES else split_generated(body))


def test_a_split_answer_is_judged_like_the_whole(exchanges: list[Exchange], wire_format: WireFormat) -> None:
    """design/admission.md, Streams: the stream and the unary form of the same answer get the same verdict."""
    for exchange in exchanges:
        if exchange["stream"] or exchange["status"] != 200:
            continue
        whole = admission_of(exchange)
        split = admission_of(exchange, body=as_stream(exchange, wire_format), streamed=True)
        assert (exchange["id"], split.verdict, split.served) == (exchange["id"], whole.verdict, whole.served)
        assert split.usage == whole.usage
        if whole.continuation is not None:
            assert split.continuation is not None
            assert json.loads(split.continuation.message) == json.loads(whole.continuation.message)


def test_usage_of_what_is_not_read_is_none(exchanges: list[Exchange]) -> None:
    refused = [one for one in exchanges if one["status"] != 200]
    assert len(refused) == 1
    assert admission_of(refused[0]).usage == Usage()
