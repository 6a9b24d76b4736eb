"""Every packet of the shipped studies: the same to both builders, telling nothing of the world, audited whole.

design/environments.md, Public packets: each template, arm, message and world of every plan in studies/.
"""

import copy
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from adapter_svc.cases import build_case, open_episode
from adapter_svc.mapping import read_case
from countersign.kit.canonical import canonical_json
from countersign.study.identities import CaseKey, case_definition
from countersign.study.plan import load_plan
from tests.conftest import PROJECT_ROOT
from verifier_svc.messages import case_of
from verifier_svc.packets import DeclaredCase, PacketCheck, audit_arms, audit_packet, build_packet

WORDING: dict[str, Any] = json.loads((PROJECT_ROOT / "protos" / "wording" / "v1.json").read_text("utf-8"))
PLANS = {path.stem: load_plan(path) for path in sorted((PROJECT_ROOT / "studies").glob("*.toml"))}
CASES = [
    pytest.param(name, CaseKey(template.name, arm.name, message.name), id=f"{name}-{template.name}-{arm.name}")
    for name, plan in PLANS.items()
    for template in plan.templates
    for arm in plan.arms
    for message in plan.messages
]
LIMIT_BYTES = 24_000
Path = tuple[str | int, ...]


@cache
def declared(plan: str, key: CaseKey) -> DeclaredCase:
    return case_of(case_definition(PLANS[plan], key))


def failed(packet: bytes, case: DeclaredCase, limit: int = LIMIT_BYTES) -> set[PacketCheck]:
    """The checks that fail beside the comparison with the whole, which no change escapes."""
    findings = audit_packet(packet, case, WORDING, limit)
    return {one.check for one in findings if not one.passed} - {PacketCheck.REBUILT}


@pytest.mark.parametrize(("plan", "key"), CASES)
def test_the_model_sees_the_same_whatever_world_is_real(plan: str, key: CaseKey) -> None:
    spec = read_case(case_definition(PLANS[plan], key))
    packet = build_case(spec, WORDING).packet
    shown = {open_episode(spec.setting, world, packet, WORDING).observation_bytes() for world in spec.support}
    assert shown == {canonical_json(json.loads(packet)["observation"])}
    assert packet == build_packet(declared(plan, key), WORDING)
    assert failed(packet, declared(plan, key)) == set()


@pytest.mark.parametrize(("plan", "key"), CASES)
def test_arms_differ_in_their_instruction_alone(plan: str, key: CaseKey) -> None:
    packet = build_packet(declared(plan, key), WORDING)
    for arm in PLANS[plan].arms:
        if arm.name != key.arm:
            other = build_packet(declared(plan, CaseKey(key.template, arm.name, key.message)), WORDING)
            assert audit_arms(packet, other).passed


SITUATIONS = {
    (plan, template.name): pytest.param(
        plan, CaseKey(template.name, PLANS[plan].arms[0].name, "default"), id=template.name
    )
    for plan in ("environments",)
    for template in PLANS[plan].templates
}


@pytest.mark.parametrize(("plan", "key"), SITUATIONS.values())
def test_every_change_anywhere_in_a_packet_is_caught(plan: str, key: CaseKey) -> None:
    """Each value altered, each member dropped, one added to each object, each list shortened: none passes."""
    case = declared(plan, key)
    honest = json.loads(build_packet(case, WORDING))
    changed = 0
    for path, packet in changes(honest):
        assert failed(canonical_json(packet), case), path
        changed += 1
    assert changed > 200


@pytest.mark.parametrize(("plan", "key"), SITUATIONS.values())
def test_one_byte_too_many_is_caught(plan: str, key: CaseKey) -> None:
    case = declared(plan, key)
    packet = build_packet(case, WORDING)
    least = smallest(case)
    assert failed(packet, case, least) == set()
    assert failed(packet, case, least - 1) == {PacketCheck.BYTE_LIMIT}


def smallest(case: DeclaredCase) -> int:
    """The smallest input limit that the packet passes."""
    packet, least, most = build_packet(case, WORDING), 0, LIMIT_BYTES
    while least < most:
        middle = (least + most) // 2
        least, most = (middle + 1, most) if failed(packet, case, middle) else (least, middle)
    return least


def changes(value: Any) -> Iterator[tuple[Path, Any]]:
    """Every place in a JSON value, and the whole value with something else there."""
    for path in places(value, ()):
        for put in alternatives(at(value, path)):
            whole = copy.deepcopy(value)
            holder = at(whole, path[:-1])
            holder[path[-1]] = put
            yield path, whole
        whole = copy.deepcopy(value)
        del at(whole, path[:-1])[path[-1]]
        yield path, whole


def places(value: Any, path: Path) -> Iterator[Path]:
    if path:
        yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, member in members:
        yield from places(member, (*path, name))


def alternatives(value: Any) -> list[Any]:
    match value:
        case bool():
            return [not value, int(value), None]
        case int() | float():
            return [value + 1, -value - 1, str(value)]
        case str():
            return [value + " ", value[:-1], "", None]
        case dict():
            return [{**value, "realised": True}, {}]
        case list():
            return [[*value, *value[:1]] if value else [1], value[::-1] if value[::-1] != value else [*value, None]]
        case _:
            return [0, False, "none"]


def at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value
