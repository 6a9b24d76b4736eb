"""A journal's checkpoints and exports, against a real ledger whose file somebody rewrites."""

import json
from pathlib import Path

import pytest

from ledger_svc.ledger import Ledger
from tests.countersign.cli.conftest import Answer, Command
from tests.countersign.cli.served import served, with_ledger
from tests.ledger_svc import rewriting, support
from tests.ledger_svc.support import furnish


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A ledger's file: six entries of `lab`, the last a second grant, and one of `other`."""

    async def fill(ledger: Ledger) -> None:
        await furnish(ledger)
        await ledger.submit(support.open_account("other"))
        await ledger.reserve(support.reserve(10))
        await ledger.submit(support.receipt())
        await ledger.submit(support.grant(50, request_id="grant-2"))

    path = tmp_path / "ledger.db"
    with_ledger(path, fill)
    return path


@pytest.fixture
def key(command: Command, tmp_path: Path) -> Path:
    """A checkpoint key."""
    path = tmp_path / "key"
    assert command("ledger", "checkpoint-key", path).status == 0
    return path


@pytest.fixture
def checkpoint(command: Command, store: Path, key: Path, tmp_path: Path) -> Path:
    """A checkpoint of the whole file."""
    path = tmp_path / "checkpoint.json"
    with served(store) as at:
        answer = command("ledger", "checkpoint", "--key", key, "--out", path, *at)
    assert (answer.status, answer.err) == (0, "")
    assert f"{path} is signed: 2 accounts" in answer.out
    return path


def verified(command: Command, store: Path, *options: object) -> Answer:
    with served(store) as at:
        return command("ledger", "verify", *options, *at)


def test_a_key_pair_is_made_once_and_for_its_owner_alone(command: Command, tmp_path: Path) -> None:
    path, public = tmp_path / "key", tmp_path / "key.pub"
    made = command("ledger", "checkpoint-key", path, "--json").lines()[0]
    assert (made["private_key_file"], made["public_key_file"]) == (str(path), str(public))
    assert len(bytes.fromhex(made["public_key"])) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_bytes(), public.read_bytes()
    assert b"PRIVATE KEY" in before[0]
    assert b"PUBLIC KEY" in before[1]
    again = command("ledger", "checkpoint-key", path)
    assert (again.status, again.err.count("\n")) == (2, 1)
    path.unlink()
    assert command("ledger", "checkpoint-key", path).status == 2
    assert not path.exists()
    path.write_bytes(before[0])
    public.unlink()
    assert command("ledger", "checkpoint-key", path).status == 2
    assert (path.read_bytes(), public.exists()) == (before[0], False)


def test_a_history_that_went_on_contains_its_checkpoint(
    command: Command, store: Path, key: Path, checkpoint: Path
) -> None:
    async def go_on(ledger: Ledger) -> None:
        await ledger.submit(support.grant(1, request_id="grant-3"))

    with_ledger(store, go_on)
    answer = verified(command, store, "--checkpoint", checkpoint, "--public-key", f"{key}.pub", "--json")
    found = answer.lines()[0]
    assert (answer.status, found["intact"], found["differences"]) == (0, True, [])
    assert [(head["account"], head["sequence"]) for head in found["heads"]] == [("lab", 7), ("other", 1)]
    kept = found["checkpoint"]
    assert [(head["account"], head["sequence"]) for head in kept["heads"]] == [("lab", 6), ("other", 1)]
    assert kept["key_compared"] is True
    words = verified(command, store, "--checkpoint", checkpoint, "--account", "lab").out
    assert "the journal is intact: 7 entries of 1 accounts" in words
    assert "is contained in it" in words
    assert "not compared: give --public-key FILE" in words


def test_a_rewritten_history_passes_alone_and_fails_against_the_checkpoint(
    command: Command, store: Path, checkpoint: Path
) -> None:
    rewriting.rewrite_first_grant(store, "lab", 70)
    alone = verified(command, store)
    assert (alone.status, alone.out) == (0, "the journal is intact: 7 entries of 2 accounts\n")
    against = verified(command, store, "--checkpoint", checkpoint)
    assert against.status == 1
    assert "NOT INTACT" in against.out
    expected = "account lab: entry 6 is not the one that was noted down: it or one before it was rewritten"
    assert expected in against.out.splitlines()
    found = verified(command, store, "--checkpoint", checkpoint, "--json").lines()[0]
    assert found["differences"] == [
        {"account_id": "lab", "sequence": 6, "what": "expected_head", "subject": "", "words": expected}
    ]


def test_a_truncated_history_passes_alone_and_fails_against_the_checkpoint(
    command: Command, store: Path, checkpoint: Path
) -> None:
    rewriting.erase_last_grant(store, "lab")
    assert verified(command, store).status == 0
    against = verified(command, store, "--checkpoint", checkpoint)
    assert against.status == 1
    words = "account lab: its journal ends at entry 5, before entry 6, which was noted down: it was cut short"
    assert words in against.out.splitlines()


def test_an_account_that_is_gone_fails_against_the_checkpoint(command: Command, store: Path, checkpoint: Path) -> None:
    rewriting.erase_account(store, "other")
    assert verified(command, store).status == 0
    against = verified(command, store, "--checkpoint", checkpoint)
    assert against.status == 1
    assert "account other: its journal ends at entry 0, before entry 1" in against.out


def test_a_checkpoint_that_was_changed_or_signed_by_another_is_not_believed(
    command: Command, store: Path, checkpoint: Path, tmp_path: Path
) -> None:
    original = checkpoint.read_text()
    for old, new in (('"sequence":6', '"sequence":5'), ('"at":"2', '"at":"1'), ('"account":"lab"', '"account":"bal"')):
        assert old in original
        checkpoint.write_text(original.replace(old, new))
        answer = command("ledger", "verify", "--checkpoint", checkpoint, "--ledger", "unix:/nowhere")
        assert (answer.status, answer.out, answer.err.count("\n")) == (1, "", 1)
        assert "was changed after it was signed" in answer.err
    checkpoint.write_text(original)
    other = tmp_path / "other"
    assert command("ledger", "checkpoint-key", other).status == 0
    answer = verified(command, store, "--checkpoint", checkpoint, "--public-key", f"{other}.pub")
    assert (answer.status, answer.out, answer.err.count("\n")) == (1, "", 1)
    assert "is signed by another key" in answer.err


def test_a_journal_that_differs_is_not_signed(command: Command, store: Path, key: Path, tmp_path: Path) -> None:
    rewriting.rewrite_first_grant(store, "lab", 70)
    rewriting.damage_balances(store, "lab")
    out = tmp_path / "new.json"
    with served(store) as at:
        answer = command("ledger", "checkpoint", "--key", key, "--out", out, *at)
    assert (answer.status, out.exists()) == (1, False)
    assert "its stored grants are not what its entries add up to" in answer.out


def test_an_empty_ledger_has_nothing_to_sign(command: Command, key: Path, tmp_path: Path) -> None:
    out = tmp_path / "new.json"
    with served(tmp_path / "empty.db") as at:
        answer = command("ledger", "checkpoint", "--key", key, "--out", out, *at)
    assert (answer.status, answer.err.count("\n"), out.exists()) == (2, 1, False)


def exported(command: Command, store: Path, path: Path, *options: object) -> Answer:
    with served(store) as at:
        return command("ledger", "export", "lab", "--out", path, *options, *at)


def test_an_export_is_checked_without_a_ledger(
    command: Command, store: Path, key: Path, checkpoint: Path, tmp_path: Path
) -> None:
    path = tmp_path / "lab.jsonl"
    made = exported(command, store, path, "--json").lines()[0]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["sequence"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert sorted(lines[0]) == ["account", "at", "body", "body_digest", "chain", "kind", "previous", "sequence"]
    assert (lines[1]["kind"], lines[1]["body"]["amount_nanos"], lines[1]["at"]) == (
        "BUDGET_GRANTED",
        100,
        "2023-11-14T22:13:20Z",
    )
    assert (made["entries"], made["chain"]) == (6, lines[-1]["chain"])
    with served(store) as at:
        assert command("ledger", "export", "lab", *at).out == path.read_text()
    checked = command("ledger", "check-export", path, "--json")
    found = {"intact": True, "account": "lab", "first": 1, "last": 6, "chain": lines[-1]["chain"], "difference": None}
    assert (checked.status, checked.lines()) == (0, [{**found, "checkpoint": None}])
    against = command("ledger", "check-export", path, "--checkpoint", checkpoint, "--public-key", f"{key}.pub")
    assert against.status == 0
    assert "entries 1 to 6 of account lab follow from one another" in against.out
    assert "is contained in it" in against.out


def test_an_export_of_a_rewritten_history_fails_against_the_checkpoint(
    command: Command, store: Path, checkpoint: Path, tmp_path: Path
) -> None:
    path = tmp_path / "lab.jsonl"
    rewriting.rewrite_first_grant(store, "lab", 70)
    exported(command, store, path)
    assert command("ledger", "check-export", path).status == 0
    against = command("ledger", "check-export", path, "--checkpoint", checkpoint)
    assert against.status == 1
    assert "line 6, entry 6 of account lab: it is not the entry that the checkpoint names" in against.out


def test_a_tampered_export_is_found(command: Command, store: Path, tmp_path: Path) -> None:
    path = tmp_path / "lab.jsonl"
    assert exported(command, store, path, "--from", 2).out.startswith(f"{path} has 5 entries of account lab")
    path.write_text(path.read_text().replace('"amount_nanos":100', '"amount_nanos":900'))
    answer = command("ledger", "check-export", path)
    assert answer.status == 1
    words = "line 1, entry 2 of account lab: its body is not the one that body_digest names"
    assert answer.out == f"{path} is NOT INTACT: {words}\n"


def test_an_export_is_all_or_nothing(command: Command, store: Path, tmp_path: Path) -> None:
    path = tmp_path / "lab.jsonl"
    path.write_text("before")
    rewriting.damage_body(store, "lab", 5)
    answer = exported(command, store, path)
    assert (answer.status, answer.err.count("\n")) == (1, 1)
    assert "entry 5 of account lab is damaged" in answer.err
    assert path.read_text() == "before"
    assert sorted(each.name for each in tmp_path.iterdir() if "jsonl" in each.name) == ["lab.jsonl"]


def test_wrong_input_gives_one_line_and_status_2(
    command: Command, store: Path, key: Path, checkpoint: Path, tmp_path: Path
) -> None:
    nonsense, taken = tmp_path / "nonsense", tmp_path / "taken"
    nonsense.write_text("{}")
    taken.write_text("")
    with served(store) as at:
        for arguments in (
            ("export", "nowhere", *at),
            ("export", "lab", "--from", 0, *at),
            ("export", "lab", "--out", tmp_path / "no" / "file", *at),
            ("check-export", nonsense),
            ("check-export", taken),
            ("check-export", tmp_path / "none"),
            ("checkpoint", "--key", nonsense, "--out", tmp_path / "x", *at),
            ("checkpoint", "--key", f"{key}.pub", "--out", tmp_path / "x", *at),
            ("checkpoint", "--key", key, "--out", taken, *at),
            ("checkpoint", "--key", key, "--out", tmp_path / "x", "--account", "nowhere", *at),
            ("checkpoint", "--key", tmp_path / "none", "--out", tmp_path / "x", *at),
            ("checkpoint-key", tmp_path / "no" / "file"),
            ("verify", "--checkpoint", nonsense, *at),
            ("verify", "--checkpoint", tmp_path / "none", *at),
            ("verify", "--checkpoint", checkpoint, "--public-key", key, *at),
            ("verify", "--checkpoint", checkpoint, "--account", "third", *at),
            ("verify", "--public-key", f"{key}.pub", *at),
        ):
            answer = command("ledger", *arguments)
            assert (answer.status, answer.out, answer.err.count("\n")) == (2, "", 1), arguments
