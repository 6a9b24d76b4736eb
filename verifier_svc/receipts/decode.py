"""One stored response, one verdict, in every wire format, unary or streamed (design/admission.md).

A stream is first put together into the body that the unary form would have had, and one set of rules judges both.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verifier_svc.receipts import rules
from verifier_svc.receipts.chat import judge_chat
from verifier_svc.receipts.cost import MAX_SPELLING
from verifier_svc.receipts.generate import judge_generated
from verifier_svc.receipts.messages import judge_message
from verifier_svc.receipts.responses import judge_response
from verifier_svc.receipts.slices import raw_slice
from verifier_svc.receipts.streams.chat import assemble_chat
from verifier_svc.receipts.streams.events import Event, read_events
from verifier_svc.receipts.streams.generate import assemble_generated
from verifier_svc.receipts.streams.messages import assemble_message
from verifier_svc.receipts.streams.responses import assemble_response
from verifier_svc.receipts.strict import Limits
from verifier_svc.receipts.usage import chat_usage, generate_usage, messages_usage, responses_usage
from verifier_svc.receipts.verdicts import Decoded, Inadmissible, Usage, Verdict
from verifier_svc.receipts.wire import Answer, Expectation, Turn, WireFormat


@dataclass(frozen=True, slots=True)
class _Format:
    """How one format is read; `opaque` is the path of what goes back, which must be alone in `list_of_one`.

    Gateways speak some formats and give their provider's name and the cost in them; in the others these have no place.
    """

    judge: Callable[[dict[str, Any], Turn], Verdict]
    assemble: Callable[[Sequence[Event], Limits], bytes]
    usage: Callable[[Mapping[str, Any]], Usage | None]
    opaque: tuple[str | int, ...]
    list_of_one: str | None = None
    model_member: str = "model"
    has_gateways: bool = False


_FORMATS: Mapping[WireFormat, _Format] = {
    WireFormat.CHAT_COMPLETIONS: _Format(
        judge_chat,
        assemble_chat,
        chat_usage,
        opaque=("choices", 0, "message"),
        list_of_one="choices",
        has_gateways=True,
    ),
    WireFormat.MESSAGES: _Format(judge_message, assemble_message, messages_usage, opaque=("content",)),
    WireFormat.RESPONSES: _Format(
        judge_response, assemble_response, responses_usage, opaque=("output",), has_gateways=True
    ),
    WireFormat.GENERATE_CONTENT: _Format(
        judge_generated,
        assemble_generated,
        generate_usage,
        opaque=("candidates", 0, "content"),
        list_of_one="candidates",
        model_member="modelVersion",
    ),
}


def decode(
    answer: Answer,
    tools: Mapping[str, Mapping[str, Any]],
    seen_ids: Collection[str] = (),
    expectation: Expectation | None = None,
) -> Decoded:
    """The verdict on one response, with what its usage, cost and identity say; the first failed check decides.

    `tools` maps each offered name to its JSON schema; `seen_ids` are the episode's earlier tool-call ids. Raises
    UnsupportedToolSchema where a called tool's schema cannot be judged, and nothing else.
    """
    wire, turn = _FORMATS[answer.wire_format], Turn(tools, seen_ids, expectation or Expectation())
    try:
        rules.check_status(answer.http_status)
        body = _body(answer, wire, turn.route.limits)
        response = rules.read_object(body, turn.route.limits)
    except Inadmissible as found:
        return Decoded(found.unknown)
    return Decoded(
        verdict=_verdict(wire, response, turn),
        model=_text_or_none(response.get(wire.model_member)),
        provider=_text_or_none(response.get("provider")) if wire.has_gateways else None,
        usage=wire.usage(response),
        reported_cost=_reported_cost(response, body) if wire.has_gateways else None,
        continuation=_continuation(wire, response, body),
    )


def _body(answer: Answer, wire: _Format, limits: Limits) -> bytes:
    if not answer.streamed:
        return answer.body
    return wire.assemble(read_events(answer.body, limits), limits)


def _verdict(wire: _Format, response: dict[str, Any], turn: Turn) -> Verdict:
    try:
        return wire.judge(response, turn)
    except Inadmissible as found:
        return found.unknown


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _reported_cost(response: dict[str, Any], body: bytes) -> str | None:
    """`usage.cost` as spelled: None where it is no number, absurdly long, or a gateway's fee beside another's bill."""
    usage = response.get("usage")
    if not rules.is_number(rules.member_of(usage, "cost")):
        return None
    own_key = rules.member_of(usage, "is_byok")
    if own_key is not None and own_key != 0:
        return None
    spelled = raw_slice(body, ("usage", "cost"))
    return spelled.decode("ascii") if spelled is not None and len(spelled) <= MAX_SPELLING else None


def _continuation(wire: _Format, response: dict[str, Any], body: bytes) -> bytes | None:
    if wire.list_of_one is not None:
        alone = response.get(wire.list_of_one)
        if not isinstance(alone, list) or len(alone) != 1:
            return None
    return raw_slice(body, wire.opaque)
