"""A log that cannot be written: the calls that would be logged are answered all the same."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from countersign.kit.channel import call, open_channel
from countersign.kit.logs import Dropping
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub
from tests.conftest import PROJECT_ROOT

FULL = Path("/dev/full")
"""Every write to it fails, as on a full disk."""

CALL_SECONDS = 20


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
async def test_a_service_answers_though_its_log_is_on_a_full_disk(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ledger_svc", "--listen", f"unix:{tmp_path}/l", "--database", str(tmp_path / "db")]
    with (
        FULL.open("wb") as log,
        subprocess.Popen(
            command, cwd=PROJECT_ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
        ) as running,
    ):
        try:
            assert running.stdout is not None
            address = json.loads(running.stdout.readline())["address"]
            request = pb.OpenAccountRequest(request_id="r", account_id="lab", currency_code="USD", opened_by="ann")
            async with open_channel(address) as channel:
                stub = LedgerServiceStub(channel)
                for replayed in (False, True):
                    answer = await call(stub.OpenAccount, request, CALL_SECONDS)
                    assert answer.replayed is replayed
        finally:
            running.terminate()
            assert running.wait(CALL_SECONDS) == 0


class _Broken:
    """A stream whose reader comes and goes."""

    def __init__(self) -> None:
        self.is_broken = False
        self.text = ""

    def write(self, text: str) -> None:
        if self.is_broken:
            raise BrokenPipeError
        self.text += text

    def flush(self) -> None:
        if self.is_broken:
            raise BrokenPipeError


def test_what_cannot_be_written_is_dropped_and_what_can_is_not() -> None:
    stream = _Broken()
    log = Dropping(stream)  # type: ignore[arg-type]
    log.write("one")
    stream.is_broken = True
    log.write("two")
    log.flush()
    stream.is_broken = False
    log.write("three")
    assert stream.text == "onethree"
