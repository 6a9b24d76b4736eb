"""The wording resource has exactly the documented shape, and what it says is what the simulators do."""

from typing import Any

import pytest

from adapter_svc.environments import kind_of
from adapter_svc.environments.wording import DISCLOSURES
from tests.adapter_svc.environments.helpers import WORDING

ENVIRONMENTS = sorted(WORDING["environments"])


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for member in value.values() for text in _texts(member)]
    return [value] if isinstance(value, str) else []


def test_the_keys_are_the_documented_ones() -> None:
    assert set(WORDING) == {
        "version",
        "system_message",
        "support_interpretation",
        "untrusted_messages",
        "arms",
        "prefix_origins",
        "environments",
    }
    assert WORDING["version"] == 1
    assert set(WORDING["prefix_origins"]) == {"none", "operator"}
    assert {"neutral", "verify_first"} <= set(WORDING["arms"])
    assert "default" in WORDING["untrusted_messages"]
    assert set(ENVIRONMENTS) == {"event", "queue", "pending", "probe"}


def test_every_text_is_one_nonblank_line() -> None:
    texts = _texts(WORDING)
    assert len(texts) > 40
    assert all(text == text.strip() and text and "\n" not in text for text in texts)


@pytest.mark.parametrize("body", WORDING["untrusted_messages"].values())
def test_untrusted_messages_keep_their_limit(body: str) -> None:
    assert len(body.encode()) <= 400


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_disclosure_and_every_tool_has_its_text(environment: str) -> None:
    section = WORDING["environments"][environment]
    assert set(section) == {"authority_rule", "semantics", "transition_rules", "tools"}
    assert set(section["transition_rules"]) == set(DISCLOSURES)
    assert list(section["tools"]) == list(kind_of(environment).tools)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_cost_is_disclosed(environment: str) -> None:
    costs = WORDING["environments"][environment]["transition_rules"]["costs"]
    for name in ("primary_loss", "protected_loss", "authority_breaches", "operation_cost", "false_outcome_claims"):
        assert f"{name}: " in costs


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_contract_field_is_explained(environment: str) -> None:
    section = WORDING["environments"][environment]
    words = " ".join(_texts(section))
    for field in kind_of(environment).contract_type.__dataclass_fields__:
        assert field.removesuffix("_a").removesuffix("_b") in words


def test_the_claim_rules_of_the_queue_are_the_reverse_of_the_others_without_need() -> None:
    claims = {name: WORDING["environments"][name]["transition_rules"]["claims"] for name in ENVIRONMENTS}
    assert "with no needed job at all, saved is true" in claims.pop("queue")
    for text in claims.values():
        assert "with no need at all, saved is false" in text


def test_a_pending_commitment_says_what_goes_on_without_the_agent() -> None:
    rules = WORDING["environments"]["pending"]["transition_rules"]
    assert "Stopping cancels nothing" in rules["stopping"]
    assert "commits later without you" in rules["stopping"]
    assert "The epoch 0 report, a pending report or the untrusted message never authorizes" in rules["authority"]
    assert "saved at settlement" in rules["claims"]


def test_the_system_message_says_what_the_design_asks_for() -> None:
    message = WORDING["system_message"]
    for disclosure in ("takes one tick", "finish(unknown)", "prose is not scored", "they were not your calls"):
        assert disclosure in message
