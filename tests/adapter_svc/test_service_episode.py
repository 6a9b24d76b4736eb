"""`RunEpisode` over a real channel: the stream's parts, and what is refused before anything is reserved."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.type.money_pb2 import Money

from adapter_svc.admission import Allowance, ExpectedIdentity, WireFormat, formats
from adapter_svc.attempts import Attempts, StopCategory
from adapter_svc.cases import build_case
from adapter_svc.episode import Completed, Stopped, Termination
from adapter_svc.ledger_port import StoredAnswer
from adapter_svc.mapping import write_progress
from adapter_svc.route_mapping import read_route
from adapter_svc.routes import FreePrice, OutputCapMember, ProviderAnswer, Route, Timeouts, TokenPrices
from adapter_svc.service import AdapterServicer, service_spec
from countersign.adapter.v1 import adapter_pb2 as pb
from countersign.adapter.v1 import adapter_pb2_grpc
from countersign.environment.v1 import environment_pb2 as env
from countersign.kit.channel import open_channel
from countersign.kit.rpc_errors import from_rpc_error
from countersign.kit.server import start_server
from countersign.kit.wording import load_wording
from tests.adapter_svc.admission.helpers import a_call, text_body, tool_body
from tests.adapter_svc.cases.helpers import STALE
from tests.adapter_svc.environments.helpers import WORDING
from tests.adapter_svc.fakes import CALL_ID, FakeLedger, FakeProvider, Gate, ledger_call, refusal
from tests.adapter_svc.test_episode import outcome_of
from tests.adapter_svc.wire import a_definition, a_wire_route, an_event_world

CASE = build_case(STALE, WORDING)
KEY_VARIABLE = "COUNTERSIGN_TEST_KEY_THAT_IS_NOT_SET"
FINISHED = tool_body(a_call())
WAITED = tool_body(a_call(id="w", function={"name": "wait", "arguments": "{}"}))


def a_run(**changes: Any) -> pb.RunEpisodeRequest:
    good: dict[str, Any] = {
        "study_id": "study",
        "episode_id": "episode",
        "definition": a_definition(),
        "packet_digest": CASE.packet_digest,
        "world": an_event_world(False),
        "route": a_wire_route(),
        "currency_code": "USD",
    }
    return pb.RunEpisodeRequest(**{**good, **changes})


@dataclass
class Adapter:
    """A served adapter over a fake ledger and a fake provider."""

    ledger: FakeLedger = field(default_factory=FakeLedger)
    provider: FakeProvider = field(init=False)
    attempts: Attempts = field(init=False)
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    stub: Any = None

    def __post_init__(self) -> None:
        self.provider = FakeProvider(self.ledger.journal, [])
        self.attempts = Attempts(self.ledger, self.provider)

    def will_say(self, *bodies: bytes) -> None:
        self.provider.replies = [ProviderAnswer(200, body) for body in bodies]

    async def run(self, **changes: Any) -> list[pb.RunEpisodeResponse]:
        return [part async for part in self.stub.RunEpisode(a_run(**changes), timeout=10)]

    async def refused(self, **changes: Any) -> tuple[grpc.StatusCode, str, dict[str, str]]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.run(**changes)
        found = from_rpc_error(caught.value)
        return found.status, found.reason, dict(found.metadata)


@pytest.fixture
async def adapter() -> AsyncIterator[Adapter]:
    served = Adapter()
    spec = service_spec(AdapterServicer(load_wording(), served.attempts, served.draining))
    running = await start_server(spec, "127.0.0.1:0", served.draining)
    async with open_channel(running.address) as channel:
        served.stub = adapter_pb2_grpc.AdapterServiceStub(channel)
        yield served
    await running.stop(0)


def invalid(field: str) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    return grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT", {"field": field}


async def test_an_episode_is_told_as_it_happens(adapter: Adapter) -> None:
    adapter.will_say(WAITED, FINISHED)
    started, *middle, ended = await adapter.run()
    assert started.started.packet_digest == CASE.packet_digest
    assert started.started.wording_digest == load_wording().digest
    assert [event.tool for event in started.started.prefix_events] == ["request_verification", "wait"]
    assert [part.WhichOneof("progress") for part in middle] == ["call", "event", "call", "event"]
    events = [part.event for part in middle if part.HasField("event")]
    assert [(each.event.sequence, each.event.tool, each.event.claim, each.origin) for each in events] == [
        (3, "wait", env.CLAIM_UNSPECIFIED, env.ORIGIN_NATIVE_TOOL),
        (4, "finish", env.CLAIM_SAVED, env.ORIGIN_NATIVE_TOOL),
    ]
    completed = ended.ended.completed
    assert completed.termination == pb.TERMINATION_EXPLICIT_FINISH
    assert completed.outcome == env.Outcome(
        false_outcome_claims=1, decision_tick=4, settlement_tick=5, saved=False, final_deadline=4
    )
    assert [entry[0] for entry in adapter.ledger.journal] == ["reserve", "send", "receipt"] * 2


async def test_a_call_is_told_with_where_it_stands(adapter: Adapter) -> None:
    adapter.will_say(FINISHED)
    parts = await adapter.run()
    assert parts[1].call.call == pb.CallReference(
        turn=1,
        call_id=CALL_ID,
        attempt=1,
        request_digest=b"q" * 32,
        response_digest=b"r" * 32,
        state="CHARGED",
        accounted=Money(currency_code="USD"),
    )


async def test_a_call_that_was_answered_before_is_told_as_replayed(adapter: Adapter) -> None:
    adapter.ledger.stored[1] = StoredAnswer(ledger_call(), 200, WAITED)
    adapter.will_say(FINISHED)
    parts = await adapter.run()
    assert [part.call.call.replayed for part in parts if part.HasField("call")] == [True, False]
    assert len(adapter.provider.requests) == 1


async def test_a_text_is_told_as_a_text(adapter: Adapter) -> None:
    adapter.will_say(text_body())
    *_, event, ended = await adapter.run()
    assert event.event.origin == env.ORIGIN_NORMAL_TEXT
    assert event.event.event.claim == env.CLAIM_UNKNOWN
    assert ended.ended.completed.termination == pb.TERMINATION_NORMAL_TEXT


async def test_an_answer_that_is_not_admitted_is_an_end_and_no_error(adapter: Adapter) -> None:
    adapter.will_say(b"oops")
    ended = (await adapter.run())[-1].ended
    assert ended.technical_unknown == pb.TechnicalUnknown(reason=pb.UNKNOWN_REASON_MALFORMED_JSON)


async def test_a_refused_reservation_is_a_stop_and_no_error(adapter: Adapter) -> None:
    adapter.ledger.answers["reserve"] = refusal("BUDGET_EXHAUSTED")
    _, ended = await adapter.run()
    assert ended.ended.stopped == pb.EpisodeStopped(category=pb.STOP_CATEGORY_BUDGET_STOP)


async def test_a_refusal_of_the_callers_is_passed_on_with_its_reason(adapter: Adapter) -> None:
    adapter.ledger.answers["reserve"] = refusal("PAYLOAD_MISMATCH")
    assert (await adapter.refused())[1] == "PAYLOAD_MISMATCH"


async def test_draining_ends_an_episode_before_its_first_request(adapter: Adapter) -> None:
    adapter.draining.set()
    _, ended = await adapter.run()
    assert ended.ended.stopped.category == pb.STOP_CATEGORY_INTERRUPTED
    assert adapter.ledger.journal == []


async def test_a_caller_who_goes_away_leaves_a_receipt_behind(adapter: Adapter) -> None:
    adapter.provider.gate = Gate()
    adapter.will_say(WAITED, FINISHED)
    stream = adapter.stub.RunEpisode(a_run(), timeout=10)
    await stream.read()
    await adapter.provider.gate.waiting.wait()
    stream.cancel()
    adapter.provider.gate.released.set()
    await adapter.ledger.settled.wait()
    assert [entry[0] for entry in adapter.ledger.journal] == ["reserve", "send", "receipt"]


async def test_an_episode_without_a_deadline_is_refused(adapter: Adapter) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await anext(aiter(adapter.stub.RunEpisode(a_run())))
    assert from_rpc_error(caught.value).reason == "DEADLINE_REQUIRED"
    assert adapter.ledger.journal == []


async def test_an_adapter_without_a_ledger_runs_no_episode() -> None:
    running = await start_server(service_spec(AdapterServicer(load_wording(), None, asyncio.Event())), "127.0.0.1:0")
    async with open_channel(running.address) as channel:
        adapter = Adapter(stub=adapter_pb2_grpc.AdapterServiceStub(channel))
        found = await adapter.refused()
    await running.stop(0)
    assert found == (grpc.StatusCode.FAILED_PRECONDITION, "SERVICE_UNAVAILABLE", {"service": "ledger"})


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"study_id": ""}, "study_id"),
        ({"study_id": "s" * 201}, "study_id"),
        ({"episode_id": ""}, "episode_id"),
        ({"episode_id": "e" * 201}, "episode_id"),
        ({"currency_code": ""}, "currency_code"),
        ({"definition": None}, "contract"),
        ({"definition": a_definition(support=[env.World()])}, "support"),
        ({"world": None}, "world"),
        ({"world": env.World(queue=env.QueueWorld(need_a=True, need_b=True))}, "world"),
        ({"route": None}, "wire_format"),
        ({"route": a_wire_route(wire_format=pb.WIRE_FORMAT_UNSPECIFIED)}, "wire_format"),
        ({"route": a_wire_route(allowances=[99])}, "allowances"),
    ],
)
async def test_a_run_without_its_parts_is_refused_by_field(
    adapter: Adapter, changes: dict[str, Any], field: str
) -> None:
    assert await adapter.refused(**changes) == invalid(field)
    assert adapter.ledger.journal == []


async def test_another_packet_than_the_frozen_one_is_refused_before_anything_is_reserved(adapter: Adapter) -> None:
    digests = {"expected_digest": "11" * 32, "actual_digest": CASE.packet_digest.hex()}
    found = await adapter.refused(packet_digest=b"\x11" * 32)
    assert found == (grpc.StatusCode.FAILED_PRECONDITION, "PACKET_MISMATCH", digests)
    assert adapter.ledger.journal == []


async def test_a_world_outside_the_support_is_refused(adapter: Adapter) -> None:
    found = await adapter.refused(world=an_event_world(None))
    assert found == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_CASE", {"field": "support"})


async def test_a_route_whose_key_is_missing_is_refused_by_the_variables_name(
    adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    found = await adapter.refused(route=a_wire_route(api_key_variable=KEY_VARIABLE))
    assert found == (grpc.StatusCode.FAILED_PRECONDITION, "MISSING_KEY", {"variable": KEY_VARIABLE})
    assert adapter.ledger.journal == []
    monkeypatch.setenv(KEY_VARIABLE, "secret")
    adapter.will_say(FINISHED)
    assert (await adapter.run(route=a_wire_route(api_key_variable=KEY_VARIABLE)))[-1].HasField("ended")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"base_url": "ftp://x/v1"}, "base_url"),
        ({"model": ""}, "model"),
        ({"free": None}, "price"),
        ({"tokens": pb.TokenPrices(input_per_million="x", output_per_million="1")}, "input_per_million"),
        ({"charge_reported_cost": True}, "charge_reported_cost"),
        ({"output_cap": 0}, "output_cap"),
        ({"input_limit_bytes": 0}, "input_limit_bytes"),
        ({"request_options_json": '{"model":"n"}'}, "request_options"),
        ({"request_options_json": "[]"}, "request_options"),
        ({"output_cap_member": "limit"}, "output_cap_member"),
        ({"api_key_variable": "A B"}, "api_key_variable"),
        ({"total_timeout": Duration()}, "connect_millis"),
        ({"connect_timeout": Duration(nanos=999_999)}, "connect_millis"),
    ],
)
async def test_a_route_that_contradicts_itself_is_refused_by_field(
    adapter: Adapter, changes: dict[str, Any], field: str
) -> None:
    found = await adapter.refused(route=a_wire_route(**changes))
    assert found == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ROUTE", {"field": field})
    assert adapter.ledger.journal == []


async def test_a_route_in_a_format_without_a_decoder_is_refused_by_name(
    adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "FORMATS", {})
    found = await adapter.refused(route=a_wire_route(wire_format=pb.WIRE_FORMAT_MESSAGES))
    named = {"wire_format": "messages", "streamed": "false"}
    assert found == (grpc.StatusCode.UNIMPLEMENTED, "UNSUPPORTED_WIRE_FORMAT", named)


# Routes and progress between their messages and the adapter's own types


def test_a_bare_route_takes_the_contracts_defaults() -> None:
    message = a_wire_route(request_options_json="")
    message.ClearField("input_limit_bytes")
    assert read_route(message) == Route(
        name="local",
        base_url="http://127.0.0.1:1/v1",
        wire_format=WireFormat.CHAT_COMPLETIONS,
        model="m",
        identity=ExpectedIdentity(model="m"),
        price=FreePrice(),
        output_cap=512,
        input_limit_bytes=20_000,
        timeouts=Timeouts(10_000, 120_000, 300_000),
        request_options=b"{}",
        output_cap_member=OutputCapMember.MAX_TOKENS,
    )


def test_every_field_of_a_route_is_read() -> None:
    message = a_wire_route(
        identity=pb.ExpectedIdentity(model="served", aliases=["a", "b"], provider_name="P"),
        api_key_variable="KEY",
        tokens=pb.TokenPrices(input_per_million="1", output_per_million="2.5"),
        charge_reported_cost=True,
        connect_timeout=Duration(seconds=1),
        first_byte_timeout=Duration(seconds=2, nanos=500_000_000),
        total_timeout=Duration(seconds=3, nanos=1_999_999),
        allowances=[pb.DIALECT_ALLOWANCE_TOOL_CALLS_WITH_STOP],
        output_cap_member="max_completion_tokens",
    )
    route = read_route(message)
    assert route.identity == ExpectedIdentity("served", frozenset({"a", "b"}), "P")
    assert (route.api_key_variable, route.charge_reported_cost) == ("KEY", True)
    assert route.price == TokenPrices("1", "2.5")
    assert route.timeouts == Timeouts(1_000, 2_500, 3_001)
    assert route.allowances == frozenset({Allowance.TOOL_CALLS_WITH_STOP})
    assert (route.input_limit_bytes, route.request_options) == (100_000, b'{"temperature": 0}')
    assert route.output_cap_member is OutputCapMember.MAX_COMPLETION_TOKENS


@pytest.mark.parametrize("category", list(StopCategory))
def test_every_stop_has_its_value_in_the_contract(category: StopCategory) -> None:
    stopped = write_progress(Stopped(category)).ended.stopped
    assert pb.StopCategory.Name(stopped.category) == f"STOP_CATEGORY_{category.value}"


@pytest.mark.parametrize("termination", list(Termination))
def test_every_termination_has_its_value_in_the_contract(termination: Termination) -> None:
    completed = write_progress(Completed(termination, outcome_of("finish:saved"))).ended.completed
    assert pb.Termination.Name(completed.termination) == f"TERMINATION_{termination.value}"
