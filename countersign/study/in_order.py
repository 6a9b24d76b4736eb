"""Many answers at a time, given in the order of their questions, in bounded memory."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import Any, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


async def in_order(
    questions: Iterable[Q],
    ask: Callable[[Q], Coroutine[Any, Any, A]],
    weight: Callable[[Q], int],
    *,
    in_flight: int,
    in_flight_weight: int,
) -> AsyncGenerator[A, None]:
    """The answer to each question, in order; at most `in_flight` are asked at once, and no more once together they
    weigh `in_flight_weight`.

    What reading the questions or asking one raises comes after every answer before it. Questions still in flight are
    cancelled then, and where the caller stops.
    """
    waiting: deque[tuple[asyncio.Task[A], int]] = deque()
    total = 0
    failure: Exception | None = None
    source = iter(questions)
    try:
        while True:
            while failure is None and len(waiting) < in_flight and total < in_flight_weight:
                try:
                    question = next(source)
                except StopIteration:
                    break
                except Exception as error:  # noqa: BLE001 - raised below, once what came before is answered
                    failure = error
                    break
                total += weight(question)
                waiting.append((asyncio.ensure_future(ask(question)), weight(question)))
            if not waiting:
                break
            task, of_task = waiting.popleft()
            total -= of_task
            yield await task
        if failure is not None:
            raise failure
    finally:
        for task, _ in waiting:
            task.cancel()
        await asyncio.gather(*(task for task, _ in waiting), return_exceptions=True)
