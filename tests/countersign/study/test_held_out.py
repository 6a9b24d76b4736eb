"""Held-out templates: drawn in secret, committed to, opened once (design/study.md, Held-out templates)."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from countersign.kit.canonical import canonical_json, sha256
from countersign.study.amendments import amend
from countersign.study.built import build, rebuild
from countersign.study.errors import AmendmentRefused, BadInput, BadPlan, HeldOutRefused
from countersign.study.held_out import Member, draw, read_or_make_seed, read_seed, structure
from countersign.study.held_out_audit import audit_held_out
from countersign.study.identities import planned_identities
from countersign.study.manifest import Manifest, frozen_template, keep, load
from countersign.study.plan_model import FamilyPlan, HeldOutTemplate, PlanFile
from countersign.study.preparation import prepare
from countersign.study.revealing import reveal
from countersign.study.services import Services
from tests.countersign.study.fakes import Fakes
from tests.countersign.study.plans import BASE, NOW, make_plan, route_text

FAMILY = """
[[families]]
name = "windows"
environment = "event"
held_out = 3
worlds = [{ name = "calm", need = false, effective = true }, { name = "need", need = true, effective = true }]
[families.contract]
deadline = { min = 4, max = 9 }
verification_delay = { min = 1, max = 3 }
human_delay = [4, 6]
buffer_extension = 2
buffer_available = [true, false]
max_calls = 8
"""
SEED = bytes(range(32))


def family_plan(family: str = FAMILY, *routes: str) -> PlanFile:
    return make_plan(*(routes or (route_text(),)), base=BASE + family)


async def frozen(services: Services, folder: Path, plan: PlanFile | None = None) -> Manifest:
    built = await build(services, plan or family_plan(), folder, SEED)
    keep(built.manifest, folder)
    return built.manifest


def members(plan: PlanFile, seed: bytes, taken: frozenset[bytes] = frozenset()) -> list[Member]:
    return draw(plan, seed, taken)["windows"]


def structures(drawn: list[Member]) -> list[bytes]:
    return [structure(frozen_template(one.template), one.template.contract) for one in drawn]


@given(st.binary(min_size=32, max_size=32))
def test_a_draw_is_the_same_again_and_lies_in_its_ranges(seed: bytes) -> None:
    plan = family_plan()
    drawn = members(plan, seed)
    assert drawn == members(plan, seed)
    assert [one.template.name for one in drawn] == ["windows-1", "windows-2", "windows-3"]
    for one in drawn:
        contract = one.template.contract
        assert set(contract) == set(plan.families[0].contract)
        assert 4 <= contract["deadline"] <= 9
        assert 1 <= contract["verification_delay"] <= 3
        assert contract["human_delay"] in (4, 6)
        assert type(contract["buffer_available"]) is bool
        assert (contract["buffer_extension"], contract["max_calls"]) == (2, 8)
        assert len(one.salt) == 32
    assert len(set(structures(drawn))) == 3
    assert len({one.salt for one in drawn}) == 3


@given(st.binary(min_size=32, max_size=32), st.integers(0, 2))
def test_what_is_taken_is_not_drawn(seed: bytes, number: int) -> None:
    plan = family_plan()
    taken = frozenset({structures(members(plan, seed))[number]})
    assert taken.isdisjoint(structures(members(plan, seed, taken)))


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_another_seed_gives_other_commitments(seed: bytes, other: bytes) -> None:
    plan = family_plan()
    first, second = ([one.commitment for one in members(plan, each)] for each in (seed, other))
    assert (first == second) == (seed == other)


def test_a_member_is_drawn_over_its_whole_range() -> None:
    plan = family_plan()
    drawn = [one.template.contract["deadline"] for number in range(200) for one in members(plan, bytes([number] * 32))]
    assert set(drawn) == set(range(4, 10))


def test_too_few_members_are_refused_and_none_repeated() -> None:
    narrow = FAMILY.replace("{ min = 4, max = 9 }", "4").replace("{ min = 1, max = 3 }", "1")
    plan = family_plan(narrow.replace("held_out = 3", "held_out = 4"))
    drawn = members(plan, SEED)
    assert len(set(structures(drawn))) == 4
    with pytest.raises(HeldOutRefused, match="family windows: no 4 members are found"):
        members(plan, SEED, frozenset(structures(drawn)[:1]))


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("max_calls = 8", "", r"families\[0\]\.contract: must say what every field may be: max_calls missing"),
        ("held_out = 3", "held_out = 73", r"held_out: 73 different members are asked for, 72 are possible"),
        ("min = 4, max = 9", "min = 9, max = 4", "min must not be above max"),
        ("min = 4, max = 9", "min = 0, max = 4", r"families\[0\]\.contract\.deadline"),
        ("[true, false]", "[1]", r"families\[0\]\.contract\.buffer_available: must be true or false"),
        ("need = false, ", "", r"families\[0\]\.world\.need: missing"),
        ('name = "windows"', 'name = "window"', "the name 'window' stands twice"),
        ("held_out = 3", 'held_out = 3\nsplit = "held-out"', "unknown key"),
    ],
)
def test_a_family_that_cannot_be_drawn_from_is_refused(old: str, new: str, line: str) -> None:
    assert old in FAMILY
    with pytest.raises(BadPlan, match=line):
        family_plan(FAMILY.replace(old, new))


def test_a_plan_cannot_write_a_held_out_template() -> None:
    with pytest.raises(BadPlan, match="split: unknown key"):
        make_plan(base=BASE.replace('environment = "event"', 'environment = "event"\nsplit = "held-out"'))


def test_a_route_may_name_a_family() -> None:
    plan = family_plan(FAMILY, route_text(), route_text("q", more='templates = ["windows"]'))
    (whole,) = [
        plan.model_copy(update={"templates": [*plan.templates, *(one.template for one in members(plan, SEED))]})
    ]
    of_q = {one.template for one in planned_identities(whole) if one.route == "q"}
    assert of_q == {"windows-1", "windows-2", "windows-3"}
    assert {one.route for one in planned_identities(plan)} == {"r"}


async def test_a_manifest_holds_commitments_alone(services: Services, tmp_path: Path) -> None:
    manifest = await frozen(services, tmp_path)
    (family,) = manifest.document["families"]
    drawn = members(family_plan(), SEED)
    assert sorted(family) == ["commitments", "declaration", "name"]
    assert family["commitments"] == [
        sha256(one.salt + canonical_json(frozen_template(one.template))).hex() for one in drawn
    ]
    content = manifest.original.decode()
    assert "windows-1" not in content
    assert SEED.hex() not in content
    assert not any(one.salt.hex() in content for one in drawn)
    assert audit_held_out(manifest.document) == []


async def test_a_frozen_study_with_families_is_prepared_from_its_plan_without_the_secret(
    services: Services, tmp_path: Path
) -> None:
    with pytest.raises(HeldOutRefused, match="freeze it with 'countersign study freeze PLAN --secret FILE'"):
        await prepare(services, family_plan(), tmp_path, NOW)
    manifest = await frozen(services, tmp_path)
    assert (await prepare(services, family_plan(), tmp_path, NOW)).manifest == manifest
    assert (await build(services, family_plan(), tmp_path, SEED)).manifest == manifest
    with pytest.raises(HeldOutRefused, match="does not open its commitments"):
        await build(services, family_plan(), tmp_path, bytes(32))


async def test_revealing_adds_the_members_as_an_amendment(services: Services, tmp_path: Path) -> None:
    before = await frozen(services, tmp_path)
    built = await reveal(services, tmp_path, SEED)
    assert load(tmp_path) == built.manifest
    assert built.manifest.study_id != before.study_id
    document = built.manifest.document
    assert built.manifest.original == before.original
    held_out = [one for one in document["templates"] if one.get("split") == "held-out"]
    assert [one["name"] for one in held_out] == ["windows-1", "windows-2", "windows-3"]
    assert document["templates"][:1] == before.document["templates"]
    assert len(document["episodes"]) == 4 * 4
    assert {one["template"] for one in document["cases"]} == {"window", "windows-1", "windows-2", "windows-3"}
    again = await rebuild(services, load(tmp_path))
    assert again.identities == built.identities
    assert (await prepare(services, family_plan(), tmp_path, NOW)).manifest == built.manifest
    with pytest.raises(HeldOutRefused, match="revealed already"):
        await reveal(services, tmp_path, SEED)


async def test_what_does_not_open_the_commitments_is_refused(services: Services, tmp_path: Path) -> None:
    await frozen(services, tmp_path)
    with pytest.raises(HeldOutRefused, match="family windows: the secret does not open its commitments"):
        await reveal(services, tmp_path, bytes(32))
    assert not (tmp_path / "amendments").exists()


async def test_a_study_without_families_has_nothing_to_reveal(services: Services, tmp_path: Path) -> None:
    await prepare(services, make_plan(), tmp_path, NOW)
    with pytest.raises(HeldOutRefused, match="nothing to reveal"):
        await reveal(services, tmp_path, SEED)


async def test_a_member_whose_packet_fails_is_found_before_the_freeze(
    fakes: Fakes, services: Services, tmp_path: Path
) -> None:
    await build(services, family_plan(), tmp_path, SEED)
    assert len(fakes.verifier.audits) == 2 + 2 * 3


async def test_amendments_keep_what_is_committed_to_and_what_is_revealed(services: Services, tmp_path: Path) -> None:
    await frozen(services, tmp_path)
    more = family_plan(FAMILY, route_text(more="repetitions = 2"))
    amended = await amend(services, tmp_path, more, "Twice.")
    assert "families" not in json.loads(amended.manifest.amendments[-1])["replace"]
    revealed = await reveal(services, tmp_path, SEED)
    assert len(revealed.identities) == 2 * 4 * 4
    thrice = await amend(services, tmp_path, family_plan(FAMILY, route_text(more="repetitions = 3")), "Thrice.")
    assert len(thrice.identities) == 3 * 4 * 4
    assert audit_held_out(thrice.manifest.document) == []
    other = family_plan(FAMILY.replace("held_out = 3", "held_out = 2"))
    for plan in (other, make_plan()):
        with pytest.raises(AmendmentRefused, match="cannot change families"):
            await amend(services, tmp_path, plan, "Fewer.")


async def test_a_development_template_that_is_a_member_by_another_name_is_refused(
    services: Services, tmp_path: Path
) -> None:
    await frozen(services, tmp_path)
    twin = members(family_plan(), SEED)[0].template
    contract = ", ".join(f"{name} = {json.dumps(value)}" for name, value in twin.contract.items())
    worlds = "[{ name = 'other', need = true, effective = true }, { name = 'another', need = false, effective = true }]"
    template = f"[[templates]]\nname = 'twin'\nenvironment = 'event'\nworlds = {worlds}\ncontract = {{ {contract} }}\n"
    base = BASE.replace("[[arms]]", f"{template}[[arms]]", 1) + FAMILY
    # The stand-in shows no contract in full: the twin has no case, so that it is known by what its plan declares.
    plan = make_plan(route_text(more='templates = ["window", "windows"]'), base=base)
    await amend(services, tmp_path, plan, "A twin.")
    with pytest.raises(HeldOutRefused, match="windows-1: is another template but for its name"):
        await reveal(services, tmp_path, SEED)


class TestAudit:
    """Each rule of the audit, on a revealed manifest with one thing wrong."""

    @pytest.fixture
    async def document(self, services: Services, tmp_path: Path) -> dict[str, Any]:
        await frozen(services, tmp_path)
        revealed: dict[str, Any] = copy.deepcopy(dict((await reveal(services, tmp_path, SEED)).manifest.document))
        assert audit_held_out(revealed) == []
        return revealed

    @staticmethod
    def recommit(document: dict[str, Any]) -> None:
        """Let every commitment be of what is revealed: a dishonest manifest, consistent in itself."""
        family = document["families"][0]
        held_out = [one for one in document["templates"] if one.get("split") == "held-out"]
        family["commitments"] = [
            sha256(bytes.fromhex(salt) + canonical_json(one)).hex()
            for salt, one in zip(family["openings"], held_out, strict=True)
        ]

    def test_another_member(self, document: dict[str, Any]) -> None:
        document["templates"][1]["prior"] = [0.25, 0.75]
        assert audit_held_out(document) == ["windows-1: is not the member that was committed to"]

    def test_outside_its_ranges(self, document: dict[str, Any]) -> None:
        document["templates"][2]["contract"]["deadline"] = 10
        self.recommit(document)
        assert audit_held_out(document) == ["windows-2: contract.deadline = 10 is outside the family"]

    def test_a_number_is_no_boolean(self, document: dict[str, Any]) -> None:
        document["templates"][2]["contract"]["buffer_available"] = 1
        self.recommit(document)
        assert audit_held_out(document) == ["windows-2: contract.buffer_available = 1 is outside the family"]

    def test_other_worlds_and_fields(self, document: dict[str, Any]) -> None:
        document["templates"][1]["worlds"] = document["templates"][1]["worlds"][:1]
        del document["templates"][2]["contract"]["max_calls"]
        self.recommit(document)
        assert audit_held_out(document) == [
            "windows-1: worlds is not the family's",
            "windows-2: the contract has other fields than the family's",
        ]

    def test_two_members_that_are_one(self, document: dict[str, Any]) -> None:
        document["templates"][2] = {**document["templates"][1], "name": "windows-2"}
        self.recommit(document)
        assert audit_held_out(document) == ["windows-2: is another template but for its name"]

    def test_a_member_like_a_development_template_with_its_defaults(self, document: dict[str, Any]) -> None:
        for case in document["cases"]:
            if case["template"] == "window":
                case["contract"] = dict(document["templates"][3]["contract"])
        document["templates"][0]["worlds"].reverse()
        assert audit_held_out(document) == ["windows-3: is another template but for its name"]

    def test_too_few_or_too_many(self, document: dict[str, Any]) -> None:
        removed = document["templates"].pop()
        assert audit_held_out(document) == ["windows: 3 members are committed to, 2 are revealed"]
        document["templates"] += [removed, {**removed, "family": "doors"}]
        assert "windows-3: of no family" in audit_held_out(document)
        document["families"][0]["commitments"].pop()
        assert "windows: 3 members are declared, 2 are committed to" in audit_held_out(document)


def test_a_seed_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "seed"
    assert read_or_make_seed(path, lambda size: bytes(range(size))) == SEED
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_or_make_seed(path, bytes) == read_seed(path) == SEED
    path.chmod(0o644)
    with pytest.raises(BadInput, match="can be read or changed by others"):
        read_seed(path)


@pytest.mark.parametrize("content", ["", "ab" * 31, "not hexadecimal"])
def test_a_file_that_is_no_seed_is_refused_without_its_content(tmp_path: Path, content: str) -> None:
    path = tmp_path / "seed"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(BadInput) as refused:
        read_seed(path)
    assert "must hold 64 hexadecimal digits" in refused.value.message
    assert not content or content not in refused.value.message


def test_a_family_reads_back_as_it_was_declared() -> None:
    (family,) = family_plan().families
    assert FamilyPlan.model_validate(family.model_dump()) == family
    template = family.member(1, {"deadline": 4})
    assert HeldOutTemplate.model_validate(frozen_template(template)).contract == {"deadline": 4}
