"""`SolveComparator` over a real channel."""

import asyncio
import hashlib
import json
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import grpc
import pytest

from countersign.environment.v1 import environment_pb2 as env
from countersign.kit.channel import call, open_channel
from countersign.kit.rpc_errors import ServiceError
from countersign.kit.server import start_server
from countersign.kit.wording import load_wording
from countersign.verifier.v1 import verifier_pb2 as pb
from countersign.verifier.v1 import verifier_pb2_grpc
from verifier_svc import messages, solving
from verifier_svc.comparator import MAX_STATE_LIMIT, Budget, Case, Comparator
from verifier_svc.service import VerifierServicer, service_spec


@pytest.fixture
async def stub() -> AsyncIterator[Any]:
    running = await start_server(service_spec(VerifierServicer(load_wording(), None)), "127.0.0.1:0")
    async with open_channel(running.address) as channel:
        yield verifier_pb2_grpc.VerifierServiceStub(channel)
    await running.stop(0)


def a_request(**changes: Any) -> pb.SolveComparatorRequest:
    """The queue's default with need in doubt, few calls and every other default."""
    worlds = [env.QueueWorld(need_a=a, need_b=b) for a in (False, True) for b in (False, True)]
    definition = env.CaseDefinition(
        contract=env.Contract(queue=env.QueueContract(max_calls=3)),
        support=[env.World(queue=world) for world in worlds],
        prior=[0.25] * 4,
    )
    return pb.SolveComparatorRequest(**{"definition": definition, **changes})


async def refusal(stub: Any, request: pb.SolveComparatorRequest) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    with pytest.raises(ServiceError) as caught:
        await call(stub.SolveComparator, request, 10)
    return caught.value.status, caught.value.reason, dict(caught.value.metadata)


async def test_a_case_is_solved_with_policy_and_certificate(stub: Any) -> None:
    answer = await call(stub.SolveComparator, a_request(), 10)
    raw = await call(stub.SolveComparator, a_request(raw_histories=True), 10)
    assert answer.expected_loss == pytest.approx(2.6)
    assert raw.expected_loss == pytest.approx(answer.expected_loss, abs=1e-9)
    assert (raw.first_action, raw.policy) == (answer.first_action, answer.policy)
    assert 0 < answer.states_count < raw.states_count
    assert json.loads(answer.policy)["tool"] == answer.first_action
    assert answer.certificate_digest == hashlib.sha256(answer.certificate).digest()
    statement = json.loads(answer.certificate)
    assert statement["policy_digest"] == hashlib.sha256(answer.policy).hexdigest()
    assert statement["expected_loss"] == answer.expected_loss


async def test_more_states_than_the_limit_are_refused_by_reason(stub: Any) -> None:
    expected = (grpc.StatusCode.RESOURCE_EXHAUSTED, "STATE_LIMIT_EXCEEDED", {"state_limit": "7"})
    assert await refusal(stub, a_request(state_limit=7)) == expected
    assert await refusal(stub, a_request(state_limit=7, raw_histories=True)) == expected


async def test_what_is_no_case_is_refused_by_field(stub: Any) -> None:
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    request = a_request(state_limit=MAX_STATE_LIMIT + 1)
    assert await refusal(stub, request) == (invalid, "INVALID_ARGUMENT", {"field": "state_limit"})
    missing = pb.SolveComparatorRequest()
    assert await refusal(stub, missing) == (invalid, "INVALID_ARGUMENT", {"field": "contract"})
    request = a_request()
    request.definition.prior[:] = [0.5] * 4
    assert await refusal(stub, request) == (invalid, "INVALID_CASE", {"field": "prior"})
    request = a_request()
    request.definition.operator_prefix[:] = ["verify_a", "wait"]
    assert await refusal(stub, request) == (invalid, "INVALID_CASE", {"field": "support"})


async def test_a_long_solution_keeps_nobody_waiting_and_stops_with_its_caller(
    stub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()

    def endless(case: Case, budget: Budget, raw_histories: bool) -> Comparator:
        begun.set()
        while not budget.stopped():
            pass
        ended.set()
        raise AssertionError("nobody waits for this")

    monkeypatch.setattr(solving, "solve", endless)
    waiting = asyncio.ensure_future(call(stub.SolveComparator, a_request(), 60))
    assert await asyncio.to_thread(begun.wait, 30)
    packet = await call(stub.AuditPacket, pb.AuditPacketRequest(definition=a_request().definition), 30)
    assert not packet.passed
    assert not waiting.done()
    waiting.cancel()
    assert await asyncio.to_thread(ended.wait, 30)


async def test_an_analysis_is_given_the_exact_loss_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    case = messages.case_of(a_request().definition)
    assert await solving.Solving().expected_loss(case) == pytest.approx(2.6)
    assert await solving.Solving().expected_loss(replace(case, prior=[0.5] * 4)) is None
    monkeypatch.setattr(solving, "DEFAULT_STATE_LIMIT", 7)
    assert await solving.Solving().expected_loss(case) is None
