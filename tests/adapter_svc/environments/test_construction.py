"""Worlds, contracts, messages and names are judged on construction."""

from typing import Any

import grpc
import pytest

from adapter_svc.environments import (
    TEXT_FINISH,
    Action,
    ActionFault,
    CaseFault,
    EpisodeNotEnded,
    EventContract,
    EventWorld,
    InvalidAction,
    InvalidCase,
    PendingContract,
    PendingWorld,
    ProbeContract,
    ProbeWorld,
    QueueContract,
    QueueWorld,
    UnsupportedEnvironment,
    WordingError,
    contract_from_json,
    kind_of,
    play,
    start,
    world_from_json,
)
from tests.adapter_svc.environments.helpers import MESSAGE, WORDING

NEEDED = EventWorld(need=True, effective=True)


def test_the_defaults_are_the_design_s() -> None:
    assert EventContract() == EventContract(3, 2, 5, 3, False, 8)
    assert QueueContract() == QueueContract(2, 4, 2, 3, 8)
    assert PendingContract() == PendingContract(5, 5, 1, 2, 3, True, 8)
    assert ProbeContract() == ProbeContract(1, 3, 2, 5)
    assert EventWorld(True, True) == EventWorld(True, True, False, None, None)
    assert QueueWorld(True, True) == QueueWorld(True, True, True, False)


@pytest.mark.parametrize(
    "data",
    [
        {"need": 1, "effective": True},
        {"need": True, "effective": None},
        {"need": True, "effective": True, "alternative": 0},
        {"need": True, "effective": True, "change_tick": 2},
        {"need": True, "effective": True, "changed_need": False},
        {"need": True, "effective": True, "change_tick": 0, "changed_need": False},
        {"need": True, "effective": True, "change_tick": True, "changed_need": False},
        {"need": True, "effective": True, "change_tick": 2.0, "changed_need": False},
        {"need": True, "effective": True, "change_tick": 2, "changed_need": 0},
        {"need": True},
        {"need": True, "effective": True, "colour": "red"},
        ["need"],
        None,
    ],
)
def test_a_bad_event_world_is_refused(data: Any) -> None:
    with pytest.raises(InvalidCase) as caught:
        world_from_json("event", data)
    assert caught.value.fault is CaseFault.WORLD
    assert caught.value.metadata == {"field": "world"}


@pytest.mark.parametrize("field", ["deadline", "verification_delay", "human_delay", "buffer_extension", "max_calls"])
@pytest.mark.parametrize("value", [0, 101, -1, True, 2.0, "2", None])
def test_a_contract_integer_outside_its_range_is_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidCase) as caught:
        contract_from_json("event", {field: value})
    assert caught.value.message == f"{field} must be an integer from 1 to 100"


@pytest.mark.parametrize("field", ["deadline_a", "deadline_b", "verification_delay", "buffer_extension", "max_calls"])
@pytest.mark.parametrize("value", [0, 101, False])
def test_a_queue_contract_integer_outside_its_range_is_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidCase):
        contract_from_json("queue", {field: value})


@pytest.mark.parametrize("environment", ["pending", "probe"])
@pytest.mark.parametrize("data", [{"need": 1}, {"need": None}, {}, {"need": True, "effective": True}, [True], None])
def test_a_bad_world_of_one_need_is_refused(environment: str, data: Any) -> None:
    with pytest.raises(InvalidCase) as caught:
        world_from_json(environment, data)
    assert caught.value.fault is CaseFault.WORLD


PENDING_DELAYS = ("verification_delay", "cancellation_delay", "replacement_delay", "max_calls")


@pytest.mark.parametrize("value", [0, 101, True, 4.0, None])
def test_a_pending_or_probe_contract_integer_outside_its_range_is_refused(value: Any) -> None:
    for field in (*PENDING_DELAYS, "commit_tick", "deadline"):
        with pytest.raises(InvalidCase, match=f"{field} must be an integer from 1 to 100"):
            contract_from_json("pending", {field: value})
    for field in ("reserve_capacity", "deadline", "probe_delay", "max_calls"):
        with pytest.raises(InvalidCase, match=f"{field} must be an integer from 1 to 100"):
            contract_from_json("probe", {field: value})


@pytest.mark.parametrize("field", ["commit_tick", "deadline"])
@pytest.mark.parametrize("value", [1, 2])
def test_a_commitment_and_its_deadline_lie_after_the_start(field: str, value: int) -> None:
    with pytest.raises(InvalidCase) as caught:
        contract_from_json("pending", {field: value})
    assert caught.value.fault is CaseFault.CONTRACT
    assert caught.value.message == f"{field} must be above 2, the tick of the start"


def test_the_ends_of_the_ranges_of_pending_and_probe_are_accepted() -> None:
    assert PendingContract(3, 3, 1, 1, 1, False, 1).deadline == 3
    assert PendingContract(100, 100, 100, 100, 100, True, 100).deadline == 100
    assert ProbeContract(1, 1, 1, 1).max_calls == 1
    assert ProbeContract(100, 100, 100, 100).max_calls == 100


@pytest.mark.parametrize("value", [1, 100])
def test_the_ends_of_the_range_are_accepted(value: int) -> None:
    assert EventContract(value, value, value, value, True, value).max_calls == value
    assert QueueContract(value, value, value, value, value).max_calls == value


def test_an_integer_is_no_boolean() -> None:
    with pytest.raises(InvalidCase, match="buffer_available must be true or false"):
        contract_from_json("event", {"buffer_available": 1})
    with pytest.raises(InvalidCase, match="need_b must be true or false"):
        world_from_json("queue", {"need_a": True, "need_b": 1})
    with pytest.raises(InvalidCase, match="cancel_first must be true or false"):
        contract_from_json("pending", {"cancel_first": 1})


def test_json_forms_round_trip() -> None:
    world = EventWorld(True, False, True, 2, False)
    assert world_from_json("event", world.to_json()) == world
    assert NEEDED.to_json()["change_tick"] is None
    contract = QueueContract(max_calls=9)
    assert contract_from_json("queue", contract.to_json()) == contract
    commitment = PendingContract(cancel_first=False)
    assert contract_from_json("pending", commitment.to_json()) == commitment
    assert contract_from_json("probe", ProbeContract(2).to_json()) == ProbeContract(2)
    assert world_from_json("probe", {"need": True}) == ProbeWorld(True)
    assert world_from_json("pending", PendingWorld(False).to_json()) == PendingWorld(False)


@pytest.mark.parametrize("body", ["", " \n\t", "x" * 401, "é" * 201, "\ud800"])
def test_a_bad_untrusted_message_is_refused(body: str) -> None:
    with pytest.raises(InvalidCase) as caught:
        start("event", NEEDED, EventContract(), body, WORDING)
    assert caught.value.fault is CaseFault.UNTRUSTED_MESSAGE


@pytest.mark.parametrize("body", ["x" * 400, "é" * 200])
def test_an_untrusted_message_of_400_bytes_is_shown_as_it_is(body: str) -> None:
    seen = start("event", NEEDED, EventContract(), body, WORDING).observation()
    assert seen["untrusted_message"]["body"] == body


@pytest.mark.parametrize("environment", ["chess", "EVENT", ""])
def test_an_unsupported_environment_is_named(environment: str) -> None:
    with pytest.raises(UnsupportedEnvironment) as caught:
        kind_of(environment)
    assert caught.value.metadata == {"environment": environment}
    assert caught.value.reason == "UNSUPPORTED_ENVIRONMENT"
    assert caught.value.status is grpc.StatusCode.UNIMPLEMENTED


def test_the_world_and_the_contract_must_be_the_environment_s() -> None:
    with pytest.raises(InvalidCase) as wrong_world:
        start("queue", NEEDED, QueueContract(), MESSAGE, WORDING)
    with pytest.raises(InvalidCase) as wrong_contract:
        start("event", NEEDED, QueueContract(), MESSAGE, WORDING)
    with pytest.raises(InvalidCase):
        start("probe", PendingWorld(True), ProbeContract(), MESSAGE, WORDING)
    assert (wrong_world.value.fault, wrong_contract.value.fault) == (CaseFault.WORLD, CaseFault.CONTRACT)


@pytest.mark.parametrize(
    ("action", "fault"),
    [
        (Action("teleport"), ActionFault.UNKNOWN_TOOL),
        (Action("teleport", "saved"), ActionFault.UNKNOWN_TOOL),
        (Action("wait", "unknown"), ActionFault.CLAIM_NOT_ALLOWED),
        (Action("finish"), ActionFault.MISSING_CLAIM),
        (Action("finish", "Saved"), ActionFault.UNKNOWN_CLAIM),
    ],
)
def test_an_invalid_action_says_why(action: Action, fault: ActionFault) -> None:
    with pytest.raises(InvalidAction) as caught:
        play("event", NEEDED, EventContract(), ["wait"], [action], MESSAGE, WORDING)
    assert caught.value.fault is fault
    assert caught.value.metadata == {"fault": fault.value, "tool": action.tool, "sequence": "2"}


def test_nothing_is_accepted_after_the_end() -> None:
    with pytest.raises(InvalidAction) as caught:
        play("event", NEEDED, EventContract(), [], [TEXT_FINISH, Action("wait")], MESSAGE, WORDING)
    assert caught.value.fault is ActionFault.AFTER_END


def test_an_unfinished_list_of_actions_has_no_outcome() -> None:
    assert play("event", NEEDED, EventContract(), [], [Action("wait")], MESSAGE, WORDING).outcome is None
    with pytest.raises(EpisodeNotEnded):
        start("event", NEEDED, EventContract(), MESSAGE, WORDING).settle()


def test_a_text_finish_is_finish_unknown_taking_one_tick() -> None:
    playback = play("event", NEEDED, EventContract(), [], [TEXT_FINISH], MESSAGE, WORDING)
    assert playback.events[0].to_json() == {
        "sequence": 1,
        "tool": "finish",
        "claim": "unknown",
        "start_tick": 0,
        "end_tick": 1,
        "result": playback.events[0].result.decode(),
    }


@pytest.mark.parametrize("name", ["authority_rule", "semantics", "transition_rules", "tools"])
def test_a_wording_without_a_text_is_refused(name: str) -> None:
    section = {key: value for key, value in WORDING["environments"]["event"].items() if key != name}
    with pytest.raises(WordingError):
        start("event", NEEDED, EventContract(), MESSAGE, {"environments": {"event": section}})


@pytest.mark.parametrize("name", ["transition_rules", "tools"])
def test_a_wording_with_a_text_too_many_is_refused(name: str) -> None:
    section = WORDING["environments"]["event"]
    section = {**section, name: {**section[name], "extra": "More."}}
    with pytest.raises(WordingError, match="must have exactly"):
        start("event", NEEDED, EventContract(), MESSAGE, {"environments": {"event": section}})
