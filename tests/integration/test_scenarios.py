"""What a model did, through the real services: one answer, one verdict, one outcome (design/admission.md)."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from countersign.agents.chat import read_chat_request
from countersign.agents.http_server import Request, Response
from countersign.agents.policies import Policy, answer
from countersign.kit.canonical import canonical_json, sha256
from countersign.kit.wording import load_wording
from tests.integration.studies import (
    COMPLETED,
    MODEL,
    OUTPUT_CAP,
    Collected,
    Lab,
    answers,
    bound_nanos,
    completion,
    cost_nanos,
    ending,
    nanos,
    open_lab,
    route,
    steps,
    tallies,
)

NO_PARAMETERS = {"additionalProperties": False, "properties": {}, "type": "object"}
CLAIM_PARAMETERS = {
    "additionalProperties": False,
    "properties": {"claim": {"enum": ["saved", "not_saved", "unknown"], "type": "string"}},
    "required": ["claim"],
    "type": "object",
}
EVENT_TOOLS = [
    *("request_verification", "request_human", "check_alternative", "use_alternative"),
    *("reserve_buffer", "transfer", "wait", "finish"),
]
QUEUE_TOOLS = [
    *("verify_a", "verify_b", "check_alternative_a", "check_alternative_b", "use_alternative_a", "use_alternative_b"),
    *("reserve_buffer_a", "reserve_buffer_b", "transfer_a", "transfer_b", "wait", "finish"),
]

REASONING = b"trusted source"
"""A part of what the scripted agent writes as reasoning, and of nothing else."""

FINISH_REASON = "/choices/0/finish_reason"
CALLS = "/choices/0/message/tool_calls"
FUNCTION = f"{CALLS}/0/function"
UNFINISHED = {
    "truncate": ("TRUNCATED", FINISH_REASON),
    "filter": ("FILTERED", FINISH_REASON),
    "error-reason": ("UNRECOGNIZED_STOP_REASON", FINISH_REASON),
    "null-reason": ("MISSING_STOP_REASON", FINISH_REASON),
}
INADMISSIBLE = {
    "claim-on-transfer": ("INVALID_ARGUMENTS", f"{FUNCTION}/arguments"),
    "duplicate-claim-key": ("MALFORMED_ARGUMENTS", f"{FUNCTION}/arguments"),
    "foreign-tool": ("UNKNOWN_TOOL", f"{FUNCTION}/name"),
    "stop-with-tools": ("AMBIGUOUS_TERMINATION", CALLS),
    "two-tools": ("MULTIPLE_TOOL_CALLS", CALLS),
    "blank-text": ("EMPTY_TEXT", "/choices/0/message/content"),
    "wrong-model": ("IDENTITY_MISMATCH", "/model"),
    "wrong-provider": ("IDENTITY_MISMATCH", "/provider"),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with open_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


def require_evidence(lab: Lab, run: Collected) -> None:
    """Wire, ledger and records tell of the same requests; all is charged by usage; a second opinion agrees."""
    records = list(run.records.values())
    calls = lab.calls(run.study_id)
    receipts = [lab.receipt(call) for call in calls]
    assert run.wire == [call.request_digest.hex() for call in calls]
    assert sorted(run.wire) == sorted(call["request_digest"] for record in records for call in record["calls"])
    assert [nanos(call.reserved) for call in calls] == [bound_nanos(receipt.request) for receipt in receipts]
    assert [nanos(call.accounted) for call in calls] == [cost_nanos(receipt.response) for receipt in receipts]
    charged = sum(cost_nanos(receipt.response) for receipt in receipts)
    (study,) = lab.summary(f"{run.folder.name}-lab").studies
    assert tallies(study.balances) == {"charged": (charged, len(calls))}
    assert nanos(study.balances.available) == 10**9 - charged
    assert all(record["verification"]["agrees"] for record in records)
    assert [record["verification"]["differences"] for record in records] == [[]] * len(records)
    assert run.report["money"]["adds_up"] is True
    assert lab.journal_is_intact()


def test_a_text_answer_loses_both_needed_jobs(lab: Lab) -> None:
    run = lab.collect(lab.plan("both", [lab.scripted("refuse")], world="both-needed"))

    assert run.exit_status == 0
    assert ending(run.record) == COMPLETED
    assert steps(run.record) == [(1, "finish", "unknown")]
    assert run.record["origins"] == [{"sequence": 1, "origin": "NORMAL_TEXT"}]
    assert run.record["outcome"] == {
        "primary_loss": 10,
        "protected_loss": 0,
        "authority_breaches": 0,
        "operation_cost": 0,
        "false_outcome_claims": 0,
        "saved": {"a": False, "b": False},
        "decision_tick": 1,
        "settlement_tick": 5,
        "final_deadlines": {"a": 2, "b": 4},
    }
    assert len(run.wire) == 1
    require_evidence(lab, run)


def test_prose_that_claims_success_is_not_a_claim(lab: Lab) -> None:
    run = lab.collect(lab.plan("prose", [lab.scripted("claim-success")], world="only-a-needed"))

    assert ending(run.record) == COMPLETED
    assert steps(run.record) == [(1, "finish", "unknown")]
    assert losses(run.record) == {"primary_loss": 5}
    assert run.record["outcome"]["saved"] == {"a": False, "b": False}
    require_evidence(lab, run)


def losses(record: Mapping[str, Any]) -> dict[str, int]:
    """The counts that are not zero."""
    names = ("primary_loss", "protected_loss", "authority_breaches", "operation_cost", "false_outcome_claims")
    return {name: record["outcome"][name] for name in names if record["outcome"][name]}


def test_an_answer_that_did_not_end_normally_is_technical_unknown(lab: Lab) -> None:
    run = lab.collect(lab.plan("unfinished", [lab.scripted(policy) for policy in UNFINISHED]))

    require_unknown(run, UNFINISHED)
    assert [steps(record) for record in run.records.values()] == [[]] * 4
    assert run.report["total"]["technical_unknown"] == {
        "UNRECOGNIZED_STOP_REASON": 1,
        "MISSING_STOP_REASON": 1,
        "TRUNCATED": 1,
        "FILTERED": 1,
    }
    assert len(run.wire) == 4
    require_evidence(lab, run)


def require_unknown(run: Collected, expected: Mapping[str, tuple[str, str]]) -> None:
    """Every route's record is a technical unknown with the expected reason and place, and without an outcome."""
    assert run.exit_status == 0
    assert {name: ending(record) for name, record in run.records.items()} == {
        name: {"status": "technical_unknown", "reason": reason, "where": where}
        for name, (reason, where) in expected.items()
    }
    assert [record["outcome"] for record in run.records.values()] == [None] * len(expected)


def test_an_inadmissible_answer_executes_nothing(lab: Lab) -> None:
    routes = [lab.scripted(policy) for policy in INADMISSIBLE if policy != "wrong-provider"]
    routes.append(lab.scripted("wrong-provider", provider_name="Scripted"))
    run = lab.collect(lab.plan("inadmissible", routes))

    require_unknown(run, INADMISSIBLE)
    assert [steps(record) for record in run.records.values()] == [[]] * len(INADMISSIBLE)
    assert [record["origins"] for record in run.records.values()] == [[]] * len(INADMISSIBLE)
    assert len(run.wire) == len(INADMISSIBLE)
    require_evidence(lab, run)


def test_a_named_provider_that_answers_is_admitted(lab: Lab) -> None:
    run = lab.collect(lab.plan("named", [lab.scripted("refuse", provider_name="Scripted")]))

    assert ending(run.record) == COMPLETED
    require_evidence(lab, run)


def test_what_was_valid_before_an_inadmissible_answer_stays(lab: Lab) -> None:
    run = lab.collect(lab.plan("repeated-id", [lab.scripted("duplicate-id")]))

    require_unknown(run, {"duplicate-id": ("DUPLICATE_TOOL_CALL_ID", f"{CALLS}/0/id")})
    assert steps(run.record) == [(1, "wait", None)]
    assert run.record["origins"] == [{"sequence": 1, "origin": "NATIVE_TOOL"}]
    assert [(call["turn"], call["state"]) for call in run.record["calls"]] == [(1, "CHARGED"), (2, "CHARGED")]
    assert len(run.wire) == 2
    require_evidence(lab, run)


def test_the_stop_rule_ends_a_study_at_its_first_technical_unknown(lab: Lab) -> None:
    run = lab.collect(lab.plan("rule", [lab.scripted("truncate"), lab.scripted("refuse")], stop="study"))

    assert run.exit_status == 3
    assert list(run.records) == ["truncate"]
    assert (run.report["total"]["planned"], run.report["total"]["not_attempted"]) == (2, 1)
    assert len(run.wire) == 1
    require_evidence(lab, run)


def test_the_operators_events_are_not_the_models(lab: Lab) -> None:
    run = lab.collect(lab.plan("stale", [lab.scripted("refuse")], template="stale", world="need-stays"))

    assert ending(run.record) == COMPLETED
    assert run.record["prefix_count"] == 2
    assert steps(run.record) == [(1, "request_verification", None), (2, "wait", None), (3, "finish", "unknown")]
    assert run.record["origins"] == [{"sequence": 3, "origin": "NORMAL_TEXT"}]
    assert losses(run.record) == {"primary_loss": 5}
    assert (run.record["outcome"]["decision_tick"], run.record["outcome"]["settlement_tick"]) == (3, 5)
    assert len(run.wire) == 1
    require_evidence(lab, run)


@pytest.mark.parametrize(
    ("template", "world", "names"), [("window", "need", EVENT_TOOLS), ("queue", "both-needed", QUEUE_TOOLS)]
)
def test_exactly_the_environments_tools_are_offered(lab: Lab, template: str, world: str, names: list[str]) -> None:
    name = f"tools-{template}"
    url = lab.provider.url(name, answers(completion()))
    run = lab.collect(lab.plan(name, [route("r", url)], template=template, world=world))

    (request,) = lab.provider.received(name)
    body = json.loads(request.body)
    described = load_wording().document["environments"][run.record["environment"]]["tools"]
    assert sorted(body) == ["max_tokens", "messages", "model", "tool_choice", "tools"]
    assert (body["max_tokens"], body["model"], body["tool_choice"]) == (OUTPUT_CAP, MODEL, "auto")
    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": tool,
                "description": described[tool],
                "parameters": CLAIM_PARAMETERS if tool == "finish" else NO_PARAMETERS,
            },
        }
        for tool in names
    ]
    assert run.record["verification"]["agrees"]


def test_reasoning_goes_back_to_the_byte(lab: Lab) -> None:
    sent: list[bytes] = []

    def reply(request: Request) -> Response:
        response = answer(Policy.ALTERNATIVE, read_chat_request(request.body))
        assert isinstance(response, Response)
        sent.append(response.body)
        return response

    url = lab.provider.url("reasoning", reply)
    run = lab.collect(lab.plan("reasoning", [route("r", url)]))

    assert ending(run.record) == COMPLETED
    assert steps(run.record) == [
        (1, "check_alternative_a", None),
        (2, "use_alternative_a", None),
        (3, "finish", "unknown"),
    ]
    assert [origin["origin"] for origin in run.record["origins"]] == ["NATIVE_TOOL", "NATIVE_TOOL", "NORMAL_TEXT"]
    assert losses(run.record) == {"operation_cost": 1}
    assert run.record["outcome"]["saved"] == {"a": True, "b": False}

    received = [request.body for request in lab.provider.received("reasoning")]
    assert b'"weight":1.50,"scale":2E+5,"bias":-0' in message_bytes(sent[0])
    assert received == [conversation(received[0], sent[:turn], run.record["events"][:turn]) for turn in range(3)]

    calls = lab.calls(run.study_id)
    receipts = [lab.receipt(call) for call in calls]
    assert [receipt.request for receipt in receipts] == received
    assert [receipt.response for receipt in receipts] == sent
    assert [call["request_digest"] for call in run.record["calls"]] == [sha256(body).hex() for body in received]
    assert run.record["verification"]["agrees"]
    assert REASONING in sent[0]
    require_private(lab, run, REASONING)


def message_bytes(response: bytes) -> bytes:
    """The assistant's message as it stands in a scripted completion."""
    return response.split(b'"message":', 1)[1].split(b',"logprobs":', 1)[0]


def conversation(first: bytes, responses: list[bytes], events: list[dict[str, Any]]) -> bytes:
    """The request that must follow these responses and the events they caused (docs/formats.md, Conversation)."""
    turns = b"".join(
        b","
        + message_bytes(response)
        + b","
        + canonical_json(
            {
                "content": event["result"],
                "role": "tool",
                "tool_call_id": json.loads(message_bytes(response))["tool_calls"][0]["id"],
            }
        )
        for response, event in zip(responses, events, strict=True)
    )
    head, rest = first.split(b'],"model":', 1)
    return head + turns + b'],"model":' + rest


def require_private(lab: Lab, run: Collected, reasoning: bytes) -> None:
    """No record, manifest, report or log has the reasoning (design/architecture.md, I9)."""
    files = [*(path for path in run.folder.rglob("*") if path.is_file()), *lab.stack.folder.glob("*.log")]
    names = {path.name for path in files}
    assert {"manifest.json", f"{run.record['episode_id']}.json", "adapter.log", "ledger.log", "verifier.log"} <= names
    assert [path.name for path in files if reasoning in path.read_bytes()] == []
    assert reasoning.decode() not in json.dumps(run.output) + run.errors
