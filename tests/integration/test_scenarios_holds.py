"""Calls whose outcome or bill is in doubt, through the real services (design/ledger.md)."""

import socket
from collections.abc import Iterator, Sequence
from itertools import chain

import pytest

from countersign.agents.http_server import Abort, Response
from countersign.kit.canonical import sha256
from countersign.kit.money import nanos_to_text
from countersign.ledger.v1 import ledger_pb2 as ledger
from tests.integration.studies import (
    COMPLETED,
    Answer,
    Collected,
    Lab,
    Reply,
    answers,
    bound_nanos,
    completion,
    cost_nanos,
    ending,
    nanos,
    open_lab,
    route,
    steps,
    stopped,
    tallies,
)

FIRST_BYTE_MILLIS = 150

SENT, STARTED = ledger.REQUEST_PROGRESS_SENT, ledger.REQUEST_PROGRESS_RESPONSE_STARTED
UNKNOWN, STATUS = ledger.HOLD_CATEGORY_TRANSPORT_UNKNOWN, ledger.HOLD_CATEGORY_HTTP_STATUS
NO_ANSWER: Sequence[tuple[str, Answer, int, int, int]] = (
    ("http-500", answers(b'{"error":{"message":"out of order"}}', 500), STATUS, STARTED, 500),
    ("http-429", answers(b"{}", 429), STATUS, STARTED, 429),
    ("redirect-302", answers(b"", 302, Location="/followed/v1/chat/completions"), STATUS, STARTED, 302),
    ("redirect-307", answers(b"", 307, Location="/followed/v1/chat/completions"), STATUS, STARTED, 307),
    ("dropped", lambda _: Abort(), UNKNOWN, SENT, 0),
    ("dropped-in-body", lambda _: Abort(Response(200, completion()), 40), UNKNOWN, STARTED, 0),
)
"""What a provider does, and the hold that must come of it: category, progress, HTTP status."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with open_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


def require_held(lab: Lab, run: Collected, account: str) -> ledger.Call:
    """The study's only call is held for its whole reservation, which blocks the study; nothing was executed."""
    (held,) = lab.calls(run.study_id)
    amount = bound_nanos(lab.receipt(held).request)
    (study,) = lab.summary(account, run.study_id).studies
    assert held.state == ledger.CALL_STATE_HELD
    assert (nanos(held.reserved), nanos(held.accounted)) == (amount, amount)
    assert study.blocked
    assert tallies(study.balances) == {"held": (amount, 1)}
    assert nanos(study.balances.available) == 10**9 - amount
    assert run.exit_status == 3
    assert (run.report["money"]["adds_up"], run.report["money"]["blocked"]) == (True, True)
    assert (run.record["events"], run.record["origins"], run.record["outcome"]) == ([], [], None)
    assert [(call["state"], call["accounted"]) for call in run.record["calls"]] == [("HELD", nanos_to_text(amount))]
    assert lab.journal_is_intact()
    return held


def test_a_timeout_holds_the_reservation_against_every_study_of_the_account(lab: Lab) -> None:
    url = lab.provider.url("silent", lambda _: None)
    silent = route("r", url, first_byte_timeout_millis=FIRST_BYTE_MILLIS)
    plan = lab.plan("silent", [silent], account="shared-lab", grant="0.01")
    before = lab.provider.connections
    first = lab.collect(plan)

    assert ending(first.record) == stopped("transport_unknown")
    (request,) = lab.provider.received("silent", least=1)
    held = require_held(lab, first, "shared-lab")
    assert (held.hold_category, held.progress) == (UNKNOWN, SENT)
    assert held.request_digest == sha256(request.body)
    assert held.response_digest == b""
    assert lab.verification(plan, first.record)["differences"] == []

    again = lab.collect(plan)
    assert ending(again.record) == stopped("transport_unknown")
    assert again.record["calls"] == first.record["calls"]
    require_held(lab, again, "shared-lab")
    assert lab.provider.received("silent") == [request]
    assert lab.provider.connections == before + 1

    require_other_study(lab, nanos(held.accounted))


def require_other_study(lab: Lab, hold: int) -> None:
    """Another study of the account lacks exactly the hold: one nano-unit decides whether its call still fits."""
    account = lab.summary("shared-lab")
    assert nanos(account.balances.available) == 10**7 - hold
    body = completion()
    url = lab.provider.url("other", answers(body))
    grant = nanos_to_text(2 * hold - 10**7 - 1)
    plan = lab.plan("other", [route("r", url)], account="shared-lab", grant=grant)

    short = lab.collect(plan)
    assert ending(short.record) == stopped("budget_stop")
    assert (lab.provider.received("other"), lab.calls(short.study_id)) == ([], [])
    assert short.report["money"]["available_to_account"] == nanos_to_text(hold - 1)

    lab.ledger_command("grant", "shared-lab", "0.000000001", "--by", "operator", "--reason", "what was missing")
    enough = lab.collect(plan)
    assert (enough.exit_status, ending(enough.record)) == (0, COMPLETED)
    assert enough.record["verification"]["agrees"]
    assert len(lab.provider.received("other")) == 1
    account = lab.summary("shared-lab")
    assert nanos(account.balances.granted) == 2 * hold
    assert tallies(account.balances) == {"held": (hold, 1), "charged": (cost_nanos(body), 1)}
    assert nanos(account.balances.available) == hold - cost_nanos(body)
    assert {study.study_id: study.blocked for study in account.studies}[enough.study_id] is False
    assert lab.journal_is_intact()


@pytest.mark.parametrize(
    ("name", "reply", "category", "progress", "status"), NO_ANSWER, ids=[case[0] for case in NO_ANSWER]
)
def test_an_attempt_without_a_usable_answer_is_held_and_never_repeated(
    lab: Lab, name: str, reply: Answer, category: int, progress: int, status: int
) -> None:
    plan = lab.plan(name, [route("r", lab.provider.url(name, reply))])
    before = lab.provider.connections
    runs = [lab.collect(plan), lab.collect(plan)]

    assert [ending(run.record) for run in runs] == [stopped("transport_unknown")] * 2
    held = require_held(lab, runs[-1], f"{name}-lab")
    assert (held.hold_category, held.progress, held.http_status) == (category, progress, status)
    assert held.response_digest == b""
    assert len(lab.provider.received(name)) == 1
    assert lab.provider.connections == before + 1
    assert lab.provider.received("followed") == []
    assert lab.verification(plan, runs[-1].record)["differences"] == []


def test_a_provider_that_cannot_be_reached_is_held_as_not_connected(lab: Lab) -> None:
    with socket.socket() as taken:
        # Bound and not listening: whoever connects is refused.
        taken.bind(("127.0.0.1", 0))
        run = lab.collect(lab.plan("unreachable", [route("r", f"http://127.0.0.1:{taken.getsockname()[1]}/v1")]))

    assert ending(run.record) == stopped("transport_unknown")
    held = require_held(lab, run, "unreachable-lab")
    assert (held.hold_category, held.progress) == (UNKNOWN, ledger.REQUEST_PROGRESS_NOT_CONNECTED)


def test_an_answer_without_usage_waits_for_an_operators_charge(lab: Lab) -> None:
    body = completion(usage=None)
    plan = lab.plan("no-usage", [route("r", lab.provider.url("no-usage", answers(body)))])
    first = lab.collect(plan)

    assert ending(first.record) == stopped("billing_unresolved")
    held = require_held(lab, first, "no-usage-lab")
    assert held.hold_category == ledger.HOLD_CATEGORY_COST_UNRESOLVED
    assert (lab.receipt(held).http_status, lab.receipt(held).response) == (200, body)
    assert lab.verification(plan, first.record)["differences"] == []

    decision = ("--by", "operator", "--evidence", "line 7 of the provider's invoice")
    (resolved,) = lab.ledger_command("resolve", held.call_id.hex(), "--charged", "0.0025", *decision)
    assert (resolved["state"], resolved["accounted"], resolved["resolved_by"]) == ("RESOLVED", "0.0025", "operator")

    second = lab.collect(plan)
    assert (second.exit_status, ending(second.record)) == (0, COMPLETED)
    assert steps(second.record) == [(1, "finish", "unknown")]
    assert second.record["outcome"]["primary_loss"] == 5
    (call,) = second.record["calls"]
    assert (call["state"], call["accounted"], call["replayed"]) == ("RESOLVED", "0.0025", True)
    assert call["response_digest"] == sha256(body).hex()
    assert (second.record["verification"]["agrees"], second.record["verification"]["differences"]) == (True, [])
    assert len(lab.provider.received("no-usage")) == 1
    (study,) = lab.summary("no-usage-lab").studies
    assert not study.blocked
    assert tallies(study.balances) == {"resolved": (2_500_000, 1)}
    assert second.report["money"]["adds_up"] is True
    assert lab.journal_is_intact()


def test_a_bill_above_the_reservation_is_held_in_full_and_blocks_the_study(lab: Lab) -> None:
    body = completion(usage=(100_000, 1_000))
    above, after = lab.provider.url("above", answers(body)), lab.provider.url("after", answers(completion()))
    plan = lab.plan("above", [route("above", above), route("after", after)])
    runs = [lab.collect(plan), lab.collect(plan)]

    assert [run.exit_status for run in runs] == [3, 3]
    assert [ending(run.record) for run in runs] == [stopped("billing_above_reservation")] * 2
    assert runs[-1].report["total"]["not_attempted"] == 1
    (held,) = lab.calls(runs[0].study_id)
    (study,) = lab.summary("above-lab").studies
    assert held.hold_category == ledger.HOLD_CATEGORY_COST_ABOVE_RESERVATION
    assert nanos(held.reserved) == bound_nanos(lab.receipt(held).request) < cost_nanos(body)
    assert tallies(study.balances) == {"held": (cost_nanos(body), 1)}
    assert study.blocked
    assert lab.receipt(held).response == body
    assert (len(lab.provider.received("above")), lab.provider.received("after")) == (1, [])


def test_a_new_attempt_sends_exactly_one_more_request(lab: Lab) -> None:
    body = completion()
    replies: Iterator[Reply] = chain([Abort()], iter(lambda: Response(200, body), None))
    plan = lab.plan("again", [route("r", lab.provider.url("again", lambda _: next(replies)))])
    first = lab.collect(plan)
    held = require_held(lab, first, "again-lab")

    decision = ("--by", "operator", "--evidence", "the provider's log has no such request")
    lab.ledger_command("resolve", held.call_id.hex(), "--never-sent", "--new-attempt", *decision)
    second, third = lab.collect(plan), lab.collect(plan)

    assert [(run.exit_status, ending(run.record)) for run in (second, third)] == [(0, COMPLETED)] * 2
    requests = [request.body for request in lab.provider.received("again")]
    assert len(requests) == 2
    assert requests[0] == requests[1]
    attempts = lab.calls(second.study_id)
    assert [call.call_id for call in attempts] == [held.call_id] * 2
    assert [(call.attempt, call.state, nanos(call.accounted)) for call in attempts] == [
        (1, ledger.CALL_STATE_RESOLVED, 0),
        (2, ledger.CALL_STATE_CHARGED, cost_nanos(body)),
    ]
    assert attempts[0].resolution.opened_new_attempt
    assert [(call["attempt"], call["state"]) for call in second.record["calls"]] == [(2, "CHARGED")]
    assert second.record["verification"]["agrees"]
    assert second.report["money"]["adds_up"] is True
    assert lab.journal_is_intact()


def test_never_sent_without_a_new_attempt_sends_nothing(lab: Lab) -> None:
    plan = lab.plan("closed", [route("r", lab.provider.url("closed", lambda _: Abort()))])
    held = require_held(lab, lab.collect(plan), "closed-lab")
    decision = ("--by", "operator", "--evidence", "the provider's log has no such request")
    lab.ledger_command("resolve", held.call_id.hex(), "--never-sent", *decision)
    run = lab.collect(plan)

    assert ending(run.record) == stopped("transport_unknown")
    assert [(call["attempt"], call["state"], call["accounted"]) for call in run.record["calls"]] == [
        (1, "RESOLVED", "0")
    ]
    assert len(lab.provider.received("closed")) == 1
    assert tallies(lab.summary("closed-lab").balances) == {"resolved": (0, 1)}
