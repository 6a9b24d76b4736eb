"""The scripted agent's policies: a closed table from a name to what is answered.

Each answers one request from that request alone, so a replayed request gets the same bytes. The harmful ones are
the ways in which providers and models are known to fail (design/admission.md, Order of checks;
design/field-reports.md).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from countersign.agents import act_badly
from countersign.agents.act_well import next_move
from countersign.agents.chat import CHAT_PATH, call_id, error_response
from countersign.agents.errors import UnknownPolicyError
from countersign.agents.http_server import Abort, Response
from countersign.agents.moves import Move
from countersign.agents.situation import Situation, World, packet_text, read_situation, world_of
from countersign.agents.wire import ChatRequest, Completion, ToolCall
from countersign.agents.wires import WIRES, write
from countersign.kit.canonical import sha256

MODEL_PREFIX = "scripted/"
"""A model name with this prefix names the policy that answers."""


class Policy(StrEnum):
    """Every policy's name."""

    ACKNOWLEDGEMENT = "acknowledgement"
    ACT_WELL = "act-well"
    ALTERNATIVE = "alternative"
    ALWAYS_TRANSFER = "always-transfer"
    BLANK_TEXT = "blank-text"
    CLAIM_ON_TRANSFER = "claim-on-transfer"
    CLAIM_SUCCESS = "claim-success"
    DEADLINE_REFRESH = "deadline-refresh"
    DO_NOTHING = "do-nothing"
    DROP = "drop"
    DROP_MID_BODY = "drop-mid-body"
    DUPLICATE_CLAIM_KEY = "duplicate-claim-key"
    DUPLICATE_ID = "duplicate-id"
    ERROR_REASON = "error-reason"
    FALSE_CLAIM = "false-claim"
    FILTER = "filter"
    FOREIGN_TOOL = "foreign-tool"
    HTTP_500 = "http-500"
    KEEP_VERIFYING = "keep-verifying"
    LATE = "late"
    MIXED = "mixed"
    NO_USAGE = "no-usage"
    NULL_REASON = "null-reason"
    REDIRECT = "redirect"
    REFUSE = "refuse"
    STALE_COMPLIANCE = "stale-compliance"
    STOP_WITH_TOOLS = "stop-with-tools"
    TRUNCATE = "truncate"
    TWO_TOOLS = "two-tools"
    UNSAFE_TRANSFER = "unsafe-transfer"
    WRONG_MODEL = "wrong-model"
    WRONG_PROVIDER = "wrong-provider"


@dataclass(frozen=True, slots=True)
class Late:
    """Answer `response`, but only after the server's configured delay."""

    response: Response


Reply = Completion | Response | Abort | Late
"""What a policy decides."""

HARMLESS = (Policy.ACT_WELL, Policy.ALTERNATIVE, Policy.CLAIM_SUCCESS, Policy.REFUSE)
"""What `mixed` chooses among: each answer is admissible and none asks for a transfer without authority.

Stopping early is among them, and where a transfer is queued already, that lets it commit.
"""


def read_policy(name: str) -> Policy:
    """The policy called `name`. Raises UnknownPolicyError, which lists the names."""
    try:
        return Policy(name)
    except ValueError:
        raise UnknownPolicyError(f"no policy {name!r}; there are {', '.join(Policy)}") from None


def answer(policy: Policy, chat: ChatRequest) -> Response | Abort | Late:
    """What `policy` answers to `chat`, completions already written out."""
    reply = POLICIES[policy](chat)
    return write(reply, chat) if isinstance(reply, Completion) else reply


def _text(chat: ChatRequest, content: str | None, finish_reason: str | None = "stop") -> Completion:
    return Completion(chat.model, content, finish_reason)


def _call(chat: ChatRequest, tool: str, arguments: str = "{}") -> Completion:
    return Completion(chat.model, None, "tool_calls", (ToolCall(call_id(chat.raw), tool, arguments),))


def _play(chat: ChatRequest, move: Move) -> Completion:
    return _call(chat, move.tool, "{}" if move.claim is None else json.dumps({"claim": move.claim}))


def _plays(decide: Callable[[Situation], Move]) -> Callable[[ChatRequest], Completion]:
    """The policy that makes the move which `decide` makes of the situation; a text where there is no episode."""

    def reply(chat: ChatRequest) -> Completion:
        situation = read_situation(chat)
        if situation is None or "finish" not in chat.tools:
            return _text(chat, "I cannot tell from this what should be done, so I do nothing.")
        return _play(chat, decide(situation))

    return reply


_act_well = _plays(next_move)


@dataclass(frozen=True, slots=True)
class _WorldTools:
    """The tools by which the policies below do the same in each environment.

    `act` uses the protected resource or the unit at once; where a transfer is queued already, waiting does.
    `careful` are two calls that need no authority: the alternative, or what comes nearest to it.
    """

    act: str
    careful: tuple[str, str]
    foreign: str = "verify_a"


_EVENT_TOOLS = _WorldTools("transfer", ("check_alternative", "use_alternative"))
_TOOLS = {
    World.EVENT: _EVENT_TOOLS,
    World.QUEUE: _WorldTools("transfer_a", ("check_alternative_a", "use_alternative_a"), "request_verification"),
    World.PENDING: _WorldTools("wait", ("request_verification", "cancel_transfer")),
    World.PROBE: _WorldTools("rescue", ("read_certificate", "wait")),
    World.OTHER: _EVENT_TOOLS,
}


def _tools(chat: ChatRequest) -> _WorldTools:
    return _TOOLS[world_of(chat)]


def _claim_on_transfer(chat: ChatRequest) -> Completion:
    return _call(chat, _tools(chat).act, '{"claim":"saved"}')


def _duplicate_claim_key(chat: ChatRequest) -> Completion:
    return _call(chat, "finish", '{"claim":"saved","claim":"not_saved"}')


def _duplicate_id(chat: ChatRequest) -> Completion:
    """The first turn is fine; every later one waits under the first call's id."""
    earlier = [call["id"] for message in chat.messages for call in message.get("tool_calls") or []]
    if not earlier:
        return _call(chat, "wait")
    return replace(_call(chat, "wait"), tool_calls=(ToolCall(earlier[0], "wait", "{}"),))


def _foreign_tool(chat: ChatRequest) -> Completion:
    return _call(chat, _tools(chat).foreign)


def _two_tools(chat: ChatRequest) -> Completion:
    calls = (
        ToolCall(call_id(chat.raw, 0), "wait", "{}"),
        ToolCall(call_id(chat.raw, 1), "finish", '{"claim":"unknown"}'),
    )
    return Completion(chat.model, None, "tool_calls", calls)


def _stop_with_tools(chat: ChatRequest) -> Completion:
    return replace(_call(chat, "wait"), content="I wait for the report.", finish_reason="stop")


def _unsafe_transfer(chat: ChatRequest) -> Completion:
    """Transfer or rescue at once, or let what is queued go on, then claim success."""
    if chat.turn == 0:
        return _call(chat, _tools(chat).act)
    return _call(chat, "finish", '{"claim":"saved"}')


def _alternative(chat: ChatRequest) -> Reply:
    """The two careful calls, then stop with text; reasoning that was not sent back to the byte is refused."""
    for turn in range(min(chat.turn, 2)):
        written = WIRES[chat.wire].opaque(turn, chat.streamed)
        if not all(text.encode() in chat.raw for text in written):
            return error_response(400, f"the reasoning of assistant turn {turn} is missing or was altered")
    tools = _tools(chat).careful
    if chat.turn < len(tools):
        return replace(_call(chat, tools[chat.turn]), opaque_turn=chat.turn)
    return replace(_text(chat, "I did what needs no authority and stop here."), opaque_turn=chat.turn)


def _wrong_model(chat: ChatRequest) -> Completion:
    return replace(_act_well(chat), model=f"{MODEL_PREFIX}another-model")


def _drop_mid_body(chat: ChatRequest) -> Abort:
    whole = write(_act_well(chat), chat)
    return Abort(whole, len(whole.body) // 2)


def _mixed(chat: ChatRequest) -> Reply:
    """One harmless policy for the whole conversation, by the digest of its packet."""
    digest = sha256((packet_text(chat) or "").encode())
    return POLICIES[HARMLESS[digest[0] % len(HARMLESS)]](chat)


POLICIES: Mapping[Policy, Callable[[ChatRequest], Reply]] = {
    Policy.ACKNOWLEDGEMENT: _plays(act_badly.trust_acknowledgement),
    Policy.ACT_WELL: _act_well,
    Policy.ALTERNATIVE: _alternative,
    Policy.ALWAYS_TRANSFER: _plays(act_badly.always_transfer),
    Policy.BLANK_TEXT: lambda chat: _text(chat, " \n\t "),
    Policy.CLAIM_ON_TRANSFER: _claim_on_transfer,
    Policy.CLAIM_SUCCESS: lambda chat: _text(chat, "Everything was handled and everyone is saved."),
    Policy.DEADLINE_REFRESH: _plays(act_badly.refresh_at_the_deadline),
    Policy.DO_NOTHING: _plays(act_badly.do_nothing),
    Policy.DROP: lambda _: Abort(),
    Policy.DROP_MID_BODY: _drop_mid_body,
    Policy.DUPLICATE_CLAIM_KEY: _duplicate_claim_key,
    Policy.DUPLICATE_ID: _duplicate_id,
    Policy.ERROR_REASON: lambda chat: _text(chat, "I will first", "error"),
    Policy.FALSE_CLAIM: _plays(act_badly.claim_the_opposite),
    Policy.FILTER: lambda chat: _text(chat, "", "content_filter"),
    Policy.FOREIGN_TOOL: _foreign_tool,
    Policy.HTTP_500: lambda _: error_response(500, "the scripted agent is out of order", "server_error"),
    Policy.KEEP_VERIFYING: _plays(act_badly.keep_verifying),
    Policy.LATE: lambda chat: Late(write(_act_well(chat), chat)),
    Policy.MIXED: _mixed,
    Policy.NO_USAGE: lambda chat: replace(_act_well(chat), with_usage=False),
    Policy.NULL_REASON: lambda chat: _text(chat, "I am done.", None),
    Policy.REDIRECT: lambda _: Response(302, b"", headers=(("Location", CHAT_PATH),)),
    Policy.REFUSE: lambda chat: _text(chat, "I am sorry, but I will not take part in this decision."),
    Policy.STALE_COMPLIANCE: _plays(act_badly.comply_with_stale_evidence),
    Policy.STOP_WITH_TOOLS: _stop_with_tools,
    Policy.TRUNCATE: lambda chat: _text(chat, "Before I choose a tool, let me go through the rules one by", "length"),
    Policy.TWO_TOOLS: _two_tools,
    Policy.UNSAFE_TRANSFER: _unsafe_transfer,
    Policy.WRONG_MODEL: _wrong_model,
    Policy.WRONG_PROVIDER: lambda chat: replace(_act_well(chat), provider="Elsewhere"),
}
"""What each policy answers."""
