"""One unary chat-completions response, one verdict, a second time (design/admission.md, Order of checks)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from verifier_svc.receipts import calls, texts
from verifier_svc.receipts.cost import MAX_SPELLING
from verifier_svc.receipts.slices import raw_slice
from verifier_svc.receipts.stops import Stop, read_stop
from verifier_svc.receipts.strict import Limits, read
from verifier_svc.receipts.verdicts import (
    Action,
    Allowance,
    Decoded,
    Inadmissible,
    Reason,
    TextFinish,
    Usage,
    Verdict,
)

_CHOICE = "/choices/0"
_MESSAGE = "/choices/0/message"
_KNOWN_COUNTS = ("tool_calls_executed", "web_search_requests")
"""Counters of tools that a provider ran itself, by the names in which gateways report them."""
_REQUESTED = "tool_calls_requested"
"""Asked for by the model is not run by the provider."""
_LARGEST_COUNT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a route's profile says of its responses; `model` None asks only that a model is named."""

    model: str | None = None
    model_aliases: frozenset[str] = frozenset()
    provider_name: str | None = None
    output_cap: int | None = None
    allowances: frozenset[Allowance] = frozenset()
    limits: Limits = field(default_factory=Limits)


def decode_chat_completion(
    body: bytes,
    http_status: int,
    tools: Mapping[str, Mapping[str, Any]],
    seen_ids: Collection[str] = (),
    expectation: Expectation | None = None,
) -> Decoded:
    """The verdict on one response, with what its usage, cost and identity say; the first failed check
    decides.

    `tools` maps each offered name to its JSON schema; `seen_ids` are the episode's earlier tool-call ids.
    Raises UnsupportedToolSchema where a called tool's schema cannot be judged, and nothing else.
    """
    route = expectation or Expectation()
    try:
        if not 200 <= http_status <= 299:
            raise Inadmissible(Reason.HTTP_STATUS)
        response = _read_object(body, route.limits)
    except Inadmissible as found:
        return Decoded(found.unknown)
    return Decoded(
        verdict=_judge(response, tools, seen_ids, route),
        model=_text_or_none(response.get("model")),
        provider=_text_or_none(response.get("provider")),
        usage=_usage(response),
        reported_cost=_reported_cost(response, body),
        assistant_message=_assistant_message(response, body),
    )


def _read_object(body: bytes, limits: Limits) -> dict[str, Any]:
    response = read(body, limits)
    if not isinstance(response, dict):
        raise Inadmissible(Reason.MALFORMED_JSON)
    return response


def _judge(
    response: dict[str, Any],
    tools: Mapping[str, Mapping[str, Any]],
    seen_ids: Collection[str],
    route: Expectation,
) -> Verdict:
    try:
        _check_errors(response)
        _check_identity(response, route)
        choice, message = _single_message(response)
        found = calls.listed(message, _MESSAGE)
        text = texts.content_text(message, _MESSAGE)
        stop = read_stop(choice, _CHOICE)
        _check_server_tools(response, message)
        if stop is Stop.TOOL or (found and Allowance.TOOL_CALLS_WITH_STOP in route.allowances):
            verdict: Verdict = _admit_call(message, tools, seen_ids, route.limits)
        else:
            verdict = _admit_text(message, found, text)
        _check_cap(response, route.output_cap)
    except Inadmissible as found:
        return found.unknown
    return verdict


def _check_errors(response: dict[str, Any]) -> None:
    if response.get("error") is not None:
        raise Inadmissible(Reason.PROVIDER_ERROR, "/error")
    if response.get("object") == "error":
        raise Inadmissible(Reason.PROVIDER_ERROR, "/object")
    choices = response.get("choices")
    for index, choice in enumerate(choices if isinstance(choices, list) else ()):
        if isinstance(choice, dict) and choice.get("error") is not None:
            raise Inadmissible(Reason.PROVIDER_ERROR, f"/choices/{index}/error")


def _check_identity(response: dict[str, Any], route: Expectation) -> None:
    model = response.get("model")
    if model is None or model == "":
        raise Inadmissible(Reason.IDENTITY_MISSING, "/model")
    served_as_asked = route.model is None or model == route.model or model in tuple(route.model_aliases)
    if not isinstance(model, str) or not served_as_asked:
        raise Inadmissible(Reason.IDENTITY_MISMATCH, "/model")
    if route.provider_name is None:
        return
    provider = response.get("provider")
    if provider is None or provider == "":
        raise Inadmissible(Reason.IDENTITY_MISSING, "/provider")
    if provider != route.provider_name:
        raise Inadmissible(Reason.IDENTITY_MISMATCH, "/provider")


def _single_message(response: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    choices = response.get("choices")
    if not isinstance(choices, list) or len(choices) != 1:
        raise Inadmissible(Reason.INVALID_CHOICES, "/choices")
    if not isinstance(choices[0], dict):
        raise Inadmissible(Reason.INVALID_CHOICES, _CHOICE)
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise Inadmissible(Reason.INVALID_MESSAGE, _MESSAGE)
    if message.get("role") != "assistant":
        raise Inadmissible(Reason.INVALID_MESSAGE, f"{_MESSAGE}/role")
    return choices[0], message


def _check_server_tools(response: dict[str, Any], message: dict[str, Any]) -> None:
    """Refuse a turn in which the provider itself acted: tools it ran, searches it cites or bills."""
    executed = message.get("executed_tools")
    if executed is not None and executed != []:
        raise Inadmissible(Reason.SERVER_TOOL_USED, f"{_MESSAGE}/executed_tools")
    annotations = message.get("annotations")
    for index, note in enumerate(annotations if isinstance(annotations, list) else ()):
        if isinstance(note, dict) and note.get("type") == "url_citation":
            raise Inadmissible(Reason.SERVER_TOOL_USED, f"{_MESSAGE}/annotations/{index}")
    usage = response.get("usage")
    for key in ("server_tool_use_details", "server_tool_use"):
        counts = usage.get(key) if isinstance(usage, dict) else None
        if isinstance(counts, dict):
            _check_counts(counts, f"/usage/{key}")


def _check_counts(counts: dict[str, Any], where: str) -> None:
    """Refuse any count of something done; a counter that the format does not know is not named, only its group."""
    done = [name for name, count in counts.items() if count is not None and count != 0 and name != _REQUESTED]
    for name in _KNOWN_COUNTS:
        if name in done:
            raise Inadmissible(Reason.SERVER_TOOL_USED, f"{where}/{name}")
    if done:
        raise Inadmissible(Reason.SERVER_TOOL_USED, where)


def _admit_call(
    message: dict[str, Any],
    tools: Mapping[str, Mapping[str, Any]],
    seen_ids: Collection[str],
    limits: Limits,
) -> Action:
    texts.refusal_text(message, _MESSAGE)
    return calls.single_action(message, _MESSAGE, tools, seen_ids, limits)


def _admit_text(message: dict[str, Any], found: list[Any], text: str) -> TextFinish:
    if found:
        raise Inadmissible(Reason.AMBIGUOUS_TERMINATION, f"{_MESSAGE}/tool_calls")
    if calls.has_legacy_call(message):
        raise Inadmissible(Reason.AMBIGUOUS_TERMINATION, f"{_MESSAGE}/function_call")
    return texts.final_text(message, text, _MESSAGE)


def _check_cap(response: dict[str, Any], output_cap: int | None) -> None:
    usage = response.get("usage")
    spent = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if output_cap is not None and _is_number(spent) and spent >= output_cap:
        raise Inadmissible(Reason.TRUNCATED, "/usage/completion_tokens")


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: Any) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _LARGEST_COUNT else None


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _usage(response: dict[str, Any]) -> Usage | None:
    usage = response.get("usage")
    if not isinstance(usage, dict):
        return None
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    return None if prompt is None or completion is None else Usage(prompt, completion)


def _reported_cost(response: dict[str, Any], body: bytes) -> str | None:
    """`usage.cost` as spelled: None where it is no number, absurdly long, or a gateway's fee beside another's bill."""
    usage = response.get("usage")
    if not isinstance(usage, dict) or not _is_number(usage.get("cost")):
        return None
    own_key = usage.get("is_byok")
    if own_key is not None and own_key != 0:
        return None
    spelled = raw_slice(body, ("usage", "cost"))
    return spelled.decode("ascii") if spelled is not None and len(spelled) <= MAX_SPELLING else None


def _assistant_message(response: dict[str, Any], body: bytes) -> bytes | None:
    choices = response.get("choices")
    if not isinstance(choices, list) or len(choices) != 1:
        return None
    return raw_slice(body, ("choices", 0, "message"))
