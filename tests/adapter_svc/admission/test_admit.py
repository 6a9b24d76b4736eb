"""The evidence beside the verdict, and the caller's own faults."""

import hashlib
from dataclasses import replace
from typing import Any

import grpc
import pytest

from adapter_svc.admission import (
    Action,
    InvalidToolSchema,
    OfferedTool,
    Reason,
    ServedIdentity,
    TechnicalUnknown,
    TextFinish,
    UnsupportedWireFormat,
    Usage,
    WireFormat,
    formats,
)
from tests.adapter_svc.admission.helpers import failure, judge, text_body, tool_body

OPAQUE = (
    b'{ "z": [], "role":"assistant","content":null ,"reasoning_details":[{"n":1.00E0,"data":"\\u00e9\xc3\xa9"}],\n'
    b'"tool_calls":[{"id":"c","function":{"name":"finish","arguments":"{\\"claim\\":\\"saved\\"}"}}], "a": {} }'
)
AROUND = b'{"model":"m","choices" : [ {"finish_reason":"tool_calls", "message" :  %b  }], "message": {}}'


def test_the_continuation_is_the_message_byte_for_byte() -> None:
    admission = judge(AROUND % OPAQUE)
    assert isinstance(admission.verdict, Action)
    assert admission.continuation is not None
    assert admission.continuation.message == OPAQUE
    assert admission.continuation.digest == hashlib.sha256(OPAQUE).digest()
    assert "reasoning_details" not in repr(admission)


def test_only_an_action_has_a_continuation() -> None:
    assert judge(text_body()).continuation is None
    assert judge(tool_body(), tools=()).continuation is None


def test_an_escaped_key_is_the_key() -> None:
    body = (AROUND % OPAQUE).replace(b'"message" :', b'"m\\u0065ssage" :')
    admission = judge(body)
    assert admission.continuation is not None
    assert admission.continuation.message == OPAQUE


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("body", [b"", b"\xff", text_body(), tool_body()])
def test_the_raw_digest_is_of_the_whole_body(body: bytes, status: int) -> None:
    assert judge(body, http_status=status).raw_digest == hashlib.sha256(body).digest()


FULL = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 3},
}


def test_usage_is_read_as_reported() -> None:
    usage = judge(text_body(usage=FULL)).usage
    assert usage == Usage(input_tokens=10, output_tokens=5, total_tokens=15, cached_tokens=4, reasoning_tokens=3)


@pytest.mark.parametrize("usage", [{"prompt_cache_hit_tokens": 7}, {"num_cached_tokens": 7}, {"cached_tokens": 7}])
def test_cached_tokens_stand_in_several_places(usage: dict[str, int]) -> None:
    assert judge(text_body(usage=usage)).usage == Usage(cached_tokens=7)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None, "completion_tokens_details": None}])
def test_absent_usage_is_not_zero(usage: Any) -> None:
    read = judge(text_body(usage=usage)).usage
    assert read == Usage()
    assert read.input_tokens is None
    assert judge(text_body(usage={"prompt_tokens": 0})).usage == Usage(input_tokens=0)


@pytest.mark.parametrize("bad", [-1, 1.0, 1.5, "5", True, [], {}, 2**63])
def test_an_unreadable_count_is_absent_and_named(bad: Any) -> None:
    usage = judge(text_body(usage={**FULL, "completion_tokens": bad})).usage
    assert usage.output_tokens is None
    assert usage.input_tokens == 10
    assert usage.invalid == ("output_tokens",)


def test_usage_of_another_type_is_named() -> None:
    assert judge(text_body(usage=[1])).usage == Usage(invalid=("usage",))


@pytest.mark.parametrize("spelled", ["0", "0.00183", "4.01e-05", "1E-3", "-0.5", "0.10", "25.000000000000004"])
def test_the_cost_keeps_its_own_spelling(spelled: str) -> None:
    body = text_body(usage={"cost": "@"}).replace(b'"@"', spelled.encode())
    admission = judge(body)
    assert admission.reported_cost == spelled
    assert admission.usage.invalid == ()


@pytest.mark.parametrize("spelled", ['"0.1"', "true", "{}", "[0.1]", "0." + "0" * 63 + "1"])
def test_a_cost_that_is_no_amount_is_named(spelled: str) -> None:
    body = text_body(usage={"cost": "@"}).replace(b'"@"', spelled.encode())
    admission = judge(body)
    assert admission.verdict == TextFinish("all done")
    assert admission.reported_cost is None
    assert admission.usage.invalid == ("cost",)


def test_a_cost_that_is_only_the_gateways_fee_is_not_the_bill() -> None:
    assert judge(text_body(usage={"cost": 0, "is_byok": True})).reported_cost is None
    assert judge(text_body(usage={"cost": 0, "is_byok": True})).usage.invalid == ("cost",)
    assert judge(text_body(usage={"cost": 0, "is_byok": False})).reported_cost == "0"


def test_an_absent_or_null_cost_is_none() -> None:
    assert judge(text_body(usage={"cost": None})).reported_cost is None
    assert judge(text_body(usage={"cost": None})).usage.invalid == ()
    assert judge(text_body(cost=1)).reported_cost is None


def test_an_answer_that_is_not_admitted_was_paid_for_too() -> None:
    admission = judge(tool_body(usage={**FULL, "cost": 0.25}, provider="P"), tools=())
    assert admission.verdict == TechnicalUnknown(Reason.UNKNOWN_TOOL, "/choices/0/message/tool_calls/0/function/name")
    assert admission.usage.output_tokens == 5
    assert admission.reported_cost == "0.25"
    assert admission.served == ServedIdentity(model="m", provider_name="P")


def test_nothing_is_read_from_a_body_that_is_not_an_answer() -> None:
    admission = judge(text_body(usage={**FULL, "cost": 1}), http_status=500)
    assert (admission.usage, admission.reported_cost, admission.served) == (Usage(), None, ServedIdentity())


def test_a_format_without_a_decoder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "FORMATS", {})
    with pytest.raises(UnsupportedWireFormat) as caught:
        judge(text_body())
    assert caught.value.reason == "UNSUPPORTED_WIRE_FORMAT"
    assert caught.value.status is grpc.StatusCode.UNIMPLEMENTED
    assert caught.value.metadata == {"wire_format": "chat_completions", "streamed": "false"}


def test_a_stream_that_is_not_read_is_refused_rather_than_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    unary_only = replace(formats.FORMATS[WireFormat.CHAT_COMPLETIONS], assemble=None)
    monkeypatch.setattr(formats, "FORMATS", {WireFormat.CHAT_COMPLETIONS: unary_only})
    with pytest.raises(UnsupportedWireFormat) as caught:
        judge(b"data: [DONE]\n\n", streamed=True)
    assert caught.value.metadata == {"wire_format": "chat_completions", "streamed": "true"}


def test_an_unusable_offered_schema_is_the_callers_fault_whatever_came() -> None:
    with pytest.raises(InvalidToolSchema):
        judge(b"nonsense", tools=(OfferedTool("t", b"[]"),))


def test_the_place_shows_nothing_that_the_provider_wrote() -> None:
    body = text_body(choice={"finish_reason": "SECRET"}, message={"SECRET": 1}).replace(
        b'"SECRET": 1', b'"SECRET": 1e999'
    )
    assert failure(body) == (Reason.LIMIT_EXCEEDED, "")
