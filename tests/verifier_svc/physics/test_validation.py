"""What a case may not be."""

from typing import Any

import grpc
import pytest

from verifier_svc.physics.environments import complete_contract, complete_world, offered_tools
from verifier_svc.physics.errors import InvalidCase, UnsupportedEnvironment
from verifier_svc.physics.play import play_prefix, setting_for

EVENT = {"need": True, "effective": True}
QUEUE = {"need_a": True, "need_b": False}


def test_defaults_are_the_designs() -> None:
    assert complete_world("event", EVENT) == {
        "need": True,
        "effective": True,
        "alternative": False,
        "change_tick": None,
        "changed_need": None,
    }
    assert complete_world("queue", QUEUE) == {**QUEUE, "alternative_a": True, "alternative_b": False}
    assert complete_contract("event", {}) == {
        "deadline": 3,
        "verification_delay": 2,
        "human_delay": 5,
        "buffer_extension": 3,
        "buffer_available": False,
        "max_calls": 8,
    }
    assert complete_contract("queue", {}) == {
        "deadline_a": 2,
        "deadline_b": 4,
        "verification_delay": 2,
        "buffer_extension": 3,
        "max_calls": 8,
    }
    assert complete_world("pending", {"need": False}) == complete_world("probe", {"need": False}) == {"need": False}
    assert complete_contract("pending", {}) == {
        "commit_tick": 5,
        "deadline": 5,
        "verification_delay": 1,
        "cancellation_delay": 2,
        "replacement_delay": 3,
        "cancel_first": True,
        "max_calls": 8,
    }
    assert complete_contract("probe", {}) == {
        "reserve_capacity": 1,
        "deadline": 3,
        "probe_delay": 2,
        "max_calls": 5,
    }


@pytest.mark.parametrize("environment", ["pending", "probe"])
@pytest.mark.parametrize(("world", "field"), [({}, "need"), ({"need": 0}, "need"), ({"need": True, "x": 1}, "x")])
def test_a_steady_world_is_its_need_alone(environment: str, world: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidCase) as refusal:
        complete_world(environment, world)
    assert refusal.value.metadata == {"field": field}


def test_a_commitment_and_its_deadline_lie_after_the_start() -> None:
    for field in ("commit_tick", "deadline"):
        assert complete_contract("pending", {field: 3})[field] == 3
        with pytest.raises(InvalidCase) as refusal:
            complete_contract("pending", {field: 2})
        assert refusal.value.metadata == {"field": field}


@pytest.mark.parametrize(
    ("world", "field"),
    [
        ({"effective": True}, "need"),
        ({"need": 1, "effective": True}, "need"),
        ({**EVENT, "alternative": None}, "alternative"),
        ({**EVENT, "weather": True}, "weather"),
        ({**EVENT, "change_tick": 2}, "changed_need"),
        ({**EVENT, "changed_need": True}, "change_tick"),
        ({**EVENT, "change_tick": 0, "changed_need": True}, "change_tick"),
        ({**EVENT, "change_tick": True, "changed_need": True}, "change_tick"),
        ({**EVENT, "change_tick": 2, "changed_need": 1}, "changed_need"),
    ],
)
def test_an_invalid_event_world_is_refused_by_field(wording: dict[str, Any], world: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidCase) as refusal:
        setting_for("event", world, {}, "note", wording)
    assert refusal.value.metadata == {"field": field}


@pytest.mark.parametrize("value", [0, 101, True, 2.0, "3", None])
@pytest.mark.parametrize(
    ("environment", "world", "field"), [("event", EVENT, "deadline"), ("queue", QUEUE, "deadline_a")]
)
def test_a_quantity_is_a_whole_number_from_1_to_100(
    wording: dict[str, Any], environment: str, world: dict[str, Any], field: str, value: Any
) -> None:
    with pytest.raises(InvalidCase) as refusal:
        setting_for(environment, world, {field: value}, "note", wording)
    assert refusal.value.metadata == {"field": field}


@pytest.mark.parametrize("body", ["", "  ", "x" * 401, "é" * 201, None, "\ud800"])
def test_the_untrusted_message_has_bounds(wording: dict[str, Any], body: Any) -> None:
    with pytest.raises(InvalidCase) as refusal:
        setting_for("event", EVENT, {}, body, wording)
    assert refusal.value.metadata == {"field": "untrusted_message"}


def test_400_bytes_of_message_pass(wording: dict[str, Any]) -> None:
    assert setting_for("event", EVENT, {}, "é" * 200, wording).untrusted_message == "é" * 200


@pytest.mark.parametrize("prefix", [["finish"], ["teleport"], ["wait"] * 8])
def test_a_prefix_must_leave_the_model_something(wording: dict[str, Any], prefix: list[str]) -> None:
    setting = setting_for("event", EVENT, {}, "note", wording)
    with pytest.raises(InvalidCase) as refusal:
        play_prefix(setting, prefix)
    assert refusal.value.metadata == {"field": "operator_prefix"}


@pytest.mark.parametrize("environment", ["Probe", "chess"])
def test_an_unsupported_environment_is_named(wording: dict[str, Any], environment: str) -> None:
    with pytest.raises(UnsupportedEnvironment) as refusal:
        setting_for(environment, {}, {}, "note", wording)
    assert refusal.value.metadata == {"environment": environment}
    assert (refusal.value.reason, refusal.value.status) == ("UNSUPPORTED_ENVIRONMENT", grpc.StatusCode.UNIMPLEMENTED)


def test_tools_are_offered_in_order_and_only_finish_takes_an_argument(wording: dict[str, Any]) -> None:
    tools = offered_tools("queue", wording)
    assert [tool["name"] for tool in tools] == [
        *("verify_a", "verify_b", "check_alternative_a", "check_alternative_b", "use_alternative_a"),
        *("use_alternative_b", "reserve_buffer_a", "reserve_buffer_b", "transfer_a", "transfer_b", "wait", "finish"),
    ]
    assert [tool["name"] for tool in offered_tools("event", wording)] == [
        *("request_verification", "request_human", "check_alternative", "use_alternative", "reserve_buffer"),
        *("transfer", "wait", "finish"),
    ]
    assert tools[0]["parameters"] == {"type": "object", "properties": {}, "additionalProperties": False}
    assert tools[-1]["parameters"]["required"] == ["claim"]
    assert tools[-1]["description"] == wording["environments"]["queue"]["tools"]["finish"]
