"""Signals: the first lets a patient command finish, any other ends it; the exit status says which."""

import asyncio
import os
import signal

import pytest

from countersign.cli.running import Interrupted, Interruption, run


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_an_impatient_command_after_it_has_closed_what_it_opened(number: int, status: int) -> None:
    closed = []

    async def body(_: Interruption) -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    with pytest.raises(Interrupted) as caught:
        run(body)
    assert (caught.value.exit_status, closed) == (status, [True])


def test_a_patient_command_is_told_first_and_cancelled_by_the_second_signal() -> None:
    told = []

    async def body(interruption: Interruption) -> None:
        interruption.patient = True
        os.kill(os.getpid(), signal.SIGINT)
        await interruption.event.wait()
        told.append(interruption.number)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    with pytest.raises(Interrupted) as caught:
        run(body)
    assert (told, caught.value.exit_status) == ([signal.SIGINT], 130)


def test_without_a_signal_the_result_is_returned() -> None:
    async def body(interruption: Interruption) -> int:
        interruption.raise_if_set()
        return 7

    assert run(body) == 7
