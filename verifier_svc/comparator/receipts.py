"""What of a call's result can tell worlds apart."""

from collections.abc import Mapping
from typing import Any

from countersign.kit.canonical import canonical_json, sha256
from verifier_svc.physics.state import Rules, State


def public_result(rules: Rules, state: State, own: Mapping[str, Any]) -> dict[str, Any]:
    """A result without what is the same throughout a case: the contract, the tools, the message and the wording."""
    facts = {name: value for name, value in rules.facts(state).items() if name != "contract"}
    return {**own, "observation": {**facts, "done": state.done, "calls_left": rules.max_calls - state.calls}}


def receipt(rules: Rules, state: State, own: Mapping[str, Any]) -> str:
    """The key of a policy's branch: SHA-256, in lower-case hexadecimal, of the public result's canonical JSON."""
    return sha256(canonical_json(public_result(rules, state, own))).hex()
