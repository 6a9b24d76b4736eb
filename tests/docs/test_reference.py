"""The generated reference has every call, message, field and value, and errors as the code declares them."""

import re
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor import FileDescriptor

from countersign.adapter.v1 import adapter_pb2
from countersign.environment.v1 import environment_pb2
from countersign.errordetails.v1 import error_reason_pb2
from countersign.ledger.v1 import ledger_pb2
from countersign.verifier.v1 import verifier_pb2
from tests.docs.pages import made_reference

CONTRACTS = {
    "ledger": ledger_pb2.DESCRIPTOR,
    "adapter": adapter_pb2.DESCRIPTOR,
    "verifier": verifier_pb2.DESCRIPTOR,
    "environment": environment_pb2.DESCRIPTOR,
}
REASONS = [name.removeprefix("ERROR_REASON_") for name in error_reason_pb2.ErrorReason.keys()[1:]]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = made_reference(tmp_path_factory.mktemp("reference"))
    return {page.stem: page.read_text("utf-8") for page in folder.glob("*.md")}


@pytest.mark.parametrize("name", CONTRACTS)
def test_every_call_message_field_and_value_is_there_with_its_comment(reference: dict[str, str], name: str) -> None:
    page, contract = reference[name], CONTRACTS[name]
    for service in contract.services_by_name.values():
        for method in service.methods:
            described = section(page, f"### {method.name} {{#{service.name}.{method.name}}}")
            assert re.search(r"[a-z]+\.\n\nTakes ", described), method.name
            assert f"#{method.input_type.name})" in described
            assert f"#{method.output_type.name})" in described
    for message in contract.message_types_by_name.values():
        described = section(page, f"### {message.name} {{#{message.name}}}")
        for field in message.fields:
            assert re.search(rf"^\| (?:· )?`{field.name}` \| .+ \| .+ \|$", described, re.MULTILINE), field.full_name
    for enum in contract.enum_types_by_name.values():
        described = section(page, f"### {enum.name} {{#{enum.name}}}")
        for value in enum.values:
            assert re.search(rf"^\| `{value.name}` \| {value.number} \| .+ \|$", described, re.MULTILINE), value.name


def section(page: str, heading: str) -> str:
    """What stands below the heading, which must be there once."""
    assert page.count(heading + "\n") == 1, heading
    return re.split(r"^##", page.partition(heading + "\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def test_every_link_between_the_pages_holds(reference: dict[str, str]) -> None:
    found = 0
    for name, page in reference.items():
        for target, anchor in re.findall(r"\]\(([\w]*(?:\.md)?)#([\w.]+)\)", page):
            found += 1
            assert f"{{#{anchor}}}" in reference[target.removesuffix(".md") or name], (name, target, anchor)
    assert found > 200


def test_every_reason_is_there_with_its_example(reference: dict[str, str]) -> None:
    page = reference["errors"]
    for reason in REASONS:
        described = section(page, f"## {reason} {{#{reason}}}")
        assert f"```text\n{reason} {{" in described, reason
    assert len(REASONS) > 40


def test_an_example_shows_the_status_and_keys_that_the_code_declares(reference: dict[str, str]) -> None:
    page = reference["errors"]
    never_sent = []
    for reason in REASONS:
        described = section(page, f"## {reason} {{#{reason}}}")
        if "This version never sends it." in described:
            never_sent.append(reason)
            continue
        shown = re.findall(r"(\w+): \"", described.partition("```text")[2].partition("```")[0])
        declared = facts(described)
        assert shown
        assert set(shown) <= set(declared["metadata"]), reason
        assert {getattr(grpc.StatusCode, status) for status in declared["status"]}
    assert never_sent == ["NOT_IMPLEMENTED"]


def facts(described: str) -> dict[str, list[str]]:
    rows = re.findall(r"^- (status|metadata): (.*)$", described, re.MULTILINE)
    return {name: re.findall(r"`(\w+)`", said) for name, said in rows}


def test_the_code_gives_no_reason_that_the_contract_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.syspath_prepend(root / "tools")
    from error_sources import declared_errors

    declared = declared_errors(root)
    assert set(declared) <= set(REASONS)
    (budget,) = declared["BUDGET_EXHAUSTED"]
    assert (budget.status, budget.keys) == ("RESOURCE_EXHAUSTED", {"available_nanos", "requested_nanos"})
    assert {one.status for one in declared["SERVICE_UNAVAILABLE"]} == {"FAILED_PRECONDITION", "UNAVAILABLE"}


def test_the_contracts_tested_are_all_that_there_are() -> None:
    protos = Path(__file__).parents[2] / "protos" / "countersign"
    tested: list[FileDescriptor] = [*CONTRACTS.values(), error_reason_pb2.DESCRIPTOR]
    assert {path.name for path in protos.rglob("*.proto")} == {Path(file.name).name for file in tested}
