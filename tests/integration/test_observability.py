"""A study through real services that are watched: one trace an episode, bounded metrics, nothing private in either."""

import json
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from countersign.agents.http_server import Abort
from tests.countersign.kit.observability.receiver import ReceivedSpan, Receiver, receiving
from tests.integration.stack import Process
from tests.integration.studies import MODEL, Collected, Lab, answers, completion, open_lab, route

KEY = "sk-a-key-that-nobody-may-see-0123456789"
KEY_VARIABLE = "OBSERVED_ROUTE_KEY"
SAID = "The text of the answer that nobody may see."
LEDGER = "ledger.v1.LedgerService"
METRICS = {name: f"COUNTERSIGN_{name.upper()}_METRICS_LISTEN" for name in ("ledger", "adapter", "verifier")}


@dataclass
class Watched:
    """What a watched study left behind."""

    lab: Lab
    run: Collected
    receiver: Receiver
    metrics: dict[str, str]
    logs: dict[str, str]

    def episode(self, name: str) -> ReceivedSpan:
        """The first span of the episode whose route has that name."""
        (root,) = [one for one in self.receiver.roots("episode") if one.attributes["countersign.route"] == name]
        return root

    def spans(self, root: ReceivedSpan, name: str) -> list[ReceivedSpan]:
        """The trace's spans that are called so."""
        return [one for one in self.receiver.spans if one.trace == root.trace and one.name.endswith(name)]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with receiving() as receiver, pytest.MonkeyPatch.context() as environment:
        environment.setenv("COUNTERSIGN_OTLP_ENDPOINT", receiver.address)
        environment.setenv(KEY_VARIABLE, KEY)
        for variable in METRICS.values():
            environment.setenv(variable, "127.0.0.1:0")
        with open_lab(tmp_path_factory.mktemp("watched")) as lab:
            url = lab.provider.url
            plan = lab.plan(
                "watched",
                [
                    lab.scripted("alternative"),
                        lab.scripted("two-tools"),
                    route("says", url("says", answers(completion(SAID))), api_key_variable=KEY_VARIABLE),
                    route("cut", url("cut", lambda _: Abort())),
                ],
                max_in_flight=1,
            )
            run = lab.collect(plan)
            metrics = {process.name: scrape(process) for process in lab.stack.processes}
            # What they still have is handed over when they end.
            for process in reversed(lab.stack.processes):
                assert process.stop() == 0
            logs = {process.name: process.log.read_text() for process in lab.stack.processes}
        yield Watched(lab, run, receiver, metrics, logs)


def scrape(process: Process) -> str:
    """The metrics of a service, at the address that its log names."""
    (address,) = [line["address"] for line in log_lines(process.log.read_text()) if line["event"] == "metrics"]
    with urllib.request.urlopen(f"http://{address}/metrics") as response:
        return str(response.read().decode())


def log_lines(log: str) -> list[dict[str, Any]]:
    """A service's log."""
    return [json.loads(line) for line in log.splitlines() if line.startswith("{")]


def test_print(watched: Watched) -> None:
    for root in watched.receiver.roots("episode"):
        print(json.dumps(watched.receiver.tree(root), indent=1))
    for s in watched.receiver.spans: print(s)
    print(watched.metrics)
    print(watched.logs)
    print(watched.run)
    assert 0
