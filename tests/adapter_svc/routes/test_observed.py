"""A watched provider gives what the other one gives; its span has names and counts, and nothing of what was said."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from adapter_svc.admission import WireFormat
from adapter_svc.routes import FailureCategory, ProviderAnswer, RequestProgress, Route, TransportFailure, observed
from adapter_svc.routes.observed import OPERATIONS, PROVIDERS, ObservedProvider
from tests.adapter_svc.fakes import FakeProvider
from tests.adapter_svc.routes.helpers import a_route
from tests.countersign.kit.observability.recording import Recorded, attributes, recording

SAID = "what the model said"
ASKED = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "m",
    "gen_ai.request.max_tokens": 512,
    "http.request.method": "POST",
    "server.address": "127.0.0.1",
    "server.port": 1,
}
SECONDS = "countersign_adapter_provider_seconds_count"


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    with recording() as recorded:
        yield recorded


def body(**changes: Any) -> bytes:
    """A completion; `changes` replace members."""
    usage = {"prompt_tokens": 30, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 7}}
    choice = {"message": {"role": "assistant", "content": SAID}, "finish_reason": "stop"}
    return json.dumps({"model": "served/m", "usage": usage, "choices": [choice], **changes}).encode()


async def send(reply: Any, route: Route | None = None) -> ProviderAnswer:
    """What comes of sending, through a watched provider."""
    return await ObservedProvider(FakeProvider([], [reply])).send(route or a_route(), b'{"messages":"what was asked"}')


async def test_while_nobody_watches_the_other_provider_is_asked() -> None:
    answer = ProviderAnswer(200, body())
    assert await send(answer) is answer


async def test_a_span_by_the_conventions_for_generative_ai(recorded: Recorded) -> None:
    answer = ProviderAnswer(200, body())
    assert await send(answer) is answer
    (span,) = recorded.spans()
    assert (span.name, span.kind, span.status.status_code) == ("chat m", SpanKind.CLIENT, StatusCode.UNSET)
    assert attributes(span) == ASKED | {
        "http.response.status_code": 200,
        "gen_ai.response.model": "served/m",
        "gen_ai.usage.input_tokens": 30,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.usage.cache_read.input_tokens": 7,
    }
    assert SAID not in span.to_json()
    assert "what was asked" not in span.to_json()
    assert recorded.values(SECONDS) == {("chat_completions", "2xx"): 1}


@pytest.mark.parametrize("model", [SAID, "m" * 201, "m\n", None, 7])
async def test_a_text_is_not_exported_as_the_name_of_a_model(recorded: Recorded, model: Any) -> None:
    await send(ProviderAnswer(200, body(model=model)))
    assert "gen_ai.response.model" not in attributes(recorded.spans()[0])


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'{"model":"a","model":"b"}', b"\xff"])
async def test_an_answer_that_cannot_be_read_is_given_all_the_same(recorded: Recorded, raw: bytes) -> None:
    assert (await send(ProviderAnswer(200, raw))).body == raw
    assert attributes(recorded.spans()[0]) == ASKED | {"http.response.status_code": 200}


async def test_a_fault_of_whoever_watches_loses_no_answer(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed, "read_strict", None)
    assert (await send(ProviderAnswer(200, body()))).status == 200


async def test_another_status_is_a_failure_and_its_body_is_not_read(recorded: Recorded) -> None:
    assert (await send(ProviderAnswer(503, body()))).status == 503
    (span,) = recorded.spans()
    assert attributes(span) == ASKED | {"http.response.status_code": 503, "error.type": "503"}
    assert span.status.status_code is StatusCode.ERROR
    assert recorded.values(SECONDS) == {("chat_completions", "5xx"): 1}


async def test_no_answer_is_told_by_how_far_it_got_and_what_ended_it(recorded: Recorded) -> None:
    with pytest.raises(TransportFailure):
        await send(TransportFailure(RequestProgress.SENT, FailureCategory.FIRST_BYTE_TIMEOUT))
    (span,) = recorded.spans()
    told = {"countersign.transport.progress": "SENT", "error.type": "FIRST_BYTE_TIMEOUT"}
    assert attributes(span) == ASKED | told
    assert span.status.status_code is StatusCode.ERROR
    assert recorded.values(SECONDS) == {("chat_completions", "no_answer"): 1}
    failures = recorded.values("countersign_adapter_transport_failures_total")
    assert failures == {("SENT", "FIRST_BYTE_TIMEOUT"): 1}


def test_every_format_has_its_names() -> None:
    assert set(PROVIDERS) == set(OPERATIONS) == set(WireFormat)
