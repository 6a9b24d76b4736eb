"""A run as a call on a real ledger."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from countersign.kit.canonical import canonical_json, sha256
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1 import ledger_pb2_grpc
from countersign.study.price_snapshot import PriceSnapshot
from tests.countersign.prose.conftest import SECONDS, SECRET, Answer, Prose, dollars

Paid = Callable[..., Answer]


@pytest.fixture
def paid(prose: Prose, ledger: tuple[str, ledger_pb2_grpc.LedgerServiceStub]) -> Paid:
    def run(script: str, *options: str, cost: str = "0.5", env: dict[str, str] | None = None) -> Answer:
        return prose(script, "--study=s", f"--max-cost={cost}", f"--ledger={ledger[0]}", *options, env=env)

    return run


def call_of(answer: Answer) -> dict[str, Any]:
    call: dict[str, Any] = answer.result["ledger"]
    return call


def test_a_reported_cost_is_charged(paid: Paid, ledger: tuple[str, ledger_pb2_grpc.LedgerServiceStub]) -> None:
    answer = paid("text", "--auth-profile=mock-api-key", env={"MOCK_API_KEY": SECRET})
    call = call_of(answer)
    assert (answer.status, call["state"], call["hold_category"], call["reserved"]) == (0, "charged", None, "0.5 USD")
    slot = pb.Slot(study_id="s", episode_id=answer.result["invocation_id"], turn=1)
    (kept,) = ledger[1].GetCall(pb.GetCallRequest(slot=slot), timeout=SECONDS).attempts
    assert (kept.call_id.hex(), kept.accounted) == (call["call_id"], dollars("0.0125"))
    assert kept.request_digest.hex() == answer.result["digests"]["invocation"]
    receipt = ledger[1].GetReceipt(pb.GetReceiptRequest(call_id=kept.call_id, attempt=1), timeout=SECONDS).receipt
    assert json.loads(receipt.response)["output_digest"] == answer.result["digests"]["raw_stdout"]
    assert json.loads(receipt.response)["usage"] == {"input_tokens": 10, "output_tokens": 4}
    assert SECRET.encode() not in receipt.request + receipt.response


@pytest.mark.parametrize(
    ("script", "options", "status", "state", "category"),
    [
        ("no-cost", [], 0, "held", "COST_UNRESOLVED"),
        ("error", [], 22, "charged", None),
        ("truncated", [], 22, "held", "COST_UNRESOLVED"),
        ("silent", ["--timeout=1s"], 21, "held", "COST_UNRESOLVED"),
    ],
)
def test_without_a_final_cost_it_is_held(
    paid: Paid, script: str, options: list[str], status: int, state: str, category: str | None
) -> None:
    answer = paid(script, *options)
    call = call_of(answer)
    assert (answer.status, call["state"], call["hold_category"]) == (status, state, category)


def test_a_bill_above_the_reservation_is_held_and_said(paid: Paid) -> None:
    call = call_of(paid("text", cost="0.001"))
    assert (call["state"], call["hold_category"]) == ("held", "COST_ABOVE_RESERVATION")


def test_nothing_is_launched_without_money(paid: Paid) -> None:
    answer = paid("text", cost="2")
    assert (answer.status, answer.code) == (2, "INVOCATION_INVALID")
    assert "the ledger refuses the run" in answer.result["error"]["detail"]
    assert (answer.result["supervision"], answer.result["ledger"]) == (None, None)


def test_a_ledger_that_is_not_there(prose: Prose) -> None:
    answer = prose("text", "--study=s", "--max-cost=1", "--ledger=127.0.0.1:1")
    assert (answer.status, answer.code) == (2, "CONFIG_INVALID")


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    """A snapshot with one price, of the model that the scripted harness states."""
    entry = {"provider": "openai", "model": "mock-model", "input_per_million": "1000.5", "output_per_million": "2000"}
    document = {"schema": "countersign.prices/1", "currency": "USD", "entries": [entry], "refused": []}
    document |= {"source": {"package": "by hand", "version": "1"}, "as_of": "2026-01-01"}
    path = tmp_path / "prices.json"
    path.write_bytes(PriceSnapshot(document, sha256(canonical_json(document))).to_bytes())
    return path


def test_usage_is_charged_at_the_frozen_prices(
    paid: Paid, prices: Path, ledger: tuple[str, ledger_pb2_grpc.LedgerServiceStub]
) -> None:
    call = call_of(paid("usage", f"--prices={prices}"))
    # 10 tokens at 1000.5 and 4 at 2000 dollars a million.
    assert (call["state"], call["cost_basis"], call["cost_usd"]) == ("charged", "priced-usage", "0.018005")
    assert call["trouble"] is None
    kept = ledger[1].GetReceipt(
        pb.GetReceiptRequest(call_id=bytes.fromhex(call["call_id"]), attempt=1), timeout=SECONDS
    )
    assert kept.receipt.cost.basis == pb.COST_BASIS_PRICED_USAGE
    assert json.loads(kept.receipt.response)["prices"].startswith("by hand 1 as of 2026-01-01, snapshot ")


def test_a_reported_cost_comes_before_the_prices(paid: Paid, prices: Path) -> None:
    call = call_of(paid("text", f"--prices={prices}"))
    assert (call["state"], call["cost_basis"], call["cost_usd"]) == ("charged", "provider-reported", "0.0125")


@pytest.mark.parametrize(
    ("content", "message"), [(b"{}", "is not a price snapshot"), (b'{"digest":"00","schema":"x"}', "was altered")]
)
def test_prices_that_are_no_snapshot_launch_nothing(paid: Paid, tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_bytes(content)
    answer = paid("text", f"--prices={path}")
    assert (answer.status, answer.code) == (2, "CONFIG_INVALID")
    assert message in answer.result["error"]["detail"]
    assert answer.result["ledger"] is None


def test_prices_are_for_a_study(prose: Prose, prices: Path) -> None:
    assert prose("text", f"--prices={prices}").code == "INVOCATION_INVALID"
    assert prose("text", "--prices=/nowhere").code == "INVOCATION_INVALID"
