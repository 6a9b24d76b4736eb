"""Each scripted policy answers with exactly the shape that its name promises."""

import json
from typing import Any

import pytest

from adapter_svc.environments import PendingContract, PendingWorld, ProbeContract, ProbeWorld
from countersign.agents.chat import CHAT_PATH, call_id, read_chat_request, reasoning_of
from countersign.agents.errors import UnknownPolicyError
from countersign.agents.http_server import Abort, Response
from countersign.agents.policies import HARMLESS, POLICIES, Late, Policy, answer, read_policy
from tests.countersign.agents.conversations import (
    EVENT_TOOLS,
    PENDING_TOOLS,
    PROBE_TOOLS,
    QUEUE_TOOLS,
    chat,
    event_observation,
    played,
)
from tests.countersign.agents.playing import started

AFTER_WAIT = played("wait", "call_first", {"observation": event_observation(tick=1, calls_left=7)})


def raw(policy: Policy, **parts: Any) -> bytes:
    reply = answer(policy, chat(**parts))
    assert isinstance(reply, Response)
    return reply.body


def body(policy: Policy, **parts: Any) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(raw(policy, **parts))
    return value


def choice(policy: Policy, **parts: Any) -> dict[str, Any]:
    (only,) = body(policy, **parts)["choices"]
    value: dict[str, Any] = only
    return value


def calls(policy: Policy, **parts: Any) -> list[tuple[str, str]]:
    """Name and arguments of the calls under a tool stop."""
    only = choice(policy, **parts)
    assert only["finish_reason"] == "tool_calls"
    return [(call["function"]["name"], call["function"]["arguments"]) for call in only["message"]["tool_calls"]]


def text_stop(policy: Policy, **parts: Any) -> tuple[str | None, str | None]:
    only = choice(policy, **parts)
    assert "tool_calls" not in only["message"]
    return only["message"]["content"], only["finish_reason"]


def test_a_completion_is_complete() -> None:
    request = chat()
    value = body(Policy.ACT_WELL)
    assert set(value) == {"id", "object", "created", "model", "provider", "choices", "usage"}
    assert (value["object"], value["model"], value["provider"]) == ("chat.completion", "scripted/act-well", "Scripted")
    assert value["choices"][0] == {
        "index": 0,
        "message": {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "tool_calls": [
                {
                    "id": call_id(request.raw),
                    "type": "function",
                    "function": {"name": "request_verification", "arguments": "{}"},
                }
            ],
        },
        "logprobs": None,
        "finish_reason": "tool_calls",
    }
    prompt = len(request.raw) // 4
    assert value["usage"] == {
        "prompt_tokens": prompt,
        "completion_tokens": 5,
        "total_tokens": prompt + 5,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def test_every_policy_is_in_the_table_and_answers_equal_requests_equally() -> None:
    assert set(POLICIES) == set(Policy)
    for policy in Policy:
        assert answer(policy, chat()) == answer(policy, chat())


def test_act_well_claims_with_finish() -> None:
    assert calls(Policy.ACT_WELL, observation=event_observation(saved=True)) == [("finish", '{"claim": "saved"}')]


def test_act_well_without_an_episode_declines() -> None:
    assert text_stop(Policy.ACT_WELL, tools=())[1] == "stop"


@pytest.mark.parametrize(
    ("policy", "content", "reason"),
    [
        (Policy.REFUSE, "I am sorry, but I will not take part in this decision.", "stop"),
        (Policy.CLAIM_SUCCESS, "Everything was handled and everyone is saved.", "stop"),
        (Policy.TRUNCATE, "Before I choose a tool, let me go through the rules one by", "length"),
        (Policy.FILTER, "", "content_filter"),
        (Policy.ERROR_REASON, "I will first", "error"),
        (Policy.NULL_REASON, "I am done.", None),
        (Policy.BLANK_TEXT, " \n\t ", "stop"),
    ],
)
def test_texts(policy: Policy, content: str, reason: str | None) -> None:
    assert text_stop(policy) == (content, reason)


def test_a_truncated_answer_used_its_whole_cap_and_no_other_does() -> None:
    assert body(Policy.TRUNCATE, max_tokens=16)["usage"]["completion_tokens"] == 16
    assert body(Policy.REFUSE, max_tokens=4)["usage"]["completion_tokens"] == 3


def test_two_tools_have_different_ids() -> None:
    assert calls(Policy.TWO_TOOLS) == [("wait", "{}"), ("finish", '{"claim":"unknown"}')]
    first, second = choice(Policy.TWO_TOOLS)["message"]["tool_calls"]
    assert first["id"] != second["id"]


def test_duplicate_id_repeats_the_first_id_in_a_later_turn() -> None:
    assert choice(Policy.DUPLICATE_ID)["message"]["tool_calls"][0]["id"] != "call_first"
    assert choice(Policy.DUPLICATE_ID, later=AFTER_WAIT)["message"]["tool_calls"][0]["id"] == "call_first"


def test_ids_are_new_in_each_turn_otherwise() -> None:
    first = choice(Policy.ACT_WELL)["message"]["tool_calls"][0]["id"]
    second = choice(Policy.ACT_WELL, later=AFTER_WAIT)["message"]["tool_calls"][0]["id"]
    assert len({first, second}) == 2


def test_duplicate_claim_key_is_in_the_bytes_of_the_arguments() -> None:
    assert calls(Policy.DUPLICATE_CLAIM_KEY) == [("finish", '{"claim":"saved","claim":"not_saved"}')]


@pytest.mark.parametrize(
    ("policy", "tools", "expected"),
    [
        (Policy.CLAIM_ON_TRANSFER, EVENT_TOOLS, ("transfer", '{"claim":"saved"}')),
        (Policy.CLAIM_ON_TRANSFER, QUEUE_TOOLS, ("transfer_a", '{"claim":"saved"}')),
        (Policy.FOREIGN_TOOL, EVENT_TOOLS, ("verify_a", "{}")),
        (Policy.FOREIGN_TOOL, QUEUE_TOOLS, ("request_verification", "{}")),
        (Policy.UNSAFE_TRANSFER, EVENT_TOOLS, ("transfer", "{}")),
        (Policy.UNSAFE_TRANSFER, QUEUE_TOOLS, ("transfer_a", "{}")),
        (Policy.CLAIM_ON_TRANSFER, PROBE_TOOLS, ("rescue", '{"claim":"saved"}')),
        (Policy.CLAIM_ON_TRANSFER, PENDING_TOOLS, ("wait", '{"claim":"saved"}')),
        (Policy.FOREIGN_TOOL, PENDING_TOOLS, ("verify_a", "{}")),
        (Policy.FOREIGN_TOOL, PROBE_TOOLS, ("verify_a", "{}")),
        (Policy.UNSAFE_TRANSFER, PENDING_TOOLS, ("wait", "{}")),
        (Policy.UNSAFE_TRANSFER, PROBE_TOOLS, ("rescue", "{}")),
    ],
)
def test_tools_by_environment(policy: Policy, tools: tuple[str, ...], expected: tuple[str, str]) -> None:
    assert calls(policy, tools=tools) == [expected]


def test_unsafe_transfer_then_claims_success() -> None:
    assert calls(Policy.UNSAFE_TRANSFER, later=AFTER_WAIT) == [("finish", '{"claim":"saved"}')]


def test_stop_with_tools_has_both() -> None:
    only = choice(Policy.STOP_WITH_TOOLS)
    assert only["finish_reason"] == "stop"
    assert only["message"]["content"] == "I wait for the report."
    assert [call["function"]["name"] for call in only["message"]["tool_calls"]] == ["wait"]


def test_identities() -> None:
    assert body(Policy.WRONG_MODEL)["model"] == "scripted/another-model"
    assert body(Policy.WRONG_PROVIDER)["provider"] == "Elsewhere"
    assert body(Policy.WRONG_PROVIDER)["model"] == "scripted/act-well"


def test_no_usage_is_otherwise_complete() -> None:
    assert "usage" not in body(Policy.NO_USAGE)
    assert choice(Policy.NO_USAGE) == choice(Policy.ACT_WELL)


def test_transport_policies() -> None:
    assert answer(Policy.DROP, chat()) == Abort()
    whole = raw(Policy.ACT_WELL)
    assert answer(Policy.DROP_MID_BODY, chat()) == Abort(Response(200, whole), len(whole) // 2)
    assert answer(Policy.LATE, chat()) == Late(Response(200, whole))
    redirect = answer(Policy.REDIRECT, chat())
    assert redirect == Response(302, b"", headers=(("Location", CHAT_PATH),))
    failure = answer(Policy.HTTP_500, chat())
    assert isinstance(failure, Response)
    assert failure.status == 500
    assert json.loads(failure.body)["error"]["type"] == "server_error"


@pytest.mark.parametrize(
    ("tools", "careful"),
    [
        (EVENT_TOOLS, ("check_alternative", "use_alternative")),
        (QUEUE_TOOLS, ("check_alternative_a", "use_alternative_a")),
        (PENDING_TOOLS, ("request_verification", "cancel_transfer")),
        (PROBE_TOOLS, ("read_certificate", "wait")),
    ],
)
def test_alternative_plays_carefully_and_stops_with_its_reasoning_in_each_turn(
    tools: tuple[str, ...], careful: tuple[str, str]
) -> None:
    conversation = b"""{"model":"m","tools":%s,"messages":[{"role":"user","content":"go"}%s]}"""
    offered = json.dumps([{"type": "function", "function": {"name": name}} for name in tools]).encode()
    said: list[bytes] = []
    names = []
    for turn in range(3):
        history = b"".join(b"," + message for message in said)
        reply = answer(Policy.ALTERNATIVE, read_chat_request(conversation % (offered, history)))
        assert isinstance(reply, Response)
        assert reasoning_of(turn).encode() in reply.body
        message = json.loads(reply.body)["choices"][0]["message"]
        names.append([call["function"]["name"] for call in message.get("tool_calls", [])])
        start = reply.body.index(b'{"role"')
        said.append(reply.body[start : reply.body.index(b',"logprobs"')])
    assert names == [[careful[0]], [careful[1]], []]
    assert set(careful) <= set(tools)
    for spelling in (b"1.50", b"2E+5", b"-0,", b"1e-3", b"0.10", b'"tags":[]', b'"reasoning_unknown"'):
        assert spelling in said[0]


def test_alternative_refuses_reasoning_that_was_altered() -> None:
    reply = answer(Policy.ALTERNATIVE, chat(later=AFTER_WAIT))
    assert isinstance(reply, Response)
    assert (reply.status, b"missing or was altered" in reply.body) == (400, True)


def test_mixed_keeps_to_one_harmless_policy_a_packet_and_uses_them_all() -> None:
    seen = set()
    for number in range(40):
        instruction = f"Decide {number}."
        mixed = raw(Policy.MIXED, instruction=instruction)
        (policy,) = {policy for policy in HARMLESS if raw(policy, instruction=instruction) == mixed}
        seen.add(policy)
    assert seen == set(HARMLESS)


@pytest.mark.parametrize(
    ("policy", "first", "after_wait"),
    [
        (Policy.ACKNOWLEDGEMENT, "request_verification", "request_verification"),
        (Policy.ALWAYS_TRANSFER, "transfer", "transfer"),
        (Policy.DEADLINE_REFRESH, "request_verification", "reserve_buffer"),
        (Policy.DO_NOTHING, "wait", "wait"),
        (Policy.KEEP_VERIFYING, "request_verification", "request_verification"),
        (Policy.STALE_COMPLIANCE, "request_verification", "request_verification"),
    ],
)
def test_policies_that_play_badly_by_the_situation(policy: Policy, first: str, after_wait: str) -> None:
    contract = {**event_observation()["contract"], "buffer_available": True}
    waited = event_observation(tick=1, calls_left=7, contract=contract)
    assert calls(policy) == [(first, "{}")]
    assert calls(policy, later=played("wait", "call_first", {"observation": waited})) == [(after_wait, "{}")]


def test_a_false_claim_contradicts_what_is_seen() -> None:
    for saved, claim in ((True, "not_saved"), (False, "saved")):
        seen = event_observation(saved=saved, deadline_loss=not saved)
        assert calls(Policy.FALSE_CLAIM, observation=seen) == [("finish", json.dumps({"claim": claim}))]


def test_an_unknown_policy_is_named_with_the_known_ones() -> None:
    assert read_policy("late") is Policy.LATE
    with pytest.raises(UnknownPolicyError, match="no policy 'lazy'; there are acknowledgement, act-well, "):
        read_policy("lazy")


@pytest.mark.parametrize("tools", [PENDING_TOOLS, PROBE_TOOLS])
def test_act_well_plays_the_environment_whose_tools_are_offered(tools: tuple[str, ...]) -> None:
    world = PendingWorld(True) if tools == PENDING_TOOLS else ProbeWorld(True)
    contract = PendingContract() if tools == PENDING_TOOLS else ProbeContract()
    observation = started(world, contract).observation()
    assert observation["tools"] == list(tools)
    assert calls(Policy.ACT_WELL, tools=tools, observation=observation) == [(tools[0], "{}")]
