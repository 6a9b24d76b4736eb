"""What a collection shows while it runs."""

from typing import Any

from countersign.cli.progress import Tally

CALL = {"state": "CHARGED", "accounted": "0.25"}


def record(status: str, *calls: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"status": status, "reason": reason, "calls": list(calls)}


def a_tally() -> Tally:
    tally = Tally(planned=10, kept=1, cap_nanos=2 * 10**9, started=100.0)
    tally.add(record("completed", CALL))
    tally.add(record("technical_unknown", CALL, reason="TRUNCATED"))
    tally.add(record("technical_unknown", {**CALL, "state": "HELD"}, reason="FILTERED"))
    tally.add(record("technical_unknown", CALL, reason="TRUNCATED"))
    return tally


def test_the_line_has_counts_reasons_amounts_rate_and_time_left() -> None:
    assert a_tally().line(106.0) == (
        "completed 1, technical unknown 3 (2 TRUNCATED, 1 FILTERED), stopped 0, charged 0.75, held 0.25, reserved 0,"
        " remaining 1 of the cap, 0.5 episodes/s, about 0:00:12 left"
    )


def test_there_is_no_rate_before_an_episode_of_this_run_has_ended() -> None:
    tally = Tally(planned=10, kept=1, started=100.0)
    tally.add(record("completed"))
    assert tally.line(160.0).endswith("remaining 0 of the cap")
