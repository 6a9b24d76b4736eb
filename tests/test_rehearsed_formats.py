"""The scripted agent's answers through the adapter's admission and back in its requests, in every form that both speak
here: a whole body or a stream, chat completions or responses.
"""

import json
import re
from typing import Any

import pytest

from adapter_svc.admission import (
    Action,
    Admission,
    AdmissionRequest,
    ExpectedIdentity,
    OfferedTool,
    Reason,
    TechnicalUnknown,
    TextFinish,
    WireFormat,
    admit,
)
from adapter_svc.routes import Turn, build_request
from countersign.agents.errors import BadChatRequestError
from countersign.agents.http_server import Request, Response
from countersign.agents.policies import Policy, answer
from countersign.agents.wires import read_request
from countersign.kit.canonical import canonical_json
from tests.adapter_svc.routes.helpers import a_route
from tests.countersign.agents.conversations import EVENT_TOOLS, event_observation, tool

FORMS = [(wire, streamed) for wire in ("chat_completions", "responses") for streamed in (False, True)]
TOOLS = [tool(name)["function"] for name in EVENT_TOOLS]
PACKET = canonical_json({"generative_support": [], "observation": event_observation(), "operator_prefix": []})
SHOWN = canonical_json({"observation": event_observation(tick=1)}).decode()

REASONS = {
    Policy.BLANK_TEXT: Reason.EMPTY_TEXT,
    Policy.CLAIM_ON_TRANSFER: Reason.INVALID_ARGUMENTS,
    Policy.DUPLICATE_CLAIM_KEY: Reason.MALFORMED_ARGUMENTS,
    Policy.ERROR_REASON: Reason.UNRECOGNIZED_STOP_REASON,
    Policy.FILTER: Reason.FILTERED,
    Policy.NULL_REASON: Reason.MISSING_STOP_REASON,
    Policy.TRUNCATE: Reason.TRUNCATED,
    Policy.TWO_TOOLS: Reason.MULTIPLE_TOOL_CALLS,
    Policy.WRONG_MODEL: Reason.IDENTITY_MISMATCH,
}
"""The harmful policies that every one of these forms can express, and what each is."""


def asked(wire: str, streamed: bool, policy: Policy, *turns: Turn) -> bytes:
    route = a_route(wire_format=WireFormat(wire), streamed=streamed, model=f"scripted/{policy}")
    return build_request(route, "Decide.", PACKET, TOOLS, turns)


def answered(wire: str, streamed: bool, policy: Policy, body: bytes, turn: int = 1) -> Response:
    path = {"chat_completions": "/v1/chat/completions", "responses": "/v1/responses"}[wire]
    chat = read_request(Request(turn, "POST", path, (), body))
    assert chat is not None
    assert (chat.streamed, chat.tools) == (streamed, EVENT_TOOLS)
    reply = answer(policy, chat)
    assert isinstance(reply, Response)
    return reply


def judged(wire: str, streamed: bool, policy: Policy, reply: Response) -> Admission:
    return admit(
        AdmissionRequest(
            body=reply.body,
            http_status=reply.status,
            wire_format=WireFormat(wire),
            streamed=streamed,
            expected=ExpectedIdentity(model=f"scripted/{policy}"),
            tools=tuple(OfferedTool.of(one["name"], one["parameters"]) for one in TOOLS),
            output_cap=512,
        )
    )


def played(wire: str, streamed: bool, policy: Policy, turns: list[Turn]) -> Admission:
    reply = answered(wire, streamed, policy, asked(wire, streamed, policy, *turns), len(turns) + 1)
    assert reply.content_type.startswith("text/event-stream" if streamed else "application/json")
    return judged(wire, streamed, policy, reply)


def turn_of(admission: Admission) -> Turn:
    assert isinstance(admission.verdict, Action)
    assert admission.continuation is not None
    return Turn(admission.continuation, admission.verdict.tool_call_id, SHOWN, admission.verdict.tool)


@pytest.mark.parametrize(("wire", "streamed"), FORMS)
def test_a_conversation_returns_every_opaque_byte(wire: str, streamed: bool) -> None:
    turns: list[Turn] = []
    for name in ("check_alternative", "use_alternative"):
        admission = played(wire, streamed, Policy.ALTERNATIVE, turns)
        turns.append(turn_of(admission))
        assert turns[-1].tool == name
    assert len({turn.tool_call_id for turn in turns}) == 2
    # The agent answers a turn whose opaque items did not come back with status 400.
    assert isinstance(played(wire, streamed, Policy.ALTERNATIVE, turns).verdict, TextFinish)


@pytest.mark.parametrize(("wire", "streamed"), FORMS)
def test_the_agent_refuses_a_conversation_whose_opaque_bytes_were_changed(wire: str, streamed: bool) -> None:
    turn = turn_of(played(wire, streamed, Policy.ALTERNATIVE, []))
    body = asked(wire, streamed, Policy.ALTERNATIVE, turn)
    spoilt = re.sub(rb'"b":-0', b'"b":0', re.sub(rb'"bias":-0', b'"bias":0', body))
    assert spoilt != body
    assert answered(wire, streamed, Policy.ALTERNATIVE, spoilt).status == 400


@pytest.mark.parametrize(("wire", "streamed"), FORMS)
@pytest.mark.parametrize("policy", REASONS)
def test_a_harmful_answer_is_the_same_in_every_form(wire: str, streamed: bool, policy: Policy) -> None:
    verdict = played(wire, streamed, policy, []).verdict
    assert isinstance(verdict, TechnicalUnknown)
    assert verdict.reason is REASONS[policy]


@pytest.mark.parametrize(("wire", "streamed"), FORMS)
@pytest.mark.parametrize("policy", [Policy.ACT_WELL, Policy.CLAIM_SUCCESS, Policy.REFUSE, Policy.NO_USAGE])
def test_usage_and_text_are_the_same_in_both_forms(wire: str, streamed: bool, policy: Policy) -> None:
    admission = played(wire, streamed, policy, [])
    whole = played(wire, False, policy, [])
    assert isinstance(admission.verdict, Action | TextFinish)
    assert admission.usage.output_tokens == whole.usage.output_tokens
    if isinstance(admission.verdict, TextFinish):
        assert admission.verdict == whole.verdict
    assert (admission.usage.total_tokens is None) == (policy is Policy.NO_USAGE)


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"model":"m"}', b'{"model":"m","input":[1]}', b"{"])
def test_what_is_no_request_of_responses_is_refused(body: bytes) -> None:
    with pytest.raises(BadChatRequestError):
        read_request(Request(1, "POST", "/v1/responses", (), body))


def test_a_cap_of_nothing_is_refused() -> None:
    body: dict[str, Any] = {"model": "m", "input": [], "max_output_tokens": 0}
    with pytest.raises(BadChatRequestError):
        read_request(Request(1, "POST", "/v1/responses", (), json.dumps(body).encode()))
