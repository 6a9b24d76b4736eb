"""Revealed templates are those that were committed to, and new (design/study.md, Held-out templates)."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from countersign.kit.canonical import canonical_json, sha256
from tests.verifier_svc.analysis.studies import WORLDS, amendment, body, digest_of, digested, identity, planned
from verifier_svc.analysis import FrozenStudy, InvalidManifest, read_study

DECLARATION = {
    "name": "windows",
    "environment": "event",
    "contract": {"deadline": {"min": 4, "max": 6}, "buffer_available": [True, False], "max_calls": 4},
    "operator_prefix": [],
    "worlds": WORLDS,
    "prior": None,
    "loss_weights": {},
    "held_out": 2,
}


def member(number: int, **contract: Any) -> dict[str, Any]:
    return {
        "name": f"windows-{number}",
        "environment": "event",
        "contract": {"deadline": 3 + number, "buffer_available": True, "max_calls": 4, **contract},
        "operator_prefix": [],
        "worlds": WORLDS,
        "prior": [0.5, 0.5],
        "loss_weights": {},
        "split": "held-out",
        "family": "windows",
    }


def commitment(salt: str, template: dict[str, Any]) -> str:
    return sha256(bytes.fromhex(salt) + canonical_json(template)).hex()


class Revealing:
    """A frozen manifest and what its amendment reveals; `commit` makes it consistent in itself, honest or not."""

    def __init__(self) -> None:
        self.members = [member(1), member(2)]
        self.salts = ["11" * 32, "22" * 32]
        self.frozen = body()
        self.family: dict[str, Any] = {"name": "windows", "declaration": copy.deepcopy(DECLARATION), "commitments": []}
        self.opened: dict[str, Any] = {}
        self.commit()

    def commit(self) -> None:
        pairs = zip(self.salts, self.members, strict=True)
        self.family["commitments"] = [commitment(salt, one) for salt, one in pairs]
        self.frozen["families"] = [self.family]

    def read(self) -> FrozenStudy:
        opened = {**copy.deepcopy(self.family), "openings": self.salts, **self.opened}
        episodes = [planned({**identity(), "template": one["name"]}) for one in self.members]
        replace = {
            "families": [opened],
            "templates": [*self.frozen["templates"], *self.members],
            "episodes": self.frozen["episodes"] + episodes,
        }
        return read_study(digested(self.frozen), [amendment(digest_of(self.frozen), **replace)])


def test_members_that_were_committed_to_are_a_split_of_their_own() -> None:
    study = Revealing().read()
    assert [study.split(one) for one in study.episodes] == ["development"] * 4 + ["held-out"] * 2


def test_a_family_of_which_nothing_is_revealed_has_its_commitments_counted() -> None:
    revealing = Revealing()
    assert read_study(digested(revealing.frozen), []).digest == digest_of(revealing.frozen)
    revealing.family["commitments"].pop()
    with pytest.raises(InvalidManifest, match="another number of commitments"):
        read_study(digested(revealing.frozen), [])


def edit(place: Callable[[Revealing], Any], name: Any, value: Any) -> Callable[[Revealing], None]:
    def change(revealing: Revealing) -> None:
        place(revealing)[name] = value

    return change


def contract(revealing: Revealing) -> dict[str, Any]:
    found: dict[str, Any] = revealing.members[1]["contract"]
    return found


CONSISTENT = {
    "a value above its range": (edit(contract, "deadline", 7), "contract.deadline is outside"),
    "a value below its range": (edit(contract, "deadline", 3), "contract.deadline is outside"),
    "a boolean for a number": (edit(contract, "max_calls", True), "contract.max_calls is outside"),
    "a number for a boolean": (edit(contract, "buffer_available", 1), "contract.buffer_available is outside"),
    "a field too many": (edit(contract, "human_delay", 2), "other fields"),
    "a field too few": (lambda one: contract(one).pop("max_calls"), "other fields"),
    "other worlds": (edit(lambda one: one.members[0], "worlds", WORLDS[:1]), "its worlds is not the family's"),
    "another prior": (edit(lambda one: one.members[0], "prior", [0.4, 0.6]), "its prior is not the family's"),
    "another prefix": (edit(lambda one: one.members[0], "operator_prefix", ["wait"]), "operator_prefix is not"),
    "other weights": (edit(lambda one: one.members[0], "loss_weights", {"primary": 2.0}), "loss_weights is not"),
    "another environment": (edit(lambda one: one.members[0], "environment", "queue"), "environment is not"),
    "of no family": (edit(lambda one: one.members[0], "family", "doors"), "of no family"),
    "two that are one": (
        lambda one: one.members.__setitem__(1, {**one.members[0], "name": "windows-2"}),
        "the situation of another template",
    ),
}


@pytest.mark.parametrize(("change", "message"), CONSISTENT.values(), ids=CONSISTENT)
def test_a_member_that_was_committed_to_dishonestly_is_refused(
    change: Callable[[Revealing], None], message: str
) -> None:
    revealing = Revealing()
    change(revealing)
    revealing.commit()
    with pytest.raises(InvalidManifest, match=message):
        revealing.read()


AFTERWARDS = {
    "another member": (edit(contract, "deadline", 6), "not the member that was committed to"),
    "another salt": (edit(lambda one: one.salts, 0, "33" * 32), "not the member that was committed to"),
    "one fewer": (lambda one: (one.members.pop(), one.salts.pop()), "not every member"),
    "one more": (lambda one: (one.members.append(member(3)), one.salts.append("44" * 32)), "not every member"),
    "none opened": (edit(lambda one: one.opened, "openings", None), "not every member"),
    "other commitments": (edit(lambda one: one.opened, "commitments", ["00" * 32] * 2), "an amendment changes"),
    "another declaration": (edit(lambda one: one.opened, "declaration", {}), "an amendment changes"),
}


@pytest.mark.parametrize(("change", "message"), AFTERWARDS.values(), ids=AFTERWARDS)
def test_what_is_revealed_otherwise_than_committed_is_refused(
    change: Callable[[Revealing], None], message: str
) -> None:
    revealing = Revealing()
    change(revealing)
    with pytest.raises(InvalidManifest, match=message):
        revealing.read()


def test_a_development_template_under_another_name_is_no_held_out_one() -> None:
    """Its defaults are written out, its worlds are in another order: it is the same situation all the same."""
    revealing = Revealing()
    twin = {"deadline": 4, "buffer_available": True, "max_calls": 4, "verification_delay": 2}
    template = {**revealing.frozen["templates"][0], "contract": twin, "worlds": WORLDS[::-1]}
    revealing.frozen["templates"] = [template]
    with pytest.raises(InvalidManifest, match="the situation of another template") as caught:
        revealing.read()
    assert caught.value.metadata["field"] == "templates/windows-1"


def test_a_held_out_template_is_not_frozen_in_the_open() -> None:
    revealing = Revealing()
    revealing.frozen["templates"].append(member(1))
    with pytest.raises(InvalidManifest, match="frozen in the open"):
        read_study(digested(revealing.frozen), [])
