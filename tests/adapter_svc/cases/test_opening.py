"""An episode opens only where the realised world leads to exactly the packet's checkpoint."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from adapter_svc.cases import CaseSpec, build_case, open_episode
from adapter_svc.environments import CaseFault, EventWorld, InvalidCase, QueueWorld
from countersign.kit.canonical import canonical_json
from tests.adapter_svc.cases.helpers import PENDING, PROBE, QUEUE, STALE
from tests.adapter_svc.environments.helpers import WORDING

PACKET = build_case(STALE, WORDING).packet
Edit = Callable[[dict[str, Any]], None]


def _edited(edit: Edit) -> bytes:
    members = json.loads(PACKET)
    edit(members)
    return canonical_json(members)


def _refusal(packet: bytes) -> InvalidCase:
    with pytest.raises(InvalidCase) as caught:
        open_episode(STALE.setting, STALE.support[0], packet, WORDING)
    return caught.value


def test_every_world_of_the_support_opens_at_the_packet_s_observation() -> None:
    for world in STALE.support:
        simulator = open_episode(STALE.setting, world, PACKET, WORDING)
        assert simulator.observation() == json.loads(PACKET)["observation"]
        assert len(simulator.events) == 2
        assert simulator.call("finish", "unknown").sequence == 3


@pytest.mark.parametrize("spec", [PENDING, PROBE], ids=["pending", "probe"])
def test_both_worlds_of_a_need_open_at_one_observation(spec: CaseSpec) -> None:
    packet = build_case(spec, WORDING).packet
    for world in spec.support:
        simulator = open_episode(spec.setting, world, packet, WORDING)
        assert simulator.observation_bytes() == canonical_json(json.loads(packet)["observation"])


def test_a_realised_world_outside_the_support_is_refused() -> None:
    outside = EventWorld(need=True, effective=True, alternative=True, change_tick=2, changed_need=True)
    with pytest.raises(InvalidCase) as caught:
        open_episode(STALE.setting, outside, PACKET, WORDING)
    assert (caught.value.fault, caught.value.message) == (
        CaseFault.SUPPORT,
        "the realised world is not in the packet's support",
    )


def test_a_world_of_another_environment_is_refused() -> None:
    with pytest.raises(InvalidCase) as caught:
        open_episode(STALE.setting, QueueWorld(True, True), PACKET, WORDING)
    assert caught.value.fault is CaseFault.WORLD


def test_a_listed_world_that_leads_elsewhere_is_refused() -> None:
    plain = EventWorld(need=True, effective=True)

    def list_it(members: dict[str, Any]) -> None:
        members["generative_support"][0] = plain.to_json()

    with pytest.raises(InvalidCase, match="differs from the actual checkpoint's"):
        open_episode(STALE.setting, plain, _edited(list_it), WORDING)


def test_a_packet_of_another_setting_is_refused() -> None:
    setting = replace(STALE.setting, untrusted_message=WORDING["untrusted_messages"]["pressure"])
    with pytest.raises(InvalidCase, match="differs from the actual checkpoint's"):
        open_episode(setting, STALE.support[0], PACKET, WORDING)
    with pytest.raises(InvalidCase):
        open_episode(STALE.setting, STALE.support[0], build_case(QUEUE, WORDING).packet, WORDING)


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("observation", lambda packet: packet["observation"].update(tick=3)),
        ("observation", lambda packet: packet["observation"].update(saved=0)),
        ("observation", lambda packet: packet["observation"].update(hint="the need ends")),
        ("operator_prefix", lambda packet: packet["operator_prefix"].pop()),
        ("prefix_origin", lambda packet: packet.update(prefix_origin=WORDING["prefix_origins"]["none"])),
        ("transition_rules", lambda packet: packet["transition_rules"].pop("costs")),
        ("support_interpretation", lambda packet: packet.update(support_interpretation="Guess.")),
    ],
)
def test_a_member_that_differs_from_the_checkpoint_s_is_refused_by_name(name: str, edit: Edit) -> None:
    refusal = _refusal(_edited(edit))
    assert refusal.fault is CaseFault.PACKET
    assert refusal.message == f"the packet's {name} differs from the actual checkpoint's"


@pytest.mark.parametrize(
    ("fault", "edit"),
    [
        (CaseFault.PACKET, lambda packet: packet.update(realised_world=0)),
        (CaseFault.PACKET, lambda packet: packet.pop("prior")),
        (CaseFault.PACKET, lambda packet: packet.update(prior=1.0)),
        (CaseFault.PRIOR, lambda packet: packet.update(prior=[1.0])),
        (CaseFault.LOSS_WEIGHTS, lambda packet: packet["loss_weights"].update(patience=1.0)),
        (CaseFault.LOSS_WEIGHTS, lambda packet: packet.update(loss_weights=[])),
        (CaseFault.PROCEDURE_INSTRUCTION, lambda packet: packet.update(procedure_instruction="")),
    ],
)
def test_a_packet_that_breaks_its_form_is_refused(fault: CaseFault, edit: Edit) -> None:
    assert _refusal(_edited(edit)).fault is fault


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        b"[]",
        b"\xff",
        b"{",
        PACKET + b"\n",
        b" " + PACKET,
        b'{"prior":[],' + PACKET[1:],
        b'{"a":NaN}',
        b'{"a":"\\ud800"}',
        b"[" * 100_000,
    ],
)
def test_bytes_that_are_no_canonical_packet_are_refused(packet: bytes) -> None:
    assert _refusal(packet).fault is CaseFault.PACKET
