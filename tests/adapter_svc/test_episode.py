"""The turn loop: endings, origins, what goes back to the provider, and what stops it before a request."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from adapter_svc.admission import Allowance, Origin, Reason, TechnicalUnknown
from adapter_svc.attempts import Attempts, StopCategory
from adapter_svc.cases import build_case, open_episode
from adapter_svc.environments import EventRecord, play
from adapter_svc.episode import (
    RECORD_MARGIN_SECONDS,
    CallKnown,
    Completed,
    Ending,
    Episode,
    EpisodePlan,
    EventHappened,
    Progress,
    Stopped,
    Termination,
)
from adapter_svc.ledger_port import CallState, Slot, StoredAnswer
from adapter_svc.routes import (
    InputLimitExceeded,
    ProviderAnswer,
    Route,
    Timeouts,
    TokenPrices,
    build_request,
    reservation_bound,
)
from countersign.kit.rpc_errors import ServiceError
from tests.adapter_svc.cases.helpers import STALE
from tests.adapter_svc.environments.helpers import MESSAGE, WORDING, actions
from tests.adapter_svc.fakes import FakeLedger, FakeProvider, ledger_call, refusal
from tests.adapter_svc.routes.helpers import a_route

CASE = build_case(STALE, WORDING)
WORLD = STALE.support[0]
PREFIX_COUNT = 2
WAIT_MESSAGE = (
    '{ "role":"assistant","reasoning_details":[{"data":"b3BhcXVl","n":1.0}],"empty":[],"content":null,\n'
    '"tool_calls":[{"function":{"arguments":"{ }","name":"wait"},"type":"function","id":"w\\u00e9/1"}] }'
)
"""Spelled as no encoder of ours would."""


def answer(message: str, finish_reason: str, **body: Any) -> ProviderAnswer:
    choice = f'{{"index":0,"message":{message},"finish_reason":"{finish_reason}"}}'
    more = "".join(f",{json.dumps(key)}:{json.dumps(value)}" for key, value in body.items())
    return ProviderAnswer(200, f'{{"model":"m","choices":[{choice}]{more}}}'.encode())


def called(tool: str, call_id: str, arguments: str = "{}", finish_reason: str = "tool_calls") -> ProviderAnswer:
    call = {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}
    return answer(json.dumps({"role": "assistant", "tool_calls": [call]}), finish_reason)


def text(content: str = "All are saved.") -> ProviderAnswer:
    return answer(json.dumps({"role": "assistant", "content": content}), "stop")


def finish(claim: str, call_id: str = "f") -> ProviderAnswer:
    return called("finish", call_id, json.dumps({"claim": claim}))


class Run:
    """One episode over fakes, from the stale checkpoint of two operator's events."""

    def __init__(self, *replies: Any, **route: Any) -> None:
        self.ledger = FakeLedger()
        self.provider = FakeProvider(self.ledger.journal, list(replies))
        self.draining = asyncio.Event()
        self.simulator = open_episode(STALE.setting, WORLD, CASE.packet, WORDING)
        self.route: Route = a_route(**{"input_limit_bytes": 100_000, **route})
        plan = EpisodePlan("study", "episode", CASE, self.route, "USD")
        self.episode = Episode(plan, self.simulator, Attempts(self.ledger, self.provider), self.draining)

    async def all(self) -> list[Progress]:
        return [item async for item in self.episode.run()]

    async def end(self) -> Ending:
        last = (await self.all())[-1]
        assert isinstance(last, Ending)
        return last

    @property
    def model_events(self) -> Sequence[EventRecord]:
        return self.simulator.events[PREFIX_COUNT:]


def outcome_of(*calls: str) -> Any:
    setting = STALE.setting
    prefix = setting.operator_prefix
    return play("event", WORLD, setting.contract, prefix, actions(*calls), MESSAGE, WORDING).outcome


def first_request(route: Route) -> bytes:
    return build_request(route, CASE.system_message, CASE.packet, CASE.tools, [])


def first_request_bytes() -> int:
    """How much of the input limit the first request takes."""
    with pytest.raises(InputLimitExceeded) as caught:
        first_request(a_route(input_limit_bytes=1))
    return caught.value.measured_bytes


async def test_a_text_ends_as_finish_unknown_and_is_not_judged() -> None:
    run = Run(text())
    call, event, ending = await run.all()
    assert call == CallKnown(ledger_call(), replayed=False)
    assert event == EventHappened(run.model_events[0], Origin.NORMAL_TEXT)
    assert (event.event.sequence, event.event.tool, event.event.claim) == (3, "finish", "unknown")
    assert ending == Completed(Termination.NORMAL_TEXT, outcome_of("finish:unknown"))


@pytest.mark.parametrize("claim", ["saved", "not_saved", "unknown"])
async def test_finish_ends_with_its_claim(claim: str) -> None:
    run = Run(called("transfer", "t"), finish(claim))
    items = await run.all()
    assert [type(item) for item in items] == [CallKnown, EventHappened, CallKnown, EventHappened, Completed]
    happened = [item for item in items if isinstance(item, EventHappened)]
    assert [item.origin for item in happened] == [Origin.NATIVE_TOOL, Origin.NATIVE_TOOL]
    assert [(item.event.sequence, item.event.tool, item.event.claim) for item in happened] == [
        (3, "transfer", None),
        (4, "finish", claim),
    ]
    assert items[-1] == Completed(Termination.EXPLICIT_FINISH, outcome_of("transfer", f"finish:{claim}"))


async def test_the_last_call_that_the_contract_leaves_ends_without_a_claim() -> None:
    run = Run(*(called("wait", f"w{turn}") for turn in range(1, 9)))
    ending = await run.end()
    assert ending == Completed(Termination.MAX_CALLS, outcome_of(*["wait"] * 6))
    assert len(run.provider.requests) == 6
    assert [order.slot.turn for order in run.ledger.orders] == [1, 2, 3, 4, 5, 6]


async def test_finishing_with_the_last_call_is_an_explicit_finish() -> None:
    run = Run(*(called("wait", f"w{turn}") for turn in range(1, 6)), finish("saved"))
    assert await run.end() == Completed(Termination.EXPLICIT_FINISH, outcome_of(*["wait"] * 5, "finish:saved"))


async def test_a_text_with_the_last_call_is_a_text() -> None:
    run = Run(*(called("wait", f"w{turn}") for turn in range(1, 6)), text())
    assert await run.end() == Completed(Termination.NORMAL_TEXT, outcome_of(*["wait"] * 5, "finish:unknown"))


async def test_an_answer_that_is_not_admitted_executes_nothing() -> None:
    run = Run(called("fly", "f"))
    items = await run.all()
    where = "/choices/0/message/tool_calls/0/function/name"
    assert items == [CallKnown(ledger_call(), False), TechnicalUnknown(Reason.UNKNOWN_TOOL, where)]
    assert run.model_events == ()
    assert run.simulator.observation() == json.loads(CASE.packet)["observation"]


async def test_earlier_events_stay_where_a_later_answer_is_not_admitted() -> None:
    run = Run(called("wait", "w"), ProviderAnswer(200, b"oops"))
    items = await run.all()
    assert items[-1] == TechnicalUnknown(Reason.MALFORMED_JSON, "")
    assert [event.tool for event in run.model_events] == ["wait"]
    assert not run.simulator.done


async def test_an_id_used_in_an_earlier_turn_is_not_admitted() -> None:
    run = Run(called("wait", "one"), called("wait", "two"), called("transfer", "one"))
    where = "/choices/0/message/tool_calls/0/id"
    assert await run.end() == TechnicalUnknown(Reason.DUPLICATE_TOOL_CALL_ID, where)
    assert [event.tool for event in run.model_events] == ["wait", "wait"]


async def test_an_answer_at_the_output_cap_is_not_admitted() -> None:
    message = json.dumps({"role": "assistant", "content": "All are"})
    run = Run(answer(message, "stop", usage={"completion_tokens": 512}))
    assert await run.end() == TechnicalUnknown(Reason.TRUNCATED, "/usage/completion_tokens")


async def test_a_dialect_is_allowed_by_the_route_alone() -> None:
    odd = called("wait", "w", finish_reason="stop")
    refused = Run(odd)
    assert isinstance(await refused.end(), TechnicalUnknown)
    allowed = Run(odd, text(), allowances=frozenset({Allowance.TOOL_CALLS_WITH_STOP}))
    assert isinstance(await allowed.end(), Completed)


async def test_what_the_model_said_goes_back_byte_for_byte_with_its_id_and_result() -> None:
    run = Run(answer(WAIT_MESSAGE, "tool_calls"), called("wait", "w2"), text())
    await run.all()
    first, second, third = run.provider.requests
    assert first == first_request(run.route)
    result = run.model_events[0].result.decode()
    reply = json.dumps(
        {"content": result, "role": "tool", "tool_call_id": "wé/1"},
        ensure_ascii=False,
        sort_keys=True,
        separators=(",", ":"),
    )
    assert second == first.replace(b'}],"model"', b"}," + WAIT_MESSAGE.encode() + b"," + reply.encode() + b'],"model"')
    assert third.startswith(second[: second.index(b'],"model"')])
    assert run.ledger.orders[1].request == second


async def test_each_turn_is_ordered_by_its_slot_its_bound_and_a_lease_that_leaves_time_to_record() -> None:
    prices = TokenPrices("1", "2")
    run = Run(called("wait", "w"), text(), price=prices, timeouts=Timeouts(total_millis=300_999))
    await run.all()
    for turn, (order, request) in enumerate(zip(run.ledger.orders, run.provider.requests, strict=True), start=1):
        bound = reservation_bound(run.route, request)
        assert order.slot == Slot("study", "episode", turn)
        assert (order.amount.currency, order.amount.nanos) == ("USD", bound.nanos)
        assert (order.basis, order.price_table_digest) == ("PRICED_BOUND", prices.digest)
        assert order.lease_seconds == 300 + RECORD_MARGIN_SECONDS
    assert run.ledger.orders[1].amount.nanos > run.ledger.orders[0].amount.nanos


async def test_a_held_call_stops_and_is_named() -> None:
    run = Run(called("wait", "w"), ProviderAnswer(500, b""))
    items = await run.all()
    held = ledger_call(CallState.HELD, "HTTP_STATUS", turn=2)
    assert items[-2:] == [CallKnown(held, replayed=False), Stopped(StopCategory.TRANSPORT_UNKNOWN)]
    assert [event.tool for event in run.model_events] == ["wait"]


async def test_a_refused_reservation_stops_without_a_call() -> None:
    run = Run(text())
    run.ledger.answers["reserve"] = refusal("BUDGET_EXHAUSTED")
    assert await run.all() == [Stopped(StopCategory.BUDGET_STOP)]


async def test_a_refusal_of_the_callers_ends_the_run_as_an_error() -> None:
    run = Run(text())
    run.ledger.answers["reserve"] = refusal("PAYLOAD_MISMATCH")
    with pytest.raises(ServiceError, match="PAYLOAD_MISMATCH"):
        await run.all()


async def test_a_replayed_turn_says_so_and_the_episode_goes_on() -> None:
    run = Run(text())
    run.ledger.stored[1] = StoredAnswer(ledger_call(), 200, called("wait", "w").body)
    items = await run.all()
    assert [item.replayed for item in items if isinstance(item, CallKnown)] == [True, False]
    assert isinstance(items[-1], Completed)
    assert len(run.provider.requests) == 1


async def test_draining_stops_before_the_next_request() -> None:
    run = Run(called("wait", "w"), text())
    items: list[Progress] = []
    async for item in run.episode.run():
        items.append(item)
        run.draining.set()
    assert [type(item) for item in items] == [CallKnown, EventHappened, Stopped]
    assert items[-1] == Stopped(StopCategory.INTERRUPTED)
    assert len(run.ledger.orders) == 1


async def test_draining_lets_an_episode_end_that_needs_no_further_request() -> None:
    run = Run(text())
    items = []
    async for item in run.episode.run():
        items.append(item)
        run.draining.set()
    assert isinstance(items[-1], Completed)


async def test_a_first_request_over_the_input_limit_reserves_nothing() -> None:
    run = Run(text(), input_limit_bytes=first_request_bytes() - 1)
    assert await run.all() == [Stopped(StopCategory.INPUT_LIMIT)]
    assert run.ledger.journal == []


async def test_a_later_request_over_the_input_limit_stops_there() -> None:
    run = Run(called("wait", "w"), text(), input_limit_bytes=first_request_bytes())
    items = await run.all()
    assert [type(item) for item in items] == [CallKnown, EventHappened, Stopped]
    assert items[-1] == Stopped(StopCategory.INPUT_LIMIT)
    assert len(run.ledger.orders) == 1
