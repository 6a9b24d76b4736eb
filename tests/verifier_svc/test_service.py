"""`VerifierService` over a real channel: every RPC, the outcomes of both environments, and the callers' own faults."""

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from google.type.money_pb2 import Money

from countersign.environment.v1 import environment_pb2 as env
from countersign.kit.channel import call, open_channel
from countersign.kit.rpc_errors import ServiceError
from countersign.kit.server import start_server
from countersign.kit.wording import load_wording
from countersign.verifier.v1 import verifier_pb2 as pb
from countersign.verifier.v1 import verifier_pb2_grpc
from tests.verifier_svc.episode import played
from tests.verifier_svc.wire import DEFINITION, WORLD, a_route
from verifier_svc import messages
from verifier_svc.episode import StoredCall
from verifier_svc.packets import build_packet
from verifier_svc.service import VerifierServicer, service_spec

WORDING = dict(load_wording().document)


@dataclass
class FakeEvidence:
    """Gives `stored` for every episode, or fails with `failure`."""

    stored: Sequence[StoredCall] = ()
    failure: ServiceError | None = None
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def of_episode(self, study_id: str, episode_id: str) -> list[StoredCall]:
        self.asked.append((study_id, episode_id))
        if self.failure is not None:
            raise self.failure
        return list(self.stored)


@pytest.fixture
def evidence() -> FakeEvidence:
    return FakeEvidence()


@pytest.fixture
async def stub(evidence: FakeEvidence) -> AsyncIterator[Any]:
    running = await start_server(service_spec(VerifierServicer(load_wording(), evidence)), "127.0.0.1:0")
    async with open_channel(running.address) as channel:
        yield verifier_pb2_grpc.VerifierServiceStub(channel)
    await running.stop(0)


async def refusal(method: Any, request: Any) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    with pytest.raises(ServiceError) as caught:
        await call(method, request, 10)
    return caught.value.status, caught.value.reason, dict(caught.value.metadata)


def invalid(field: str, reason: str = "INVALID_ARGUMENT") -> tuple[grpc.StatusCode, str, dict[str, str]]:
    return grpc.StatusCode.INVALID_ARGUMENT, reason, {"field": field}


# VerifyTrace

EVENT_WORLD = env.World(event=env.EventWorld(need=True, effective=True))
QUEUE_WORLD = env.World(queue=env.QueueWorld(need_a=True, need_b=True))


def an_event(sequence: int, tool: str, claim: Any = env.CLAIM_UNSPECIFIED, **changes: Any) -> env.EventRecord:
    good: dict[str, Any] = {"start_tick": sequence - 1, "end_tick": sequence}
    return env.EventRecord(**{"sequence": sequence, "tool": tool, "claim": claim, **good, **changes})


def a_trace(*events: env.EventRecord, **changes: Any) -> pb.VerifyTraceRequest:
    good: dict[str, Any] = {
        "contract": env.Contract(event=env.EventContract()),
        "world": EVENT_WORLD,
        "operator_prefix": ["wait"],
        "events": events,
    }
    return pb.VerifyTraceRequest(**{**good, **changes})


EVENTS = (an_event(1, "wait"), an_event(2, "transfer"), an_event(3, "finish", env.CLAIM_SAVED))
EVENT_OUTCOME = env.Outcome(
    protected_loss=1,
    authority_breaches=1,
    operation_cost=1,
    decision_tick=3,
    settlement_tick=4,
    saved=True,
    final_deadline=3,
)


async def test_an_event_trace_that_holds_agrees(stub: Any) -> None:
    answer = await call(stub.VerifyTrace, a_trace(*EVENTS, outcome=EVENT_OUTCOME), 10)
    assert answer == pb.VerifyTraceResponse(agrees=True, outcome=EVENT_OUTCOME)


async def test_a_queue_trace_answers_by_job(stub: Any) -> None:
    jobs = [
        env.JobOutcome(job="a", saved=False, final_deadline=2),
        env.JobOutcome(job="b", saved=True, final_deadline=6),
    ]
    outcome = env.Outcome(
        primary_loss=5,
        protected_loss=1,
        authority_breaches=1,
        operation_cost=1,
        decision_tick=2,
        settlement_tick=7,
        jobs=jobs,
    )
    request = pb.VerifyTraceRequest(
        contract=env.Contract(queue=env.QueueContract(deadline_b=6)),
        world=QUEUE_WORLD,
        events=[an_event(1, "transfer_b"), an_event(2, "finish", env.CLAIM_UNKNOWN)],
        outcome=outcome,
    )
    assert await call(stub.VerifyTrace, request, 10) == pb.VerifyTraceResponse(agrees=True, outcome=outcome)
    request.outcome.jobs[0].saved = True
    answer = await call(stub.VerifyTrace, request, 10)
    assert [difference.field for difference in answer.differences] == ["outcome.saved"]


async def test_what_differs_is_named_and_the_recomputed_outcome_given(stub: Any) -> None:
    stated = env.Outcome(saved=False, final_deadline=3, settlement_tick=4, decision_tick=3)
    wrong = an_event(2, "transfer", start_tick=0)
    answer = await call(stub.VerifyTrace, a_trace(EVENTS[0], wrong, EVENTS[2], outcome=stated), 10)
    assert not answer.agrees
    assert answer.outcome == EVENT_OUTCOME
    assert [(each.sequence, each.field, each.expected, each.actual) for each in answer.differences] == [
        (2, "start_tick", "1", "0"),
        (0, "outcome.authority_breaches", "1", "0"),
        (0, "outcome.operation_cost", "1", "0"),
        (0, "outcome.protected_loss", "1", "0"),
        (0, "outcome.saved", "True", "False"),
    ]


async def test_a_stated_outcome_without_its_optional_parts_lacks_them(stub: Any) -> None:
    stated = env.Outcome()
    stated.CopyFrom(EVENT_OUTCOME)
    stated.ClearField("saved")
    answer = await call(stub.VerifyTrace, a_trace(*EVENTS, outcome=stated), 10)
    assert [(each.field, each.actual) for each in answer.differences] == [("outcome.saved", "absent")]


async def test_a_trace_that_does_not_end_has_no_outcome(stub: Any) -> None:
    answer = await call(stub.VerifyTrace, a_trace(*EVENTS[:2]), 10)
    assert (answer.agrees, answer.HasField("outcome")) == (False, False)
    assert [each.field for each in answer.differences] == ["ended"]


async def test_result_bytes_are_compared_where_they_are_given_and_long_ones_are_cut(stub: Any) -> None:
    wrong = an_event(1, "wait", result=b"\xff" + b"x" * 5_000)
    (difference,) = (await call(stub.VerifyTrace, a_trace(wrong, *EVENTS[1:]), 10)).differences
    assert (difference.sequence, difference.field) == (1, "result")
    assert difference.actual == "\\xff" + "x" * (messages.SHOWN_CHARACTERS - 4) + "… (5004 characters)"
    assert len(difference.expected) < messages.SHOWN_CHARACTERS + 40
    assert difference.expected.startswith('{"observation":{"authority_rule"')


async def test_a_trace_of_another_message_has_other_results(stub: Any) -> None:
    episode = played.finished(WORDING)
    results = episode.results()
    events = [
        an_event(1, "request_verification", result=results[0]),
        an_event(2, "wait", result=results[1]),
        an_event(3, "finish", env.CLAIM_UNKNOWN),
    ]
    request = pb.VerifyTraceRequest(
        contract=DEFINITION.contract,
        world=WORLD,
        operator_prefix=["request_verification", "wait"],
        events=events,
        untrusted_message=played.CASE.untrusted_message,
    )
    assert (await call(stub.VerifyTrace, request, 10)).agrees
    request.untrusted_message = ""
    assert not (await call(stub.VerifyTrace, request, 10)).agrees


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"contract": env.Contract()}, invalid("contract")),
        ({"world": env.World()}, invalid("world")),
        ({"world": QUEUE_WORLD}, invalid("world")),
        ({"events": [an_event(1, "finish", 99)]}, invalid("events.claim")),
        ({"contract": env.Contract(event=env.EventContract(deadline=0))}, invalid("deadline", "INVALID_CASE")),
        ({"operator_prefix": ["finish"]}, invalid("operator_prefix", "INVALID_CASE")),
        (
            {"contract": env.Contract(pending=env.PendingContract()), "world": env.World(pending=env.PendingWorld())},
            invalid("need", "INVALID_CASE"),
        ),
    ],
)
async def test_a_trace_that_cannot_be_replayed_is_refused(stub: Any, changes: dict[str, Any], expected: Any) -> None:
    assert await refusal(stub.VerifyTrace, a_trace(**{"events": EVENTS, **changes})) == expected


# VerifyEpisode


def an_episode(record: bytes, **changes: Any) -> pb.VerifyEpisodeRequest:
    good: dict[str, Any] = {
        "study_id": "study-1",
        "episode_id": played.EPISODE_ID,
        "definition": DEFINITION,
        "world": WORLD,
        "route": a_route(),
        "record": record,
        "currency_code": "USD",
    }
    return pb.VerifyEpisodeRequest(**{**good, **changes})


async def test_an_episode_is_rebuilt_from_its_receipts(stub: Any, evidence: FakeEvidence) -> None:
    episode = played.finished(WORDING)
    evidence.stored = episode.receipts()
    answer = await call(stub.VerifyEpisode, an_episode(played.canonical(episode.record())), 10)
    assert [(each.field, each.expected, each.actual) for each in answer.differences] == []
    assert (answer.agrees, answer.status) == (True, "completed")
    assert answer.accounted == Money(currency_code="USD", nanos=3 * 1_014_000)
    recorded = episode.record()["outcome"]
    assert messages.stated_outcome(answer.outcome) == recorded
    assert len(answer.checked) > 5
    assert evidence.asked == [("study-1", played.EPISODE_ID)]


async def test_an_episode_that_was_not_admitted_has_no_outcome(stub: Any, evidence: FakeEvidence) -> None:
    episode = played.not_admitted(WORDING)
    evidence.stored = episode.receipts()
    answer = await call(stub.VerifyEpisode, an_episode(played.canonical(episode.record())), 10)
    assert (answer.agrees, answer.status, answer.HasField("outcome")) == (True, "technical_unknown", False)


async def test_a_record_that_says_otherwise_does_not_agree(stub: Any, evidence: FakeEvidence) -> None:
    episode = played.finished(WORDING)
    evidence.stored = episode.receipts()
    record = episode.record()
    record["outcome"]["authority_breaches"] = 0
    answer = await call(stub.VerifyEpisode, an_episode(played.canonical(record)), 10)
    assert [(each.field, each.expected, each.actual) for each in answer.differences] == [
        ("outcome.authority_breaches", "1", "0")
    ]


async def test_a_frozen_route_that_is_another_does_not_agree(stub: Any, evidence: FakeEvidence) -> None:
    episode = played.ended_by_text(WORDING)
    evidence.stored = episode.receipts()
    record = played.canonical(episode.record())
    for route in (a_route(model="m-2"), a_route(output_cap=7), a_route(input_limit_bytes=100)):
        assert not (await call(stub.VerifyEpisode, an_episode(record, route=route), 10)).agrees


async def test_a_verifier_without_a_ledger_verifies_no_episode_but_traces() -> None:
    running = await start_server(service_spec(VerifierServicer(load_wording(), None)), "127.0.0.1:0")
    async with open_channel(running.address) as channel:
        stub = verifier_pb2_grpc.VerifierServiceStub(channel)
        found = await refusal(stub.VerifyEpisode, an_episode(b"{}"))
        agrees = (await call(stub.VerifyTrace, a_trace(*EVENTS), 10)).agrees
    await running.stop(0)
    assert found == (grpc.StatusCode.FAILED_PRECONDITION, "SERVICE_UNAVAILABLE", {"service": "ledger"})
    assert agrees


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (ServiceError(grpc.StatusCode.UNAVAILABLE, "", "10.0.0.1 is down", {}), "SERVICE_UNAVAILABLE"),
        (ServiceError(grpc.StatusCode.DATA_LOSS, "STORE_CORRUPT", "damaged", {}), "STORE_CORRUPT"),
    ],
)
async def test_evidence_that_cannot_be_read_is_an_error_and_no_verdict(
    stub: Any, evidence: FakeEvidence, failure: ServiceError, reason: str
) -> None:
    evidence.failure = failure
    record = played.canonical(played.finished(WORDING).record())
    assert (await refusal(stub.VerifyEpisode, an_episode(record)))[1] == reason


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"study_id": ""}, invalid("study_id")),
        ({"episode_id": ""}, invalid("episode_id")),
        ({"currency_code": ""}, invalid("currency_code")),
        ({"definition": None}, invalid("contract")),
        ({"world": QUEUE_WORLD}, invalid("world")),
        ({"route": a_route(tokens=None)}, invalid("route.price")),
        ({"route": a_route(allowances=[99])}, invalid("route.allowances")),
        ({"route": a_route(wire_format=0)}, invalid("route.wire_format")),
        ({"route": a_route(wire_format=99)}, invalid("route.wire_format")),
        ({"route": a_route(request_options_json="[]")}, invalid("route.request_options_json")),
        ({"route": a_route(request_options_json='{"a":1,"a":2}')}, invalid("route.request_options_json")),
        ({"route": a_route(request_options_json='{"a":1e400}')}, invalid("route.request_options_json")),
        ({"route": a_route(request_options_json="[" * 100_000)}, invalid("route.request_options_json")),
        ({"record": b"{"}, invalid("record", "INVALID_RECORD")),
        ({"record": b"{}"}, invalid("calls", "INVALID_RECORD")),
    ],
)
async def test_an_episode_that_cannot_be_verified_is_refused_by_field(
    stub: Any, changes: dict[str, Any], expected: Any
) -> None:
    record = played.canonical(played.finished(WORDING).record())
    assert await refusal(stub.VerifyEpisode, an_episode(**{"record": record, **changes})) == expected


# AuditPacket


async def test_a_packet_as_declared_passes_every_check(stub: Any) -> None:
    packet = build_packet(played.CASE, WORDING)
    answer = await call(stub.AuditPacket, pb.AuditPacketRequest(packet=packet, definition=DEFINITION), 10)
    assert [finding.check for finding in answer.findings if not finding.passed] == []
    assert answer.passed
    assert answer.packet_digest == hashlib.sha256(packet).digest()
    assert len({finding.check for finding in answer.findings}) == len(answer.findings) > 5


async def test_a_packet_that_tells_more_fails_by_name(stub: Any) -> None:
    packet = played.canonical({**json.loads(build_packet(played.CASE, WORDING)), "realised_world": 1})
    answer = await call(stub.AuditPacket, pb.AuditPacketRequest(packet=packet, definition=DEFINITION), 10)
    assert not answer.passed
    failed = [finding for finding in answer.findings if not finding.passed]
    assert failed
    assert all(finding.detail for finding in failed)


async def test_a_packet_is_measured_against_the_limit_that_is_given(stub: Any) -> None:
    packet = build_packet(played.CASE, WORDING)
    request = pb.AuditPacketRequest(packet=packet, definition=DEFINITION, input_limit_bytes=100)
    failed = [finding.check for finding in (await call(stub.AuditPacket, request, 10)).findings if not finding.passed]
    assert len(failed) == 1


async def test_a_packet_without_its_case_is_refused(stub: Any) -> None:
    assert await refusal(stub.AuditPacket, pb.AuditPacketRequest(packet=b"{}")) == invalid("contract")


# VerifyTrace and the other environments


@pytest.mark.parametrize(
    ("kind", "tools", "outcome"),
    [
        (
            {
                "contract": env.Contract(pending=env.PendingContract()),
                "world": env.World(pending=env.PendingWorld(need=True)),
            },
            ("request_verification", "finish"),
            env.Outcome(protected_loss=1, operation_cost=1, decision_tick=4, settlement_tick=6, saved=True),
        ),
        (
            {"contract": env.Contract(probe=env.ProbeContract()), "world": env.World(probe=env.ProbeWorld(need=True))},
            ("read_certificate", "rescue", "finish"),
            env.Outcome(operation_cost=1, decision_tick=3, settlement_tick=4, saved=True),
        ),
    ],
    ids=["pending", "probe"],
)
async def test_a_steady_worlds_trace_agrees(
    stub: Any, kind: dict[str, Any], tools: tuple[str, ...], outcome: env.Outcome
) -> None:
    name = kind["contract"].WhichOneof("kind")
    own: dict[str, Any] = {"final_operation_state": "committed", "final_deadline": 5}
    if name == "probe":
        own = {"reserve_remaining": 0, "diagnostic_consumption": 0, "executed_rescues": 1}
    outcome.MergeFrom(env.Outcome(**own))
    start = 2 if name == "pending" else 0
    events = [
        env.EventRecord(
            sequence=number,
            tool=tool,
            claim=env.CLAIM_SAVED if tool == "finish" else env.CLAIM_UNSPECIFIED,
            start_tick=start + number - 1,
            end_tick=start + number,
        )
        for number, tool in enumerate(tools, start=1)
    ]
    answer = await call(stub.VerifyTrace, pb.VerifyTraceRequest(**kind, events=events, outcome=outcome), 10)
    assert answer == pb.VerifyTraceResponse(agrees=True, outcome=outcome)
