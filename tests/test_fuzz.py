"""Answers that break a structural rule are admitted by neither reader, and both say the same (design/admission.md).

`make fuzz` runs this longer: FUZZ_SECONDS bounds the time of each test, FUZZ_SEED sets where it starts. Without them a
fixed number of changes is made, so that a run of the suite is the same each time.
"""

import os
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.exchange_mutations import spoil
from tests.readers import Exchange, both, disagreements, recorded_exchanges
from tests.stream_mutations import change_member, spoil_stream
from tests.structural_faults import BODY_BREAKS, STREAM_BREAKS, is_breakable

FUZZ_SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
FUZZ_SEED = int(os.environ.get("FUZZ_SEED", "1"))
ROUNDS_OF_THE_SUITE = 40
LARGEST = 30_000
FORMS = [
    (wire, streamed)
    for wire in ("chat_completions", "messages", "responses", "generate_content")
    for streamed in (False, True)
]


class Rounds:
    """A fixed number of rounds, or as many as the time allows."""

    def __init__(self) -> None:
        self._end = time.monotonic() + FUZZ_SECONDS if FUZZ_SECONDS else None
        self._left = ROUNDS_OF_THE_SUITE

    def __bool__(self) -> bool:
        self._left -= 1
        return self._left >= 0 if self._end is None else time.monotonic() < self._end


@pytest.fixture(scope="module")
def exchanges(shared_data: Path) -> tuple[Exchange, ...]:
    return recorded_exchanges(shared_data)


def admitted_ones(exchanges: tuple[Exchange, ...], form: tuple[str, bool]) -> list[Exchange]:
    """Answers of the form that are admitted as they came, and not too long to be changed over and over."""
    of_form = (one for one in exchanges if (one.wire, one.streamed) == form and len(one.body) <= LARGEST)
    return [
        one
        for one in of_form
        if is_breakable(one.body, streamed=one.streamed) and both(one, one.body)[0]["kind"] != "TechnicalUnknown"
    ]


@pytest.mark.timeout(FUZZ_SECONDS * 2 + 60)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form[0]}-{form[1]}")
def test_an_answer_that_breaks_a_rule_is_unknown_to_both(
    exchanges: tuple[Exchange, ...], form: tuple[str, bool]
) -> None:
    rng, found = Random(FUZZ_SEED), Counter[str]()
    of_form, breaks = admitted_ones(exchanges, form), STREAM_BREAKS if form[1] else BODY_BREAKS
    rounds = Rounds()
    while rounds:
        exchange, rule = rng.choice(of_form), rng.choice(sorted(breaks))
        broken = breaks[rule](exchange.body, rng)
        if broken is None:
            continue
        mine, theirs = both(exchange, broken)
        assert (rule, exchange.id, mine["kind"]) == (rule, exchange.id, "TechnicalUnknown")
        assert (rule, exchange.id, theirs["kind"]) == (rule, exchange.id, "TechnicalUnknown")
        assert (rule, exchange.id, mine["reason"]) == (rule, exchange.id, theirs["reason"])
        found[rule] += 1
    assert len(found) > 3


@pytest.mark.timeout(FUZZ_SECONDS * 2 + 60)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form[0]}-{form[1]}")
def test_any_change_leaves_both_with_one_answer(exchanges: tuple[Exchange, ...], form: tuple[str, bool]) -> None:
    rng = Random(FUZZ_SEED + 1)
    of_form = [one for one in exchanges if (one.wire, one.streamed) == form and len(one.body) <= LARGEST]
    rounds = Rounds()
    while rounds:
        exchange = rng.choice(of_form)
        body = spoil_stream(exchange.body, rng, change_member) if exchange.streamed else spoil(exchange.body, rng)
        differing = [one for one in disagreements(exchange, body) if one[0] != "where"]
        assert (exchange.id, differing) == (exchange.id, [])
