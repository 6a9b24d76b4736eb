"""A scripted agent program: speaks the mock protocol of the adapter's reader, and misbehaves as its script says.

It runs by itself, with nothing but the standard library: `python mock_harness.py SCRIPT`, the task on standard input.
A script is a name of `SCRIPTS`, and after a colon what it takes.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable

VERSION = "1.0.0"
DEFAULT = "text"
_LONG_SECONDS = 3600.0
"""How long a script hangs where it hangs: until it is killed."""


def say(**record: object) -> None:
    """Write one record."""
    sys.stdout.write(json.dumps(record, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def start() -> None:
    """The first record."""
    say(type="start", version=VERSION, model="mock-model", session_id="mock-session")


def final(status: str = "success", **more: object) -> None:
    """The terminal record."""
    say(type="final", status=status, **more)


def read_task() -> str:
    """The task, to its end."""
    return sys.stdin.read()


def task_argv() -> list[str]:
    """The invocation's arguments, from the task's last line."""
    argv: list[str] = json.loads(read_task().splitlines()[-1])["argv"]
    return argv


def hang() -> None:
    """Do nothing until killed."""
    time.sleep(_LONG_SECONDS)


def ignore_signals() -> None:
    """Be deaf to what asks politely."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def fork_idle(*, session: bool, silent: bool, bare: bool = False) -> None:
    """Leave a process behind; `session`: in one of its own, orphaned; `bare`: without the run's environment.

    Returns once the process is what it is to be.
    """
    ready, preparing = os.pipe()
    if os.fork():
        os.close(preparing)
        os.read(ready, 1)
        os.close(ready)
        return
    os.close(ready)
    if session:
        os.setsid()
        if os.fork():
            os._exit(0)
    ignore_signals()
    if silent:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
    if bare:
        # What is ignored stays ignored, and what is `preparing` is closed by it.
        program = f"import time; time.sleep({_LONG_SECONDS})"
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", program], {})  # noqa: S606 - no shell is wanted
    os.close(preparing)
    hang()
    os._exit(0)


def _text(_: str) -> None:
    read_task()
    start()
    say(type="text", text="First line.")
    say(type="text", text="Second line.")
    final(usage={"input_tokens": 10, "output_tokens": 4}, cost_usd=0.0125)


def _no_cost(_: str) -> None:
    read_task()
    start()
    say(type="text", text="Done.")
    final()


def _usage(_: str) -> None:
    read_task()
    start()
    say(type="text", text="Done.")
    final(usage={"input_tokens": 10, "output_tokens": 4})


def _say(what: str) -> None:
    read_task()
    start()
    say(type="text", text=what)
    final()


def _tool(_: str) -> None:
    read_task()
    start()
    say(type="tool_start", id="t1", tool="shell", arguments={"command": "true"})
    say(type="tool_end", id="t1", failed=False, output="ok")
    say(type="retry")
    say(type="text", text="Ran it.")
    final(cost_usd=0.01)


def _envelope(status: str) -> None:
    argv = task_argv()
    start()
    say(type="text", text="Some prose.")
    envelope = {"schema": "countersign.echo-envelope/1", "semanticStatus": status, "task": {"argv": argv}}
    say(type="text", text=json.dumps(envelope, ensure_ascii=False, separators=(",", ":")))
    final()


def _environment(_: str) -> None:
    read_task()
    start()
    say(type="text", text=json.dumps(dict(sorted(os.environ.items()))))
    sys.stderr.write(f"{os.environ.get('MOCK_API_KEY', '')}\n")
    final()


def _task(_: str) -> None:
    task = read_task()
    start()
    say(type="text", text=task)
    final()


def _many(count: str) -> None:
    read_task()
    start()
    for number in range(int(count)):
        say(type="text", text=f"line {number}")
    final()


def _crash(_: str) -> None:
    start()
    os.abort()


def _exit_after_success(status: str) -> None:
    start()
    final()
    sys.exit(int(status))


def _error(_: str) -> None:
    start()
    final("error", cost_usd=0.002)


def _truncated(_: str) -> None:
    start()
    say(type="text", text="And then")


def _cut(_: str) -> None:
    start()
    sys.stdout.write('{"type":"final","status":"success"}')


def _malformed(_: str) -> None:
    start()
    sys.stdout.write("this is no record\n")
    sys.stdout.flush()
    hang()


def _silent(_: str) -> None:
    hang()


def _hang(_: str) -> None:
    start()
    say(type="text", text="Thinking.")
    hang()


def _stubborn(_: str) -> None:
    ignore_signals()
    start()
    hang()


def _late_success(_: str) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    start()
    signal.sigwait({signal.SIGTERM})
    final(cost_usd=0.25)


def _flood(_: str) -> None:
    start()
    line = json.dumps({"type": "text", "text": "x" * 65_536}) + "\n"
    while True:
        sys.stdout.write(line)


def _flood_stderr(mebibytes: str) -> None:
    start()
    for _ in range(int(mebibytes) * 16):
        sys.stderr.write("e" * 65_536)
    final()


def _survivor(kind: str) -> None:
    start()
    fork_idle(session=kind != "group", silent=kind != "loud", bare=kind == "bare")
    final()


def _hang_with_survivor(_: str) -> None:
    fork_idle(session=True, silent=True)
    start()
    hang()


SCRIPTS: dict[str, Callable[[str], None]] = {
    "text": _text,
    "no-cost": _no_cost,
    "usage": _usage,
    "say": _say,
    "tool": _tool,
    "envelope": _envelope,
    "environment": _environment,
    "task": _task,
    "many": _many,
    "crash": _crash,
    "exit-after-success": _exit_after_success,
    "error": _error,
    "truncated": _truncated,
    "cut": _cut,
    "malformed": _malformed,
    "silent": _silent,
    "hang": _hang,
    "stubborn": _stubborn,
    "late-success": _late_success,
    "flood": _flood,
    "flood-stderr": _flood_stderr,
    "survivor": _survivor,
    "hang-with-survivor": _hang_with_survivor,
}


def main(script: str) -> None:
    """Play one script."""
    name, _, argument = script.partition(":")
    SCRIPTS[name](argument)


if __name__ == "__main__":
    main(sys.argv[1])
