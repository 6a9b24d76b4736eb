"""Held-out templates: drawn with a secret seed, committed to by salted digests (design/study.md, Held-out templates).

Every choice is an HMAC of the seed over what is chosen, so that a draw can be made again and nothing of it can be
guessed. A commitment is SHA-256 over a member's salt followed by the canonical JSON of the template.
"""

import hmac
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from countersign.kit.canonical import canonical_json, sha256
from countersign.kit.errors import CountersignError
from countersign.kit.secret_files import read_secret_file
from countersign.study.amounts import plain_json
from countersign.study.errors import BadInput, HeldOutRefused
from countersign.study.files import create_atomically
from countersign.study.manifest import frozen_template
from countersign.study.plan_model import FamilyPlan, HeldOutTemplate, PlanFile

SEED_BYTES = 32
MAX_ATTEMPTS = 10_000
"""How often a member is drawn again because there is an equal one already."""


@dataclass(frozen=True, slots=True)
class Member:
    """One drawn member of a family and its salt."""

    template: HeldOutTemplate
    salt: bytes

    @property
    def commitment(self) -> str:
        """What the manifest holds of it before it is revealed, in hexadecimal."""
        return commitment(self.salt, frozen_template(self.template))


def commitment(salt: bytes, template: Mapping[str, Any]) -> str:
    """SHA-256 over `salt` and the canonical JSON of a frozen template, in hexadecimal."""
    return sha256(salt + canonical_json(template)).hex()


def structure(template: Mapping[str, Any], contract: Mapping[str, Any]) -> bytes:
    """All that makes two templates the same situation: environment, whole contract, worlds, prefix; never a name."""
    worlds = sorted(
        canonical_json({name: value for name, value in world.items() if name != "name" and value is not None}).decode()
        for world in template["worlds"]
    )
    return canonical_json([template["environment"], dict(contract), worlds, list(template["operator_prefix"])])


def development_structures(document: Mapping[str, Any]) -> frozenset[bytes]:
    """The structures of a manifest's development templates, by their contracts in full where a case has them."""
    whole = {case["template"]: case["contract"] for case in document["cases"]}
    return frozenset(
        structure(template, whole.get(template["name"], template["contract"]))
        for template in document["templates"]
        if template.get("split") != "held-out"
    )


def draw(plan: PlanFile, seed: bytes, taken: Set[bytes]) -> dict[str, list[Member]]:
    """Every family's members, by its name. The same plan, seed and `taken` structures give the same members.

    No two members are of one structure, and none is of a structure in `taken`. Raises HeldOutRefused where there are
    too few.
    """
    seen = set(taken)
    return {family.name: _members(plan.name, family, seed, seen) for family in plan.families}


def _members(study: str, family: FamilyPlan, seed: bytes, seen: set[bytes]) -> list[Member]:
    members = []
    for number in range(1, family.held_out + 1):
        template = _member(study, family, number, seed, seen)
        members.append(Member(template, _digest(seed, "salt", study, family.name, number)))
    return members


def _member(study: str, family: FamilyPlan, number: int, seed: bytes, seen: set[bytes]) -> HeldOutTemplate:
    for attempt in range(MAX_ATTEMPTS):
        contract: dict[str, Any] = {}
        for field in sorted(family.contract):
            choices = family.choices(field)
            drawn = int.from_bytes(_digest(seed, "draw", study, family.name, number, attempt, field))
            contract[field] = choices[drawn % len(choices)]
        template = family.member(number, contract)
        found = structure(frozen_template(template), contract)
        if found not in seen:
            seen.add(found)
            return template
    raise HeldOutRefused(
        f"family {family.name}: no {number} members are found that differ from one another and from every template:"
        " widen its ranges, or lower held_out"
    )


def _digest(seed: bytes, *what: str | int) -> bytes:
    return hmac.digest(seed, canonical_json(list(what)), "sha256")


def committed(plan: PlanFile, members: Mapping[str, Sequence[Member]]) -> list[dict[str, Any]]:
    """The manifest's `families`: what each declares, and a commitment for each member in order."""
    return [
        {
            "name": family.name,
            "declaration": plain_json(family.model_dump()),
            "commitments": [member.commitment for member in members[family.name]],
        }
        for family in plan.families
    ]


def declarations(families: Sequence[Mapping[str, Any]]) -> list[Any]:
    """What a manifest's `families` declare."""
    return [family["declaration"] for family in families]


def declared(plan: PlanFile) -> list[Any]:
    """What a plan's families declare, as a manifest holds it."""
    return [plain_json(family.model_dump()) for family in plan.families]


def opened(families: Sequence[Mapping[str, Any]], members: Mapping[str, Sequence[Member]]) -> list[dict[str, Any]]:
    """The manifest's `families` with the salts that open their commitments.

    Raises HeldOutRefused where a commitment is of another member: the seed, or what was drawn from, is another one.
    """
    answer = []
    for family in families:
        drawn = members[family["name"]]
        if [member.commitment for member in drawn] != family["commitments"]:
            raise HeldOutRefused(
                f"family {family['name']}: the secret does not open its commitments: name the file of its freeze"
            )
        answer.append({**family, "openings": [member.salt.hex() for member in drawn]})
    return answer


def read_seed(path: Path) -> bytes:
    """The secret seed in the file at `path`, which nobody else may read. Raises BadInput, never with its content."""
    try:
        content = read_secret_file(path, "the secret file")
    except CountersignError as error:
        raise BadInput(error.message) from None
    try:
        seed = bytes.fromhex(content.decode("ascii"))
    except ValueError:
        seed = b""
    if len(seed) != SEED_BYTES:
        raise BadInput(f"the secret file {path} is not one: it must hold {2 * SEED_BYTES} hexadecimal digits")
    return seed


def read_or_make_seed(path: Path, random_bytes: Callable[[int], bytes]) -> bytes:
    """As `read_seed`; where there is no file, one is made for the owner's eyes only. Raises BadInput."""
    if not path.exists():
        create_atomically(path, random_bytes(SEED_BYTES).hex().encode("ascii") + b"\n")
    return read_seed(path)
