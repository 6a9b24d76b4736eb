"""The audit of revealed members, by the manifest alone, without the secret (design/study.md, Held-out templates)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from countersign.study.held_out import commitment, development_structures, structure
from countersign.study.plan_model import FamilyPlan

SHARED = ("environment", "operator_prefix", "worlds", "loss_weights")
"""What every member has as its family declares it."""


def audit_held_out(document: Mapping[str, Any]) -> list[str]:
    """What is wrong with the held-out members of a manifest, amendments applied; nothing where all is as it must be.

    Every member opens its commitment and lies in its family's ranges, there are as many as were committed to, and each
    differs from every development template and every other member in more than its name. A family of which nothing is
    revealed has only its commitments counted.
    """
    families = {family["name"]: family for family in document.get("families", [])}
    members = [template for template in document["templates"] if template.get("split") == "held-out"]
    found = [f"{one['name']}: of no family" for one in members if one.get("family") not in families]
    for name, family in families.items():
        found += _of_family(family, [one for one in members if one.get("family") == name])
    return [*found, *_same_structures(document, members)]


def _of_family(family: Mapping[str, Any], members: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    name, declared = family["name"], FamilyPlan.model_validate(family["declaration"])
    commitments, openings = family["commitments"], family.get("openings")
    if len(commitments) != declared.held_out:
        yield f"{name}: {declared.held_out} members are declared, {len(commitments)} are committed to"
    if openings is None and not members:
        return
    if not len(members) == len(commitments) == len(openings or ()):
        yield f"{name}: {len(commitments)} members are committed to, {len(members)} are revealed"
        return
    for member, promised, salt in zip(members, commitments, openings or (), strict=True):
        if commitment(bytes.fromhex(salt), member) != promised:
            yield f"{member['name']}: is not the member that was committed to"
        yield from _outside(family["declaration"], declared, member)


def _outside(declaration: Mapping[str, Any], declared: FamilyPlan, member: Mapping[str, Any]) -> Iterator[str]:
    for name in SHARED:
        if member[name] != declaration[name]:
            yield f"{member['name']}: {name} is not the family's"
    if set(member["contract"]) != set(declared.contract):
        yield f"{member['name']}: the contract has other fields than the family's"
        return
    for name, value in member["contract"].items():
        if not any(type(value) is type(one) and value == one for one in declared.choices(name)):
            yield f"{member['name']}: contract.{name} = {value} is outside the family"


def _same_structures(document: Mapping[str, Any], members: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    taken = set(development_structures(document))
    for member in members:
        found = structure(member, member["contract"])
        if found in taken:
            yield f"{member['name']}: is another template but for its name"
        taken.add(found)
