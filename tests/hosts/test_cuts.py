"""Cuts and delays between hosts: nothing is sent without a reservation, nothing twice, and the report says so."""

from collections.abc import Callable

import pytest

from tests.hosts.invariants import look
from tests.hosts.network import cut, give_up_on, lose, refuse
from tests.hosts.site import CALLS_PER_EPISODE, Site, Study

pytestmark = pytest.mark.timeout(120)
Open = Callable[..., Study]

VERIFIED = {"differs": 0, "not_verified": 0}


def test_a_study_over_a_slow_and_lossy_network_is_like_any_other(site: Site, open_study: Open) -> None:
    for name in ("ledger", "adapter-1", "adapter-2", "verifier", "database-1"):
        lose(site[name], 2)
    site.relay_mode(delay_millis=20)
    study = open_study("lossy", episodes=4, in_flight=2)
    assert study.collect() == 0, study.said()
    found = look(study)
    assert found.report["total"]["completed"] == {"normal_text": 4}
    assert found.report["total"]["verification"] == {"verified": 4, **VERIFIED}
    assert found.states() == {"CHARGED": 4 * CALLS_PER_EPISODE}
    assert len(found.wire) == 4 * CALLS_PER_EPISODE
    assert found.report["money"]["adds_up"] is True


def test_an_adapter_cut_off_before_its_reservation_sends_nothing(site: Site, open_study: Open) -> None:
    study = open_study("before")
    refuse(site["adapter-1"], site["ledger"])
    study.start("adapter-1")
    log = site.adapters[0].log
    study.until(lambda: log.read_text().count("ledger_unreachable") >= 2)
    assert study.wire() == []
    site.net.heal()
    assert study.wait() == 0, study.said()
    found = look(study)
    assert found.report["total"]["completed"] == {"normal_text": 1}
    assert len(found.wire) == CALLS_PER_EPISODE


def test_an_adapter_cut_off_after_its_reservation_hands_its_answer_in_later(site: Site, open_study: Open) -> None:
    study = open_study("after")
    site.relay_mode(delay_millis=700)
    study.start("adapter-1")
    study.await_requests(1)
    refuse(site["adapter-1"], site["ledger"])
    log = site.adapters[0].log
    before = log.read_text().count("ledger_unreachable")
    study.until(lambda: log.read_text().count("ledger_unreachable") > before)
    assert len(study.wire()) == 1
    site.net.heal()
    site.relay_mode()
    assert study.wait() == 0, study.said()
    found = look(study)
    assert found.report["total"]["completed"] == {"normal_text": 1}
    assert found.states() == {"CHARGED": CALLS_PER_EPISODE}
    assert len(found.wire) == CALLS_PER_EPISODE


def test_an_answer_cut_in_its_middle_is_held_until_an_operator_decides(site: Site, open_study: Open) -> None:
    study = open_study("middle", episodes=2, in_flight=2, workers=1)
    site.relay_mode(cut_after=400)
    assert study.collect("adapter-1") == 3
    found = look(study)
    (held,) = found.calls
    assert (held["state"], held["hold"], held["progress"]) == ("HELD", "TRANSPORT_UNKNOWN", "RESPONSE_STARTED")
    assert found.report["total"]["stopped"] == {"transport_unknown": 1}
    assert len(found.wire) == 1
    site.relay_mode()
    study.workers = 2
    assert study.collect("adapter-2") == 3, "another host must not send it either, nor anything else of the study"
    found = look(study)
    assert found.report["total"]["stopped"] == {"transport_unknown": 1, "study_blocked": 1}
    assert len(found.wire) == 1
    decision = ("--charged", "0.001", "--evidence", "the provider's log", "--by", "ann", "--new-attempt")
    resolved = ("ledger", "resolve", held["call_id"], *decision, "--ledger", site.address("ledger"))
    site["collector"].run(*site.countersign(*resolved))
    assert study.collect() == 0, study.said()
    found = look(study)
    assert found.report["total"]["completed"] == {"normal_text": 2}
    assert found.states() == {"RESOLVED": 1, "CHARGED": 2 * CALLS_PER_EPISODE}
    assert len(found.wire) == 1 + 2 * CALLS_PER_EPISODE


def test_a_verifier_cut_off_leaves_records_that_say_so(site: Site, open_study: Open) -> None:
    study = open_study("unverified", episodes=2, in_flight=2)
    site.relay_mode(delay_millis=300)
    study.start()
    study.await_requests(1)
    refuse(site["verifier"], site["ledger"])
    assert study.wait() == 1
    found = look(study)
    assert found.states()["CHARGED"] == len(found.wire)
    assert found.report["total"]["verification"]["not_verified"] >= 1
    site.net.heal()
    site.relay_mode()
    assert study.collect() == 0, study.said()
    found = look(study)
    assert found.report["total"]["verification"] == {"verified": 2, **VERIFIED}
    assert len(found.wire) == 2 * CALLS_PER_EPISODE


def test_a_ledger_cut_off_from_its_database_admits_nothing_and_forgets_nothing(site: Site, open_study: Open) -> None:
    study = open_study("storeless", episodes=2)
    site.relay_mode(delay_millis=300)
    study.start("adapter-1")
    study.await_requests(2)
    primary = site.primary.host
    cut(site["ledger"], primary)
    give_up_on(site["ledger"], primary)
    log = site.adapters[0].log
    before = log.read_text().count("ledger_unreachable")
    study.until(lambda: log.read_text().count("ledger_unreachable") > before)
    assert len(study.wire()) == 2
    site.net.heal()
    site.relay_mode()
    assert study.wait() == 0, study.said()
    found = look(study)
    assert found.report["total"]["completed"] == {"normal_text": 2}
    assert found.states() == {"CHARGED": 2 * CALLS_PER_EPISODE}
    assert len(found.wire) == 2 * CALLS_PER_EPISODE
