"""An episode is rebuilt from its receipts, and a record that says otherwise is caught."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.verifier_svc.episode import played
from tests.verifier_svc.episode.played import Episode, canonical, slot_id
from verifier_svc.episode import EpisodeFacts, EpisodeVerdict, InvalidRecord, StoredCall, call_id, verify_episode
from verifier_svc.physics.errors import InvalidCase, UnsupportedEnvironment
from verifier_svc.receipts.cost import CostBasis
from verifier_svc.receipts.verdicts import Reason
from verifier_svc.receipts.wire import Expectation

Writer = Callable[[dict[str, Any]], Episode]
EPISODES: list[Writer] = [
    played.finished,
    played.ended_by_text,
    played.at_the_limit,
    played.not_admitted,
    played.interrupted,
]


def verify(
    episode: Episode, record: Any = None, receipts: list[StoredCall] | None = None, facts: EpisodeFacts | None = None
) -> EpisodeVerdict:
    return verify_episode(
        canonical(episode.record() if record is None else record),
        facts or episode.facts(),
        episode.receipts() if receipts is None else receipts,
    )


def fields(verdict: EpisodeVerdict) -> list[str]:
    return [difference.field for difference in verdict.differences]


@pytest.mark.parametrize("write", EPISODES)
def test_an_honest_record_agrees(write: Writer, wording: dict[str, Any]) -> None:
    episode = write(wording)
    verdict = verify(episode)
    assert verdict.differences == ()
    assert verdict.agrees
    assert verdict.status == episode.status
    assert verdict.termination == episode.termination
    assert verdict.outcome == episode.record()["outcome"]
    assert verdict.first_event is None
    assert verdict.accounted_nanos == 1_014_000 * len(episode.answers)
    assert "events" in verdict.checked


def test_the_outcome_is_worked_out_from_the_receipts(wording: dict[str, Any]) -> None:
    outcome = verify(played.finished(wording)).outcome
    assert outcome == {
        "primary_loss": 0,
        "protected_loss": 1,
        "authority_breaches": 1,
        "operation_cost": 2,
        "false_outcome_claims": 0,
        "saved": True,
        "decision_tick": 5,
        "settlement_tick": 8,
        "final_deadline": 7,
    }
    assert verify(played.not_admitted(wording)).reason is Reason.UNKNOWN_TOOL
    assert verify(played.not_admitted(wording)).outcome is None


def test_call_ids_are_derived_from_the_slot() -> None:
    assert call_id("study-1", played.EPISODE_ID, 12) == slot_id(12)
    assert call_id("a", "bc", 1) != call_id("ab", "c", 1)


NOT_COMPARED = ("verification", "calls/0/replayed", "calls/1/replayed", "where")


@pytest.mark.parametrize("write", EPISODES)
def test_every_leaf_of_a_record_is_covered(write: Writer, wording: dict[str, Any]) -> None:
    episode = write(wording)
    honest, receipts, facts = episode.record(), episode.receipts(), episode.facts()
    for path in leaves(honest, ()):
        if "/".join(map(str, path)).startswith(NOT_COMPARED) or path[-1] == "replayed":
            continue
        assert caught(changed(honest, path), facts, receipts), path


def caught(record: Any, facts: EpisodeFacts, receipts: list[StoredCall]) -> bool:
    try:
        return not verify_episode(canonical(record), facts, receipts).agrees
    except InvalidRecord:
        return True


def leaves(value: Any, path: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    if isinstance(value, dict) and value:
        return [leaf for key, item in value.items() for leaf in leaves(item, (*path, key))]
    if isinstance(value, list) and value:
        return [leaf for index, item in enumerate(value) for leaf in leaves(item, (*path, index))]
    return [path]


def changed(record: Any, path: tuple[Any, ...]) -> Any:
    copied = copy.deepcopy(record)
    holder: Any = copied
    for step in path[:-1]:
        holder = holder[step]
    value = holder[path[-1]]
    if isinstance(value, bool):
        holder[path[-1]] = not value
    elif isinstance(value, int):
        holder[path[-1]] = value + 1
    elif isinstance(value, str):
        holder[path[-1]] = value + "x"
    else:
        holder[path[-1]] = "x"
    return copied


def test_the_first_differing_event_is_named(wording: dict[str, Any]) -> None:
    episode = played.finished(wording)
    record = episode.record()
    record["events"][3]["tool"] = "use_alternative"
    record["events"][4]["claim"] = "unknown"
    verdict = verify(episode, record)
    assert verdict.first_event == 4
    assert [(item.sequence, item.field) for item in verdict.differences] == [(4, "tool"), (5, "claim")]


def test_events_left_out_or_made_up_are_caught(wording: dict[str, Any]) -> None:
    episode = played.finished(wording)
    record = episode.record()
    last = record["events"].pop()
    assert verify(episode, record).first_event == 5
    record["events"] += [last, {**last, "sequence": 6}]
    assert verify(episode, record).first_event == 6


def test_a_completed_record_of_an_unfinished_episode(wording: dict[str, Any]) -> None:
    episode = played.finished(wording)
    verdict = verify(episode, receipts=episode.receipts()[:-1])
    assert verdict.status == "stopped"
    assert {"status", "termination", "outcome", "stop_category", "event"} <= set(fields(verdict))


def test_a_response_changed_in_the_store_is_caught(wording: dict[str, Any]) -> None:
    episode = played.finished(wording)
    receipts = episode.receipts()
    receipts[1] = replace(receipts[1], response=played.tool_answer(2, "wait"))
    verdict = verify(episode, receipts=receipts)
    assert verdict.first_event == 4
    assert "calls/turn_2/response_digest" in fields(verdict)
    assert "turn_3/request/messages/4" in fields(verdict)


def test_an_opaque_item_that_did_not_go_back_unchanged_is_caught(wording: dict[str, Any]) -> None:
    episode = played.finished(wording)
    receipts = episode.receipts()
    request = receipts[2].request.replace(b'"extra":[],', b"", 1)
    assert request != receipts[2].request
    receipts[2] = replace(receipts[2], request=request)
    found = fields(verify(episode, receipts=receipts))
    assert "turn_3/request/messages/2" in found
    assert "calls/turn_3/request_digest" in found


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (b'"tool_choice":"auto"', b'"tool_choice":"none"', "turn_1/request/tool_choice"),
        (b'"max_tokens":512', b'"max_tokens":513', "turn_1/request/max_tokens"),
        (b'"model":"m-1"', b'"model":"m-2"', "turn_1/request/model"),
        (b'"temperature":0', b'"temperature":1', "turn_1/request/temperature"),
        (b'"temperature":0,', b"", "turn_1/request/temperature"),
        (b'"role":"system"', b'"role":"user"', "turn_1/request/messages/0"),
        (b'need\\":true', b'need\\":false', "turn_1/request/messages/1"),
        (b'"type":"function"', b'"type":"Function"', "turn_1/request/tools"),
        (b'{"max_tokens":512,', b'{"max_tokens": 512,', "turn_1/request/request"),
        (b'{"max_tokens":512,', b'{"seed":1,"max_tokens":512,', "turn_1/request/seed"),
        (b'{"max_tokens":512,', b'["max_tokens":512,', "turn_1/request/request"),
    ],
)
def test_another_request_is_caught(wording: dict[str, Any], old: bytes, new: bytes, field: str) -> None:
    episode = played.finished(wording)
    receipts = episode.receipts()
    assert old in receipts[0].request
    receipts[0] = replace(receipts[0], request=receipts[0].request.replace(old, new, 1))
    assert field in fields(verify(episode, receipts=receipts))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"accounted_nanos": 1_014_001}, "calls/turn_2/cost"),
        ({"cost_basis": CostBasis.PROVIDER_REPORTED}, "calls/turn_2/cost_basis"),
        ({"cost_text": "0.001015"}, "calls/turn_2/cost_text"),
        ({"call_id": b"\x00" * 32}, "calls/turn_2/stored_call_id"),
        ({"reserved_nanos": 1_014_000}, "calls/turn_2/reserved"),
    ],
)
def test_a_stored_call_that_does_not_follow_is_caught(wording: dict[str, Any], change: Any, field: str) -> None:
    episode = played.finished(wording)
    receipts = episode.receipts()
    receipts[1] = replace(receipts[1], **change)
    assert field in fields(verify(episode, receipts=receipts))


def test_a_cost_above_the_receipts_is_caught_though_the_record_repeats_it(wording: dict[str, Any]) -> None:
    episode = played.finished(wording)
    receipts, record = episode.receipts(), episode.record()
    receipts[0] = replace(receipts[0], accounted_nanos=2_000_000, cost_text="0.002")
    record["calls"][0]["accounted"] = "0.002"
    assert fields(verify(episode, record, receipts)) == ["calls/turn_1/cost", "calls/turn_1/cost_text"]


def test_the_providers_own_figure_is_charged_where_the_route_says_so(wording: dict[str, Any]) -> None:
    episode = played.interrupted(wording)
    episode.answers = [episode.answers[0].replace(b'"completion_tokens":7', b'"completion_tokens":7,"cost":1.23e-4')]
    route = replace(played.ROUTE, charges_reported_cost=True)
    facts = replace(episode.facts(), route=route)
    charged = replace(
        episode.receipts()[0], accounted_nanos=123_000, cost_basis=CostBasis.PROVIDER_REPORTED, cost_text="1.23e-4"
    )
    record = episode.record()
    record["calls"][0]["accounted"] = "0.000123"
    assert verify(episode, record, [charged], facts).agrees
    respelled = replace(charged, cost_text="0.000123")
    assert fields(verify(episode, record, [respelled], facts)) == ["calls/turn_1/cost_text"]


def test_a_free_route_costs_nothing(wording: dict[str, Any]) -> None:
    episode = played.interrupted(wording)
    facts = replace(episode.facts(), route=replace(played.ROUTE, price=None))
    charged = replace(
        episode.receipts()[0], accounted_nanos=0, cost_basis=CostBasis.FREE_ROUTE, cost_text=None, reserved_nanos=0
    )
    record = episode.record()
    record["calls"][0]["accounted"] = "0"
    assert verify(episode, record, [charged], facts).agrees
    assert "calls/turn_1/cost" in fields(verify(episode, facts=facts))


def held(episode: Episode, category: str, **change: Any) -> tuple[dict[str, Any], list[StoredCall]]:
    """`episode` with a second turn that was sent and is in doubt."""
    waiting = replace(episode, answers=[*episode.answers, b""])
    call = replace(waiting.receipts()[1], state="HELD", response=None, http_status=None, cost_basis=None)
    call = replace(call, cost_text=None, **change)
    record = episode.record()
    reference = waiting.record()["calls"][1]
    record["calls"].append({**reference, "state": "HELD", "response_digest": None})
    record["stop_category"] = category
    return record, [*episode.receipts(), call]


def test_a_held_call_ends_the_episode_without_an_event(wording: dict[str, Any]) -> None:
    episode = played.interrupted(wording)
    record, receipts = held(episode, "transport_unknown")
    assert verify(episode, record, receipts).agrees


def test_a_held_calls_stored_answer_is_not_acted_on(wording: dict[str, Any]) -> None:
    episode = played.interrupted(wording)
    answered = played.tool_answer(2, "transfer")
    record, receipts = held(episode, "billing_unresolved", response=answered, http_status=200)
    record["calls"][1]["response_digest"] = played.hexdigest(answered)
    verdict = verify(episode, record, receipts)
    assert (verdict.agrees, verdict.status) == (True, "stopped")


def test_a_hold_resolved_after_the_export_does_not_contradict_the_record(wording: dict[str, Any]) -> None:
    episode = played.interrupted(wording)
    record, receipts = held(episode, "transport_unknown")
    receipts[1] = replace(receipts[1], state="RESOLVED", accounted_nanos=0)
    assert verify(episode, record, receipts).agrees
    receipts[1] = replace(receipts[1], request=b"{}")
    assert "calls/turn_2/request_digest" in fields(verify(episode, record, receipts))


def test_a_resolved_calls_stored_answer_is_acted_on(wording: dict[str, Any]) -> None:
    episode = played.finished(wording)
    record, receipts = episode.record(), episode.receipts()
    receipts[1] = replace(receipts[1], state="RESOLVED")
    record["calls"][1]["state"] = "RESOLVED"
    verdict = verify(episode, record, receipts)
    assert (verdict.agrees, verdict.status) == (True, "completed")


def test_a_later_attempt_replaces_a_resolved_one(wording: dict[str, Any]) -> None:
    episode = played.finished(wording)
    receipts, record = episode.receipts(), episode.record()
    first = replace(receipts[1], state="RESOLVED", response=None, http_status=None, accounted_nanos=5)
    receipts[1] = replace(receipts[1], attempt=2)
    record["calls"][1]["attempt"] = 2
    verdict = verify(episode, record, [*receipts, first])
    assert verdict.agrees
    assert verdict.accounted_nanos == 3 * 1_014_000 + 5
    record["calls"][1]["attempt"] = 1
    assert not verify(episode, record, [*receipts, first]).agrees


def test_a_call_after_the_end_after_doubt_or_after_a_gap_is_caught(wording: dict[str, Any]) -> None:
    episode = played.finished(wording)
    receipts = episode.receipts()
    stray = replace(receipts[2], turn=4, call_id=slot_id(4))
    assert "turn_4/call" in fields(verify(episode, receipts=[*receipts, stray]))
    doubtful = [receipts[0], replace(receipts[1], state="HELD"), receipts[2]]
    assert "turn_3/call" in fields(verify(episode, receipts=doubtful))
    assert "turn_3" in fields(verify(episode, receipts=[receipts[0], receipts[2]]))


def test_calls_missing_doubled_or_made_up_in_the_record_are_caught(wording: dict[str, Any]) -> None:
    episode = played.finished(wording)
    record = episode.record()
    short = {**record, "calls": record["calls"][:-1]}
    assert fields(verify(episode, short)) == ["calls/turn_3"]
    double = {**record, "calls": [*record["calls"], record["calls"][0]]}
    assert fields(verify(episode, double)) == ["calls"]
    made_up = {**record["calls"][0], "turn": 9, "call_id": slot_id(9).hex()}
    assert fields(verify(episode, {**record, "calls": [*record["calls"], made_up]})) == ["calls/turn_9"]


def test_a_refused_reservation_may_be_listed_with_no_attempt(wording: dict[str, Any]) -> None:
    episode = played.interrupted(wording)
    record = episode.record()
    refused = {**record["calls"][0], "turn": 2, "call_id": slot_id(2).hex(), "attempt": 0, "state": ""}
    refused |= {"response_digest": None, "accounted": "0"}
    record |= {"calls": [*record["calls"], refused], "stop_category": "budget_stop"}
    assert verify(episode, record).agrees
    refused["state"] = "CHARGED"
    assert fields(verify(episode, record)) == ["calls/turn_2/state"]


def test_the_input_limit_is_counted(wording: dict[str, Any]) -> None:
    episode = played.interrupted(wording)
    record = {**episode.record(), "stop_category": "input_limit"}
    assert fields(verify(episode, record)) == ["stop_category"]
    sent = b'{"messages":[' + episode.request(1).split(b'"messages":[', 1)[1].split(b'],"model"', 1)[0] + b'],"tools":'
    size = len(sent) + len(episode.request(1).split(b'"tools":', 1)[1])
    at_limit = replace(episode.facts(), route=replace(played.ROUTE, input_limit_bytes=size))
    assert verify(episode, record, facts=at_limit).agrees
    below = replace(episode.facts(), route=replace(played.ROUTE, input_limit_bytes=size - 1))
    assert "turn_1/input_bytes" in fields(verify(episode, record, facts=below))


def test_another_identity_than_the_routes_is_not_completed(wording: dict[str, Any]) -> None:
    episode = played.finished(wording)
    route = replace(played.ROUTE, expectation=Expectation(model="m-2"))
    verdict = verify(episode, facts=replace(episode.facts(), route=route))
    assert (verdict.status, verdict.reason) == ("technical_unknown", Reason.IDENTITY_MISMATCH)
    assert {"status", "reason", "outcome"} <= set(fields(verdict))


def test_a_repeated_call_id_is_not_admitted(wording: dict[str, Any]) -> None:
    episode = played.finished(wording)
    receipts = episode.receipts()
    again = played.tool_answer(1, "transfer")
    receipts = [receipts[0], replace(receipts[1], response=again)]
    assert verify(episode, receipts=receipts).reason is Reason.DUPLICATE_TOOL_CALL_ID


def test_another_spelling_of_a_record_is_caught(wording: dict[str, Any]) -> None:
    episode = played.finished(wording)
    spaced = json.dumps(episode.record()).encode()
    verdict = verify_episode(spaced, episode.facts(), episode.receipts())
    assert fields(verdict) == ["canonical_record"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"schema": "countersign.episode-record/2"}, "schema"),
        ({"events": None}, "events"),
        ({"events": [{}]}, "events/0/claim"),
        ({"events": [1]}, "events/0"),
        ({"prefix_count": True}, "prefix_count"),
        ({"note": "x"}, "note"),
        ({"calls": [{"turn": 1}]}, "calls/0/accounted"),
    ],
)
def test_a_record_of_another_form_is_refused(wording: dict[str, Any], change: dict[str, Any], field: str) -> None:
    episode = played.finished(wording)
    with pytest.raises(InvalidRecord) as refusal:
        verify(episode, {**episode.record(), **change})
    assert refusal.value.metadata == {"field": field}


@pytest.mark.parametrize("data", [b"", b"[]", b'{"a":1,"a":1}'])
def test_a_record_that_is_no_strict_object_is_refused(wording: dict[str, Any], data: bytes) -> None:
    with pytest.raises(InvalidRecord):
        verify_episode(data, played.finished(wording).facts(), [])


def test_a_case_that_cannot_be_played_is_refused(wording: dict[str, Any]) -> None:
    episode = played.finished(wording)
    facts = episode.facts()
    with pytest.raises(UnsupportedEnvironment):
        verify(episode, facts=replace(facts, case=replace(facts.case, environment="chess")))
    with pytest.raises(InvalidCase):
        verify(episode, facts=replace(facts, world={"need": True}))
