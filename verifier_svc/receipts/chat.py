"""One unary chat-completions response, one verdict, a second time (design/admission.md, Order of checks)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from verifier_svc.receipts import calls, texts
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
        stop = read_stop(choice, _CHOICE)
        _check_server_tools(response, message)
        verdict = _admit(stop, message, tools, seen_ids, route)
        _check_cap(response, route.output_cap)
    except Inadmissible as found:
        return found.unknown
    return verdict


def _check_errors(response: dict[str, Any]) -> None:
    if response.get("error") is not None:
        raise Inadmissible(Reason.PROVIDER_ERROR, "/error")
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
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise Inadmissible(Reason.INVALID_CHOICES, "/choices")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise Inadmissible(Reason.INVALID_MESSAGE, _MESSAGE)
    if message.get("role") != "assistant":
        raise Inadmissible(Reason.INVALID_MESSAGE, f"{_MESSAGE}/role")
    return choices[0], message


def _check_server_tools(response: dict[str, Any], message: dict[str, Any]) -> None:
    """Refuse a turn in which the provider itself acted: tools it ran, searches it cites or bills."""
    if message.get("executed_tools"):
        raise Inadmissible(Reason.SERVER_TOOL_USED, f"{_MESSAGE}/executed_tools")
    annotations = message.get("annotations")
    for index, note in enumerate(annotations if isinstance(annotations, list) else ()):
        if isinstance(note, dict) and note.get("type") == "url_citation":
            raise Inadmissible(Reason.SERVER_TOOL_USED, f"{_MESSAGE}/annotations/{index}")
    usage = response.get("usage")
    for key in ("server_tool_use", "server_tool_use_details"):
        counts = usage.get(key) if isinstance(usage, dict) else None
        if isinstance(counts, dict) and any(counts.values()):
            raise Inadmissible(Reason.SERVER_TOOL_USED, f"/usage/{key}")


def _admit(
    stop: Stop,
    message: dict[str, Any],
    tools: Mapping[str, Mapping[str, Any]],
    seen_ids: Collection[str],
    route: Expectation,
) -> Action | TextFinish:
    lenient = Allowance.TOOL_CALLS_WITH_STOP in route.allowances and bool(calls.listed(message, _MESSAGE))
    if stop is Stop.TOOL or lenient:
        action = calls.single_action(message, _MESSAGE, tools, seen_ids, route.limits)
        texts.check_parts(message, _MESSAGE)
        return action
    if calls.listed(message, _MESSAGE):
        raise Inadmissible(Reason.AMBIGUOUS_TERMINATION, f"{_MESSAGE}/tool_calls")
    if calls.has_legacy_call(message):
        raise Inadmissible(Reason.AMBIGUOUS_TERMINATION, f"{_MESSAGE}/function_call")
    return texts.final_text(message, _MESSAGE)


def _check_cap(response: dict[str, Any], output_cap: int | None) -> None:
    usage = response.get("usage")
    spent = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if output_cap is not None and isinstance(spent, int) and not isinstance(spent, bool) and spent >= output_cap:
        raise Inadmissible(Reason.TRUNCATED, "/usage/completion_tokens")


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _usage(response: dict[str, Any]) -> Usage | None:
    usage = response.get("usage")
    counts = [usage.get(key) for key in ("prompt_tokens", "completion_tokens")] if isinstance(usage, dict) else []
    whole = [count for count in counts if isinstance(count, int) and not isinstance(count, bool) and count >= 0]
    return Usage(whole[0], whole[1]) if len(whole) == 2 else None


def _reported_cost(response: dict[str, Any], body: bytes) -> str | None:
    usage = response.get("usage")
    cost = usage.get("cost") if isinstance(usage, dict) else None
    if isinstance(cost, bool) or not isinstance(cost, int | float):
        return None
    spelled = raw_slice(body, ("usage", "cost"))
    return None if spelled is None else spelled.decode("ascii")


def _assistant_message(response: dict[str, Any], body: bytes) -> bytes | None:
    choices = response.get("choices")
    if not isinstance(choices, list) or len(choices) != 1:
        return None
    return raw_slice(body, ("choices", 0, "message"))
