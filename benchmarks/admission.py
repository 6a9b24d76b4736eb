"""What it takes to read a provider's answer, and what readers let through: ours, the OpenAI SDK, LiteLLM, json.

    python -m benchmarks.admission [--quick] [--markdown]

Needs `openai` and `litellm`: `make bench-admission` installs them beside the project into a venv of their own. Nothing
is sent: a connection that anything tries to open ends the run. Every reading is checked before it is measured.

Time is CPU time of this process, so that what else the machine does counts little. All readers take turns in every
round; what is printed is the median of the rounds.
"""

import argparse
import gc
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from benchmarks.admission_readers import READERS, Found, Reader, Reading, Refused
from benchmarks.admission_samples import ARGUMENTS, TOOL, Sample, good_samples, spoilt_samples

OURS = next(iter(READERS))
NETWORK = frozenset({"socket.connect", "socket.getaddrinfo", "socket.sendto"})
CAUGHT, LET_THROUGH, NOT_READ = "caught", "let through", "-"


def forbid_network() -> None:
    """End the process where anything asks for the network, an import included."""

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        del arguments
        if event in NETWORK:
            print(f"the benchmark sends nothing, and something tried to: {event}", file=sys.stderr, flush=True)
            os._exit(1)

    sys.addaudithook(refuse)


def readings_of(sample: Sample) -> dict[str, Reading]:
    """What reads a good sample, by reader; raises AssertionError where one finds anything but what is there."""
    readings = {}
    for name, reader in READERS.items():
        reading = reader(sample)
        if reading is None:
            continue
        found = reading()
        if found != (TOOL, ARGUMENTS):
            raise AssertionError(f"{name} finds {found} in {sample.name}")
        readings[name] = reading
    return readings


def timed(reading: Reading, count: int) -> float:
    """CPU microseconds of one reading, over `count` of them."""
    start = time.process_time_ns()
    for _ in range(count):
        reading()
    return (time.process_time_ns() - start) / count / 1000


def measured(readings: Mapping[str, Reading], rounds: int, batch_micros: float) -> dict[str, float]:
    """The median CPU microseconds of each reading; the readings take turns, a batch of about the same time each."""
    counts = {name: max(1, round(batch_micros / timed(reading, 20))) for name, reading in readings.items()}
    found: dict[str, list[float]] = {name: [] for name in readings}
    for _ in range(rounds):
        for name, reading in readings.items():
            found[name].append(timed(reading, counts[name]))
    return {name: statistics.median(times) for name, times in found.items()}


def time_rows(rounds: int, batch_micros: float) -> list[list[str]]:
    """A row for each good sample: our microseconds, and the others' with the multiple of ours."""
    rows = []
    for sample in good_samples():
        times = measured(readings_of(sample), rounds, batch_micros)
        cells = [
            f"{times[name]:,.0f} us" + (f" ({times[name] / times[OURS]:.1f}x)" if name != OURS else "")
            if name in times
            else NOT_READ
            for name in READERS
        ]
        rows.append([sample.name, *cells])
    return rows


def judged(reader: Reader, sample: Sample) -> str:
    """Whether a reader refuses a spoilt sample, found by having it read it."""
    reading = reader(sample)
    if reading is None:
        return NOT_READ
    try:
        found: Found = reading()
    except Exception as refusal:  # noqa: BLE001 - whatever it raises, it has not let the answer through
        return CAUGHT if isinstance(refusal, Refused) else f"{CAUGHT} ({type(refusal).__name__})"
    del found
    return LET_THROUGH


def fault_rows() -> list[list[str]]:
    """A row for each spoilt sample: what each reader makes of it."""
    return [[sample.name, *(judged(reader, sample) for reader in READERS.values())] for sample in spoilt_samples()]


def plain(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table in columns."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows)
    )


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table as a page has it."""
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--markdown", action="store_true", help="tables as docs/admission.md has them")
    given = parser.parse_args()
    forbid_network()
    logging.disable(logging.WARNING)
    table: Callable[[Sequence[str], Sequence[Sequence[str]]], str] = markdown if given.markdown else plain
    rounds, batch_micros = (5, 5_000) if given.quick else (25, 20_000)
    count = sum(len(readings_of(sample)) for sample in good_samples())
    # What the libraries made at their import is no garbage of a reading's.
    gc.freeze()
    print(f"openai {version('openai')}, litellm {version('litellm')}, Python {sys.version.split()[0]}")
    print(f"All {count} readings of the answers below found the call.\n")
    print(table(["answer", *READERS], time_rows(rounds, batch_micros)), flush=True)
    print()
    print(table(["fault", *READERS], fault_rows()))


if __name__ == "__main__":
    main()
