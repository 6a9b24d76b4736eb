"""How a service's process begins and ends."""

import pytest

from countersign.kit import process
from countersign.kit.address import BadAddress
from countersign.kit.process import BAD_INPUT_STATUS, fail, run_service
from countersign.kit.settings import ServiceSettings


@pytest.fixture(autouse=True)
def configured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names under which logs would be sent; the real thing is for a whole process."""
    names: list[str] = []
    monkeypatch.setattr(process, "configure_logs", names.append)
    return names


async def unused(settings: ServiceSettings) -> None:
    pytest.fail("it must not be served")


def test_a_service_is_given_its_settings_and_its_name_in_the_logs(configured: list[str]) -> None:
    served: list[ServiceSettings] = []

    async def serve(settings: ServiceSettings) -> None:
        served.append(settings)

    run_service("test", ServiceSettings, serve, ["--drain-seconds", "3.5", "--listen", "127.0.0.1:7"])
    assert [(settings.drain_seconds, settings.listen) for settings in served] == [(3.5, "127.0.0.1:7")]
    assert configured == ["test"]


def test_settings_that_cannot_be_used_end_it_with_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run_service("test", ServiceSettings, unused, ["--drain-seconds", "-1"])
    assert ended.value.code == BAD_INPUT_STATUS == 2
    output, errors = capfd.readouterr()
    assert output == ""
    assert errors.startswith("test: setting drain_seconds: ")
    assert errors.count("\n") == 1


@pytest.mark.parametrize("seconds", ["nan", "inf", "3601", "soon", ""])
def test_a_drain_time_is_a_number_of_seconds(seconds: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_service("test", ServiceSettings, unused, ["--drain-seconds", seconds])
    assert "setting drain_seconds" in capfd.readouterr().err


def test_a_refusal_to_start_is_one_line_too(capfd: pytest.CaptureFixture[str]) -> None:
    async def serve(settings: ServiceSettings) -> None:
        raise BadAddress("choose another port", address="secret")

    with pytest.raises(SystemExit) as ended:
        run_service("test", ServiceSettings, serve, [])
    assert ended.value.code == 2
    assert capfd.readouterr().err == "test: choose another port\n"


def test_any_other_failure_is_not_hidden() -> None:
    async def serve(settings: ServiceSettings) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_service("test", ServiceSettings, serve, [])


def test_fail_says_who_and_why(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        fail("ledger", "no")
    assert (ended.value.code, capfd.readouterr().err) == (2, "ledger: no\n")
