"""`python -m verifier_svc` as a process: it serves, reads its ledger, and says why it cannot start."""

from pathlib import Path

import grpc
import pytest

from countersign.kit.channel import call, open_channel
from countersign.kit.rpc_errors import ServiceError
from countersign.verifier.v1.verifier_pb2_grpc import VerifierServiceStub
from tests.service_process import complaint, service_process
from tests.verifier_svc.episode import played
from tests.verifier_svc.test_service import EVENTS, WORDING, a_trace, an_episode


async def test_a_verifier_without_a_ledger_still_replays_traces() -> None:
    async with service_process("verifier") as process, open_channel(process.address) as channel:
        assert (await call(VerifierServiceStub(channel).VerifyTrace, a_trace(*EVENTS), 10)).agrees


async def test_a_verifier_whose_ledger_is_away_gives_no_verdict(tmp_path: Path) -> None:
    request = an_episode(played.canonical(played.finished(WORDING).record()))
    options = ("--ledger", f"unix:{tmp_path}/l.sock")
    async with service_process("verifier", *options) as process, open_channel(process.address) as channel:
        with pytest.raises(ServiceError) as caught:
            await call(VerifierServiceStub(channel).VerifyEpisode, request, 20)
    assert (caught.value.status, caught.value.reason) == (grpc.StatusCode.UNAVAILABLE, "SERVICE_UNAVAILABLE")


async def test_a_verifier_ends_with_the_process_that_started_it() -> None:
    async with service_process("verifier", "--exit-with-stdin") as process:
        assert await process.ended_with_stdin() == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--listen", "192.168.1.1:0"), "is not on loopback"),
        (("--ledger", "nonsense"), "is not an address"),
        (("--drain-seconds", "-1"), "setting drain_seconds"),
    ],
)
def test_a_verifier_that_cannot_start_says_why_in_one_line(arguments: tuple[str, ...], says: str) -> None:
    assert says in complaint("verifier", *arguments)
