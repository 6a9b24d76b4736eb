"""The audit of held-out templates by the manifest alone, without the secret (design/study.md, Held-out templates).

What was committed to stands in the manifest as it was frozen; no amendment may change it, only open it. A revealed
member opens its commitment, lies in its family, and is another situation than every development template and member.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from countersign.kit.canonical import canonical_json, sha256
from verifier_svc.analysis.errors import InvalidManifest
from verifier_svc.physics.environments import complete_contract, complete_world

HELD_OUT = "held-out"
COMMITTED = ("name", "declaration", "commitments")
"""What of a family is frozen; `openings` are added when its members are revealed."""
DECLARED_ALIKE = ("environment", "operator_prefix", "worlds", "loss_weights")
"""What every member has as its family declares it."""


def audit_held_out(frozen: Mapping[str, Any], document: Mapping[str, Any]) -> None:
    """Check `document`, the manifest with its amendments applied, against the manifest as `frozen`.

    Raises InvalidManifest, which names the family or template, where a held-out template is not what it must be;
    KeyError, TypeError or ValueError where the form is not as documented.
    """
    families = document.get("families", [])
    if [_committed(one) for one in families] != [_committed(one) for one in frozen.get("families", [])]:
        raise InvalidManifest("an amendment changes what families are committed to", field="families")
    for one in frozen["templates"]:
        if _is_held_out(one):
            raise InvalidManifest("a held-out template was frozen in the open", field=f"templates/{one['name']}")
    members = [one for one in document["templates"] if _is_held_out(one)]
    names = {family["name"] for family in families}
    for member in members:
        if member.get("family") not in names:
            raise InvalidManifest("a held-out template of no family", field=f"templates/{member['name']}")
    for family in families:
        _audit_family(family, [one for one in members if one["family"] == family["name"]])
    _require_different(document["templates"])


def _committed(family: Mapping[str, Any]) -> bytes:
    return canonical_json({name: family[name] for name in COMMITTED})


def _is_held_out(template: Mapping[str, Any]) -> bool:
    return bool(template.get("split") == HELD_OUT)


def _audit_family(family: Mapping[str, Any], members: Sequence[Mapping[str, Any]]) -> None:
    declared, commitments = family["declaration"], family["commitments"]
    field = f"families/{family['name']}"
    if len(commitments) != declared["held_out"]:
        raise InvalidManifest("it has another number of commitments than it declares", field=field)
    openings = family.get("openings")
    if openings is None and not members:
        return
    if openings is None or not len(openings) == len(members) == len(commitments):
        raise InvalidManifest("not every member that was committed to is revealed, or more are", field=field)
    for member, salt, commitment in zip(members, openings, commitments, strict=True):
        if sha256(bytes.fromhex(salt) + canonical_json(member)).hex() != commitment:
            raise InvalidManifest("it is not the member that was committed to", field=f"templates/{member['name']}")
        trouble = next(_outside(declared, member), None)
        if trouble is not None:
            raise InvalidManifest(trouble, field=f"templates/{member['name']}")


def _outside(declared: Mapping[str, Any], member: Mapping[str, Any]) -> Iterator[str]:
    for name in DECLARED_ALIKE:
        if canonical_json(member[name]) != canonical_json(declared[name]):
            yield f"its {name} is not the family's"
    count = len(declared["worlds"])
    if member["prior"] != (declared["prior"] or [1 / count] * count):
        yield "its prior is not the family's"
    if set(member["contract"]) != set(declared["contract"]):
        yield "its contract has other fields than the family's"
        return
    for name, value in member["contract"].items():
        if not _may_be(declared["contract"][name], value):
            yield f"contract.{name} is outside the family"


def _may_be(choice: Any, value: Any) -> bool:
    """Whether `value` is one that a declaration allows: of a range, of a list, or the one; a boolean is no number."""
    if isinstance(choice, Mapping):
        return type(value) is int and choice["min"] <= value <= choice["max"]
    several = choice if isinstance(choice, list) else [choice]
    return any(type(value) is type(one) and value == one for one in several)


def _require_different(templates: Sequence[Mapping[str, Any]]) -> None:
    """Development templates may repeat one another: only a held-out one must be new."""
    taken = {_situation(one) for one in templates if not _is_held_out(one)}
    for member in filter(_is_held_out, templates):
        found = _situation(member)
        if found in taken:
            raise InvalidManifest(
                "it is the situation of another template under another name", field=f"templates/{member['name']}"
            )
        taken.add(found)


def _situation(template: Mapping[str, Any]) -> bytes:
    """Environment, contract and worlds in full, prefix; without names and order, which change nothing."""
    environment = template["environment"]
    worlds = [
        complete_world(environment, {name: one for name, one in world.items() if name != "name" and one is not None})
        for world in template["worlds"]
    ]
    contract = complete_contract(environment, template["contract"])
    parts = [
        canonical_json(contract),
        *sorted(map(canonical_json, worlds)),
        canonical_json(template["operator_prefix"]),
    ]
    return b"\0".join([environment.encode(), *parts])
