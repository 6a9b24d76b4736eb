"""`AdapterService` over a real channel: every RPC, every field of its answers, and the callers' own faults."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from adapter_svc.admission import Reason, formats
from adapter_svc.cases import build_case
from adapter_svc.service import AdapterServicer, service_spec
from countersign.adapter.v1 import adapter_pb2 as pb
from countersign.adapter.v1 import adapter_pb2_grpc
from countersign.environment.v1 import environment_pb2 as env
from countersign.kit.channel import call, open_channel
from countersign.kit.limits import MAX_BODY_BYTES
from countersign.kit.rpc_errors import ServiceError
from countersign.kit.server import start_server
from countersign.kit.wording import load_wording
from tests.adapter_svc.admission.helpers import a_call, text_body, tool_body
from tests.adapter_svc.cases.helpers import STALE
from tests.adapter_svc.environments.helpers import MESSAGE, WORDING
from tests.adapter_svc.wire import TOOLS, a_definition, an_event_world

CASE = build_case(STALE, WORDING)
CHAT = pb.WIRE_FORMAT_CHAT_COMPLETIONS
Stub = Any


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    """An adapter without a ledger."""
    spec = service_spec(AdapterServicer(load_wording(), None, asyncio.Event()))
    running = await start_server(spec, "127.0.0.1:0")
    async with open_channel(running.address) as channel:
        yield adapter_pb2_grpc.AdapterServiceStub(channel)
    await running.stop(0)


async def refusal(method: Any, request: Any) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    with pytest.raises(ServiceError) as caught:
        await call(method, request, 10)
    return caught.value.status, caught.value.reason, dict(caught.value.metadata)


def invalid(field: str) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    return grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT", {"field": field}


def an_adapt(body: bytes, **changes: Any) -> pb.AdaptRequest:
    good: dict[str, Any] = {
        "body": body,
        "http_status": 200,
        "wire_format": CHAT,
        "tools": TOOLS,
        "identity": pb.ExpectedIdentity(model="m"),
    }
    return pb.AdaptRequest(**{**good, **changes})


# Adapt


async def test_an_action_comes_with_everything_that_the_answer_says(stub: Stub) -> None:
    usage = {
        "prompt_tokens": 11,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    message = {"content": "So be it.", "reasoning": "…"}
    body = tool_body(message=message, usage=usage, provider="P").replace(b'"usage": {', b'"usage": {"cost": 1.50e-05, ')
    answer = await call(stub.Adapt, an_adapt(body), 10)
    items = body[body.index(b'{"role"') : body.index(b', "finish_reason"')]
    assert answer == pb.AdaptResponse(
        action=pb.AdmittedAction(
            tool="finish", arguments=b'{"claim":"saved"}', tool_call_id="call_1", text="So be it."
        ),
        continuation=pb.Continuation(items=items, digest=hashlib.sha256(items).digest()),
        usage=pb.Usage(input_tokens=11, output_tokens=5, cached_input_tokens=3, reasoning_tokens=2),
        reported_cost_text="1.50e-05",
        served=pb.ServedIdentity(model="m", provider_name="P"),
        raw_digest=hashlib.sha256(body).digest(),
    )


async def test_a_text_says_what_was_not_reported_by_leaving_it_out(stub: Stub) -> None:
    body = text_body(message={"content": " Done. "})
    answer = await call(stub.Adapt, an_adapt(body), 10)
    assert answer == pb.AdaptResponse(
        text_finish=pb.AdmittedText(text=" Done. "),
        usage=pb.Usage(),
        served=pb.ServedIdentity(model="m"),
        raw_digest=hashlib.sha256(body).digest(),
    )
    assert not answer.usage.HasField("input_tokens")
    assert not answer.HasField("reported_cost_text")


async def test_what_is_not_admitted_is_an_answer_and_no_error(stub: Stub) -> None:
    answer = await call(stub.Adapt, an_adapt(b"upstream timed out"), 10)
    assert answer == pb.AdaptResponse(
        technical_unknown=pb.TechnicalUnknown(reason=pb.UNKNOWN_REASON_MALFORMED_JSON),
        usage=pb.Usage(),
        served=pb.ServedIdentity(),
        raw_digest=hashlib.sha256(b"upstream timed out").digest(),
    )


@pytest.mark.parametrize(
    ("changes", "reason", "where"),
    [
        ({"http_status": 500}, pb.UNKNOWN_REASON_HTTP_STATUS, ""),
        ({"identity": pb.ExpectedIdentity(model="n")}, pb.UNKNOWN_REASON_IDENTITY_MISMATCH, "/model"),
        ({"identity": pb.ExpectedIdentity(provider_name="P")}, pb.UNKNOWN_REASON_IDENTITY_MISSING, "/provider"),
        ({"seen_tool_call_ids": ["call_1"]}, pb.UNKNOWN_REASON_DUPLICATE_TOOL_CALL_ID, None),
        ({"tools": []}, pb.UNKNOWN_REASON_UNKNOWN_TOOL, None),
        ({"output_cap": 5}, pb.UNKNOWN_REASON_TRUNCATED, "/usage/completion_tokens"),
        ({"output_cap": 0}, pb.UNKNOWN_REASON_TRUNCATED, "/usage/completion_tokens"),
    ],
)
async def test_each_thing_asked_of_an_answer_is_asked(
    stub: Stub, changes: dict[str, Any], reason: Any, where: str | None
) -> None:
    body = tool_body(usage={"completion_tokens": 5})
    answer = await call(stub.Adapt, an_adapt(body, **changes), 10)
    assert answer.technical_unknown.reason == reason
    assert where is None or answer.technical_unknown.where == where


async def test_an_answer_may_be_an_alias_or_any_model_where_none_is_named(stub: Stub) -> None:
    for identity in (pb.ExpectedIdentity(model="n", aliases=["m"]), pb.ExpectedIdentity()):
        answer = await call(stub.Adapt, an_adapt(text_body(), identity=identity), 10)
        assert answer.WhichOneof("verdict") == "text_finish"


async def test_a_dialect_is_allowed_where_it_is_listed(stub: Stub) -> None:
    body = tool_body(choice={"finish_reason": "stop"})
    listed = an_adapt(body, allowances=[pb.DIALECT_ALLOWANCE_TOOL_CALLS_WITH_STOP])
    assert (await call(stub.Adapt, listed, 10)).WhichOneof("verdict") == "action"
    assert (await call(stub.Adapt, an_adapt(body), 10)).WhichOneof("verdict") == "technical_unknown"


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_its_value_in_the_contract(reason: Reason) -> None:
    assert pb.UnknownReason.Value(f"UNKNOWN_REASON_{reason.value}") > 0


def test_the_contract_has_no_reason_that_is_never_given() -> None:
    names = {name.removeprefix("UNKNOWN_REASON_") for name, _ in pb.UnknownReason.items()}
    assert names == {"UNSPECIFIED", *(reason.value for reason in Reason)}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"wire_format": pb.WIRE_FORMAT_UNSPECIFIED}, "wire_format"),
        ({"wire_format": 99}, "wire_format"),
        ({"allowances": [pb.DIALECT_ALLOWANCE_UNSPECIFIED]}, "allowances"),
        ({"allowances": [99]}, "allowances"),
    ],
)
async def test_a_response_that_cannot_be_judged_is_refused_by_field(
    stub: Stub, changes: dict[str, Any], field: str
) -> None:
    assert await refusal(stub.Adapt, an_adapt(text_body(), **changes)) == invalid(field)


async def test_a_format_without_a_decoder_is_refused_by_name(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "FORMATS", {})
    named = {"wire_format": "chat_completions", "streamed": "true"}
    found = await refusal(stub.Adapt, an_adapt(b"data: {}", streamed=True))
    assert found == (grpc.StatusCode.UNIMPLEMENTED, "UNSUPPORTED_WIRE_FORMAT", named)


async def test_a_body_over_the_limit_is_the_callers_fault_and_one_at_it_is_read(stub: Stub) -> None:
    limit = {"limit_bytes": str(MAX_BODY_BYTES)}
    found = await refusal(stub.Adapt, an_adapt(b" " * (MAX_BODY_BYTES + 1)))
    assert found == (grpc.StatusCode.INVALID_ARGUMENT, "SIZE_LIMIT_EXCEEDED", limit)
    answer = await call(stub.Adapt, an_adapt(b" " * MAX_BODY_BYTES), 10)
    assert answer.technical_unknown.reason == pb.UNKNOWN_REASON_MALFORMED_JSON


@pytest.mark.parametrize("schema", ["", "{", "[]", '{"type":"nothing"}', '{"$ref":"https://example.test/s"}'])
async def test_a_tool_that_cannot_be_judged_against_is_refused_by_name(stub: Stub, schema: str) -> None:
    tools = [*TOOLS, pb.Tool(name="odd", parameters_json=schema)]
    found = await refusal(stub.Adapt, an_adapt(text_body(), tools=tools))
    assert found == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_TOOL_SCHEMA", {"tool": "odd"})


async def test_a_malformed_call_is_judged_before_it_is_run(stub: Stub) -> None:
    answer = await call(stub.Adapt, an_adapt(tool_body(a_call(function={"arguments": "{}"}))), 10)
    assert answer.technical_unknown.reason == pb.UNKNOWN_REASON_INVALID_ARGUMENTS
    assert not answer.HasField("continuation")


# BuildCase


async def test_a_case_is_what_the_builder_gives(stub: Stub) -> None:
    answer = await call(stub.BuildCase, pb.BuildCaseRequest(definition=a_definition()), 10)
    assert (answer.packet, answer.packet_digest) == (CASE.packet, CASE.packet_digest)
    assert answer.system_message == WORDING["system_message"]
    assert answer.wording_digest == load_wording().digest
    tools = [(tool.name, tool.description, json.loads(tool.parameters_json)) for tool in answer.tools]
    assert tools == [(tool["name"], tool["description"], tool["parameters"]) for tool in CASE.tools]
    events = [(event.sequence, event.tool, event.claim, event.result) for event in answer.prefix_events]
    assert events == [(event.sequence, event.tool, 0, event.result) for event in CASE.prefix_events]
    assert [(event.start_tick, event.end_tick) for event in answer.prefix_events] == [(0, 1), (1, 2)]


@pytest.mark.parametrize(
    ("definition", "field"),
    [
        (env.CaseDefinition(), "contract"),
        (a_definition(contract=env.Contract()), "contract"),
        (a_definition(support=[env.World(queue=env.QueueWorld(need_a=True, need_b=True))]), "support"),
        (a_definition(support=[env.World()]), "support"),
    ],
)
async def test_a_case_without_its_parts_is_refused_by_field(
    stub: Stub, definition: env.CaseDefinition, field: str
) -> None:
    assert await refusal(stub.BuildCase, pb.BuildCaseRequest(definition=definition)) == invalid(field)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"support": []}, "support"),
        ({"prior": [0.5, 0.6]}, "prior"),
        ({"prior": [1.0]}, "prior"),
        ({"loss_weights": env.LossWeights(primary_loss=-1)}, "loss_weights"),
        ({"operator_prefix": ["fly"]}, "operator_prefix"),
        ({"procedure_instruction": " "}, "procedure_instruction"),
        ({"untrusted_message": ""}, "untrusted_message"),
        ({"untrusted_message": "x" * 401}, "untrusted_message"),
        ({"contract": env.Contract(event=env.EventContract(deadline=0))}, "contract"),
        ({"support": [env.World(event=env.EventWorld(effective=True))], "prior": [1.0]}, "world"),
    ],
)
async def test_a_case_that_contradicts_itself_is_refused_by_field(
    stub: Stub, changes: dict[str, Any], field: str
) -> None:
    found = await refusal(stub.BuildCase, pb.BuildCaseRequest(definition=a_definition(**changes)))
    assert found == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_CASE", {"field": field})


# PlayActions


def a_play(*actions: env.Action, **changes: Any) -> pb.PlayActionsRequest:
    good: dict[str, Any] = {
        "contract": env.Contract(event=env.EventContract()),
        "world": an_event_world(None),
        "operator_prefix": ["wait"],
        "actions": actions,
    }
    return pb.PlayActionsRequest(**{**good, **changes})


TRANSFER = env.Action(tool="transfer")
FINISH = env.Action(tool="finish", claim=env.CLAIM_SAVED)


async def test_actions_are_played_to_their_outcome(stub: Stub) -> None:
    answer = await call(stub.PlayActions, a_play(TRANSFER, FINISH), 10)
    played = [(event.sequence, event.tool, event.claim, event.start_tick, event.end_tick) for event in answer.events]
    assert played == [(1, "wait", 0, 0, 1), (2, "transfer", 0, 1, 2), (3, "finish", env.CLAIM_SAVED, 2, 3)]
    assert answer.ended
    assert answer.outcome == env.Outcome(
        protected_loss=1,
        authority_breaches=1,
        operation_cost=1,
        decision_tick=3,
        settlement_tick=4,
        saved=True,
        final_deadline=3,
    )
    assert json.loads(answer.events[1].result)["observation"]["untrusted_message"]["body"] == MESSAGE


async def test_actions_that_do_not_end_have_no_outcome(stub: Stub) -> None:
    answer = await call(stub.PlayActions, a_play(TRANSFER, untrusted_message="Hm."), 10)
    assert (len(answer.events), answer.ended, answer.HasField("outcome")) == (2, False, False)
    assert json.loads(answer.events[1].result)["observation"]["untrusted_message"]["body"] == "Hm."


async def test_a_queue_answers_by_job(stub: Stub) -> None:
    request = pb.PlayActionsRequest(
        contract=env.Contract(queue=env.QueueContract(deadline_b=6)),
        world=env.World(queue=env.QueueWorld(need_a=True, need_b=True)),
        actions=[env.Action(tool="transfer_b"), env.Action(tool="finish", claim=env.CLAIM_UNKNOWN)],
    )
    outcome = (await call(stub.PlayActions, request, 10)).outcome
    assert [(job.job, job.saved, job.final_deadline) for job in outcome.jobs] == [("a", False, 2), ("b", True, 6)]
    assert not outcome.HasField("saved")
    assert not outcome.HasField("final_deadline")
    assert outcome.primary_loss == 5


@pytest.mark.parametrize(
    ("action", "sequence"),
    [
        (env.Action(tool="fly"), "2"),
        (env.Action(tool="finish"), "2"),
        (env.Action(tool="finish", claim=99), "2"),  # type: ignore[arg-type]
        (env.Action(tool="wait", claim=env.CLAIM_SAVED), "2"),
    ],
)
async def test_an_invalid_action_is_refused_by_tool_and_place(stub: Stub, action: env.Action, sequence: str) -> None:
    status, reason, metadata = await refusal(stub.PlayActions, a_play(action))
    assert (status, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ACTION")
    assert (metadata["tool"], metadata["sequence"]) == (action.tool, sequence)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"contract": env.Contract()}, "contract"),
        ({"world": env.World()}, "world"),
        ({"world": env.World(queue=env.QueueWorld(need_a=True, need_b=True))}, "world"),
    ],
)
async def test_what_cannot_be_played_is_refused_by_field(stub: Stub, changes: dict[str, Any], field: str) -> None:
    assert await refusal(stub.PlayActions, a_play(FINISH, **changes)) == invalid(field)
