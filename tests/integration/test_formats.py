"""Studies in every wire format, whole bodies and streams, through the real services (docs/formats.md, Conversation)."""

import hashlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from adapter_svc import admission as adapter
from tests.integration.studies import COMPLETED, Collected, Lab, ending, open_lab, route, steps
from tests.integration.test_scenarios import EVENT_TOOLS
from tests.readers import ENVIRONMENT_TOOLS
from verifier_svc.receipts.decode import decode
from verifier_svc.receipts.slices import raw_elements
from verifier_svc.receipts.wire import Answer, WireFormat

FORMS = [(wire, streamed) for wire in WireFormat for streamed in (False, True)]
NO_PARAMETERS = ENVIRONMENT_TOOLS["wait"]
TOOLS = {name: ENVIRONMENT_TOOLS["finish"] if name == "finish" else NO_PARAMETERS for name in EVENT_TOOLS}
POLICIES = ("alternative", "act-well", "two-tools")
"""One with odd opaque items in every answer, a good one and a bad one."""


def routes_of(lab: Lab, policy: str) -> list[dict[str, Any]]:
    """A route to the scripted agent's policy in each form."""
    return [
        route(
            f"{wire.value}-{'streamed' if streamed else 'whole'}",
            f"http://{lab.agent.address}/v1",
            model=f"scripted/{policy}",
            wire_format=wire.value,
            streamed=streamed,
        )
        for wire, streamed in FORMS
    ]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with open_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture(scope="module")
def runs(lab: Lab) -> dict[str, Collected]:
    return {
        policy: lab.collect(
            lab.plan(f"formats-{policy}", routes_of(lab, policy), template="window", world="need"),
        )
        for policy in POLICIES
    }


def require_agreement(run: Collected) -> None:
    """All eight routes have a record that the verifier agrees with, and the wire saw what the ledger has."""
    assert run.exit_status == 0, run.errors
    assert len(run.records) == len(FORMS)
    for record in run.records.values():
        assert (record["verification"]["agrees"], record["verification"]["differences"]) == (True, [])
    sent = [call["request_digest"] for record in run.records.values() for call in record["calls"]]
    assert sorted(run.wire) == sorted(sent)
    assert run.report["money"]["adds_up"] is True


def test_odd_opaque_items_go_back_to_the_byte_in_every_form(runs: dict[str, Collected]) -> None:
    run = runs["alternative"]
    require_agreement(run)
    for record in run.records.values():
        assert ending(record) == COMPLETED
        assert [tool for _, tool, _ in steps(record)] == ["check_alternative", "use_alternative", "finish"]
        assert len(record["calls"]) == 3


@pytest.mark.parametrize(("wire", "streamed"), FORMS)
def test_a_continuation_has_the_same_digest_in_the_next_request(
    lab: Lab, runs: dict[str, Collected], wire: WireFormat, streamed: bool
) -> None:
    run = runs["alternative"]
    record = run.records[f"{wire.value}-{'streamed' if streamed else 'whole'}"]
    calls = {call.call_id.hex(): call for call in lab.calls(run.study_id)}
    receipts = [lab.receipt(calls[one["call_id"]]) for one in record["calls"]]
    assert len(receipts) == 3
    for answered, asked in pairwise(receipts):
        found = decode(Answer(wire, answered.response, 200, streamed), TOOLS).continuation
        assert found is not None
        admitted = adapter.admit(
            adapter.AdmissionRequest(
                body=answered.response,
                http_status=200,
                wire_format=adapter.WireFormat(wire.value),
                streamed=streamed,
                expected=adapter.ExpectedIdentity(),
                tools=tuple(adapter.OfferedTool.of(name, schema) for name, schema in TOOLS.items()),
            )
        ).continuation
        assert admitted is not None
        assert admitted.digest == hashlib.sha256(found).digest()
        # The items of responses stand in the input one by one; in the other formats the whole stands in one place.
        pieces = raw_elements(found) if wire is WireFormat.RESPONSES else [found]
        joined = b",".join(pieces)
        assert asked.request.count(joined) == 1


def test_a_good_policy_is_the_same_in_every_form(runs: dict[str, Collected]) -> None:
    run = runs["act-well"]
    require_agreement(run)
    first, *others = run.records.values()
    assert first["status"] == "completed"
    for record in others:
        assert (steps(record), record["outcome"]) == (steps(first), first["outcome"])


def test_a_bad_policy_is_refused_in_every_form(runs: dict[str, Collected]) -> None:
    run = runs["two-tools"]
    require_agreement(run)
    places = {
        "chat_completions": "/choices/0/message/tool_calls",
        "messages": "/content",
        "responses": "/output",
        "generate_content": "/candidates/0/content/parts",
    }
    for (wire, streamed), where in ((form, places[form[0].value]) for form in FORMS):
        record = run.records[f"{wire.value}-{'streamed' if streamed else 'whole'}"]
        assert (record["status"], record["reason"], record["where"]) == (
            "technical_unknown",
            "MULTIPLE_TOOL_CALLS",
            where,
        )
