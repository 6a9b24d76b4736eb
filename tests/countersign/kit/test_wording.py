"""The wording that is shipped is the one in the contracts, and complete (docs/formats.md, The wording resource)."""

import hashlib
import json
from typing import Any

import pytest

from countersign.kit.wording import load_wording
from tests.conftest import PROJECT_ROOT

DISCLOSURES = {"tick_order", "costs", "authority", "stopping", "claims", "settlement"}


@pytest.fixture(scope="module")
def source() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((PROJECT_ROOT / "protos" / "wording" / "v1.json").read_text("utf-8"))
    return document


def test_the_resource_is_the_contracts(source: dict[str, Any]) -> None:
    assert load_wording().document == source


def test_its_digest_is_that_of_its_canonical_json(source: dict[str, Any]) -> None:
    canonical = json.dumps(source, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert load_wording().digest == hashlib.sha256(canonical).digest()


def test_it_is_read_once() -> None:
    assert load_wording() is load_wording()


def test_it_has_exactly_the_documented_keys(source: dict[str, Any]) -> None:
    texts = {"version", "system_message", "support_interpretation"}
    assert set(source) == texts | {"untrusted_messages", "arms", "prefix_origins", "environments"}
    assert source["version"] == 1
    assert {"neutral", "verify_first"} <= set(source["arms"])
    assert set(source["prefix_origins"]) == {"none", "operator"}
    assert "default" in source["untrusted_messages"]


def test_every_environment_discloses_everything(source: dict[str, Any]) -> None:
    assert {"event", "queue"} <= set(source["environments"])
    for words in source["environments"].values():
        assert set(words) == {"authority_rule", "semantics", "transition_rules", "tools"}
        assert set(words["transition_rules"]) == DISCLOSURES


def test_no_text_is_blank_and_every_message_fits(source: dict[str, Any]) -> None:
    def texts(value: Any) -> list[str]:
        if isinstance(value, dict):
            return [text for child in value.values() for text in texts(child)]
        return [value] if isinstance(value, str) else []

    assert all(text.strip() == text != "" for text in texts(source))
    assert all(len(body.encode()) <= 400 for body in source["untrusted_messages"].values())
