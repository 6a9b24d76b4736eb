"""Collecting: statuses, resuming, stop rules, interruption (design/study.md, Running)."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from countersign.adapter.v1 import adapter_pb2 as adapter
from countersign.adapter.v1.adapter_pb2_grpc import AdapterServiceStub
from countersign.kit.canonical import canonical_json
from countersign.kit.channel import open_channel
from countersign.ledger.v1 import ledger_pb2 as ledger
from countersign.study.collection import Collection, CollectionEnd, Halt
from countersign.study.errors import BadRecord, ServiceRefused
from countersign.study.plan_model import PlanFile
from countersign.study.preparation import PreparedStudy, prepare
from countersign.study.records import KEYS, SCHEMA, RecordStore
from countersign.study.runner import EpisodeOrder
from countersign.study.services import Services
from tests.countersign.study import fakes as f
from tests.countersign.study.plans import BASE, NOW, make_plan, route_text


@dataclass
class Watcher:
    """A view that remembers."""

    notes: list[str] = field(default_factory=list)
    kept: int = 0
    done: list[tuple[str, str]] = field(default_factory=list)

    def begin(self, planned: int, kept: Sequence[Mapping[str, Any]], cap_nanos: int = 0) -> None:
        self.kept = len(kept)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def finished(self, order: EpisodeOrder, record: Mapping[str, Any]) -> None:
        self.done.append((str(order.identity), record["status"]))


@dataclass
class Run:
    """One collection of a plan into a folder."""

    end: CollectionEnd
    watcher: Watcher
    records: dict[str, dict[str, Any]]
    prepared: PreparedStudy

    def statuses(self) -> list[str]:
        """In frozen order: completed, technical_unknown, the stop category, or - where there is no record."""
        found = [self.records.get(identity.episode_id) for identity in self.prepared.identities]
        return ["-" if one is None else one["stop_category"] or one["status"] for one in found]


async def collect(
    services: Services,
    plan: PlanFile,
    folder: Path,
    *,
    in_flight: int = 1,
    interrupted: asyncio.Event | None = None,
    watcher: Watcher | None = None,
) -> Run:
    prepared = await prepare(services, plan, folder, NOW)
    watcher = watcher or Watcher()
    collection = Collection(
        services=services,
        orders=prepared.orders({route.name: route.base_url or "" for route in plan.routes}),
        store=RecordStore(folder / "records"),
        account_id="lab",
        stop=plan.study.stop,
        max_in_flight=in_flight,
        interrupted=interrupted or asyncio.Event(),
        view=watcher,
        settle_seconds=0.0,
    )
    end = await collection.run()
    files = sorted((folder / "records").iterdir())
    records = {path.stem: json.loads(path.read_bytes()) for path in files}
    return Run(end, watcher, records, prepared)


def plan_with(stop: str, *routes: str) -> PlanFile:
    return make_plan(*routes, base=BASE.replace('stop = "never"', f'stop = "{stop}"'))


async def test_a_record_is_as_documented(fakes: f.Fakes, services: Services, tmp_path: Path) -> None:
    run = await collect(services, make_plan(), tmp_path)
    assert run.end == CollectionEnd(None, 0)
    identity = run.prepared.identities[2]
    record = run.records[identity.episode_id]
    assert set(record) == KEYS
    study_id = run.prepared.manifest.study_id
    call = fakes.ledger.calls[2]
    expected = {
        "study_id": study_id,
        "episode_id": identity.episode_id,
        "manifest_digest": run.prepared.manifest.digest.hex(),
        "identity": identity.to_json(),
        "environment": "event",
        "world": {"need": True, "effective": True},
        "contract": {"max_calls": 8},
        "operator_prefix": [],
        "status": "completed",
        "termination": "explicit_finish",
        "reason": None,
        "where": None,
        "stop_category": None,
        "prefix_count": 0,
        "events": [
            {
                "sequence": 1,
                "tool": "finish",
                "claim": "saved",
                "start_tick": 0,
                "end_tick": 1,
                "result": '{"observation":{}}',
            }
        ],
        "origins": [{"sequence": 1, "origin": "NATIVE_TOOL"}],
        "outcome": {
            "primary_loss": 0,
            "protected_loss": 0,
            "authority_breaches": 0,
            "operation_cost": 0,
            "false_outcome_claims": 0,
            "saved": True,
            "decision_tick": 1,
            "settlement_tick": 4,
            "final_deadline": 3,
        },
        "prose_truth": None,
        "calls": [
            {
                "call_id": call.call_id.hex(),
                "turn": 1,
                "attempt": 1,
                "state": "CHARGED",
                "request_digest": call.request_digest.hex(),
                "response_digest": call.response_digest.hex(),
                "accounted": "0.000001",
                "replayed": False,
            }
        ],
        "verification": {"agrees": True, "differences": [], "checked": ["events"]},
    }
    assert {key: record[key] for key in expected} == expected
    content = (tmp_path / "records" / f"{identity.episode_id}.json").read_bytes()
    assert content == canonical_json(record)


async def test_what_was_verified_is_not_run_again(fakes: f.Fakes, services: Services, tmp_path: Path) -> None:
    await collect(services, make_plan(), tmp_path)
    again = await collect(services, make_plan(), tmp_path)
    assert again.watcher.kept == 4
    assert again.watcher.done == []
    assert len(fakes.adapter.ran) == 4


async def test_a_missing_or_damaged_record_is_run_again_from_the_ledgers_receipts(
    fakes: f.Fakes, services: Services, tmp_path: Path
) -> None:
    first = await collect(services, make_plan(), tmp_path)
    ids = [identity.episode_id for identity in first.prepared.identities]
    (tmp_path / "records" / f"{ids[0]}.json").unlink()
    (tmp_path / "records" / f"{ids[3]}.json").write_text("{")
    again = await collect(services, make_plan(), tmp_path)
    assert fakes.adapter.ran[4:] == [ids[0], ids[3]]
    assert again.records[ids[0]]["calls"][0]["replayed"] is True
    assert len(fakes.ledger.calls) == 4
    assert [note for note in again.watcher.notes if "is run again" in note]


async def test_a_record_of_another_study_is_refused(services: Services, tmp_path: Path) -> None:
    first = await collect(services, make_plan(), tmp_path)
    path = tmp_path / "records" / f"{first.prepared.identities[0].episode_id}.json"
    path.write_bytes(canonical_json({**json.loads(path.read_bytes()), "study_id": "other"}))
    with pytest.raises(BadRecord, match="belongs to another study"):
        await collect(services, make_plan(), tmp_path)


@pytest.mark.parametrize(
    ("stop", "statuses", "halt"),
    [
        ("never", ["technical_unknown"] * 4 + ["completed"] * 4, None),
        ("route", ["technical_unknown", "-", "-", "-"] + ["completed"] * 4, None),
        ("study", ["technical_unknown"] + ["-"] * 7, Halt.STOP_RULE),
    ],
)
async def test_a_technical_unknown_stops_what_the_rule_says(
    fakes: f.Fakes, services: Services, tmp_path: Path, stop: str, statuses: list[str], halt: Halt | None
) -> None:
    fakes.adapter.scripts["r"] = f.answers_nonsense
    plan = plan_with(stop, route_text(), route_text("q"))
    run = await collect(services, plan, tmp_path)
    assert (run.statuses(), run.end.halt) == (statuses, halt)
    record = run.records[run.prepared.identities[0].episode_id]
    assert (record["reason"], record["where"], record["outcome"]) == ("TRUNCATED", "/choices/0", None)
    assert record["verification"]["agrees"] is True
    again = await collect(services, plan, tmp_path)
    assert (again.statuses(), again.end.halt) == (statuses, halt)
    assert again.watcher.done == []


async def test_a_hold_stops_its_study_under_every_rule_and_stays(
    fakes: f.Fakes, services: Services, tmp_path: Path
) -> None:
    fakes.adapter.scripts["r"] = f.transport_fails
    plan = plan_with("never", route_text(), route_text("q"))
    run = await collect(services, plan, tmp_path)
    assert (run.statuses(), run.end.halt) == (["transport_unknown"] + ["-"] * 7, Halt.HOLD)
    again = await collect(services, plan, tmp_path)
    assert (again.statuses(), again.end.halt) == (run.statuses(), Halt.HOLD)
    assert len(fakes.ledger.calls) == 1


async def test_a_resolved_hold_lets_the_rest_go_on(fakes: f.Fakes, services: Services, tmp_path: Path) -> None:
    fakes.adapter.scripts["r"] = f.transport_fails
    plan = plan_with("never", route_text(more='arms = ["own"]'), route_text("q", more='arms = ["own"]'))
    await collect(services, plan, tmp_path)
    fakes.adapter.scripts["r"] = f.completes
    fakes.ledger.blocked = False
    fakes.ledger.calls[0].state = ledger.CALL_STATE_CHARGED
    run = await collect(services, plan, tmp_path)
    assert (run.statuses(), run.end.halt) == (["completed"] * 4, None)


async def test_other_stops_do_not_stop_the_study(fakes: f.Fakes, services: Services, tmp_path: Path) -> None:
    fakes.adapter.scripts["r"] = f.over_limit
    run = await collect(services, plan_with("study", route_text(), route_text("q")), tmp_path)
    assert (run.statuses(), run.end.halt) == (["input_limit"] * 4 + ["completed"] * 4, None)
    assert run.records[run.prepared.identities[0].episode_id]["verification"] is None


async def test_a_stream_without_an_end_is_a_service_that_went_away(
    fakes: f.Fakes, services: Services, tmp_path: Path
) -> None:
    fakes.adapter.scripts["r"] = f.cut_off
    run = await collect(services, make_plan(), tmp_path)
    assert (run.statuses(), run.end.halt) == (["service_unavailable", "-", "-", "-"], Halt.SERVICE)
    fakes.adapter.scripts.clear()
    again = await collect(services, make_plan(), tmp_path)
    assert again.statuses() == ["completed"] * 4


async def test_a_refusal_of_the_adapter_ends_the_collection_with_its_reason(
    fakes: f.Fakes, services: Services, tmp_path: Path
) -> None:
    fakes.adapter.scripts["q"] = f.refused
    plan = make_plan(route_text(more='arms = ["own"]'), route_text("q", more='arms = ["own"]'))
    with pytest.raises(ServiceRefused, match=r"the adapter refused: MISSING_KEY: set it .* \(variable=KEY\)"):
        await collect(services, plan, tmp_path)
    assert len(list((tmp_path / "records").iterdir())) == 2


async def test_an_unreachable_verifier_costs_no_record(fakes: f.Fakes, services: Services, tmp_path: Path) -> None:
    fakes.verifier.unavailable = True
    run = await collect(services, make_plan(), tmp_path)
    assert (run.statuses(), run.end.halt) == (["completed", "-", "-", "-"], Halt.SERVICE)
    fakes.verifier.unavailable = False
    again = await collect(services, make_plan(), tmp_path)
    assert again.statuses() == ["completed"] * 4
    assert all(record["verification"]["agrees"] for record in again.records.values())
    assert len(fakes.adapter.ran) == 4


async def test_a_difference_is_kept_and_counted(fakes: f.Fakes, services: Services, tmp_path: Path) -> None:
    fakes.verifier.differ.add("r")
    run = await collect(services, make_plan(route_text(), route_text("q")), tmp_path)
    assert run.end == CollectionEnd(None, 4)
    record = run.records[run.prepared.identities[0].episode_id]
    assert record["verification"] == {
        "agrees": False,
        "differences": [{"sequence": 2, "field": "tool", "expected": "wait", "actual": "finish"}],
        "checked": ["events"],
    }


async def test_an_interruption_cancels_what_runs_and_begins_nothing(
    fakes: f.Fakes, services: Services, tmp_path: Path
) -> None:
    interrupted, under_way = asyncio.Event(), asyncio.Event()

    async def hangs(fake: f.FakeAdapter, request: Any) -> AsyncIterator[Any]:
        yield f.started()
        f.called(fake, request, 1, "RESERVED")
        under_way.set()
        await asyncio.Event().wait()

    fakes.adapter.scripts["r"] = hangs
    running = asyncio.create_task(collect(services, make_plan(), tmp_path, interrupted=interrupted))
    await under_way.wait()
    interrupted.set()
    run = await running
    assert (run.statuses(), run.end.halt) == (["interrupted", "-", "-", "-"], Halt.INTERRUPTED)
    record = run.records[run.prepared.identities[0].episode_id]
    assert [(call["turn"], call["state"]) for call in record["calls"]] == [(1, "RESERVED")]


async def test_no_more_episodes_run_at_once_than_allowed(fakes: f.Fakes, services: Services, tmp_path: Path) -> None:
    running = 0
    most = 0
    both = asyncio.Event()

    async def counted(fake: f.FakeAdapter, request: Any) -> AsyncIterator[Any]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 2:
            both.set()
        await both.wait()
        async for message in f.completes(fake, request):
            yield message
        running -= 1

    fakes.adapter.scripts["r"] = counted
    run = await collect(services, make_plan(), tmp_path, in_flight=2)
    assert run.statuses() == ["completed"] * 4
    assert most == 2


async def test_an_adapter_that_is_gone_costs_no_episode_where_another_is_left(
    fakes: f.Fakes, services: Services, tmp_path: Path, unused_tcp_port: int
) -> None:
    async with open_channel(f"127.0.0.1:{unused_tcp_port}") as nowhere:
        gone = AdapterServiceStub(nowhere)
        prepared = await prepare(services, make_plan(), tmp_path, NOW)
        halved = replace(services, adapter=gone, more_adapters=(services.adapter,))
        watcher = Watcher()
        collection = Collection(
            services=halved,
            orders=prepared.orders({"r": "http://127.0.0.1:9/v1"}),
            store=RecordStore(tmp_path / "records"),
            account_id="lab",
            stop="never",
            max_in_flight=2,
            interrupted=asyncio.Event(),
            view=watcher,
            settle_seconds=0.0,
        )
        assert await collection.run() == CollectionEnd(None, 0)
    records = [json.loads(path.read_bytes()) for path in (tmp_path / "records").iterdir()]
    assert [record["status"] for record in records] == ["completed"] * 4
    assert [note for note in watcher.notes if "an adapter went away" in note]


def test_a_stop_does_not_replace_an_end_that_another_collector_kept(tmp_path: Path) -> None:
    store = RecordStore(tmp_path / "records")
    store.prepare()
    end = {**dict.fromkeys(KEYS), "schema": SCHEMA, "episode_id": "e", "status": "technical_unknown"}
    end |= {"reason": "TRUNCATED"}
    stop = {**end, "status": "stopped", "reason": None, "stop_category": "interrupted"}
    assert store.keep(dict(stop)) == stop
    assert store.keep(dict(end)) == end
    assert store.keep(dict(stop)) == end
    assert store.read("e") == end


@dataclass
class LosingAdapter:
    """An adapter that goes away in the middle of its first call."""

    fakes: f.Fakes

    def RunEpisode(self, request: adapter.RunEpisodeRequest, timeout: float) -> "LostStream":
        return LostStream([f.started(), f.called(self.fakes.adapter, request, 1, "RESERVED")])


@dataclass
class LostStream:
    """A stream that ends without an end."""

    messages: list[adapter.RunEpisodeResponse]

    async def __aiter__(self) -> AsyncIterator[adapter.RunEpisodeResponse]:
        for message in self.messages:
            yield message

    def cancel(self) -> None:
        return None

    def cancelled(self) -> bool:
        return False


async def test_an_adapter_lost_in_a_call_stops_its_episode_and_no_other(
    fakes: f.Fakes, services: Services, tmp_path: Path
) -> None:
    prepared = await prepare(services, make_plan(), tmp_path, NOW)
    lost: Any = LosingAdapter(fakes)
    collection = Collection(
        services=replace(services, adapter=lost, more_adapters=(services.adapter,)),
        orders=prepared.orders({"r": "http://127.0.0.1:9/v1"}),
        store=RecordStore(tmp_path / "records"),
        account_id="lab",
        stop="never",
        max_in_flight=1,
        interrupted=asyncio.Event(),
        view=Watcher(),
        settle_seconds=0.0,
    )
    assert await collection.run() == CollectionEnd(None, 0)
    records = [json.loads(path.read_bytes()) for path in (tmp_path / "records").iterdir()]
    assert sorted(record["status"] for record in records) == ["completed"] * 3 + ["stopped"]
    (stopped,) = (record for record in records if record["status"] == "stopped")
    assert (stopped["stop_category"], [call["state"] for call in stopped["calls"]]) == (
        "service_unavailable",
        ["RESERVED"],
    )
