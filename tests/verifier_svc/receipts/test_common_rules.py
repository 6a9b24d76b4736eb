"""What holds in every wire format alike (design/admission.md, Order of checks, steps 1 to 4 and 9)."""

from typing import Any

import pytest

from tests.verifier_svc.receipts import bodies
from tests.verifier_svc.receipts.bodies import judge, unknown
from tests.verifier_svc.receipts.responses import having, text_response, tool_call, tool_response, without
from tests.verifier_svc.receipts.streaming import streamed
from verifier_svc.receipts.strict import Limits
from verifier_svc.receipts.verdicts import Action, Reason, TextFinish
from verifier_svc.receipts.wire import Expectation, WireFormat

CHAT, MESSAGES, RESPONSES, GENERATE = WireFormat
TEXTS = {
    CHAT: text_response(),
    MESSAGES: bodies.message(),
    RESPONSES: bodies.response(),
    GENERATE: bodies.generated(),
}
CALLS = {
    CHAT: tool_response(tool_call()),
    MESSAGES: bodies.calling(bodies.tool_use()),
    RESPONSES: bodies.response(bodies.function_call()),
    GENERATE: bodies.generated(bodies.called(id="g1")),
}
IDS = {CHAT: "call_1", MESSAGES: "toolu_1", RESPONSES: "call_1", GENERATE: "g1"}
MODEL = {CHAT: "model", MESSAGES: "model", RESPONSES: "model", GENERATE: "modelVersion"}
CAP_PLACE = {
    CHAT: "/usage/completion_tokens",
    MESSAGES: "/usage/output_tokens",
    RESPONSES: "/usage/output_tokens",
    GENERATE: "/usageMetadata",
}
every = pytest.mark.parametrize("wire", list(WireFormat))


def in_both_forms(wire: WireFormat, body: Any, expectation: Expectation | None = None, **more: Any) -> Any:
    """The verdict, which the unary answer and its stream must share."""
    unary = judge(wire, body, expectation, **more)
    stream = judge(wire, streamed(wire.value, body), expectation, streamed=True, **more)
    assert stream == unary
    return unary


@every
def test_a_text_and_a_call_are_admitted(wire: WireFormat) -> None:
    assert in_both_forms(wire, TEXTS[wire]) == TextFinish("Done.")
    assert in_both_forms(wire, CALLS[wire]) == Action("wait", {}, IDS[wire])


@every
@pytest.mark.parametrize("status", [100, 199, 300, 404, 500])
def test_1_a_status_other_than_2xx(wire: WireFormat, status: int) -> None:
    for body in (TEXTS[wire], b"not json"):
        assert unknown(wire, body, status=status) == (Reason.HTTP_STATUS, "")
    assert unknown(wire, streamed(wire.value, TEXTS[wire]), status=status, streamed=True) == (Reason.HTTP_STATUS, "")


@every
@pytest.mark.parametrize("body", [b"plain text", b"[]", b"null", b"", b"\xef\xbb\xbf{}", b"{}{}"])
def test_2_a_body_that_is_no_strict_object(wire: WireFormat, body: bytes) -> None:
    assert unknown(wire, body)[0] is Reason.MALFORMED_JSON


@every
def test_2_duplicate_keys_and_limits(wire: WireFormat) -> None:
    assert unknown(wire, b'{"a":{"b":1,"b":1}}') == (Reason.DUPLICATE_KEY, "/a/b")
    for limits in (Limits(max_bytes=10), Limits(max_depth=2)):
        assert unknown(wire, TEXTS[wire], Expectation(limits=limits))[0] is Reason.LIMIT_EXCEEDED
        stream = streamed(wire.value, TEXTS[wire])
        assert unknown(wire, stream, Expectation(limits=limits), streamed=True)[0] is Reason.LIMIT_EXCEEDED


@every
def test_2_another_json_object_fails_at_its_identity(wire: WireFormat) -> None:
    assert unknown(wire, {"method": "POST"}) == (Reason.IDENTITY_MISSING, f"/{MODEL[wire]}")


@every
def test_3_an_error_inside_a_200(wire: WireFormat) -> None:
    assert unknown(wire, {**TEXTS[wire], "error": {"message": "overloaded"}}) == (Reason.PROVIDER_ERROR, "/error")
    assert unknown(wire, {"error": {}}) == (Reason.PROVIDER_ERROR, "/error")
    assert judge(wire, {**TEXTS[wire], "error": None}) == TextFinish("Done.")


@every
def test_4_identity(wire: WireFormat) -> None:
    asked, member = Expectation(model="m-1", model_aliases=frozenset(("m-1-2024",))), MODEL[wire]
    assert in_both_forms(wire, TEXTS[wire], asked) == TextFinish("Done.")
    assert in_both_forms(wire, {**TEXTS[wire], member: "m-1-2024"}, asked) == TextFinish("Done.")
    for other in ("M-1", "models/m-1", 7):
        assert unknown(wire, {**TEXTS[wire], member: other}, asked) == (Reason.IDENTITY_MISMATCH, f"/{member}")
    for absent in (without(TEXTS[wire], member), {**TEXTS[wire], member: ""}, {**TEXTS[wire], member: None}):
        for expectation in (asked, None):
            assert unknown(wire, absent, expectation) == (Reason.IDENTITY_MISSING, f"/{member}")


@every
def test_4_the_formats_of_gateways_name_a_provider(wire: WireFormat) -> None:
    asked = Expectation(provider_name="Acme")
    if wire in (CHAT, RESPONSES):
        assert unknown(wire, TEXTS[wire], asked) == (Reason.IDENTITY_MISSING, "/provider")
        assert unknown(wire, {**TEXTS[wire], "provider": "B"}, asked) == (Reason.IDENTITY_MISMATCH, "/provider")
        assert judge(wire, {**TEXTS[wire], "provider": "Acme"}, asked) == TextFinish("Done.")
    else:
        assert judge(wire, TEXTS[wire], asked) == TextFinish("Done.")


@every
def test_8_an_id_that_was_seen_in_the_episode(wire: WireFormat) -> None:
    verdict = in_both_forms(wire, CALLS[wire], seen=(IDS[wire],))
    assert verdict.reason is Reason.DUPLICATE_TOOL_CALL_ID
    assert in_both_forms(wire, CALLS[wire], seen=("call_0", "")) == Action("wait", {}, IDS[wire])


@every
def test_9_the_output_cap_was_reached_though_the_reason_says_otherwise(wire: WireFormat) -> None:
    for body in (TEXTS[wire], CALLS[wire]):
        assert unknown(wire, body, Expectation(output_cap=5)) == (Reason.TRUNCATED, CAP_PLACE[wire])
        assert isinstance(in_both_forms(wire, body, Expectation(output_cap=6)), Action | TextFinish)
        usage = "usageMetadata" if wire is GENERATE else "usage"
        assert isinstance(judge(wire, without(body, usage), Expectation(output_cap=1)), Action | TextFinish)


@every
def test_an_earlier_check_wins(wire: WireFormat) -> None:
    other = {**TEXTS[wire], MODEL[wire]: "other"}
    asked = Expectation(model="m-1", output_cap=1)
    assert unknown(wire, {**other, "error": 1}, asked)[0] is Reason.PROVIDER_ERROR
    assert unknown(wire, other, asked)[0] is Reason.IDENTITY_MISMATCH


@every
def test_what_goes_back_is_byte_for_byte(wire: WireFormat) -> None:
    bodies_and_opaque = {
        CHAT: b'{"role":"assistant", "content":"Hi","n":1.0,"x":[ ]}',
        MESSAGES: b'[ {"type":"thinking","signature":"\\u0041==","n":1e2},{"type":"text", "text":"Hi"}]',
        RESPONSES: b'[{"type":"reasoning", "x":[ ],"n":1.0},{"type":"message","role":"assistant",'
        b'"content":[{"type":"output_text","text":"Hi"}]}]',
        GENERATE: b'{"role":"model", "parts":[{"text":"Hi","thoughtSignature":"\\u0041", "n":1E0}]}',
    }
    frames = {
        CHAT: b'{"model":"m","choices":[{"finish_reason":"stop","message": %s }]}',
        MESSAGES: b'{"model":"m","type":"message","role":"assistant","stop_reason":"end_turn","content": %s }',
        RESPONSES: b'{"model":"m","status":"completed","output": %s }',
        GENERATE: b'{"modelVersion":"m","candidates":[{"finishReason":"STOP","content": %s }]}',
    }
    opaque = bodies_and_opaque[wire]
    found = bodies.decoded(wire, frames[wire] % opaque)
    assert (found.verdict, found.continuation) == (TextFinish("Hi"), opaque)


@every
def test_a_cost_is_reported_as_it_is_spelled(wire: WireFormat) -> None:
    reported = having(TEXTS[wire], "usage", {**TEXTS[wire].get("usage", {}), "cost": 1.25e-05})
    spelled = "1.25e-05" if wire in (CHAT, RESPONSES) else None
    assert bodies.decoded(wire, reported).reported_cost == spelled
    stream = streamed(wire.value, reported)
    assert bodies.decoded(wire, stream, streamed=True).reported_cost == spelled
    assert bodies.decoded(wire, having(reported, "usage", "is_byok", True)).reported_cost is None
