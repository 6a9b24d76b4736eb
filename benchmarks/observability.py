"""What traces and metrics cost the ledger: CPU time of its process for each reservation, off, with metrics, with both.

    python -m benchmarks.observability [--rounds 5] [--count 20000]

Rounds are interleaved, each on an empty store; the medians are shown. Callers share one stream. With traces every
reservation belongs to a trace of its own, and the spans are exported to a receiver in this process.
"""

import argparse
import asyncio
import statistics
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
from opentelemetry.sdk.trace import SpanProcessor

from benchmarks import load
from benchmarks.ledger import COALESCED, WARM_UP, folder_for_a_run
from benchmarks.processes import server
from countersign.kit.channel import open_channel
from countersign.kit.ledger_stream import LedgerStream
from countersign.kit.observability import tracing
from countersign.kit.observability.sdk import RecordedTraces

CALLERS = 64
MOST_SECONDS = 120.0
METRICS = ("--metrics-listen", "127.0.0.1:0")


class Receiver(trace_service_pb2_grpc.TraceServiceServicer):
    """Takes spans and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def Export(self, request: pb.ExportTraceServiceRequest, context: Any) -> pb.ExportTraceServiceResponse:
        """Take them."""
        self.count += sum(len(scope.spans) for one in request.resource_spans for scope in one.scope_spans)
        return pb.ExportTraceServiceResponse()


@contextmanager
def receiving() -> Iterator[tuple[str, Receiver]]:
    """A receiver's address, and the receiver."""
    receiver = Receiver()
    running = grpc.server(ThreadPoolExecutor(max_workers=1))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(receiver, running)
    port = running.add_insecure_port("127.0.0.1:0")
    running.start()
    yield f"127.0.0.1:{port}", receiver
    running.stop(None).wait()


async def one(count: int, options: tuple[str, ...]) -> float:
    """CPU microseconds of the ledger's process for each of `count` reservations."""
    with folder_for_a_run() as folder:
        arguments = ("--listen", f"unix:{folder}/s.sock", "--database", f"{folder}/ledger.db", *options)
        with server(COALESCED.module, arguments, {}) as running:
            async with open_channel(running.address) as channel:
                await load.furnish(channel)
                stream = LedgerStream(channel)
                asker = load.coalesced(stream, charge=False)
                await load.run(asker, CALLERS, 0, WARM_UP, MOST_SECONDS)
                before = running.cpu_seconds()
                done = await load.run(asker, CALLERS, 1_000_000, count, MOST_SECONDS)
                micros = (running.cpu_seconds() - before) * 1e6 / done.count
                await stream.close()
    return micros


async def traced(count: int) -> float:
    """As `one`, with metrics and traces."""
    with receiving() as (address, receiver):
        traces = RecordedTraces("benchmark", SpanProcessor())
        tracing.record(traces)
        micros = await one(count, (*METRICS, "--otlp-endpoint", address))
        tracing.record(None)
        traces.close()
    print(f"    spans that arrived: {receiver.count}")
    return micros


def main() -> None:
    """Run the rounds and print the medians."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=20_000)
    arguments = parser.parse_args()
    found: dict[str, list[float]] = {"off": [], "metrics": [], "metrics and traces": []}
    for _ in range(arguments.rounds):
        found["off"].append(asyncio.run(one(arguments.count, ())))
        found["metrics"].append(asyncio.run(one(arguments.count, METRICS)))
        found["metrics and traces"].append(asyncio.run(traced(arguments.count)))
    for name, micros in found.items():
        spread = f"{min(micros):.1f} to {max(micros):.1f}"
        print(f"{name:<20} {statistics.median(micros):6.1f} us of CPU a reservation ({spread})")


if __name__ == "__main__":
    main()
