"""Two collectors on one study at the same time duplicate no slot, and leave a study that is complete."""

from pathlib import Path

from countersign.ledger.v1 import ledger_pb2 as pb
from tests.integration.chaos import Progress, look, study_of, wait_until
from tests.integration.stack import running_stack, scripted_agent

AGENT = ("late", "--late-seconds", "0.3")
"""Slow enough that the second collector begins long before the first has ended."""


def test_two_collectors_on_one_study_send_every_slots_request_once(tmp_path: Path) -> None:
    """Whichever comes second to a slot sends nothing; what it had to leave is there when it collects again."""
    with (
        running_stack() as stack,
        scripted_agent(tmp_path, *AGENT) as agent,
        study_of(stack, tmp_path, agent) as first,
        study_of(stack, tmp_path, agent) as second,
    ):
        first.start()
        wait_until(lambda: first.seen(Progress.REQUESTS) >= 1, first)
        second.start()
        first.wait()
        second.wait()
        assert first.collect() == 0, first.log()
        found = look(first)

    assert len(found.wire) == len(set(found.wire)) == len(found.calls), "a slot was requested twice"
    assert set(found.wire) == found.digests(pb.CALL_STATE_CHARGED)
    assert not found.stopped_episodes()
    assert found.journal.intact, found.journal.differences
    total = found.report["total"]
    assert total["verification"] == {"verified": len(found.records), "differs": 0, "not_verified": 0}
    assert total["planned"] == len(found.records)
