"""`countersign ledger token`, and showing a token or a certificate to services."""

import json
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from countersign.kit.access import Presented, Role
from countersign.kit.access_file import AccessFile
from tests.access import Keyring
from tests.countersign.cli.conftest import Command
from tests.countersign.study.fakes import Fakes


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_token_is_printed_once_and_its_hash_is_added(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "access.toml"
    tokens = {}
    for name, roles in (("ann", ["operator"]), ("ben", ["adapter", "reader"])):
        options = [part for role in roles for part in ("--role", role)]
        answer = command("ledger", "token", *options, "--name", name, "--file", file)
        assert answer.status == 0
        tokens[name] = answer.out.removesuffix("\n")
        assert tokens[name] not in answer.err + file.read_text()
    known = AccessFile(file)
    callers = {name: known.find(Presented(token)) for name, token in tokens.items()}
    assert {name: caller and (caller.name, caller.roles) for name, caller in callers.items()} == {
        "ann": ("ann", {Role.OPERATOR}),
        "ben": ("ben", {Role.ADAPTER, Role.READER}),
    }
    assert mode(file) == 0o600


def test_a_token_in_a_file_of_its_own_is_not_printed(command: Command, tmp_path: Path) -> None:
    file, out = tmp_path / "access.toml", tmp_path / "ann.token"
    line = ("ledger", "token", "--role", "reader", "--name", "ann", "--file", file, "--out", out, "--json")
    answer = command(*line)
    token = out.read_text().strip()
    assert json.loads(answer.out) == {
        "name": "ann",
        "roles": ["reader"],
        "access_file": str(file),
        "token_file": str(out),
    }
    assert token not in answer.out + answer.err
    assert mode(out) == 0o600
    before = file.read_bytes()
    again = command(*line)
    assert (again.status, again.out, file.read_bytes()) == (2, "", before)
    assert out.read_text().strip() == token


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--role", "root", "--name", "ann"], "'root' is not one of"),
        (["--role", "reader", "--name", "a b"], "the name 'a b' must be"),
        (["--name", "ann"], "Missing option '--role'"),
    ],
)
def test_wrong_input_is_one_line_and_changes_nothing(
    command: Command, tmp_path: Path, arguments: Sequence[str], complaint: str
) -> None:
    file, out = tmp_path / "access.toml", tmp_path / "ann.token"
    answer = command("ledger", "token", *arguments, "--file", file, "--out", out)
    assert (answer.status, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert complaint in answer.err
    assert not file.exists()
    assert not out.exists()


def test_a_token_file_that_others_can_read_is_not_presented(command: Command, fakes: Fakes, tmp_path: Path) -> None:
    token = Keyring(tmp_path).mint(Role.READER)
    token.chmod(0o644)
    answer = command("--token-file", token, "ledger", "verify", "--ledger", fakes.addresses.ledger)
    assert (answer.status, answer.err.count("\n")) == (2, 1)
    assert "chmod 600" in answer.err
    assert token.read_text().strip() not in answer.err


def test_plaintext_beyond_loopback_is_refused_until_it_is_allowed(command: Command) -> None:
    address = "192.0.2.1:80"
    answer = command("ledger", "verify", "--ledger", address)
    assert (answer.status, answer.err) == (
        2,
        f"countersign: the ledger: {address} is not on loopback and would be plaintext: write tls:{address}, or say "
        "--insecure\n",
    )
    answer = command("--insecure", "ledger", "--help")
    assert answer.err.startswith("countersign: INSECURE: ")


def test_a_ledger_that_cannot_prove_itself_is_told_apart(command: Command, fakes: Fakes, tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    address = f"tls:{fakes.addresses.ledger}"
    answer = command("--ca", keyring.ca, "ledger", "verify", "--ledger", address)
    assert answer.status == 2
    assert "or name its authority with --ca" in answer.err
