"""One child from its start until nothing of it is left (design/native-harness.md, section 6).

The child begins by exec in a session of its own: `subprocess` starts it with vfork and exec, and runs no code of ours
in between, so this may be done in a process that has gRPC's threads. The child is not reaped before its group has been
looked after: until then its number cannot be another's.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from countersign.prose.codes import Code, ProseError
from countersign.prose.pipes import CHUNK_BYTES, Tail, open_reader, write_input
from countersign.prose.process_table import Members, children_of, send, set_subreaper
from countersign.prose.profiles import INVOCATION_VARIABLE

STARTUP_SECONDS: Final = 30.0
TERM_SECONDS: Final = 2.0
KILL_SECONDS: Final = 5.0
DRAIN_SECONDS: Final = 5.0
REAP_SECONDS: Final = 5.0
"""How often orphans that have ended are reaped while the child runs."""
LOOK_SECONDS: Final = 0.02
"""Between two looks at what is left."""


class Cause(StrEnum):
    """Why the child is stopped from here."""

    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    STARTUP = "startup"
    OUTPUT_LIMIT = "output_limit"
    REJECTED = "rejected"
    BROKEN = "broken"


class Stopper:
    """Asks the supervision to end the child; the first cause counts."""

    def __init__(self) -> None:
        self.cause: Cause | None = None
        self.hurry = asyncio.Event()
        self.asked = asyncio.Event()

    def stop(self, cause: Cause) -> None:
        """End the child because of `cause`; asked again, without patience."""
        if self.cause is None:
            self.cause = cause
            self.asked.set()
        elif cause is Cause.CANCELLED:
            self.hurry.set()


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What to start. `environment` is all that the child has."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: Path
    stdin: bytes
    timeout_seconds: float
    output_bytes: int


@dataclass(slots=True)
class Ended:
    """How it went. `left` were alive after the child had ended by itself, `remaining` are alive now."""

    exit_status: int | None = None
    signal: int | None = None
    signal_sent: int | None = None
    drained: bool = False
    left: int = 0
    killed: int = 0
    remaining: int = 0
    stderr: Tail = field(default_factory=Tail)

    @property
    def survivors(self) -> int:
        """Members of the run that its end did not end."""
        return max(self.left, self.remaining)


Sink = Callable[[bytes], Awaitable[None]]


async def supervise(spec: ChildSpec, stopper: Stopper, sink: Sink) -> Ended:
    """Run the child to its end; what it writes on standard output goes to `sink` as it comes.

    Raises ProseError, HARNESS_UNAVAILABLE, where it cannot be started; nothing is left of it then.
    """
    set_subreaper(True)
    try:
        return await _Supervision(spec, stopper, sink).run()
    finally:
        set_subreaper(False)


class _Supervision:
    def __init__(self, spec: ChildSpec, stopper: Stopper, sink: Sink) -> None:
        self._spec = spec
        self._stopper = stopper
        self._sink = sink
        self._ended = Ended()
        self._exited = asyncio.Event()
        self._said_something = False
        self._gone = False

    async def run(self) -> Ended:
        own = os.getpid()
        others = children_of(own)
        process = _start(self._spec)
        marker = f"{INVOCATION_VARIABLE}={self._spec.environment.get(INVOCATION_VARIABLE, '')}".encode()
        self._members = Members(process.pid, marker, own, others)
        async with contextlib.AsyncExitStack() as stack:
            # Whatever is cancelled or breaks from here on, nothing of the child outlives this block.
            stack.callback(self._end_all, process)
            self._watch_exit(process, stack)
            output = await self._open_pipes(process, stack)
            await self._wait(process)
            await self._drain(output)
            self._ended.remaining = 0 if self._gone else len(self._members.alive())
            self._take_status(process)
        return self._ended

    def _watch_exit(self, process: subprocess.Popen[bytes], stack: contextlib.AsyncExitStack) -> None:
        loop = asyncio.get_running_loop()
        descriptor = os.pidfd_open(process.pid)
        stack.callback(os.close, descriptor)

        def on_exit() -> None:
            loop.remove_reader(descriptor)
            self._exited.set()

        loop.add_reader(descriptor, on_exit)
        stack.callback(loop.remove_reader, descriptor)

    async def _open_pipes(
        self, process: subprocess.Popen[bytes], stack: contextlib.AsyncExitStack
    ) -> "list[asyncio.Task[None]]":
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        writing = asyncio.create_task(write_input(process.stdin, self._spec.stdin))
        stack.push_async_callback(_end_task, writing)
        stdout, out_transport = await open_reader(process.stdout)
        stderr, err_transport = await open_reader(process.stderr)
        tasks = [asyncio.create_task(self._pump(stdout)), asyncio.create_task(self._ended.stderr.drain(stderr))]
        for transport in (out_transport, err_transport):
            stack.callback(transport.close)
        for task in tasks:
            stack.push_async_callback(_end_task, task)
        return tasks

    async def _pump(self, reader: asyncio.StreamReader) -> None:
        try:
            await self._hand_over(reader)
        except Exception:
            self._stopper.stop(Cause.BROKEN)
            raise

    async def _hand_over(self, reader: asyncio.StreamReader) -> None:
        """Hand over what is within the limit, and read the rest for the child's sake."""
        left = self._spec.output_bytes
        while data := await reader.read(CHUNK_BYTES):
            if left and not self._said_something and b"\n" in data:
                self._said_something = True
            if len(data) > left:
                self._stopper.stop(Cause.OUTPUT_LIMIT)
            if left:
                await self._sink(data[:left])
                left -= min(left, len(data))

    async def _wait(self, process: subprocess.Popen[bytes]) -> None:
        """Until the child ends, or has been ended, and its members with it."""
        loop = asyncio.get_running_loop()
        limits = (
            loop.call_later(self._spec.timeout_seconds, self._on_timeout),
            loop.call_later(min(STARTUP_SECONDS, self._spec.timeout_seconds), self._on_startup),
        )
        waiting = [asyncio.create_task(self._exited.wait()), asyncio.create_task(self._stopper.asked.wait())]
        try:
            while not (await asyncio.wait(waiting, timeout=REAP_SECONDS, return_when=asyncio.FIRST_COMPLETED))[0]:
                self._members.alive()
        finally:
            for limit in limits:
                limit.cancel()
            for task in waiting:
                await _end_task(task)
        if self._exited.is_set():
            await self._after_exit()
        else:
            await self._stop()

    def _on_startup(self) -> None:
        if not self._said_something:
            self._stopper.stop(Cause.STARTUP)

    def _on_timeout(self) -> None:
        # Where both are due at once, silence is the more telling of them.
        self._stopper.stop(Cause.TIMEOUT if self._said_something else Cause.STARTUP)

    async def _stop(self) -> None:
        self._ended.signal_sent = signal.SIGTERM
        send(self._members.alive(), signal.SIGTERM)
        if not await self._gone_within(TERM_SECONDS, patient=True):
            self._ended.signal_sent = signal.SIGKILL
            await self._kill()

    async def _after_exit(self) -> None:
        """The child ended by itself: what is alive after a moment of grace was left behind, and is killed."""
        if not await self._gone_within(TERM_SECONDS, patient=True):
            self._ended.left = len(self._members.alive())
            await self._kill()

    async def _kill(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + KILL_SECONDS
        killed: set[int] = set()
        while alive := self._members.alive():
            send(alive, signal.SIGKILL)
            killed |= {process.pid for process in alive}
            self._ended.killed = len(killed)
            if await self._gone_within(LOOK_SECONDS * 5, patient=False) or loop.time() > deadline:
                return

    async def _gone_within(self, seconds: float, *, patient: bool) -> bool:
        """Whether nothing is alive any more, as soon as it is so."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not self._look():
            if loop.time() > deadline or (patient and self._stopper.hurry.is_set()):
                return False
            await asyncio.sleep(LOOK_SECONDS)
        return True

    def _look(self) -> bool:
        """Whether nothing is alive any more. The child has ended then: nobody is left who could start another."""
        self._gone = not self._members.alive()
        return self._gone

    async def _drain(self, tasks: "list[asyncio.Task[None]]") -> None:
        done, _ = await asyncio.wait(tasks, timeout=DRAIN_SECONDS)
        self._ended.drained = tasks[0] in done
        for task in done:
            task.result()

    def _take_status(self, process: subprocess.Popen[bytes]) -> None:
        status = process.poll()
        if status is not None and status < 0:
            self._ended.signal = -status
        else:
            self._ended.exit_status = status

    def _end_all(self, process: subprocess.Popen[bytes]) -> None:
        if not self._gone:
            send(self._members.alive(), signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(KILL_SECONDS)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _start(spec: ChildSpec) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(  # noqa: S603 - a fixed argument vector, resolved, and no shell
            spec.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=spec.cwd,
            env=dict(spec.environment),
            start_new_session=True,
            close_fds=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "an argument cannot be passed"
        raise ProseError(Code.HARNESS_UNAVAILABLE, f"it cannot be started: {reason}") from None


async def _end_task(task: "asyncio.Task[None] | asyncio.Task[bool]") -> None:
    """Cancel a task and wait until it has ended; what it raised is not of interest any more."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task
