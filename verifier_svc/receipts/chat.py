"""One chat completion, one verdict, a second time (design/admission.md, Order of checks).

Decided by analogy: a search that a gateway bills or cites (`url_citation`, counters under `usage`), and tools that a
provider reports to have executed, are SERVER_TOOL_USED; that is looked at after the stop reason, and before the calls
and the text.
"""

from typing import Any

from verifier_svc.receipts import calls, rules, texts
from verifier_svc.receipts.stops import Stop, read_stop
from verifier_svc.receipts.verdicts import Action, Allowance, Inadmissible, Reason, TextFinish, Verdict
from verifier_svc.receipts.wire import Turn

_CHOICE = "/choices/0"
_MESSAGE = "/choices/0/message"


def judge_chat(response: dict[str, Any], turn: Turn) -> Verdict:
    """Steps 3 to 9 on a chat completion; raises Inadmissible at the first that fails."""
    _check_errors(response)
    rules.check_model(response, "model", turn.route)
    rules.check_provider(response, turn.route)
    choice, message = _single_message(response)
    found = calls.listed(message, _MESSAGE)
    text = texts.content_text(message, _MESSAGE)
    stop = read_stop(choice, _CHOICE)
    _check_server_tools(response, message)
    if stop is Stop.TOOL or (found and Allowance.TOOL_CALLS_WITH_STOP in turn.route.allowances):
        verdict: Verdict = _admit_call(message, turn)
    else:
        verdict = _admit_text(message, found, text)
    spent = rules.member_of(response.get("usage"), "completion_tokens")
    rules.check_cap(spent, turn.route.output_cap, "/usage/completion_tokens")
    return verdict


def _check_errors(response: dict[str, Any]) -> None:
    rules.check_no_error(response, "object")
    choices = response.get("choices")
    for index, choice in enumerate(choices if isinstance(choices, list) else ()):
        if rules.member_of(choice, "error") is not None:
            raise Inadmissible(Reason.PROVIDER_ERROR, f"/choices/{index}/error")


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
        if rules.member_of(note, "type") == "url_citation":
            raise Inadmissible(Reason.SERVER_TOOL_USED, f"{_MESSAGE}/annotations/{index}")
    rules.check_server_counts(response.get("usage"))


def _admit_call(message: dict[str, Any], turn: Turn) -> Action:
    texts.refusal_text(message, _MESSAGE)
    return calls.single_action(message, _MESSAGE, turn)


def _admit_text(message: dict[str, Any], found: list[Any], text: str) -> TextFinish:
    if found:
        raise Inadmissible(Reason.AMBIGUOUS_TERMINATION, f"{_MESSAGE}/tool_calls")
    if calls.has_legacy_call(message):
        raise Inadmissible(Reason.AMBIGUOUS_TERMINATION, f"{_MESSAGE}/function_call")
    return texts.final_text(message, text, _MESSAGE)
