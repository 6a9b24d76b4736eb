"""Many answers at a time, in order and within bounds."""

import asyncio
from collections.abc import Iterator

import pytest

from countersign.study.in_order import in_order


class Asked:
    """Counts what is in flight; a question n is answered after n turns of the loop."""

    def __init__(self) -> None:
        self.now = self.most = self.weight = self.heaviest = 0
        self.cancelled: list[int] = []

    async def ask(self, question: int) -> int:
        self.now, self.weight = self.now + 1, self.weight + question
        self.most, self.heaviest = max(self.most, self.now), max(self.heaviest, self.weight)
        try:
            for _ in range(question):
                await asyncio.sleep(0)
            if question == 13:
                raise ValueError("unlucky")
            return question * 10
        except asyncio.CancelledError:
            self.cancelled.append(question)
            raise
        finally:
            self.now, self.weight = self.now - 1, self.weight - question


async def test_answers_come_in_order_and_never_too_many_are_asked() -> None:
    asked = Asked()
    questions = [9, 0, 5, 1, 8, 2, 2, 7]
    answers = in_order(questions, asked.ask, lambda question: 0, in_flight=3, in_flight_weight=1)
    assert [answer async for answer in answers] == [question * 10 for question in questions]
    assert asked.most == 3


async def test_nothing_is_added_to_a_full_weight() -> None:
    asked = Asked()
    answers = in_order([6, 6, 6, 1, 1, 1, 1], asked.ask, lambda question: question, in_flight=5, in_flight_weight=7)
    assert [answer async for answer in answers] == [60, 60, 60, 10, 10, 10, 10]
    assert asked.heaviest == 12


async def test_a_failure_comes_after_the_answers_before_it_and_ends_what_is_in_flight() -> None:
    asked = Asked()
    answers = in_order([3, 13, 40, 41], asked.ask, lambda _: 0, in_flight=4, in_flight_weight=1)
    assert await anext(answers) == 30
    with pytest.raises(ValueError, match="unlucky"):
        await anext(answers)
    assert (asked.now, asked.cancelled) == (0, [40, 41])


async def test_questions_that_cannot_be_read_fail_after_the_answers() -> None:
    def questions() -> Iterator[int]:
        yield from (1, 2)
        raise OSError("damaged")

    answers = in_order(questions(), Asked().ask, lambda _: 0, in_flight=9, in_flight_weight=1)
    assert [await anext(answers), await anext(answers)] == [10, 20]
    with pytest.raises(OSError, match="damaged"):
        await anext(answers)


async def test_a_caller_that_stops_leaves_nothing_in_flight() -> None:
    asked = Asked()
    answers = in_order(range(50), asked.ask, lambda _: 0, in_flight=4, in_flight_weight=1)
    assert await anext(answers) == 0
    await answers.aclose()
    assert (asked.now, asked.cancelled) == (0, [1, 2, 3])


async def test_without_questions_there_are_no_answers() -> None:
    nothing: list[int] = []
    answers = in_order(nothing, Asked().ask, lambda _: 0, in_flight=4, in_flight_weight=1)
    assert [answer async for answer in answers] == []
