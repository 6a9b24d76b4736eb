"""Roles, the access file and tokens: who is known, what is allowed, what is refused to be read."""

import asyncio
import hashlib
import os
import stat
import tomllib
from pathlib import Path

import pytest
import structlog

from countersign.kit.access import (
    AccessPolicy,
    Caller,
    PermissionDenied,
    Presented,
    Role,
    Unauthenticated,
    current_caller,
    require,
    standing,
)
from countersign.kit.access_file import AccessFile, BadAccessFile, mint_token
from countersign.kit.identity import BadToken, load_identity
from countersign.kit.secret_files import BadSecretFile
from tests.access import NOW, Keyring

FULL_NAME = "countersign.ledger.v1.LedgerService"
TABLE = {"Reserve": frozenset({Role.ADAPTER}), "Summarize": frozenset({Role.READER, Role.OPERATOR})}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "access.toml"


def written(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def policy(path: Path) -> AccessPolicy:
    return AccessPolicy(FULL_NAME, TABLE, AccessFile(path))


def test_a_minted_token_is_known_and_only_its_hash_is_stored(path: Path) -> None:
    token = mint_token(path, "adapter-1", [Role.READER, Role.ADAPTER], NOW)
    assert len(token) == 43
    assert token not in path.read_text()
    assert tomllib.loads(path.read_text()) == {
        "token": [
            {
                "name": "adapter-1",
                "roles": ["adapter", "reader"],
                "sha256": hashlib.sha256(token.encode()).hexdigest(),
                "created": NOW,
            }
        ]
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    caller = AccessFile(path).find(Presented(token))
    assert caller is not None
    assert (caller.name, caller.roles) == ("adapter-1", {Role.ADAPTER, Role.READER})


def test_each_token_is_its_bearers_and_no_other_is_known(path: Path) -> None:
    tokens = {name: mint_token(path, name, [Role.READER], NOW) for name in ("a", "b", "c")}
    known = AccessFile(path)
    assert {name: getattr(known.find(Presented(token)), "name", None) for name, token in tokens.items()} == {
        name: name for name in tokens
    }
    for stranger in ("", "x" * 43, tokens["a"][:-1], tokens["a"] + "x", tokens["a"].swapcase(), "é" * 43):
        assert known.find(Presented(stranger)) is None, stranger
    assert known.find(Presented()) is None


def test_an_unknown_token_is_not_made_good_by_a_certificate(path: Path) -> None:
    written(path, '[[certificate]]\nname = "Adapter One"\nroles = ["adapter"]\n')
    known = AccessFile(path)
    assert known.find(Presented(common_name="Adapter One")) == Caller("Adapter One", frozenset({Role.ADAPTER}))
    assert known.find(Presented("x" * 43, "Adapter One")) is None
    assert known.find(Presented("", "Adapter One")) is None
    assert known.find(Presented(common_name="Adapter Two")) is None


def test_a_tokens_name_is_no_certificates(path: Path) -> None:
    mint_token(path, "adapter-1", [Role.ADAPTER], NOW)
    assert AccessFile(path).find(Presented(common_name="adapter-1")) is None


def test_a_role_may_do_what_the_table_says_and_nothing_else(path: Path) -> None:
    token = mint_token(path, "ann", [Role.READER], NOW)
    assert policy(path).admit(f"/{FULL_NAME}/Summarize", Presented(token)).name == "ann"
    for method in (f"/{FULL_NAME}/Reserve", f"/{FULL_NAME}/NotInTheTable", "/countersign.other.v1.Other/Summarize"):
        with pytest.raises(PermissionDenied) as denied:
            policy(path).admit(method, Presented(token))
        assert denied.value.metadata == {"role": "reader", "method": method}
    with pytest.raises(Unauthenticated) as unknown:
        policy(path).admit(f"/{FULL_NAME}/Summarize", Presented("y" * 43))
    assert unknown.value.metadata == {"method": f"/{FULL_NAME}/Summarize"}


def test_several_roles_may_do_what_any_of_them_may(path: Path) -> None:
    token = mint_token(path, "ann", [Role.READER, Role.ADAPTER], NOW)
    for method in TABLE:
        assert policy(path).admit(f"/{FULL_NAME}/{method}", Presented(token)).name == "ann"
    with pytest.raises(PermissionDenied) as denied:
        policy(path).admit(f"/{FULL_NAME}/OpenAccount", Presented(token))
    assert denied.value.metadata["role"] == "adapter,reader"


async def test_require_holds_for_the_call_that_runs_and_for_its_tasks(path: Path) -> None:
    token = mint_token(path, "ann", [Role.READER], NOW)
    rules = policy(path)
    caller = rules.admit(f"/{FULL_NAME}/Summarize", Presented(token))

    async def in_a_task() -> str | None:
        require("Summarize")
        with pytest.raises(PermissionDenied, match="for adapter, not for reader"):
            require("Reserve")
        return current_caller()

    with standing(rules, caller):
        assert await asyncio.create_task(in_a_task()) == "ann"
    with standing(None, None):
        require("Reserve")
        assert current_caller() is None


def test_require_lets_nobody_through_where_nobody_was_let_in() -> None:
    with pytest.raises(LookupError):
        require("Summarize")


def test_who_is_taken_out_of_the_file_can_go_on_no_longer(path: Path) -> None:
    token = mint_token(path, "ann", [Role.READER], NOW)
    known = AccessFile(path)
    rules = AccessPolicy(FULL_NAME, TABLE, known)
    caller = rules.admit(f"/{FULL_NAME}/Summarize", Presented(token))
    path.write_text("")
    with standing(rules, caller):
        require("Summarize")
        known.reload()
        with pytest.raises(Unauthenticated):
            require("Summarize")
    assert known.find(Presented(token)) is None


def test_a_file_that_cannot_be_used_leaves_the_callers_as_they_were(path: Path) -> None:
    token = mint_token(path, "ann", [Role.READER], NOW)
    known = AccessFile(path)
    path.write_text("token = 3")
    with structlog.testing.capture_logs() as logs:
        known.reload()
    assert [line["event"] for line in logs] == ["access_file_not_reloaded"]
    assert known.find(Presented(token)) is not None


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o620, 0o660, 0o777])
def test_a_file_that_others_can_read_or_change_is_refused(path: Path, mode: int) -> None:
    token = mint_token(path, "ann", [Role.READER], NOW)
    path.chmod(mode)
    with pytest.raises(BadSecretFile, match="chmod 600"):
        AccessFile(path)
    with pytest.raises(BadSecretFile, match="chmod 600"):
        mint_token(path, "bob", [Role.READER], NOW)
    with pytest.raises(BadSecretFile) as refused:
        load_identity(token_file=path)
    assert token not in refused.value.message


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o440, 0o640])
def test_a_group_may_read_and_the_file_may_be_a_link(path: Path, mode: int) -> None:
    token = mint_token(path, "ann", [Role.READER], NOW)
    path.chmod(mode)
    link = path.with_name("link")
    link.symlink_to(path)
    assert AccessFile(link).find(Presented(token)) is not None


def test_a_missing_file_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSecretFile, match="cannot be read: No such file"):
        AccessFile(tmp_path / "none")
    with pytest.raises(BadSecretFile, match="cannot be read: Is a directory"):
        AccessFile(tmp_path)
    with pytest.raises(BadSecretFile, match="is no file"):
        AccessFile(Path(os.devnull))


HASH = f'sha256 = "{"0" * 64}"'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[token]", "is not TOML"),
        ("\\xff", "is not TOML"),
        ("[token]\nname = 'a'", r"write \[\[token\]\]"),
        ("tokens = []", "has 'tokens'"),
        (f"[[token]]\nname = 'a'\nroles = ['reader']\nsecret = 'x'\n{HASH}", "may have created, name, roles, sha256"),
        (f"[[token]]\nname = 'a b'\nroles = ['reader']\n{HASH}", "name is missing or malformed"),
        (f"[[token]]\nroles = ['reader']\n{HASH}", "name is missing or malformed"),
        (f"[[token]]\nname = 'a'\nroles = []\n{HASH}", "roles must be a list of operator, adapter"),
        (f"[[token]]\nname = 'a'\nroles = 'reader'\n{HASH}", "roles must be"),
        (f"[[token]]\nname = 'a'\nroles = ['root']\n{HASH}", "roles must be"),
        ("[[token]]\nname = 'a'\nroles = ['reader']", "sha256 must be"),
        ("[[token]]\nname = 'a'\nroles = ['reader']\nsha256 = 'abc'", "sha256 must be"),
        (f"[[certificate]]\nname = 'a'\nroles = ['reader']\n{HASH}", "certificate 1 may have name, roles only"),
        ("[[certificate]]\nname = 'a'\nroles = ['reader']\n" * 2, r"two \[\[certificate\]\] entries have one name"),
        (f"[[token]]\nname = 'a'\nroles = ['reader']\n{HASH}\n" * 2, "entries have one name"),
        ("".join(f"[[token]]\nname = '{n}'\nroles = ['reader']\n{HASH}\n" for n in "ab"), "have one digest"),
    ],
)
def test_a_file_of_another_form_is_refused_in_one_line(path: Path, text: str, complaint: str) -> None:
    with pytest.raises(BadAccessFile, match=complaint) as refused:
        AccessFile(written(path, text))
    assert "\n" not in refused.value.message


def test_a_name_is_given_once_and_is_one_word(path: Path) -> None:
    mint_token(path, "ann", [Role.READER], NOW)
    before = path.read_bytes()
    for name in ("ann", "", "a b", 'a"\n[[token]]', "-a", "a" * 101):
        with pytest.raises(BadAccessFile):
            mint_token(path, name, [Role.READER], NOW)
    with pytest.raises(BadAccessFile, match="no role"):
        mint_token(path, "bob", [], NOW)
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["", "short", "two words that are long enough to be a token", "é" * 43])
def test_what_is_no_token_is_not_presented(path: Path, text: str) -> None:
    with pytest.raises(BadToken) as refused:
        load_identity(token_file=written(path, text))
    assert not text or text not in refused.value.message


def test_an_identity_does_not_show_its_token(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    identity = keyring.bearing(Role.READER)
    assert identity.token == keyring.tokens[0]
    assert keyring.tokens[0] not in repr(identity) + str(identity)
