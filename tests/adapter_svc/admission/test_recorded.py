"""Recorded answers of real providers: every verdict is pinned, each class of them with its reason
(design/admission.md; data/exchanges/README.md).
"""

import csv
import hashlib
import json
from pathlib import Path

import pytest

from adapter_svc.admission import Action, ExpectedIdentity, Reason, TechnicalUnknown, WireFormat
from tests.adapter_svc.admission.recorded import Exchange, admission_of, body_of, offered, read_exchanges

PINNED = [WireFormat.CHAT_COMPLETIONS, WireFormat.RESPONSES]
UNARY_ACTIONS = {WireFormat.CHAT_COMPLETIONS: 77, WireFormat.RESPONSES: 43}


@pytest.fixture(scope="module", params=PINNED)
def exchanges(request: pytest.FixtureRequest, shared_data: Path) -> list[Exchange]:
    return read_exchanges(shared_data, request.param)


def pinned(wire_format: str) -> list[dict[str, str]]:
    """The rows of the format's file; a line that begins with # says why the rows under it are as they are."""
    with (Path(__file__).parent / f"expected_{wire_format}.tsv").open(newline="") as lines:
        return list(csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t"))


def row(exchange: Exchange) -> dict[str, str]:
    verdict = admission_of(exchange).verdict
    unknown = verdict if isinstance(verdict, TechnicalUnknown) else None
    return {
        "id": exchange["id"],
        "verdict": type(verdict).__name__,
        "reason": unknown.reason.value if unknown else "",
        "where": unknown.where if unknown else "",
    }


def test_every_recorded_answer_has_its_pinned_verdict(exchanges: list[Exchange]) -> None:
    found = {exchange["id"]: row(exchange) for exchange in exchanges}
    rows = pinned(exchanges[0]["format"])
    assert len(rows) == len(found) == len(exchanges)
    assert found == {one["id"]: one for one in rows}


def test_what_goes_back_is_what_came(exchanges: list[Exchange]) -> None:
    unary = [exchange for exchange in exchanges if not exchange["stream"]]
    actions = [(exchange, admission) for exchange in unary if (admission := admission_of(exchange)).continuation]
    assert len(actions) == UNARY_ACTIONS[exchanges[0]["format"]]
    for exchange, admission in actions:
        assert isinstance(admission.verdict, Action)
        assert admission.continuation is not None
        body = json.loads(exchange["response_body"])
        sent = body["output"] if "output" in body else body["choices"][0]["message"]
        assert json.loads(admission.continuation.message) == sent
        assert body_of(exchange).count(admission.continuation.message) == 1
        assert admission.continuation.digest == hashlib.sha256(admission.continuation.message).digest()


def test_what_goes_back_of_a_responses_stream_stands_in_its_last_event(shared_data: Path) -> None:
    streams = [one for one in read_exchanges(shared_data, WireFormat.RESPONSES) if one["stream"]]
    admissions = [(stream, admission_of(stream)) for stream in streams]
    actions = [(stream, found.continuation) for stream, found in admissions if found.continuation is not None]
    assert len(actions) == 3
    for stream, continuation in actions:
        last = body_of(stream).rpartition(b"data: ")[2]
        assert b'"output":' + continuation.message in last
        assert continuation.digest == hashlib.sha256(continuation.message).digest()


def test_the_reasoning_of_a_chat_stream_is_joined_and_the_rest_keeps_its_bytes(shared_data: Path) -> None:
    streams = {one["id"]: one for one in read_exchanges(shared_data, WireFormat.CHAT_COMPLETIONS)}
    groq = admission_of(streams["4d3f7eac3ad8"]).continuation
    assert groq is not None
    message = json.loads(groq.message)
    assert list(message) == ["content", "reasoning", "role", "tool_calls"]
    assert message["reasoning"].startswith('We need to call the function with correct parameter "name".')
    function = b'{"arguments":"{\\"name\\":\\"example\\"}","name":"get_something_by_name"}'
    assert b'"tool_calls":[{"function":' + function + b',"id":"fc_bfb39741-3748-4def-9886-a93fc9c64a90"' in groq.message


def test_the_same_answer_from_another_model_is_a_mismatch(exchanges: list[Exchange]) -> None:
    for exchange in exchanges:
        admission = admission_of(exchange)
        if isinstance(admission.verdict, TechnicalUnknown):
            continue
        other = ExpectedIdentity(model=f"{admission.served.model}x")
        assert admission_of(exchange, expected=other).verdict == TechnicalUnknown(Reason.IDENTITY_MISMATCH, "/model")


def test_a_provider_that_numbers_its_calls_anew_repeats_an_id(shared_data: Path) -> None:
    exchanges = read_exchanges(shared_data, WireFormat.RESPONSES)
    (second,) = [one for one in exchanges if one["id"] == "35176e899cf1"]
    assert [tool.name for tool in offered(second)] == ["first_tool", "second_tool"]
    assert isinstance(admission_of(second).verdict, Action)
    seen = admission_of(second, seen_tool_call_ids=frozenset({"call_0"})).verdict
    assert seen == TechnicalUnknown(Reason.DUPLICATE_TOOL_CALL_ID, "/output/0/call_id")
