"""Known episodes through both implementations of the physics: the adapter's simulator and the verifier's own."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from countersign.adapter.v1 import adapter_pb2 as adapter
from countersign.adapter.v1 import adapter_pb2_grpc
from countersign.environment.v1 import environment_pb2 as env
from countersign.kit.channel import call
from countersign.kit.rpc_errors import ServiceError
from countersign.study.errors import BadFields, BadInput
from countersign.study.fields import outcome_json, read_claim, read_contract, read_outcome, read_world
from countersign.study.lines import member
from countersign.study.runner import difference_json
from countersign.study.services import CALL_SECONDS, service_trouble
from countersign.verifier.v1 import verifier_pb2 as verifier
from countersign.verifier.v1 import verifier_pb2_grpc


def play_request(line: Mapping[str, Any], where: str) -> adapter.PlayActionsRequest:
    """What to play for one line. Raises BadInput where the line is not an episode."""
    environment = member(line, "environment", str, where)
    try:
        return adapter.PlayActionsRequest(
            contract=read_contract(environment, member(line, "contract", dict, where)),
            world=read_world(environment, member(line, "world", dict, where)),
            operator_prefix=_texts(line.get("operator_prefix", []), f"{where}: operator_prefix"),
            actions=[_action(action, where) for action in member(line, "actions", list, where)],
        )
    except BadFields as error:
        raise BadInput(f"{where}: {error.message}") from None


async def replay_line(
    player: adapter_pb2_grpc.AdapterServiceStub,
    judge: verifier_pb2_grpc.VerifierServiceStub,
    line: Mapping[str, Any],
    where: str,
) -> dict[str, Any]:
    """Play one episode, have the trace verified, and compare both with what the line states.

    `agrees` is null for an environment that a service does not support. Raises BadInput, ServiceFailed, ServiceRefused.
    """
    about = {"id": member(line, "id", str, where), "environment": line.get("environment")}
    request = play_request(line, where)
    stated = _stated_outcome(line, where)
    try:
        played = await call(player.PlayActions, request, CALL_SECONDS)
        checked = await call(judge.VerifyTrace, _verify_request(request, played, stated), CALL_SECONDS)
    except ServiceError as error:
        if error.reason == "UNSUPPORTED_ENVIRONMENT":
            return {**about, "outcome": None, "agrees": None, "reason": error.reason, "differences": []}
        if error.reason == "INVALID_ACTION":
            refused = {"sequence": int(error.metadata.get("sequence", 0)), "field": "action", "expected": "accepted"}
            return {**about, "outcome": None, "agrees": False, "reason": error.reason, "differences": [refused]}
        raise service_trouble("service", error) from None
    outcome = outcome_json(played.outcome)
    differences = [
        *_compare_outcome(line["outcome"], outcome),
        *(difference_json(difference) for difference in checked.differences),
        *_compare_results(line, played.events),
        *_compare_ticks(line, played.events),
    ]
    agrees = checked.agrees and not differences
    return {**about, "outcome": outcome, "agrees": agrees, "reason": None, "differences": differences}


def _verify_request(
    request: adapter.PlayActionsRequest, played: adapter.PlayActionsResponse, stated: env.Outcome
) -> verifier.VerifyTraceRequest:
    """The adapter's trace beside the outcome that the line states: the verifier must agree with both."""
    return verifier.VerifyTraceRequest(
        contract=request.contract,
        world=request.world,
        operator_prefix=request.operator_prefix,
        events=played.events,
        outcome=stated,
    )


def _stated_outcome(line: Mapping[str, Any], where: str) -> env.Outcome:
    try:
        return read_outcome(member(line, "outcome", dict, where))
    except BadFields as error:
        raise BadInput(f"{where}: {error.message}") from None


def _action(action: Any, where: str) -> env.Action:
    if not isinstance(action, dict) or not isinstance(action.get("tool"), str) or set(action) - {"tool", "claim"}:
        raise BadInput(f"{where}: actions: each must be an object with tool and claim")
    return env.Action(tool=action["tool"], claim=read_claim(action.get("claim")))


def _texts(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise BadInput(f"{where}: must be a list of tool names")
    return value


def _compare_outcome(stated: Mapping[str, Any], played: Mapping[str, Any]) -> list[dict[str, Any]]:
    names = sorted({*stated, *played})
    return [
        _difference(0, f"outcome.{name}", stated.get(name), played.get(name))
        for name in names
        if stated.get(name) != played.get(name)
    ]


def _compare_results(line: Mapping[str, Any], events: Sequence[env.EventRecord]) -> list[dict[str, Any]]:
    """Each call's own result fields, where the line knows them."""
    known = line.get("step_results")
    if not isinstance(known, list):
        return []
    found = [] if len(known) == len(events) else [_difference(0, "step_results", len(known), len(events))]
    for event, own in zip(events, known, strict=False):
        result = {key: value for key, value in json.loads(event.result).items() if key != "observation"}
        if result != own:
            found.append(_difference(event.sequence, "result", own, result))
    return found


def _compare_ticks(line: Mapping[str, Any], events: Sequence[env.EventRecord]) -> list[dict[str, Any]]:
    """The tick after each call, which every environment's view begins with."""
    views = line.get("views")
    if not isinstance(views, list):
        return []
    return [
        _difference(event.sequence, "tick", view[0], event.end_tick)
        for event, view in zip(events, views, strict=False)
        if isinstance(view, list) and view and view[0] != event.end_tick
    ]


def _difference(sequence: int, field: str, expected: Any, actual: Any) -> dict[str, Any]:
    return {"sequence": sequence, "field": field, "expected": expected, "actual": actual}
