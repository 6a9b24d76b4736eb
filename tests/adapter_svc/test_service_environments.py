"""Pending commitments and resource probes over a real channel: the cases built, the outcomes played."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from adapter_svc.service import AdapterServicer, service_spec
from countersign.adapter.v1 import adapter_pb2 as pb
from countersign.adapter.v1 import adapter_pb2_grpc
from countersign.environment.v1 import environment_pb2 as env
from countersign.kit.channel import call, open_channel
from countersign.kit.server import start_server
from countersign.kit.wording import load_wording
from tests.adapter_svc.environments.helpers import WORDING
from tests.adapter_svc.wire import a_definition

FINISH = env.Action(tool="finish", claim=env.CLAIM_SAVED)
Stub = Any


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    """An adapter without a ledger."""
    spec = service_spec(AdapterServicer(load_wording(), None, asyncio.Event()))
    running = await start_server(spec, "127.0.0.1:0")
    async with open_channel(running.address) as channel:
        yield adapter_pb2_grpc.AdapterServiceStub(channel)
    await running.stop(0)


@pytest.mark.parametrize(
    ("contract", "worlds", "environment"),
    [
        (
            env.Contract(pending=env.PendingContract(cancel_first=False)),
            [env.World(pending=env.PendingWorld(need=need)) for need in (False, True)],
            "pending",
        ),
        (
            env.Contract(probe=env.ProbeContract(reserve_capacity=2)),
            [env.World(probe=env.ProbeWorld(need=need)) for need in (False, True)],
            "probe",
        ),
    ],
)
async def test_a_case_of_one_need_is_built_in_either_environment(
    stub: Stub, contract: env.Contract, worlds: list[env.World], environment: str
) -> None:
    definition = a_definition(contract=contract, support=worlds, prior=[0.5, 0.5], operator_prefix=[])
    answer = await call(stub.BuildCase, pb.BuildCaseRequest(definition=definition), 10)
    packet = json.loads(answer.packet)
    assert packet["generative_support"] == [{"need": False}, {"need": True}]
    assert packet["observation"]["tools"] == [tool.name for tool in answer.tools]
    rules = WORDING["environments"][environment]["transition_rules"]
    assert (packet["transition_rules"], answer.prefix_events) == (rules, [])


async def test_a_pending_commitment_is_played_to_its_settled_outcome(stub: Stub) -> None:
    request = pb.PlayActionsRequest(
        contract=env.Contract(pending=env.PendingContract()),
        world=env.World(pending=env.PendingWorld(need=True)),
        actions=[env.Action(tool="request_verification"), FINISH],
    )
    answer = await call(stub.PlayActions, request, 10)
    assert [(event.start_tick, event.end_tick) for event in answer.events] == [(2, 3), (3, 4)]
    assert answer.outcome == env.Outcome(
        protected_loss=1,
        operation_cost=1,
        decision_tick=4,
        settlement_tick=6,
        saved=True,
        final_deadline=5,
        final_operation_state="committed",
    )


async def test_a_resource_probe_is_played_to_its_outcome(stub: Stub) -> None:
    request = pb.PlayActionsRequest(
        contract=env.Contract(probe=env.ProbeContract()),
        world=env.World(probe=env.ProbeWorld(need=True)),
        operator_prefix=["consume_probe"],
        actions=[env.Action(tool="rescue"), FINISH],
    )
    answer = await call(stub.PlayActions, request, 10)
    assert answer.outcome == env.Outcome(
        primary_loss=5,
        operation_cost=1,
        false_outcome_claims=1,
        decision_tick=3,
        settlement_tick=4,
        saved=False,
        reserve_remaining=0,
        diagnostic_consumption=1,
        executed_rescues=0,
    )
