"""`countersign native`: a recorded event stream of an agent program, judged (design/native-harness.md)."""

import signal
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, BinaryIO, TypeVar

import grpc
import typer

from countersign.adapter.v1 import adapter_pb2 as pb
from countersign.adapter.v1 import adapter_pb2_grpc
from countersign.cli.native_verdict import CONTRACTS, HARNESSES, exit_status, verdict_lines, verdict_object
from countersign.cli.output import AsJson, emit, say
from countersign.cli.running import run
from countersign.images import NAMES, shipped_image
from countersign.kit.rpc_errors import from_rpc_error
from countersign.study.children import adapter_spec
from countersign.study.errors import BadInput, ServiceFailed
from countersign.study.processes import Household
from countersign.study.services import channel_to, service_trouble

T = TypeVar("T")

READ_SECONDS = 300.0
"""The deadline of reading one stream."""
PART_BYTES = 256 * 1024
MAX_IMAGE_BYTES = 8 * 1024 * 1024
"""Where reading a folder is given up: an image may have half of that."""

HarnessName = Annotated[str, typer.Argument(metavar="HARNESS", help=f"The program: {', '.join(HARNESSES)}.")]
StreamFile = Annotated[Path, typer.Argument(metavar="FILE", help="Its standard output, byte for byte.")]
Ended = Annotated[int, typer.Option("--exit-status", help="Its exit status; -N where signal N ended it.")]
Sent = Annotated[
    str | None,
    typer.Option("--signal", help="The signal that it was sent before its terminal event, by name or number."),
]
Stated = Annotated[str, typer.Option("--harness-version", help="Its version, as `--version` says it.")]
Contract = Annotated[str, typer.Option("--output-contract", help=f"{' or '.join(CONTRACTS)}.")]
Image = Annotated[
    str | None, typer.Option(help=f"The image bundle: a folder, or {' or '.join(NAMES)} of those that ship.")
]
Argv = Annotated[list[str] | None, typer.Option("--argv", help="The invocation's arguments, one an option.")]
Survivors = Annotated[int, typer.Option(min=0, help="How many processes of its group were left.")]
AdapterAddress = Annotated[str | None, typer.Option("--adapter", help="Its address; started if not given.")]


def native(
    harness: HarnessName,
    file: StreamFile,
    ended: Ended,
    sent: Sent = None,
    version: Stated = "",
    contract: Contract = "native",
    image: Image = None,
    argv: Argv = None,
    survivors: Survivors = 0,
    adapter: AdapterAddress = None,
    as_json: AsJson = False,
) -> None:
    """Judge a recorded event stream of an agent program.

    Exit status: 0 complete; 10 incompatible; 20 image; 22 protocol or program failed; 23 semantic status unknown; 25
    processes left; 30 the envelope says that the program failed.
    """
    opening = pb.NativeStreamOpening(
        harness=_named(harness, HARNESSES, "HARNESS"),
        harness_version=version,
        output_contract=_named(contract, CONTRACTS, "--output-contract"),
        argv=argv or [],
        image_files=[] if image is None else list(_image_files(image)),
    )
    end = process_end(ended, sent, survivors)
    with file.open("rb") as stream:
        verdict = run(lambda _: _judge(adapter, opening, stream, end))
    about = verdict_object(harness, verdict)
    if as_json:
        emit(about)
    else:
        for line in verdict_lines(about):
            typer.echo(line)
    raise typer.Exit(exit_status(verdict))


def process_end(ended: int, sent: str | None, survivors: int) -> pb.NativeProcessEnd:
    """How the process ended, from what a person gives: `ended` is negative where a signal ended it. Raises BadInput."""
    if not -64 <= ended <= 255:
        raise BadInput("--exit-status: must be from 0 to 255, or minus the number of the signal")
    end = pb.NativeProcessEnd(drained=True, survivors_count=survivors, signalled_by_supervisor=sent is not None)
    if ended < 0:
        end.signal = -ended
    else:
        end.exit_status = ended
    if sent is not None:
        end.supervisor_signal = _signal_number(sent)
    return end


def _signal_number(sent: str) -> int:
    try:
        return signal.Signals(int(sent)) if sent.isdigit() else signal.Signals[f"SIG{sent.upper().removeprefix('SIG')}"]
    except (KeyError, ValueError):
        raise BadInput("--signal: must be a signal's name or number") from None


def _named(name: str, known: Mapping[str, T], what: str) -> T:
    if name not in known:
        raise BadInput(f"{what}: must be one of {', '.join(known)}")
    return known[name]


def _image_files(image: str) -> Iterator[pb.NativeImageFile]:
    found = shipped_image(image) if image in NAMES else _folder(Path(image))
    for path, content in sorted(found.items()):
        yield pb.NativeImageFile(path=path, content=content)


def _folder(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        raise BadInput(f"--image: {folder} is neither a folder nor one of {', '.join(NAMES)}")
    paths = [path for path in sorted(folder.rglob("*")) if not path.is_dir()]
    if any(path.is_symlink() or not path.is_file() for path in paths):
        raise BadInput(f"--image: {folder} holds something that is no plain file")
    if sum(path.stat().st_size for path in paths) > MAX_IMAGE_BYTES:
        raise BadInput(f"--image: {folder} has more than {MAX_IMAGE_BYTES} bytes")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


async def _judge(
    address: str | None, opening: pb.NativeStreamOpening, stream: BinaryIO, end: pb.NativeProcessEnd
) -> pb.ReadNativeStreamResponse:
    async with AsyncExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="countersign-")))
        household = await stack.enter_async_context(Household(logs, say))
        where = address or (await household.start(adapter_spec(""))).address
        channel = await stack.enter_async_context(channel_to("adapter", where))
        return await judge_stream(adapter_pb2_grpc.AdapterServiceStub(channel), opening, stream, end)


async def judge_stream(
    stub: adapter_pb2_grpc.AdapterServiceStub,
    opening: pb.NativeStreamOpening,
    stream: BinaryIO,
    end: pb.NativeProcessEnd,
) -> pb.ReadNativeStreamResponse:
    """The last answer on a whole stream. Raises ServiceFailed and ServiceRefused."""
    try:
        async for answer in stub.ReadNativeStream(_parts(opening, stream, end), timeout=READ_SECONDS):
            if answer.WhichOneof("part") in ("completion", "failure"):
                return answer
    except grpc.aio.AioRpcError as error:
        raise service_trouble("adapter", from_rpc_error(error)) from None
    raise ServiceFailed("the adapter ended without a verdict: its log tells why")


async def _parts(
    opening: pb.NativeStreamOpening, stream: BinaryIO, end: pb.NativeProcessEnd
) -> AsyncIterator[pb.ReadNativeStreamRequest]:
    yield pb.ReadNativeStreamRequest(opening=opening)
    while part := stream.read(PART_BYTES):
        yield pb.ReadNativeStreamRequest(output=part)
    yield pb.ReadNativeStreamRequest(process_end=end)
