"""Checking an export's lines: every member is covered by a digest, and the order by the chain."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from countersign.ledger.v1 import ledger_pb2 as ledger
from countersign.study.errors import BadInput
from countersign.study.journal_files import ExportFinding, NotWritable, check_lines, entry_line
from ledger_svc.journal import GENESIS_CHAIN, EntryKind, next_entry
from ledger_svc.wire import write_entry
from tests.ledger_svc.support import START


def entries(count: int, account_id: str = "lab") -> list[ledger.JournalEntry]:
    """A journal of grants, as a ledger makes it."""
    chain, made = GENESIS_CHAIN, []
    for number in range(1, count + 1):
        body = {"amount_nanos": number, "reason": "für später"}
        entry = next_entry(account_id, number, chain, EntryKind.BUDGET_GRANTED, body, START + number)
        chain = entry.chain
        made.append(write_entry(entry))
    return made


def lines(made: Sequence[ledger.JournalEntry]) -> list[tuple[int, dict[str, Any]]]:
    """The entries as numbered lines."""
    return [(number, json.loads(entry_line(entry))) for number, entry in enumerate(made, start=1)]


def head(entry: ledger.JournalEntry) -> ledger.JournalHead:
    return ledger.JournalHead(account_id=entry.account_id, sequence=entry.sequence, chain_digest=entry.chain_digest)


def test_a_whole_journal_follows_from_its_beginning() -> None:
    made = entries(3)
    assert check_lines(lines(made), "x") == ExportFinding("lab", 1, 3, made[-1].chain_digest.hex(), None)


def test_a_journal_from_its_middle_follows_from_what_it_names() -> None:
    made = entries(4)
    assert check_lines(lines(made[2:]), "x") == ExportFinding("lab", 3, 4, made[-1].chain_digest.hex(), None)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("account", "bal", "the lines before are of account lab"),
        ("sequence", 3, "the entry before is 1"),
        ("kind", "STUDY_OPENED", "its chain digest does not follow"),
        ("body", {"amount_nanos": 2}, "its body is not the one"),
        ("body", {"amount_nanos": float("nan")}, "its body is not the one"),
        ("body_digest", "00" * 32, "its body is not the one"),
        ("previous", "00" * 32, "it does not follow from the entry before"),
        ("chain", "00" * 32, "its chain digest does not follow"),
        ("at", "2023-11-14T22:13:21Z", "its chain digest does not follow"),
    ],
)
def test_a_changed_member_is_found(name: str, value: object, words: str) -> None:
    made = entries(3)
    changed = lines(made)
    changed[1][1][name] = value
    found = check_lines(changed, "x")
    assert (found.account_id, found.first, found.last) == ("lab", 1, 1)
    assert found.chain == made[0].chain_digest.hex()
    assert words in (found.difference or "")
    assert (found.difference or "").startswith("line 2, entry ")


def test_lines_that_are_missing_or_swapped_are_found() -> None:
    first, second, third = lines(entries(3))
    for order in ((first, third), (first, third, second), (first, first), (second, first)):
        assert "missing, or out of order" in (check_lines(order, "x").difference or "")


def test_a_first_entry_that_names_one_before_it_is_found() -> None:
    made = lines(entries(1))
    made[0][1]["previous"] = "11" * 32
    found = check_lines(made, "x")
    assert (found.first, found.last) == (1, 0)
    assert "does not follow" in (found.difference or "")


def test_heads_must_be_passed_through() -> None:
    made = entries(5)
    others = [head(entry) for entry in entries(9, "other")]
    for known in ([head(made[4])], [head(made[1]), head(made[3])], [head(made[0]), *others]):
        assert check_lines(lines(made), "x", known).difference is None
    wrong = head(made[2])
    wrong.chain_digest = bytes(32)
    assert "entry 3 of account lab: it is not the entry that the checkpoint names" in (
        check_lines(lines(made), "x", [wrong]).difference or ""
    )
    assert "it ends at entry 3, before the checkpoint's entry 5" in (
        check_lines(lines(made[:3]), "x", [head(made[4])]).difference or ""
    )


def test_the_head_just_before_the_first_line_binds_it() -> None:
    made = entries(4)
    before = head(made[1])
    assert check_lines(lines(made[2:]), "x", [before]).difference is None
    before.chain_digest = bytes(32)
    assert "does not follow" in (check_lines(lines(made[2:]), "x", [before]).difference or "")


def test_heads_that_cannot_be_compared_are_wrong_input() -> None:
    made = entries(4)
    with pytest.raises(BadInput, match="says nothing about account lab"):
        check_lines(lines(made), "x", [head(entries(1, "other")[0])])
    with pytest.raises(BadInput, match="begins after the checkpoint's entry 1"):
        check_lines(lines(made[2:]), "x", [head(made[0])])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sequence", "1"),
        ("sequence", True),
        ("body", []),
        ("account", None),
        ("at", "yesterday"),
        ("at", "2023-11-14T22:13:20.000001001Z"),
        ("at", "2023-11-14T23:13:20.000001+01:00"),
        ("more", 1),
    ],
)
def test_a_line_of_another_form_is_wrong_input(name: str, value: object) -> None:
    made = lines(entries(1))
    made[0][1][name] = value
    with pytest.raises(BadInput, match="x line 1"):
        check_lines(made, "x")


def test_no_lines_are_wrong_input() -> None:
    with pytest.raises(BadInput):
        check_lines([], "x")


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"a":NaN}', b'{"a":"\\ud800"}'])
def test_a_body_that_json_lines_cannot_hold_is_not_written(body: bytes) -> None:
    with pytest.raises(NotWritable, match="entry 7 of account lab is damaged"):
        entry_line(ledger.JournalEntry(account_id="lab", sequence=7, body=body))
