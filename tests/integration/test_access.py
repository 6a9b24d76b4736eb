"""The real services with access files, tokens and mutual TLS: a whole study, what is refused, and a reload."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from countersign.kit.access import Role
from tests.access import Keyring
from tests.integration.stack import Process
from tests.integration.studies import run_command

PLAN = """
name = "guarded"
[account]
id = "lab"
currency = "USD"
grant = "1"
[study]
cap = "1"
call_ceiling = "0.1"
[[templates]]
name = "queue"
environment = "queue"
worlds = [{ name = "both", need_a = true, need_b = true }, { name = "a", need_a = true, need_b = false }]
realised = ["both"]
[[arms]]
name = "neutral"
wording = "neutral"
[[routes]]
name = "good"
agent = { kind = "scripted", policy = "act-well" }
price = { input_per_million = 1, output_per_million = 2 }
output_cap = 500
input_limit_bytes = 40_000
"""


ASKS = 50
"""How often a ledger is asked at most until it has seen a signal."""


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    folder = tmp_path / "keys"
    folder.mkdir()
    return Keyring(folder)


def guard(monkeypatch: pytest.MonkeyPatch, keyring: Keyring) -> None:
    """Give all three services TLS and the access file, by the environment that they are started with."""
    certificate, key = keyring.server
    client_certificate, client_key = keyring.authority.client("nobody by this name").write(keyring.folder, "client")
    for service in ("LEDGER", "ADAPTER", "VERIFIER"):
        monkeypatch.setenv(f"COUNTERSIGN_{service}_ACCESS_FILE", str(keyring.access_file))
        monkeypatch.setenv(f"COUNTERSIGN_{service}_TLS_CERTIFICATE", str(certificate))
        monkeypatch.setenv(f"COUNTERSIGN_{service}_TLS_KEY", str(key))
        monkeypatch.setenv(f"COUNTERSIGN_{service}_TLS_CLIENT_CA", str(keyring.ca))
    tokens = {"ADAPTER": keyring.mint(Role.ADAPTER), "VERIFIER": keyring.mint(Role.AUDITOR)}
    for service, token in tokens.items():
        monkeypatch.setenv(f"COUNTERSIGN_{service}_LEDGER_TOKEN_FILE", str(token))
        monkeypatch.setenv(f"COUNTERSIGN_{service}_LEDGER_CA", str(keyring.ca))
        monkeypatch.setenv(f"COUNTERSIGN_{service}_LEDGER_CERTIFICATE", str(client_certificate))
        monkeypatch.setenv(f"COUNTERSIGN_{service}_LEDGER_KEY", str(client_key))
    monkeypatch.setenv("COUNTERSIGN_CA", str(keyring.ca))
    monkeypatch.setenv("COUNTERSIGN_CERTIFICATE", str(client_certificate))
    monkeypatch.setenv("COUNTERSIGN_KEY", str(client_key))


def test_a_study_through_mutual_tls_and_tokens_tells_no_token(
    tmp_path: Path, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard(monkeypatch, keyring)
    plan, run = tmp_path / "plan.toml", tmp_path / "run"
    plan.write_text(PLAN)
    monkeypatch.setenv("COUNTERSIGN_TOKEN_FILE", str(keyring.mint(Role.COLLECTOR)))
    status, _, said = run_command("collect", plan, "--out", run)
    assert status == 2
    assert "the ledger refused: PERMISSION_DENIED" in said
    monkeypatch.setenv("COUNTERSIGN_TOKEN_FILE", str(keyring.mint(Role.OPERATOR, Role.COLLECTOR)))
    status, lines, said = run_command("collect", plan, "--out", run)
    assert status == 0, said
    assert lines[-1]["total"]["completed"] == {"explicit_finish": 1}
    assert lines[-1]["total"]["verification"] == {"verified": 1, "differs": 0, "not_verified": 0}
    logs = {path.name: path.read_bytes() for path in (run / "logs").iterdir()}
    assert b'"caller":"operator-collector"' in logs["ledger.log"].replace(b'": "', b'":"')
    assert b'"caller":"adapter"' in logs["ledger.log"].replace(b'": "', b'":"')
    written = b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file())
    for token in keyring.tokens:
        assert token.encode() not in written
        assert token not in said


@pytest.fixture
def ledger(tmp_path: Path, keyring: Keyring) -> Iterator[Process]:
    """A ledger with an access file that knows an auditor."""
    keyring.mint(Role.AUDITOR)
    arguments = ["--listen", "127.0.0.1:0", "--exit-with-stdin", "--database", str(tmp_path / "ledger.db")]
    process = Process("ledger", "ledger_svc", [*arguments, "--access-file", str(keyring.access_file)], tmp_path / "log")
    process.start()
    yield process
    process.stop()


def verify(ledger: Process, *options: object) -> tuple[int, str]:
    status, _, said = run_command(*options, "ledger", "verify", "--ledger", ledger.address)
    return status, said


def test_a_running_ledger_reads_its_access_file_anew(ledger: Process, keyring: Keyring) -> None:
    auditor = keyring.folder / "auditor.token"
    assert verify(ledger, "--token-file", auditor)[0] == 0
    status, said = verify(ledger)
    assert (status, said.count("\n")) == (2, 1)
    assert "the ledger refused: UNAUTHENTICATED" in said
    late = keyring.mint(Role.AUDITOR, name="late")
    assert verify(ledger, "--token-file", late)[0] == 2
    assert ledger.running is not None
    ledger.running.send_signal(signal.SIGHUP)
    # A signal and a call that follow one another may reach the process in either order; every ask is a new connection.
    assert 0 in (verify(ledger, "--token-file", late)[0] for _ in range(ASKS))
    for token in keyring.tokens:
        assert token not in ledger.log.read_text()


def test_a_ledger_with_an_unusable_access_file_does_not_start(tmp_path: Path, keyring: Keyring) -> None:
    keyring.mint(Role.AUDITOR)
    keyring.access_file.chmod(0o644)
    arguments = ["--database", str(tmp_path / "ledger.db"), "--access-file", str(keyring.access_file)]
    process = Process("ledger", "ledger_svc", arguments, tmp_path / "log")
    with pytest.raises(AssertionError, match="can be read or changed by others"):
        process.start()
    assert process.stop() == 2
