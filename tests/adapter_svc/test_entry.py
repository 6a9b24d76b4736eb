"""`python -m adapter_svc` as a process: it serves, says why it cannot start, and leaves no turn without a mark."""

import asyncio
from pathlib import Path

import grpc
import pytest

from countersign.adapter.v1 import adapter_pb2 as pb
from countersign.adapter.v1.adapter_pb2_grpc import AdapterServiceStub
from countersign.kit.channel import call, open_channel
from countersign.kit.server import start_server
from countersign.ledger.v1 import ledger_pb2 as ledger
from tests.adapter_svc.admission.helpers import text_body
from tests.adapter_svc.routes.raw_server import holding, serving
from tests.adapter_svc.test_ledger_client import CALL_ID, Script, spec_of
from tests.adapter_svc.test_service import an_adapt
from tests.adapter_svc.test_service_episode import a_run
from tests.adapter_svc.wire import a_wire_route
from tests.service_process import complaint, service_process


async def test_an_adapter_without_a_ledger_still_reads_responses() -> None:
    async with service_process("adapter") as process, open_channel(process.address) as channel:
        answer = await call(AdapterServiceStub(channel).Adapt, an_adapt(text_body()), 10)
    assert answer.text_finish.text == "all done"


async def test_an_adapter_ends_with_the_process_that_started_it() -> None:
    async with service_process("adapter", "--exit-with-stdin") as process:
        assert await process.ended_with_stdin() == 0


async def test_a_stopped_adapter_holds_the_call_whose_answer_it_waits_for(tmp_path: Path) -> None:
    script = Script()  # type: ignore[abstract]
    running = await start_server(spec_of(script), f"unix:{tmp_path}/l.sock")
    options = ("--ledger", running.address, "--drain-seconds", "0")
    async with (
        serving(holding()) as provider,
        service_process("adapter", *options) as process,
        open_channel(process.address) as channel,
    ):
        request = a_run(route=a_wire_route(base_url=provider.base_url))
        reading = asyncio.ensure_future(_parts(AdapterServiceStub(channel).RunEpisode(request, timeout=60)))
        await provider.requested.wait()
        assert await process.stopped() == 0
        with pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
            await reading
    await running.stop(0)
    reserved, held = script.asked
    assert isinstance(reserved, ledger.ReserveRequest)
    assert held == ledger.HoldRequest(
        call_id=CALL_ID, attempt_token=reserved.attempt_token, category=ledger.HOLD_CATEGORY_ADAPTER_STOPPED
    )
    assert provider.bodies == [reserved.request]


async def _parts(
    stream: "grpc.aio.UnaryStreamCall[pb.RunEpisodeRequest, pb.RunEpisodeResponse]",
) -> list[pb.RunEpisodeResponse]:
    return [part async for part in stream]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--listen", "0.0.0.0:0"), "is not on loopback"),
        (("--listen", "nonsense"), "is not an address"),
        (("--ledger", "nonsense"), "is not an address"),
        (("--ledger", "unix:"), "path is missing"),
        (("--ledger-patience-seconds", "-1"), "setting ledger_patience_seconds"),
        (("--ledger-patience-seconds", "nan"), "setting ledger_patience_seconds"),
        (("--drain-seconds", "soon"), "setting drain_seconds"),
        (("--config", "no/such/file.toml"), "does not exist"),
    ],
)
def test_an_adapter_that_cannot_start_says_why_in_one_line(arguments: tuple[str, ...], says: str) -> None:
    assert says in complaint("adapter", *arguments)
