"""Hosts that die, freeze or come back: what was answered is kept, what was sent is not sent again."""

from collections.abc import Callable

import pytest

from tests.hosts.invariants import look
from tests.hosts.network import cut, give_up_on, unplug
from tests.hosts.site import CALLS_PER_EPISODE, Site, Study

pytestmark = pytest.mark.timeout(120)
Open = Callable[..., Study]


def test_a_lost_primary_takes_no_answer_with_it(site: Site, open_study: Open) -> None:
    study = open_study("failover", episodes=3, in_flight=2)
    site.relay_mode(delay_millis=300)
    study.start()
    study.await_requests(4)
    lost = site.primary
    unplug(lost.host)
    lost.stop()
    give_up_on(site["ledger"], lost.host)
    site.fail_over()
    site.relay_mode()
    assert study.wait() == 0, study.said()
    found = look(study)
    assert found.report["total"]["completed"] == {"normal_text": 3}
    assert found.states() == {"CHARGED": 3 * CALLS_PER_EPISODE}
    assert len(found.wire) == 3 * CALLS_PER_EPISODE
    assert site.primary is not lost
    assert site.primary.query("SELECT pg_is_in_recovery()") == "f"
    # Whichever the DSN names first, a ledger that starts finds the one that can be written.
    site.repair()
    site.ledger.kill()
    site.ledger.start()
    later = open_study("later")
    assert later.collect() == 0, later.said()


def test_a_primary_without_its_standby_acknowledges_nothing(site: Site, open_study: Open) -> None:
    study = open_study("alone")
    site.relay_mode(delay_millis=300)
    study.start()
    study.await_requests(2)
    lost = site.primary
    cut(lost.host, site.standby.host)
    study.until(lambda: lost.query("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "1")
    assert len(study.wire()) == 2
    # Committed on a disk that nobody will read again: the standby knows of two reservations and one answer.
    unplug(lost.host)
    lost.stop()
    give_up_on(site["ledger"], lost.host)
    site.fail_over()
    site.relay_mode()
    assert study.wait() == 0, study.said()
    site.net.heal()
    found = look(study)
    assert found.report["total"]["completed"] == {"normal_text": 1}
    assert found.states() == {"CHARGED": CALLS_PER_EPISODE}
    assert len(found.wire) == CALLS_PER_EPISODE


def test_a_frozen_adapter_that_comes_back_hands_in_what_it_had(site: Site, open_study: Open) -> None:
    study = open_study("frozen")
    site.relay_mode(delay_millis=500)
    study.start("adapter-1")
    study.await_requests(1)
    site.adapters[0].pause()
    study.end()
    assert study.collect("adapter-2") == 3
    found = look(study)
    assert found.states() == {"RESERVED": 1}
    assert found.report["total"]["stopped"] == {"unresolved_prior_request": 1}
    assert len(found.wire) == 1
    site.adapters[0].resume()
    site.relay_mode()
    states: list[str] = []
    while "CHARGED" not in states:
        ledger = site.inspect(found.report["study_id"], study.name)
        states = [call["state"] for call in ledger["calls"]]
    assert study.collect("adapter-2") == 0, study.said()
    found = look(study)
    assert found.report["total"]["completed"] == {"normal_text": 1}
    assert found.states() == {"CHARGED": CALLS_PER_EPISODE}
    assert len(found.wire) == CALLS_PER_EPISODE
    (record,) = found.records
    assert [call["replayed"] for call in record["calls"]] == [True, False, False]


def test_a_frozen_ledger_delays_everything_and_changes_nothing(site: Site, open_study: Open) -> None:
    study = open_study("still", episodes=2)
    site.relay_mode(delay_millis=300)
    study.start("adapter-2")
    study.await_requests(2)
    log = site.adapters[1].log
    before = log.read_text().count("ledger_unreachable")
    site.ledger.pause()
    study.until(lambda: log.read_text().count("ledger_unreachable") > before)
    assert len(study.wire()) == 2
    site.ledger.resume()
    site.relay_mode()
    assert study.wait() == 0, study.said()
    found = look(study)
    assert found.report["total"]["completed"] == {"normal_text": 2}
    assert found.states() == {"CHARGED": 2 * CALLS_PER_EPISODE}
    assert len(found.wire) == 2 * CALLS_PER_EPISODE


def test_a_collection_goes_on_without_an_adapter_whose_host_disappears(site: Site, open_study: Open) -> None:
    # A lost call keeps its place among those under way: two workers need room for three.
    study = open_study("disappeared", episodes=4, in_flight=3, workers=2)
    site.relay_mode(delay_millis=1000)
    study.start()
    study.await_requests(2)
    # The power goes: no packet tells anybody, and what the process knew is lost.
    unplug(site["adapter-2"])
    site.adapters[1].kill()
    give_up_on(site["collector"], site["adapter-2"])
    site.relay_mode()
    assert study.wait() == 0, study.said()
    found = look(study)
    (lost,) = found.in_doubt()
    assert found.states() == {"CHARGED": 3 * CALLS_PER_EPISODE, "RESERVED": 1}
    assert found.report["total"]["completed"] == {"normal_text": 3}
    assert found.report["total"]["stopped"] == {"service_unavailable": 1}
    assert [one["episode_id"] for one in found.records if one["status"] == "stopped"] == [lost]
    assert found.report["money"]["calls"]["reserved"] == 1
    assert "an adapter went away" in study.said()
    site.repair()
    study.collect()
    again = look(study)
    assert again.wire == found.wire, "what the lost adapter had sent must not be sent again"
    assert again.in_doubt() == {lost}
    assert again.report["total"]["stopped"] == {"unresolved_prior_request": 1}
