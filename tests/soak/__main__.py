"""`python -m tests.soak`: a bounded soak of the real services under faults drawn from a seed (docs/soak.md)."""

import argparse
import asyncio
import os
import secrets
import shutil
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.ledger_svc.postgres_cluster import find_programs
from tests.soak import results
from tests.soak.faults import Store
from tests.soak.soak import Settings, Soak

DEFAULT_SECONDS = 600.0
MOST_SECONDS = 6 * 3600.0
GRACE_SECONDS = 420.0
"""What starting, the last look and stopping may take besides; after that everything is killed."""

HOLDS, BROKEN, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


class BadInput(Exception):
    """What was asked for cannot be done; the text is one line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a soak; 0 where everything held, 1 where not, 2 for wrong input, 130 after Ctrl-C."""
    try:
        settings = _settings(_parser().parse_args(arguments))
        settings.folder.mkdir(parents=True)
    except (BadInput, OSError) as error:
        sys.stderr.write(f"soak: {error}\n")
        return BAD_INPUT
    soak = Soak(settings)
    results.write_plan(soak, settings.folder / results.PLAN_NAME)
    _guard(soak, settings.seconds + GRACE_SECONDS)
    print(f"soak, seed {settings.seed}: {settings.seconds:g} s on {' and '.join(settings.stores)}, "
          f"{len(soak.faults)} faults planned; everything is in {settings.folder}", flush=True)  # fmt: skip
    status = HOLDS
    try:
        asyncio.run(_interruptible(soak))
    except (KeyboardInterrupt, asyncio.CancelledError):
        status = INTERRUPTED
    result = results.write(soak)
    print(results.summary_of(result), flush=True)
    if result["verdict"] == "holds":
        _tidy(settings.folder)
    return BROKEN if status == HOLDS and result["verdict"] != "holds" else status


async def _interruptible(soak: Soak) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await soak.run()


def _guard(soak: Soak, seconds: float) -> None:
    """However the soak hangs: at its deadline everything that it started is killed, and it ends."""

    def end() -> None:
        time.sleep(seconds)
        sys.stderr.write("soak: its deadline has passed, everything is killed\n")
        soak.site.abandon()
        os._exit(BROKEN)

    threading.Thread(target=end, daemon=True).start()


def _tidy(folder: Path) -> None:
    """Of a soak that held the stores and the studies are not needed."""
    for name in ("books", "studies"):
        with suppress(FileNotFoundError):
            shutil.rmtree(folder / name)


def _settings(options: argparse.Namespace) -> Settings:
    seed = options.seed if options.seed is not None else secrets.randbelow(1_000_000)
    if not 1 <= options.seconds <= MOST_SECONDS:
        raise BadInput(f"--seconds {options.seconds:g}: must be 1 to {MOST_SECONDS:g}")
    if options.gap_seconds <= 0:
        raise BadInput(f"--gap-seconds {options.gap_seconds:g}: must be above 0")
    stores = _stores(options.stores)
    folder = (options.out or Path("runs") / f"soak-{seed}").absolute()
    if folder.exists():
        raise BadInput(f"{folder} exists already: move it away, or name another folder with --out")
    return Settings(seed, options.seconds, stores, folder, options.gap_seconds)


def _stores(named: str | None) -> tuple[Store, ...]:
    """Both stores where PostgreSQL is installed, else what is there, said aloud."""
    has_postgres = find_programs() is not None
    if not named:
        if not has_postgres:
            sys.stderr.write("soak: PostgreSQL's server is not installed, so the ledger is on SQLite alone\n")
        return (Store.SQLITE, Store.POSTGRES) if has_postgres else (Store.SQLITE,)
    try:
        stores = tuple(dict.fromkeys(Store(name) for name in named.split(",")))
    except ValueError:
        raise BadInput(f"--stores {named}: must be sqlite, postgres, or both with a comma") from None
    if Store.POSTGRES in stores and not has_postgres:
        raise BadInput("--stores: PostgreSQL's server is not installed (no initdb)")
    return stores


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=DEFAULT_SECONDS, help="how long, 600 by default")
    parser.add_argument("--seed", type=int, help="what faults and studies are drawn from; any if not given")
    parser.add_argument("--stores", help="sqlite, postgres, or sqlite,postgres; both where PostgreSQL is installed")
    parser.add_argument("--gap-seconds", type=float, default=3.0, help="from one fault to the next, on average")
    parser.add_argument("--out", type=Path, help="a new folder for everything; runs/soak-SEED if not given")
    return parser


if __name__ == "__main__":
    sys.exit(main())
