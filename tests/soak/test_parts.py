"""The plan of faults, the judgement of memory, and the result of a soak."""

from typing import Any

import pytest

from tests.soak.faults import LINKS, SURVIVORS, Kind, Store, phases, plan_of
from tests.soak.growth import LEAST_SECONDS, MIB, WARM_UP_SECONDS, Bound, Series, slope_of
from tests.soak.results import summary_of
from tests.soak.studies import draw

BOTH = (Store.SQLITE, Store.POSTGRES)
BOUND = Bound(4.0, 4.0, descriptors=5)


def test_a_plan_follows_from_its_seed() -> None:
    plan = plan_of(7, BOTH, 600, 3.0)
    assert plan == plan_of(7, BOTH, 600, 3.0)
    assert plan != plan_of(8, BOTH, 600, 3.0)
    assert draw(7, "a", "lab", "127.0.0.1:1") == draw(7, "a", "lab", "127.0.0.1:1")
    assert draw(7, "a", "lab", "127.0.0.1:1") != draw(8, "a", "lab", "127.0.0.1:1")
    assert 150 < len(plan) < 250
    assert [one.at for one in plan] == sorted(one.at for one in plan)


def test_every_kind_and_every_link_is_planned_in_an_hour() -> None:
    plan = plan_of(1, BOTH, 3600, 3.0)
    assert {one.kind for one in plan} == set(Kind)
    assert set(LINKS) <= {one.target for one in plan}


def test_survivors_are_never_killed_and_ledgers_not_in_the_second_half_of_their_store() -> None:
    killed = [one for one in plan_of(3, BOTH, 3600, 3.0) if one.kind in (Kind.KILL, Kind.CRASH, Kind.RESTART)]
    assert killed
    assert not [one for one in killed if one.target in SURVIVORS]
    for phase in phases(BOTH, 3600):
        late = [one for one in killed if phase.lasting_from <= one.at < phase.end]
        assert not [one for one in late if one.target in ("ledger-1", "ledger-2", "database")]


def series(mib_an_hour: float, descriptors_an_hour: float = 0.0, seconds: int = 600) -> Series:
    noise = [0.0, 2.0, -1.0, 0.5, 3.0]
    points = [
        (
            float(at),
            int((80 + noise[at % 5] + mib_an_hour * at / 3600) * MIB),
            30 + int(descriptors_an_hour * at / 3600),
        )
        for at in range(seconds)
    ]
    return Series("adapter-1", "sqlite", 1, points)


def test_memory_that_grows_is_found_and_noise_is_not() -> None:
    assert series(0.0).judged(BOUND)["grows"] is False
    assert series(120.0).judged(BOUND)["grows"] is True
    assert series(0.0, descriptors_an_hour=120).judged(BOUND)["grows"] is True


def test_growth_while_warming_up_does_not_count() -> None:
    one = series(0.0)
    one.points = [(at, rss - 40 * MIB if at < WARM_UP_SECONDS else rss, count) for at, rss, count in one.points]
    assert one.judged(BOUND)["grows"] is False


def test_a_short_life_is_not_judged() -> None:
    assert series(500.0, seconds=int(WARM_UP_SECONDS + LEAST_SECONDS) - 1).judged(BOUND)["grows"] is None
    assert Series("adapter-1", "sqlite", 1).judged(BOUND)["grows"] is None


def test_single_peaks_do_not_move_the_slope() -> None:
    points = [(float(n), 100.0 if n in (3, 80) else 1.0) for n in range(100)]
    assert slope_of(points) == pytest.approx(0.0)


def test_a_broken_soak_says_how_to_repeat_it() -> None:
    empty: dict[str, Any] = {"applied": {}, "planned": {}, "skipped": {}}
    result = {
        "seed": 5, "verdict": "broken", "ran_seconds": 9.0, "stores": ["sqlite"], "faults": empty,
        "studies": {"begun": 1, "settled": 0, "left": 0}, "collections": {}, "episodes": {},
        "requests": {"sent": 2, "answered": 1}, "calls": {}, "operator": {"decided": 0, "left": 0}, "checks": {},
        "memory": [], "error": "", "violations": [{"invariant": "I1", "what": "a request too many"}],
        "command": "make soak SOAK_SEED=5",
    }  # fmt: skip
    text = summary_of(result)
    assert "BROKEN I1: a request too many" in text
    assert "make soak SOAK_SEED=5" in text
