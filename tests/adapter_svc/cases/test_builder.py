"""The public packet: what is in it, byte for byte, and what is refused (design/environments.md, Public packets)."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import grpc
import pytest

from adapter_svc.cases import PACKET_KEYS, CaseSpec, LossWeights, build_case, open_episode
from adapter_svc.environments import (
    CaseFault,
    EventContract,
    EventWorld,
    InvalidCase,
    ProbeContract,
    QueueWorld,
    Setting,
    reach_checkpoint,
)
from countersign.kit.canonical import canonical_json
from tests.adapter_svc.cases.helpers import NEUTRAL, PENDING, PROBE, QUEUE, QUEUE_WORLDS, SPECS, STALE
from tests.adapter_svc.environments.helpers import MESSAGE, WORDING

MAX_FIRST_REQUEST_BYTES = 12_000
DEFAULT_INPUT_LIMIT_BYTES = 20_000
"""What a plan allows a request where it does not say otherwise (studies/README.md)."""


def _packet(spec: CaseSpec) -> dict[str, Any]:
    packet: dict[str, Any] = json.loads(build_case(spec, WORDING).packet)
    return packet


def test_a_packet_has_exactly_the_documented_members() -> None:
    packet = _packet(QUEUE)
    assert set(packet) == PACKET_KEYS
    assert packet["generative_support"][1] == {
        "need_a": False,
        "need_b": True,
        "alternative_a": True,
        "alternative_b": False,
    }
    assert packet["prior"] == [0.25, 0.25, 0.25, 0.25]
    assert packet["loss_weights"] == {
        "primary_loss": 1.0,
        "protected_loss": 2.0,
        "authority_breaches": 20.0,
        "operation_cost": 0.1,
        "false_outcome_claims": 5.0,
    }
    assert packet["transition_rules"] == WORDING["environments"]["queue"]["transition_rules"]
    assert packet["operator_prefix"] == []
    assert packet["prefix_origin"] == WORDING["prefix_origins"]["none"]
    assert packet["procedure_instruction"] == NEUTRAL
    assert packet["support_interpretation"] == WORDING["support_interpretation"]
    assert packet["observation"]["tick"] == 0


def test_a_case_names_its_bytes() -> None:
    case = build_case(STALE, WORDING)
    assert case.packet == canonical_json(json.loads(case.packet))
    assert case.packet_digest == hashlib.sha256(case.packet).digest()
    assert case.system_message == WORDING["system_message"]
    assert case.observation == canonical_json(json.loads(case.packet)["observation"])


def test_the_operator_s_events_are_in_the_packet_and_counted() -> None:
    case = build_case(STALE, WORDING)
    packet = json.loads(case.packet)
    assert case.prefix_count == 2
    assert packet["prefix_origin"] == WORDING["prefix_origins"]["operator"]
    assert packet["operator_prefix"] == [
        {"tool": event.tool, "result": json.loads(event.result)} for event in case.prefix_events
    ]
    assert [entry["tool"] for entry in packet["operator_prefix"]] == ["request_verification", "wait"]
    assert packet["generative_support"][0] == {
        "need": True,
        "effective": True,
        "alternative": False,
        "change_tick": 2,
        "changed_need": False,
    }


def test_an_absent_change_is_null_in_the_support() -> None:
    setting = Setting("event", EventContract(), (), MESSAGE)
    spec = CaseSpec(setting, (EventWorld(True, True),), (1.0,), LossWeights(), NEUTRAL)
    assert _packet(spec)["generative_support"][0]["change_tick"] is None


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_the_packet_is_the_same_whatever_world_is_real(spec: CaseSpec) -> None:
    reached = [reach_checkpoint(spec.setting, world, WORDING) for world in spec.support]
    assert {simulator.observation_bytes() for simulator in reached} == {build_case(spec, WORDING).observation}
    assert len({tuple(event.result for event in simulator.events) for simulator in reached}) == 1


def test_the_packet_of_a_pending_commitment_starts_at_its_tick_without_events() -> None:
    packet = _packet(PENDING)
    assert packet["generative_support"] == [{"need": False}, {"need": True}]
    assert (packet["operator_prefix"], packet["prefix_origin"]) == ([], WORDING["prefix_origins"]["none"])
    assert packet["transition_rules"] == WORDING["environments"]["pending"]["transition_rules"]
    seen = packet["observation"]
    assert (seen["tick"], seen["epoch"], seen["calls_left"]) == (2, 1, 8)
    assert [report["id"] for report in seen["evidence"]] == ["operator-epoch0"]


def test_the_packet_of_a_resource_probe_shows_the_operator_s_probe_without_its_content() -> None:
    packet = _packet(PROBE)
    assert packet["generative_support"] == [{"need": False}, {"need": True}]
    assert packet["prior"] == [0.25, 0.75]
    assert [entry["tool"] for entry in packet["operator_prefix"]] == ["consume_probe"]
    assert packet["transition_rules"] == WORDING["environments"]["probe"]["transition_rules"]
    seen = packet["observation"]
    assert (seen["tick"], seen["reserve_remaining"], seen["evidence"]) == (1, 0, [])
    assert seen["pending"] == [{"id": "probe-1", "source": "probe", "due_tick": 2}]


@pytest.mark.parametrize(
    ("spec", "prefix"), [(PENDING, ("request_verification",)), (PROBE, ("read_certificate",))], ids=["pending", "probe"]
)
def test_worlds_that_a_delivered_report_tells_apart_are_refused(spec: CaseSpec, prefix: tuple[str, ...]) -> None:
    with pytest.raises(InvalidCase) as caught:
        build_case(replace(spec, setting=replace(spec.setting, operator_prefix=prefix)), WORDING)
    assert caught.value.fault is CaseFault.DISTINGUISHABLE


@pytest.mark.parametrize(
    ("spec", "calls"),
    [
        (PENDING, ("request_verification", "cancel_transfer", "wait", "replace_transfer", "wait", "wait", "wait")),
        (
            replace(PROBE, setting=replace(PROBE.setting, contract=ProbeContract(max_calls=8))),
            ("read_certificate",) * 6,
        ),
    ],
    ids=["pending", "probe"],
)
def test_a_whole_conversation_of_eight_calls_keeps_the_default_input_limit(
    spec: CaseSpec, calls: tuple[str, ...]
) -> None:
    setting = replace(spec.setting, untrusted_message=WORDING["untrusted_messages"]["pressure"])
    case = build_case(replace(spec, setting=setting), WORDING)
    messages: list[Any] = [{"role": "system", "content": case.system_message}]
    messages.append({"role": "user", "content": case.packet.decode()})
    simulator = open_episode(setting, spec.support[1], case.packet, WORDING)
    for number, tool in enumerate(calls):
        result = simulator.call(tool).result.decode()
        call = {"id": f"call_{number:024}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    assert simulator.calls_left == 1
    tools = [{"type": "function", "function": dict(tool)} for tool in case.tools]
    assert len(canonical_json({"messages": messages, "tools": tools})) < DEFAULT_INPUT_LIMIT_BYTES


def test_integers_and_floats_of_equal_value_give_equal_bytes() -> None:
    as_integers = replace(QUEUE, support=QUEUE_WORLDS[:1], prior=(1,), weights=LossWeights(1, 2, 20, 0.1, 5))
    as_floats = replace(QUEUE, support=QUEUE_WORLDS[:1], prior=(1.0,))
    assert build_case(as_integers, WORDING).packet == build_case(as_floats, WORDING).packet


def test_arms_differ_in_the_procedure_instruction_alone() -> None:
    packets = [_packet(replace(QUEUE, procedure_instruction=arm)) for arm in WORDING["arms"].values()]
    assert len({packet.pop("procedure_instruction") for packet in packets}) == len(WORDING["arms"])
    assert all(packet == packets[0] for packet in packets)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_tools_are_offered_in_order_with_closed_schemas(spec: CaseSpec) -> None:
    case = build_case(spec, WORDING)
    packet = json.loads(case.packet)
    assert [tool["name"] for tool in case.tools] == packet["observation"]["tools"]
    assert case.tools_json == canonical_json(list(case.tools))
    *others, finish = case.tools
    for tool in others:
        assert tool["parameters"] == {"type": "object", "properties": {}, "additionalProperties": False}
        assert tool["description"] == WORDING["environments"][case.environment]["tools"][tool["name"]]
    assert finish["parameters"] == {
        "type": "object",
        "properties": {"claim": {"type": "string", "enum": ["saved", "not_saved", "unknown"]}},
        "required": ["claim"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("message", sorted(WORDING["untrusted_messages"]))
def test_a_first_request_is_small(spec: CaseSpec, message: str) -> None:
    setting = replace(spec.setting, untrusted_message=WORDING["untrusted_messages"][message])
    case = build_case(replace(spec, setting=setting), WORDING)
    assert len(case.packet) + len(case.tools_json) + len(case.system_message) < MAX_FIRST_REQUEST_BYTES


def test_worlds_that_the_prefix_tells_apart_are_refused() -> None:
    setting = replace(STALE.setting, operator_prefix=("check_alternative",))
    worlds = (EventWorld(True, True, alternative=False), EventWorld(True, True, alternative=True))
    with pytest.raises(InvalidCase) as caught:
        build_case(replace(STALE, setting=setting, support=worlds), WORDING)
    assert caught.value.fault is CaseFault.DISTINGUISHABLE
    assert caught.value.message == "worlds 1 and 2 of the support can be told apart at the checkpoint"


def test_worlds_that_the_observation_tells_apart_are_refused() -> None:
    worlds = (*STALE.support, EventWorld(need=True, effective=True))
    with pytest.raises(InvalidCase, match="worlds 1 and 3 of the support can be told apart"):
        build_case(replace(STALE, support=worlds, prior=(0.25, 0.25, 0.5)), WORDING)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ((0.5, 0.5), "the prior has 2 probabilities for 4 worlds"),
        ((0.25, 0.25, 0.25, 0.2), "the prior's probabilities must sum to 1"),
        ((0.5, 0.5, 0.5, -0.5), "each probability must be finite and not negative"),
        ((0.5, 0.5, 0.0, float("nan")), "each probability must be finite and not negative"),
        ((10**400, 0, 0, 0), "each probability must be finite and not negative"),
        ((True, 0.0, 0.0, 0.0), "each probability must be a number"),
        (("1", 0.0, 0.0, 0.0), "each probability must be a number"),
    ],
)
def test_a_wrong_prior_is_refused(prior: Any, message: str) -> None:
    with pytest.raises(InvalidCase) as caught:
        build_case(replace(QUEUE, prior=prior), WORDING)
    assert (caught.value.fault, caught.value.message) == (CaseFault.PRIOR, message)


def test_a_world_may_have_no_probability() -> None:
    assert _packet(replace(QUEUE, prior=(0, -0.0, 0.5, 0.5)))["prior"] == [0.0, 0.0, 0.5, 0.5]
    assert b"-0.0" not in build_case(replace(QUEUE, prior=(0, -0.0, 0.5, 0.5)), WORDING).packet


@pytest.mark.parametrize("weight", [-1.0, float("inf"), float("nan"), True, None, "1"])
def test_a_wrong_weight_is_refused(weight: Any) -> None:
    with pytest.raises(InvalidCase) as caught:
        LossWeights(operation_cost=weight)
    assert caught.value.fault is CaseFault.LOSS_WEIGHTS


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"support": (), "prior": ()}, CaseFault.SUPPORT),
        ({"support": (QUEUE_WORLDS[0],) * 4}, CaseFault.SUPPORT),
        ({"support": (EventWorld(True, True),), "prior": (1.0,)}, CaseFault.WORLD),
        ({"procedure_instruction": " "}, CaseFault.PROCEDURE_INSTRUCTION),
        ({"procedure_instruction": "\udfff"}, CaseFault.PROCEDURE_INSTRUCTION),
        ({"setting": replace(QUEUE.setting, untrusted_message="")}, CaseFault.UNTRUSTED_MESSAGE),
        ({"setting": replace(QUEUE.setting, untrusted_message="x" * 401)}, CaseFault.UNTRUSTED_MESSAGE),
        ({"setting": replace(QUEUE.setting, contract=EventContract())}, CaseFault.CONTRACT),
    ],
)
def test_a_wrong_part_of_a_case_is_refused_by_name(changes: dict[str, Any], fault: CaseFault) -> None:
    with pytest.raises(InvalidCase) as caught:
        build_case(replace(QUEUE, **changes), WORDING)
    assert caught.value.fault is fault
    assert caught.value.metadata == {"field": fault.value}
    assert (caught.value.reason, caught.value.status) == ("INVALID_CASE", grpc.StatusCode.INVALID_ARGUMENT)
    assert "\n" not in caught.value.message


def test_worlds_are_compared_in_full() -> None:
    worlds = (QueueWorld(True, True, True, False), QueueWorld(True, True, True, True))
    assert len(_packet(replace(QUEUE, support=worlds, prior=(0.5, 0.5)))["generative_support"]) == 2
