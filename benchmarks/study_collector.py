"""One collection in a process of its own: prints its seconds, what it came to and how much memory it took."""

import argparse
import asyncio
import json
import resource
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from countersign.study.collection import Collection
from countersign.study.files import make_folder
from countersign.study.plan import load_plan
from countersign.study.preparation import prepare
from countersign.study.records import RECORDS_FOLDER, RecordStore
from countersign.study.runner import EpisodeOrder
from countersign.study.services import Addresses, open_services


class Counting:
    """A view that only counts how episodes ended."""

    def __init__(self) -> None:
        self.ended: Counter[str] = Counter()

    def begin(self, planned: int, kept: Sequence[Mapping[str, Any]], cap_nanos: int = 0) -> None:
        """Nothing is shown."""

    def note(self, text: str) -> None:
        """What is out of the ordinary must be seen."""
        print(text, flush=True)

    def finished(self, order: EpisodeOrder, record: Mapping[str, Any]) -> None:
        """Count it: verified, or how else it ended."""
        verification = record["verification"]
        agrees = verification is not None and verification["agrees"]
        self.ended["verified" if agrees and record["status"] == "completed" else str(record["status"])] += 1


async def collect(plan_path: Path, folder: Path, addresses: Addresses, in_flight: int) -> dict[str, Any]:
    """Prepare, then collect; the seconds are those of the collection alone."""
    plan = load_plan(plan_path)
    make_folder(folder)
    view = Counting()
    async with open_services(addresses) as services:
        prepared = await prepare(services, plan, folder, datetime.now(UTC))
        collection = Collection(
            services=services,
            orders=prepared.orders({route.name: route.base_url or "" for route in plan.routes}),
            store=RecordStore(folder / RECORDS_FOLDER),
            account_id=plan.account.id,
            stop=plan.study.stop,
            max_in_flight=in_flight,
            interrupted=asyncio.Event(),
            view=view,
        )
        begun, cpu_begun = time.perf_counter(), time.process_time()
        await collection.run()
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu_begun
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": seconds, "cpu_seconds": cpu, "peak_kib": peak_kib, "ended": dict(view.ended)}


def main() -> None:
    """Collect as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("plan", "folder"):
        parser.add_argument(name, type=Path)
    for name in ("ledger", "adapter", "verifier"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--in-flight", type=int, required=True)
    given = parser.parse_args()
    addresses = Addresses(given.ledger, given.adapter, given.verifier)
    print(json.dumps(asyncio.run(collect(given.plan, given.folder, addresses, given.in_flight))), flush=True)


if __name__ == "__main__":
    main()
