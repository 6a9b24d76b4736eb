"""A study in every wire format, whole and streamed, through the real services (design/admission.md, Wire formats)."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from countersign.kit.canonical import sha256
from tests.integration.studies import Collected, Lab, open_lab

FORMATS = ("chat_completions", "messages", "responses", "generate_content")
FORMS = [(wire_format, streamed) for wire_format in FORMATS for streamed in (False, True)]
POLICIES = ("alternative", "act-well", "truncate")
OPAQUE = {
    "chat_completions": b'"reasoning_details"',
    "messages": b'"signature"',
    "responses": b'"encrypted_content"',
    "generate_content": b'"thoughtSignature"',
}
"""What the policy `alternative` sends along in each format, and wants back."""
MEMBERS = {
    "chat_completions": "message",
    "messages": "content",
    "responses": "output",
    "generate_content": "content",
}
"""The member of an answer that goes back, of a responses answer item by item."""


def name_of(policy: str, wire_format: str, streamed: bool) -> str:
    return f"{policy}-{wire_format.replace('_', '-')}-{'streamed' if streamed else 'whole'}"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with open_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture(scope="module")
def collected(lab: Lab) -> Collected:
    routes = [
        {
            **lab.scripted(policy, wire_format=wire_format, streamed=streamed, input_limit_bytes=60_000),
            "name": name_of(policy, wire_format, streamed),
        }
        for policy in POLICIES
        for wire_format, streamed in FORMS
    ]
    return lab.collect(lab.plan("formats", routes, max_in_flight=8))


def episode(collected: Collected, policy: str, form: tuple[str, bool]) -> dict[str, Any]:
    return collected.records[name_of(policy, *form)]


def test_every_episode_is_verified_and_nothing_is_held(collected: Collected) -> None:
    assert collected.exit_status == 0, collected.errors
    assert [record["verification"]["agrees"] for record in collected.records.values()] == [True] * 24
    assert collected.report["money"]["adds_up"]
    assert collected.report["money"]["calls"]["held"] == 0


@pytest.mark.parametrize("form", FORMS, ids=lambda form: name_of("", *form))
def test_a_form_changes_neither_events_nor_outcome(collected: Collected, form: tuple[str, bool]) -> None:
    for policy in ("alternative", "act-well"):
        plain = episode(collected, policy, ("chat_completions", False))
        record = episode(collected, policy, form)
        assert record["status"] == "completed"
        assert (record["events"], record["outcome"]) == (plain["events"], plain["outcome"])
    assert episode(collected, "truncate", form)["reason"] == "TRUNCATED"


@pytest.mark.parametrize("form", FORMS, ids=lambda form: name_of("", *form))
def test_what_the_model_sent_goes_back_to_the_byte(lab: Lab, collected: Collected, form: tuple[str, bool]) -> None:
    record = episode(collected, "alternative", form)
    calls = {call["turn"]: call["call_id"] for call in record["calls"]}
    assert len(calls) == 3
    stored = {call.call_id.hex(): lab.receipt(call) for call in lab.calls(collected.study_id)}
    last = stored[calls[3]].request
    assert last.count(OPAQUE[form[0]]) >= 2
    assert sha256(last).hex() in collected.wire
    if not form[1]:
        for turn in (1, 2):
            parts = opaque_parts(form[0], stored[calls[turn]].response)
            assert [part for part in parts if part not in last] == []
            assert parts


def opaque_parts(wire_format: str, response: bytes) -> list[bytes]:
    """What an answer's next request must hold, cut out of the text by its place."""
    text = response.decode()
    found = re.search(rf'"{MEMBERS[wire_format]}"\s*:\s*', text)
    assert found is not None
    end = found.end() + whole(text[found.end() :])
    if wire_format != "responses":
        return [text[found.end() : end].encode()]
    items, at = [], found.end() + 1
    while (at := at + len(text[at:]) - len(text[at:].lstrip(" \n\t,"))) < end - 1:
        size = whole(text[at:])
        items.append(text[at : at + size].encode())
        at += size
    return items


def whole(text: str) -> int:
    """How many characters the JSON value at the text's start has."""
    return json.JSONDecoder().raw_decode(text)[1]
