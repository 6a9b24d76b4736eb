"""What is refused or stopped before anything is sent, and where a key may go (design/admission.md, Routes)."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from countersign.adapter.v1 import adapter_pb2 as adapter
from countersign.agents.http_server import Request, Response
from countersign.kit.canonical import canonical_json, sha256
from countersign.study.errors import ServiceRefused
from countersign.study.runner import EpisodeOrder, run_episode
from countersign.study.services import Services
from tests.integration.studies import (
    COMPLETED,
    Collected,
    Lab,
    answers,
    completion,
    cost_nanos,
    ending,
    open_lab,
    route,
    run_command,
    steps,
    stopped,
    tallies,
)

KEY_VARIABLE, ABSENT_VARIABLE = "EXAMPLE_PROVIDER_KEY", "EXAMPLE_ABSENT_KEY"
KEY = "sk-example-5f1c0b7e93"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY_VARIABLE, KEY)
        patch.delenv(ABSENT_VARIABLE, raising=False)
        with open_lab(tmp_path_factory.mktemp("lab")) as lab:
            yield lab


def test_a_conversation_that_grows_over_the_input_limit_stops_with_nothing_reserved(lab: Lab) -> None:
    body = completion(None, tool="wait")
    measured = lab.collect(lab.plan("roomy", [route("r", lab.provider.url("roomy", answers(completion())))]))
    (request,) = lab.provider.received("roomy")
    parts = json.loads(request.body)
    exact = len(canonical_json({"messages": parts["messages"], "tools": parts["tools"]}))
    assert ending(measured.record) == COMPLETED

    plan = lab.plan("exact", [route("r", lab.provider.url("exact", answers(body)), input_limit_bytes=exact)])
    run = lab.collect(plan)
    assert ending(run.record) == stopped("input_limit")
    assert steps(run.record) == [(1, "wait", None)]
    assert run.record["outcome"] is None
    assert [(call["turn"], call["state"]) for call in run.record["calls"]] == [(1, "CHARGED")]
    assert tallies(lab.summary("exact-lab").balances) == {"charged": (cost_nanos(body), 1)}
    assert len(lab.provider.received("exact")) == 1
    assert lab.verification(plan, run.record)["differences"] == []

    url = lab.provider.url("tight", answers(body))
    status, output, errors = refused(lab, lab.plan("tight", [route("r", url, input_limit_bytes=exact - 1)]))
    assert (status, output) == (2, [])
    assert f"byte_limit: {exact} bytes of messages and tools, over {exact - 1}" in errors
    assert lab.provider.received("tight") == []


def refused(lab: Lab, plan: Path) -> tuple[int, list[dict[str, Any]], str]:
    """A collection that ends before its report."""
    return run_command("collect", plan, "--out", plan.with_suffix(""), *lab.stack.addresses())


def test_a_first_request_over_the_input_limit_is_never_reserved(lab: Lab) -> None:
    plan = lab.plan("tiny", [route("r", lab.provider.url("tiny", answers(completion())))])

    async def run(services: Services, orders: Sequence[EpisodeOrder]) -> dict[str, Any]:
        (order,) = orders
        limited = adapter.Route()
        limited.CopyFrom(order.route)
        limited.input_limit_bytes = 100
        return await run_episode(services, replace(order, route=limited), asyncio.Event())

    record = lab.with_orders(plan, run)
    assert ending(record) == stopped("input_limit")
    assert (record["events"], record["calls"]) == ([], [])
    assert lab.calls(record["study_id"]) == []
    assert lab.provider.received("tiny") == []


def test_a_cap_that_is_used_up_stops_before_anything_is_sent(lab: Lab) -> None:
    body = completion(None, tool="wait", usage=(8_000, 1_000))
    url = lab.provider.url("cap", answers(body))
    plan = lab.plan("cap", [route("r", url, input_limit_bytes=15_000)], cap="0.0095")
    run = lab.collect(plan)

    assert ending(run.record) == stopped("budget_stop")
    assert steps(run.record) == [(1, "wait", None)]
    assert run.record["outcome"] is None
    assert [(call["turn"], call["state"]) for call in run.record["calls"]] == [(1, "CHARGED")]
    (study,) = lab.summary("cap-lab").studies
    assert not study.blocked
    assert tallies(study.balances) == {"charged": (cost_nanos(body), 1)}
    assert len(lab.calls(run.study_id)) == 1
    assert len(lab.provider.received("cap")) == 1
    assert lab.verification(plan, run.record)["differences"] == []


def test_a_cap_below_one_calls_bound_is_refused_with_the_plan(lab: Lab) -> None:
    url = lab.provider.url("below", answers(completion()))
    status, output, errors = refused(lab, lab.plan("below", [route("r", url)], cap="0.001"))

    assert (status, output) == (2, [])
    assert "above study.cap 0.001" in errors
    assert lab.provider.received("below") == []


def test_a_missing_key_is_refused_before_anything_is_reserved(lab: Lab) -> None:
    url = lab.provider.url("absent", answers(completion()))
    plan = lab.plan("absent", [route("r", url, api_key_variable=ABSENT_VARIABLE)])
    status, _, errors = refused(lab, plan)

    assert status == 2
    assert f"MISSING_KEY: set {ABSENT_VARIABLE}" in errors
    (study,) = lab.summary("absent-lab").studies
    assert tallies(study.balances) == {}
    assert lab.calls(study.study_id) == []
    assert lab.provider.received("absent") == []
    assert list((plan.with_suffix("") / "records").iterdir()) == []


def test_another_packet_than_the_frozen_one_is_refused(lab: Lab) -> None:
    plan = lab.plan("packet", [route("r", lab.provider.url("packet", answers(completion())))])

    async def run(services: Services, orders: Sequence[EpisodeOrder]) -> Any:
        (order,) = orders
        altered = replace(order, case=replace(order.case, packet_digest=sha256(b"another packet")))
        with pytest.raises(ServiceRefused, match="PACKET_MISMATCH"):
            await run_episode(services, altered, asyncio.Event())

    lab.with_orders(plan, run)
    (study,) = lab.summary("packet-lab").studies
    assert tallies(study.balances) == {}
    assert lab.calls(study.study_id) == []
    assert lab.provider.received("packet") == []


def test_a_key_reaches_the_provider_and_nothing_else(lab: Lab) -> None:
    def quote(request: Request) -> Response:
        return Response(401, json.dumps({"error": {"message": f"bad key {authorization(request)}"}}).encode())

    routes = [
        route("good", lab.provider.url("good-key", answers(completion())), api_key_variable=KEY_VARIABLE),
        route("quoted", lab.provider.url("bad-key", quote), api_key_variable=KEY_VARIABLE),
        route("keyless", lab.provider.url("no-key", answers(completion()))),
    ]
    without_key = lab.collect(lab.plan("keyless", routes[2:]))
    run = lab.collect(lab.plan("keys", routes[:2]))

    assert {name: ending(record) for name, record in run.records.items()} == {
        "good": COMPLETED,
        "quoted": stopped("transport_unknown"),
    }
    sent = {name: lab.provider.received(name) for name in ("good-key", "bad-key", "no-key")}
    assert {name: [authorization(request) for request in requests] for name, requests in sent.items()} == {
        "good-key": [f"Bearer {KEY}"],
        "bad-key": [f"Bearer {KEY}"],
        "no-key": [None],
    }
    assert [request for request in chain.from_iterable(sent.values()) if KEY.encode() in request.body] == []
    stored = [lab.receipt(call) for call in lab.calls(run.study_id)]
    assert [receipt for receipt in stored if KEY.encode() in receipt.request + receipt.response] == []
    require_absent(lab, run)
    assert KEY not in without_key.errors + json.dumps(without_key.output)


def authorization(request: Request) -> str | None:
    """What the request says for its sender."""
    return dict(request.headers).get("authorization")


def require_absent(lab: Lab, run: Collected) -> None:
    """The key is in no file and no output, among them those that surely hold what the run was about."""
    files = {
        path: path.read_bytes() for path in (*lab.stack.folder.rglob("*"), *lab.folder.rglob("*")) if path.is_file()
    }
    holding = {path.name for path, content in files.items() if run.study_id.encode() in content}
    assert {"ledger.db", "ledger.db-wal"} & holding
    assert {f"{record['episode_id']}.json" for record in run.records.values()} <= holding
    assert {"manifest.json", "adapter.log", "ledger.log", "verifier.log", "wire.jsonl"} <= {path.name for path in files}
    assert [path.name for path, content in files.items() if KEY.encode() in content] == []
    assert KEY not in run.errors + json.dumps(run.output)
