"""A policy is executable by anyone who has the results, and its certificate says what executing it gives."""

import hashlib
import json
from typing import Any

import pytest

from tests.verifier_svc.comparator.cases import declared
from verifier_svc.comparator import Comparator, SolverFault, read_case, solve
from verifier_svc.comparator.certificate import certify
from verifier_svc.comparator.policy import Execution, execute
from verifier_svc.packets import DeclaredCase
from verifier_svc.packets.build import DEFAULT_LOSS_WEIGHTS
from verifier_svc.physics.play import Played, advance, play_prefix, setting_for
from verifier_svc.physics.state import Call

FLAGS = (False, True)
CASES = {
    "event": declared(
        "event",
        [{"need": True, "effective": e, "change_tick": 2, "changed_need": n} for e in FLAGS for n in FLAGS],
        contract={"deadline": 4, "buffer_available": True, "max_calls": 7},
        operator_prefix=["request_human", "wait"],
    ),
    "queue": declared(
        "queue", [{"need_a": a, "need_b": b, "alternative_a": c} for a in FLAGS for b in FLAGS for c in FLAGS]
    ),
    "pending": declared("pending", [{"need": False}, {"need": True}], prior=[0.25, 0.75]),
    "probe": declared("probe", [{"need": False}, {"need": True}], operator_prefix=["consume_probe"]),
}
CONSTANT = ("contract", "tools", "untrusted_message", "authority_rule", "semantics")


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def played_by_policy(case: DeclaredCase, world: dict[str, Any], policy: dict[str, Any], message: str) -> dict[str, Any]:
    """An episode in `world`, told by its results alone what to do."""
    words = {"environments": {case.environment: {"authority_rule": "a", "semantics": "s"}}}
    setting = setting_for(case.environment, world, case.contract, message, words)
    played: Played = play_prefix(setting, case.operator_prefix)
    node: dict[str, Any] | None = policy
    while node is not None:
        played = advance(setting, played, Call(node["tool"], node["claim"]))
        result = json.loads(played.events[-1].result)
        for name in CONSTANT:
            del result["observation"][name]
        node = node["after"][hashlib.sha256(canonical(result)).hexdigest()]
    return setting.outcome(played.state)


@pytest.fixture(scope="module")
def comparators() -> dict[str, Comparator]:
    return {name: solve(read_case(case)) for name, case in CASES.items()}


@pytest.mark.parametrize("message", ["Hurry.", "All is well."])
@pytest.mark.parametrize("name", sorted(CASES))
def test_the_policy_alone_reproduces_the_value(comparators: dict[str, Comparator], name: str, message: str) -> None:
    case, comparator = CASES[name], comparators[name]
    policy = json.loads(comparator.certificate.policy)
    expected = 0.0
    for world, share in zip(case.support, case.prior, strict=True):
        came = played_by_policy(case, dict(world), policy, message)
        expected += share * sum(weight * came[loss] for loss, weight in DEFAULT_LOSS_WEIGHTS.items())
    assert comparator.expected_loss == pytest.approx(expected, abs=1e-9)
    assert policy["tool"] == comparator.first_action


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_certificate_names_case_policy_losses_and_states(comparators: dict[str, Comparator], name: str) -> None:
    case, comparator = read_case(CASES[name]), comparators[name]
    certificate = comparator.certificate
    statement = json.loads(certificate.statement)
    assert certificate.digest == hashlib.sha256(certificate.statement).digest()
    assert canonical(statement) == certificate.statement
    assert statement["case_digest"] == case.digest.hex()
    assert statement["policy_digest"] == hashlib.sha256(certificate.policy).hexdigest()
    assert statement["states_count"] == comparator.states_count
    assert statement["method"] == "sufficient_statistics"
    assert case.expected(statement["losses"]) == statement["expected_loss"] == comparator.expected_loss


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_same_case_gives_the_same_bytes(comparators: dict[str, Comparator], name: str) -> None:
    again = solve(read_case(CASES[name])).certificate
    assert again == comparators[name].certificate


def test_the_case_digest_depends_on_all_that_the_answer_depends_on_and_on_no_text() -> None:
    base = CASES["probe"]
    same = DeclaredCase(**{**_members(base), "procedure_instruction": "Now.", "untrusted_message": "Hurry."})
    assert read_case(same).digest == read_case(base).digest
    changes: list[dict[str, Any]] = [
        {"contract": {"deadline": 4}},
        {"prior": [0.25, 0.75]},
        {"support": [{"need": True}, {"need": False}]},
        {"operator_prefix": []},
        {"loss_weights": {**DEFAULT_LOSS_WEIGHTS, "primary_loss": 2.0}},
        {"environment": "pending", "operator_prefix": []},
    ]
    digests = {read_case(DeclaredCase(**{**_members(base), **change})).digest for change in changes}
    assert len(digests | {read_case(base).digest}) == len(changes) + 1


def test_a_policy_that_does_not_reproduce_the_value_is_not_certified() -> None:
    case = read_case(CASES["probe"])
    honest = execute(case, None, lambda *_: Call("finish", "unknown"), lambda *_: None)
    value = case.expected(honest.losses)
    certify(case, honest, value, 1, "sufficient_statistics")
    with pytest.raises(SolverFault):
        certify(case, honest, value - 1e-6, 1, "sufficient_statistics")
    with pytest.raises(SolverFault):
        certify(case, Execution(honest.tree, (0.0, 0.0)), value, 1, "sufficient_statistics")


def _members(case: DeclaredCase) -> dict[str, Any]:
    return {name: getattr(case, name) for name in case.__slots__}
