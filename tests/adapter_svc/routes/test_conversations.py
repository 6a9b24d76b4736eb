"""A whole conversation with the scripted agent in each wire format: what it wrote must come back to the byte.

Its policy `alternative` writes opaque items with odd spellings and refuses a request that lacks one of them.
"""

import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from adapter_svc.admission import (
    Action,
    Admission,
    AdmissionRequest,
    ExpectedIdentity,
    OfferedTool,
    TechnicalUnknown,
    TextFinish,
    WireFormat,
    admit,
)
from adapter_svc.routes import Route, Turn, build_request
from countersign.agents.http_server import Request, Response
from countersign.agents.policies import Policy, answer
from countersign.agents.wires import read_request
from countersign.kit.canonical import canonical_json
from tests.adapter_svc.routes.helpers import a_route
from tests.countersign.agents.conversations import event_observation

NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
CLAIM = {"type": "object", "properties": {"claim": {"type": "string"}}, "additionalProperties": False}
NAMES = ("request_verification", "check_alternative", "use_alternative", "transfer", "wait")
TOOLS = [
    *({"name": name, "description": name, "parameters": NOTHING} for name in NAMES),
    {"name": "finish", "description": "finish", "parameters": CLAIM},
]
OFFERED = tuple(OfferedTool.of(tool["name"], tool["parameters"]) for tool in TOOLS)
PACKET = canonical_json({"observation": event_observation(), "note": "\u00e9"})

SPOKEN = [(wire, streamed) for wire in (WireFormat.MESSAGES, WireFormat.GENERATE_CONTENT) for streamed in (False, True)]


def route_of(wire_format: WireFormat, streamed: bool, policy: Policy) -> Route:
    model = f"scripted/{policy}"
    expected = ExpectedIdentity(model=model)
    return a_route(wire_format=wire_format, streamed=streamed, model=model, identity=expected, output_cap=256)


def response_to(route: Route, body: bytes, policy: Policy) -> Response:
    parts = urlsplit(route.endpoint)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    chat = read_request(Request(1, "POST", target, (), body))
    assert chat is not None
    assert (chat.model, chat.output_cap, chat.tools) == (route.model, 256, (*NAMES, "finish"))
    reply = answer(policy, chat)
    assert isinstance(reply, Response)
    return reply


def ask(route: Route, turns: list[Turn], policy: Policy) -> Admission:
    reply = response_to(route, build_request(route, "Be good.", PACKET, TOOLS, turns), policy)
    request = AdmissionRequest(
        body=reply.body,
        http_status=reply.status,
        wire_format=route.wire_format,
        streamed=route.streamed,
        expected=route.identity,
        tools=OFFERED,
        seen_tool_call_ids=frozenset(turn.tool_call_id for turn in turns),
        output_cap=route.output_cap,
    )
    return admit(request)


@pytest.mark.parametrize(("wire_format", "streamed"), SPOKEN)
def test_opaque_items_come_back_to_the_byte(wire_format: WireFormat, streamed: bool) -> None:
    route = route_of(wire_format, streamed, Policy.ALTERNATIVE)
    turns: list[Turn] = []
    for tool in ("check_alternative", "use_alternative"):
        admission = ask(route, turns, Policy.ALTERNATIVE)
        assert isinstance(admission.verdict, Action)
        assert (admission.verdict.tool, admission.verdict.arguments) == (tool, b"{}")
        assert admission.continuation is not None
        assert admission.usage.input_tokens is not None
        assert admission.usage.output_tokens is not None
        result = '{"executed":true,"observation":{"tick":1}}'
        turns.append(Turn(admission.continuation, admission.verdict.tool_call_id, result, tool))
    assert ask(route, turns, Policy.ALTERNATIVE).verdict == TextFinish("I did what needs no authority and stop here.")
    body = build_request(route, "Be good.", PACKET, TOOLS, turns)
    for turn in turns:
        assert body.count(turn.continuation.message) == 1
    altered = body.replace(b"0.10", b"0.1")
    assert response_to(route, altered, Policy.ALTERNATIVE).status == 400
    assert json.loads(altered) == json.loads(body)


def found(wire_format: WireFormat, streamed: bool, policy: Policy) -> str:
    """The verdict on the first answer of the policy, by its reason or its kind."""
    verdict = ask(route_of(wire_format, streamed, policy), [], policy).verdict
    return verdict.reason.value if isinstance(verdict, TechnicalUnknown) else type(verdict).__name__


@pytest.mark.parametrize(("wire_format", "streamed"), SPOKEN)
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy.CLAIM_SUCCESS, "TextFinish"),
        (Policy.REFUSE, "TextFinish"),
        (Policy.UNSAFE_TRANSFER, "Action"),
        (Policy.DUPLICATE_ID, "Action"),
        (Policy.BLANK_TEXT, "EMPTY_TEXT"),
        (Policy.CLAIM_ON_TRANSFER, "INVALID_ARGUMENTS"),
        (Policy.FILTER, "FILTERED"),
        (Policy.FOREIGN_TOOL, "UNKNOWN_TOOL"),
        (Policy.HTTP_500, "HTTP_STATUS"),
        (Policy.TRUNCATE, "TRUNCATED"),
        (Policy.TWO_TOOLS, "MULTIPLE_TOOL_CALLS"),
        (Policy.WRONG_MODEL, "IDENTITY_MISMATCH"),
        (Policy.ERROR_REASON, "UNRECOGNIZED_STOP_REASON"),
    ],
)
def test_each_policy_means_the_same_in_every_format(
    wire_format: WireFormat, streamed: bool, policy: Policy, expected: str
) -> None:
    assert found(wire_format, streamed, policy) == expected


@pytest.mark.parametrize(
    ("policy", "wire_format", "unary", "streamed"),
    [
        (Policy.NULL_REASON, WireFormat.MESSAGES, "MISSING_STOP_REASON", "MISSING_STOP_REASON"),
        # Its reason is the end marker of a generate_content stream.
        (Policy.NULL_REASON, WireFormat.GENERATE_CONTENT, "MISSING_STOP_REASON", "STREAM_INCOMPLETE"),
        # `STOP` says both; a call beside text is a call.
        (Policy.STOP_WITH_TOOLS, WireFormat.MESSAGES, "AMBIGUOUS_TERMINATION", "AMBIGUOUS_TERMINATION"),
        (Policy.STOP_WITH_TOOLS, WireFormat.GENERATE_CONTENT, "Action", "Action"),
        # In a stream of messages the arguments are a text of their own.
        (Policy.DUPLICATE_CLAIM_KEY, WireFormat.MESSAGES, "DUPLICATE_KEY", "MALFORMED_ARGUMENTS"),
        (Policy.DUPLICATE_CLAIM_KEY, WireFormat.GENERATE_CONTENT, "DUPLICATE_KEY", "DUPLICATE_KEY"),
    ],
)
def test_what_a_format_says_in_its_own_way(policy: Policy, wire_format: WireFormat, unary: str, streamed: str) -> None:
    assert (found(wire_format, False, policy), found(wire_format, True, policy)) == (unary, streamed)


@pytest.mark.parametrize(("wire_format", "streamed"), SPOKEN)
def test_an_id_that_comes_again_is_a_duplicate(wire_format: WireFormat, streamed: bool) -> None:
    route = route_of(wire_format, streamed, Policy.DUPLICATE_ID)
    first = ask(route, [], Policy.DUPLICATE_ID)
    assert isinstance(first.verdict, Action)
    assert first.continuation is not None
    turn = Turn(first.continuation, first.verdict.tool_call_id, '{"tick":1}', "wait")
    second = ask(route, [turn], Policy.DUPLICATE_ID).verdict
    assert isinstance(second, TechnicalUnknown)
    assert second.reason.value == "DUPLICATE_TOOL_CALL_ID"


@pytest.mark.parametrize(("wire_format", "streamed"), SPOKEN)
def test_an_answer_that_says_nothing_of_its_usage_has_none(wire_format: WireFormat, streamed: bool) -> None:
    admission = ask(route_of(wire_format, streamed, Policy.NO_USAGE), [], Policy.NO_USAGE)
    assert (admission.usage.input_tokens, admission.usage.output_tokens) == (None, None)
