"""A study through real services that are watched: one trace an episode, bounded metrics, nothing private in either."""

import json
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from countersign.agents.http_server import Abort
from tests.countersign.kit.observability.receiver import ReceivedSpan, Receiver, receiving
from tests.integration.stack import Process
from tests.integration.studies import MODEL, Collected, Lab, answers, completion, nanos, open_lab, route

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
    balances: dict[str, float]

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
            found = lab.summary("watched-lab").balances
            balances = {"charged": nanos(found.charged) / 1e9, "held": nanos(found.held) / 1e9}
            # What they still have is handed over when they end.
            for process in reversed(lab.stack.processes):
                assert process.stop() == 0
            logs = {process.name: process.log.read_text() for process in lab.stack.processes}
        yield Watched(lab, run, receiver, metrics, logs, balances)


def scrape(process: Process) -> str:
    """The metrics of a service, at the address that its log names."""
    (address,) = [line["address"] for line in log_lines(process.log.read_text()) if line["event"] == "metrics"]
    with urllib.request.urlopen(f"http://{address}/metrics") as response:
        return str(response.read().decode())


def log_lines(log: str) -> list[dict[str, Any]]:
    """A service's log."""
    return [json.loads(line) for line in log.splitlines() if line.startswith("{")]


def mutation(kind: str) -> tuple[str, list[Any]]:
    """A mutation as the adapter asks for it and the ledger carries it out."""
    return (f"adapter {LEDGER}/{kind} client", [(f"ledger {LEDGER}/{kind} server", [])])


def turn(model: str, mark: str = "RecordReceipt") -> tuple[str, list[Any]]:
    """A paid turn: reserved, sent once, and marked."""
    return (
        "adapter turn internal",
        sorted([(f"adapter chat {model} client", []), mutation("Reserve"), mutation(mark)]),
    )


def episode(*turns: Any) -> tuple[str, list[Any]]:
    """The adapter's part of an episode."""
    return ("adapter adapter.v1.AdapterService/RunEpisode server", list(turns))


VERIFICATION: tuple[str, list[Any]] = (
    "verifier verifier.v1.VerifierService/VerifyEpisode server",
    [(f"ledger {LEDGER}/ListReceipts server", [])],
)
"""The verifier's part: it asks once for all that is stored of the episode."""


def test_an_episode_is_one_trace_through_every_party(watched: Watched) -> None:
    root = watched.episode("alternative")
    model = "scripted/alternative"
    parts = [episode(*[turn(model)] * 3), VERIFICATION]
    assert watched.receiver.tree(root) == ("collector episode internal", parts)
    record = watched.run.records["alternative"]
    assert root.attributes == {
        "countersign.study.id": watched.run.study_id,
        "countersign.episode.id": record["episode_id"],
        "countersign.route": "alternative",
        "countersign.environment": "queue",
        "countersign.episode.status": "completed",
        "countersign.episode.termination": "normal_text",
    }


def test_every_planned_episode_has_exactly_one_trace(watched: Watched) -> None:
    roots = watched.receiver.roots("episode")
    recorded = {record["episode_id"] for record in watched.run.records.values()}
    assert sorted(root.attributes["countersign.episode.id"] for root in roots) == sorted(recorded)
    assert len({root.trace for root in roots}) == len(roots) == 4
    paid = [span for span in watched.receiver.spans if span.attributes.get("gen_ai.operation.name")]
    assert {span.trace for span in paid} == {root.trace for root in roots}


def test_a_technical_unknown_and_a_hold_are_told_in_their_traces(watched: Watched) -> None:
    unknown = watched.episode("two-tools")
    assert watched.receiver.tree(unknown)[1] == [episode(turn("scripted/two-tools")), VERIFICATION]
    assert unknown.attributes["countersign.episode.reason"] == "MULTIPLE_TOOL_CALLS"
    held = watched.episode("cut")
    parts = [episode(turn(MODEL, "Hold")), (f"ledger {LEDGER}/Summarize server", [])]
    assert watched.receiver.tree(held)[1] == parts
    assert held.attributes["countersign.episode.stop_category"] == "transport_unknown"


def test_the_provider_call_is_told_by_the_conventions_for_generative_ai(watched: Watched) -> None:
    (said,) = watched.spans(watched.episode("says"), f"chat {MODEL}")
    told = dict(said.attributes)
    assert isinstance(told.pop("server.port"), int)
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": MODEL,
        "gen_ai.request.max_tokens": 1_024,
        "gen_ai.response.model": MODEL,
        "gen_ai.usage.input_tokens": 2_000,
        "gen_ai.usage.output_tokens": 20,
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "server.address": "127.0.0.1",
    }
    (cut,) = watched.spans(watched.episode("cut"), f"chat {MODEL}")
    assert cut.failed
    assert (cut.attributes["error.type"], cut.attributes["countersign.transport.progress"]) == (
        "CONNECTION_BROKEN",
        "SENT",
    )


def value(metrics: str, series: str) -> float:
    """The value of one series, written as Prometheus writes it."""
    (line,) = [line for line in metrics.splitlines() if line.startswith(f"{series} ")]
    return float(line.rpartition(" ")[2])


def test_the_metrics_count_what_happened(watched: Watched) -> None:
    ledger, adapter, verifier = (watched.metrics[name] for name in ("ledger", "adapter", "verifier"))
    assert value(ledger, 'countersign_ledger_reservations_total{answer="admitted"}') == 6
    assert value(ledger, 'countersign_ledger_holds_total{category="TRANSPORT_UNKNOWN"}') == 1
    assert value(ledger, "countersign_ledger_queue_depth") == 0
    balances = watched.balances
    assert value(ledger, 'countersign_ledger_charged_amount_total{currency="USD"}') == pytest.approx(
        balances["charged"]
    )
    assert value(ledger, 'countersign_ledger_held_amount_total{currency="USD"}') == pytest.approx(balances["held"])
    unknown = 'format="chat_completions",reason="MULTIPLE_TOOL_CALLS",verdict="technical_unknown"'
    assert value(adapter, f"countersign_adapter_admissions_total{{{unknown}}}") == 1
    failure = 'category="CONNECTION_BROKEN",progress="SENT"'
    assert value(adapter, f"countersign_adapter_transport_failures_total{{{failure}}}") == 1
    assert value(adapter, "countersign_adapter_attempts_in_flight") == 0
    answered = 'ended="2xx",format="chat_completions"'
    assert value(adapter, f"countersign_adapter_provider_seconds_count{{{answered}}}") == 5
    assert value(adapter, 'countersign_rpc_seconds_count{code="OK",method="AdapterService/RunEpisode"}') == 4
    assert value(verifier, 'countersign_verifier_verifications_total{agrees="true",subject="episode"}') == 3


def test_no_label_names_a_study_an_episode_or_an_account(watched: Watched) -> None:
    named = {"watched", watched.run.study_id, "watched-lab"}
    named |= {record["episode_id"] for record in watched.run.records.values()}
    for metrics in watched.metrics.values():
        values = set(re.findall(r'="([^"]*)"', metrics))
        assert values.isdisjoint(named)
        assert not [each for each in values if re.search(r"[0-9a-f]{16}", each)]


def test_nothing_private_is_in_a_span_a_metric_or_a_log(watched: Watched) -> None:
    (request,) = watched.lab.provider.received("says")
    assert dict(request.headers)["authorization"] == f"Bearer {KEY}"
    asked = json.loads(request.body)["messages"]
    private = [KEY, SAID, *(message["content"][:60] for message in asked)]
    exported = b"".join(watched.receiver.raw) + repr(watched.receiver.metadata).encode()
    shown = [exported, *(text.encode() for text in (*watched.metrics.values(), *watched.logs.values()))]
    assert len(private) == 4
    for text in private:
        assert not [where for where in shown if text.encode() in where]


def test_a_log_line_of_a_traced_call_names_its_trace(watched: Watched) -> None:
    held = watched.episode("cut")
    (failure,) = [line for line in log_lines(watched.logs["adapter"]) if line["event"] == "transport_failure"]
    (attempt,) = watched.spans(held, "turn")
    assert (failure["trace_id"], failure["span_id"]) == (held.trace, attempt.span)
    assert (failure["progress"], failure["category"]) == ("SENT", "CONNECTION_BROKEN")
    rpcs = [line for line in log_lines(watched.logs["verifier"]) if line.get("method", "").endswith("VerifyEpisode")]
    assert {line["trace_id"] for line in rpcs} == {
        watched.episode(name).trace for name in ("alternative", "two-tools", "says")
    }
    assert all(line["request_id"] for line in rpcs)
