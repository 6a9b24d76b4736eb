"""Turning it on: where it was told to, never beyond loopback by itself; turned off, it leaves nothing behind."""

import os
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from countersign.cli.main import main
from countersign.cli.observing import traced
from countersign.kit.observability import tracing
from countersign.kit.observability.exposition import exposed_metrics
from countersign.kit.observability.rpc import RPC_SECONDS
from countersign.kit.observability.running import ENDPOINT_VARIABLE, NotObservable, Wanted, observed
from countersign.kit.observability.sdk import exported_traces
from countersign.kit.settings import ServiceSettings, load_settings
from tests.conftest import PROJECT_ROOT
from tests.countersign.kit.observability.receiver import receiving
from tests.service_process import complaint

NOBODY = "127.0.0.1:9"
OFF = """
import os, sys, threading
import adapter_svc.__main__, ledger_svc.__main__, verifier_svc.__main__, countersign.cli.main
from countersign.kit.observability import metrics, tracing
from countersign.kit.observability.running import Wanted, observed
before = len(os.listdir("/proc/self/fd")), threading.active_count()
with observed("test", Wanted()):
    with tracing.span("a"):
        for instrument in metrics.CATALOGUE.values():
            assert not instrument.is_on
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == before
print(sorted(name for name in sys.modules if name.split(".")[0] in ("opentelemetry", "prometheus_client")))
"""


def test_what_is_not_asked_for_imports_nothing_and_opens_nothing() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COUNTERSIGN_")}
    run = subprocess.run(
        [sys.executable, "-c", OFF], cwd=PROJECT_ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (0, "[]\n"), run.stderr


def test_metrics_are_served_as_long_as_they_are_wanted() -> None:
    threads = threading.active_count()
    with exposed_metrics("127.0.0.1:0") as address:
        RPC_SECONDS.record(0.5, "Service/Method", "OK")
        with urllib.request.urlopen(f"http://{address}/metrics") as response:
            text = response.read().decode()
    assert 'countersign_rpc_seconds_count{code="OK",method="Service/Method"} 1.0' in text
    assert "python_info" not in text
    assert "_created" not in text
    assert threading.active_count() == threads
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://{address}/metrics")


def test_traces_are_exported_by_the_time_that_the_process_ends() -> None:
    with receiving() as receiver:
        with observed("test", Wanted(otlp_endpoint=receiver.address)), tracing.span("one"):
            assert tracing.is_on()
        assert [(span.service, span.name) for span in receiver.spans] == [("test", "one")]
    assert not tracing.is_on()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("Otel")] == []


def test_nobody_who_takes_the_spans_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("countersign.kit.observability.sdk.GOODBYE_SECONDS", 0.05)
    with exported_traces("test", NOBODY), tracing.span("one"):
        pass
    assert not tracing.is_on()


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (Wanted(otlp_endpoint="collector.example:4317"), "setting otlp_endpoint: .* not on loopback .* tls:"),
        (Wanted(otlp_endpoint="http://127.0.0.1:4317"), "setting otlp_endpoint: .* is not an address"),
        (Wanted(otlp_endpoint="4317"), "setting otlp_endpoint: .* is not an address"),
        (Wanted(metrics_listen="0.0.0.0:0"), "setting metrics_listen: .* not on loopback.*--metrics-anywhere"),
        (Wanted(metrics_listen="192.0.2.1:0", insecure=True), "setting metrics_listen: .* not on loopback"),
        (
            Wanted(metrics_listen="192.0.2.1:0", metrics_anywhere=True),
            "setting metrics_listen: .* in use or not allowed",
        ),
        (Wanted(metrics_listen="9464"), "setting metrics_listen: '9464' is not an address: write HOST:PORT"),
        (Wanted(metrics_listen="unix:/tmp/m"), "setting metrics_listen: .* is not an address: write HOST:PORT"),
    ],
)
def test_what_cannot_be_met_is_one_clear_line(wanted: Wanted, told: str) -> None:
    with pytest.raises(NotObservable, match=f"^{told}") as caught, observed("test", wanted):
        pytest.fail("it must not begin")
    assert "\n" not in caught.value.message
    assert not tracing.is_on()
    assert not RPC_SECONDS.is_on


def test_a_port_that_is_taken_is_one_clear_line() -> None:
    with (
        exposed_metrics("127.0.0.1:0") as address,
        pytest.raises(NotObservable, match="in use"),
        observed("test", Wanted(metrics_listen=address)),
    ):
        pytest.fail("it must not begin")


@pytest.mark.parametrize(
    ("module", "wanted"), [("sdk", Wanted(otlp_endpoint=NOBODY)), ("exposition", Wanted(metrics_listen="127.0.0.1:0"))]
)
def test_without_the_extra_the_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, module: str, wanted: Wanted
) -> None:
    monkeypatch.setitem(sys.modules, f"countersign.kit.observability.{module}", None)
    with pytest.raises(NotObservable, match=r"pip install 'countersign\[observability\]'"), observed("test", wanted):
        pytest.fail("it must not begin")


def test_a_service_that_was_told_wrongly_ends_with_status_2() -> None:
    assert complaint("verifier", "--metrics-listen", "0.0.0.0:0").startswith("setting metrics_listen: ")


def test_the_command_line_that_was_told_wrongly_ends_with_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--otlp-endpoint", "collector.example:4317", "ledger", "balances"]) == 2
    line = capsys.readouterr().err
    assert line.startswith("countersign: setting otlp_endpoint: collector.example:4317 is not on loopback")
    assert line.count("\n") == 1
    assert ENDPOINT_VARIABLE not in os.environ


def test_the_command_lines_children_send_their_traces_to_the_same_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENDPOINT_VARIABLE, raising=False)
    with receiving() as receiver:
        with traced(receiver.address, insecure=False), tracing.span("one"):
            assert os.environ[ENDPOINT_VARIABLE] == receiver.address
        assert ENDPOINT_VARIABLE not in os.environ
        monkeypatch.setenv(ENDPOINT_VARIABLE, NOBODY)
        with traced("", insecure=False):
            assert not tracing.is_on()
        with traced(receiver.address, insecure=False):
            assert os.environ[ENDPOINT_VARIABLE] == receiver.address
        assert os.environ[ENDPOINT_VARIABLE] == NOBODY
        assert [(span.service, span.name) for span in receiver.spans] == [("collector", "one")]


def test_the_receiver_is_named_by_flag_then_by_environment_then_by_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "settings.toml"
    config.write_text('otlp_endpoint = "127.0.0.1:1"\n')
    assert load_settings(ServiceSettings, []).otlp_endpoint == ""
    assert load_settings(ServiceSettings, ["--config", str(config)]).otlp_endpoint == "127.0.0.1:1"
    monkeypatch.setenv(ENDPOINT_VARIABLE, "127.0.0.1:2")
    assert load_settings(ServiceSettings, ["--config", str(config)]).otlp_endpoint == "127.0.0.1:2"
    assert load_settings(ServiceSettings, ["--otlp-endpoint", "127.0.0.1:3"]).otlp_endpoint == "127.0.0.1:3"
    monkeypatch.setenv(ENDPOINT_VARIABLE, "")
    assert load_settings(ServiceSettings, []).otlp_endpoint == ""
