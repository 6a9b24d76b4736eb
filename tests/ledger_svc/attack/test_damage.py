"""Damaged files: found, refused, or provably without effect; never a wrong balance that verifies as intact."""

import errno
import os
import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ledger_svc import errors
from ledger_svc.storage.head import HeadMark
from ledger_svc.storage.sqlite import SqliteStore
from tests.ledger_svc import support
from tests.ledger_svc.attack import scene
from tests.ledger_svc.attack.rounds import seeds

REFUSALS = (errors.StoreCorruptError, errors.StoreUnavailableError, errors.SchemaTooNewError)


@pytest.fixture
async def files(tmp_path: Path) -> Path:
    """The folder with the undamaged files."""
    folder = tmp_path / "files"
    folder.mkdir()
    await scene.make(folder)
    return folder


async def truth(files: Path, folder: Path) -> tuple[list[Any], list[str]]:
    """What the undamaged ledger tells and answers; both sets of files say the same."""
    told = []
    for name in ("closed", "killed"):
        scene.copy(files / name, folder / "truth")
        ledger = scene.opened(folder / "truth")
        assert (await scene.verified(ledger)).differences == []
        told.append((await scene.view(ledger), await scene.asked_again(ledger)))
        await ledger.close()
    assert told[0] == told[1]
    assert not [answer for answer in told[0][1] if "False" in answer]
    return told[0]


async def fate(path: Path, expected: tuple[list[Any], list[str]]) -> str:
    """What became of a damaged ledger: refused, found, or harmless; anything else is a failure of the test."""
    try:
        ledger = scene.opened(path)
    except REFUSALS:
        return "refused at start"
    try:
        found = await scene.verified(ledger)
        if found.differences:
            return "found"
        assert await scene.view(ledger) == expected[0], "a wrong content verifies as intact"
        assert await scene.asked_again(ledger) == expected[1], "a mutation that was done is not known any more"
    except REFUSALS:
        return "refused"
    finally:
        await ledger.close()
    return "harmless"


def flip(path: Path, source: random.Random) -> None:
    """Change one to three bits anywhere in a file."""
    data = bytearray(path.read_bytes())
    for _ in range(source.choice([1, 1, 3])):
        data[source.randrange(len(data))] ^= 1 << source.randrange(8)
    path.write_bytes(data)


@pytest.mark.parametrize(("name", "suffix", "count"), [("closed", "", 150), ("killed", "", 40), ("killed", "-wal", 60)])
async def test_flipped_bits(files: Path, tmp_path: Path, name: str, suffix: str, count: int) -> None:
    expected = await truth(files, tmp_path)
    fates: Counter[str] = Counter()
    wrong = []
    for seed in seeds(count):
        scene.copy(files / name, tmp_path / "damaged")
        flip(tmp_path / f"damaged{suffix}", random.Random(f"{name}{suffix}{seed}"))
        try:
            fates[await fate(tmp_path / "damaged", expected)] += 1
        except Exception as error:  # noqa: BLE001 - every seed is to be looked at
            wrong.append(f"seed {seed}: {error!r:.300}")
    print(name, suffix, dict(fates))
    assert not wrong, "\n".join(wrong)
    assert sum(count for fated, count in fates.items() if fated != "harmless") > 0


async def test_log_cut_anywhere_after_a_kill(files: Path, tmp_path: Path) -> None:
    """SQLite goes on without the end of its log and finds nothing wrong; the ledger must not."""
    expected = await truth(files, tmp_path)
    size_bytes = (files / "killed-wal").stat().st_size
    fates = []
    for seed in seeds(10):
        length = random.Random(f"cut {seed}").randrange(size_bytes)
        scene.copy(files / "killed", tmp_path / "damaged")
        wal = tmp_path / "damaged-wal"
        wal.write_bytes(wal.read_bytes()[:length])
        fates.append(await fate(tmp_path / "damaged", expected))
    assert fates == ["refused at start"] * len(seeds(10))


def problem(path: Path) -> str:
    """What opening the file is refused with."""
    with pytest.raises(errors.StoreCorruptError) as refused:
        SqliteStore.open(path, busy_timeout_millis=20)
    return refused.value.metadata["problem"]


@pytest.mark.parametrize("left_bytes", [None, 0, 31, 32, 4_000])
async def test_lost_log_is_refused_until_the_loss_is_accepted(files: Path, left_bytes: int | None) -> None:
    path, wal = files / "killed", files / "killed-wal"
    if left_bytes is None:
        wal.unlink()
    else:
        wal.write_bytes(wal.read_bytes()[:left_bytes])
    assert problem(path) == "rolled_back"
    assert problem(path) == "rolled_back"
    (files / "killed.head").unlink()
    ledger = scene.opened(path)
    found = await scene.verified(ledger)
    assert (found.entries_count, found.differences) == (30, [])
    await ledger.close()


async def test_new_ledger_that_lost_its_log_does_not_begin_anew(database: Path) -> None:
    """Until the first checkpoint everything is in the log, schema included."""
    ledger = scene.opened(database)
    await ledger.submit(support.open_account())
    scene.copy(database, database.with_name("copy.db"))
    await ledger.close()
    database.with_name("copy.db-wal").unlink()
    assert problem(database.with_name("copy.db")) == "rolled_back"


@pytest.mark.parametrize("left", ["nothing", "an empty file"])
async def test_missing_file_does_not_take_its_log_along(files: Path, tmp_path: Path, left: str) -> None:
    """SQLite deletes the log of a database that is empty; put back, the file and its log are whole."""
    expected = await truth(files, tmp_path)
    path = files / "killed"
    path.rename(files / "elsewhere")
    if left == "an empty file":
        path.touch()
    assert problem(path) == "rolled_back"
    (files / "killed.head").rename(files / "head")
    assert problem(path) == "missing"
    (files / "elsewhere").rename(path)
    (files / "head").rename(files / "killed.head")
    assert await fate(path, expected) == "harmless"


async def test_older_copy_in_place_of_the_file_is_refused(database: Path) -> None:
    ledger = scene.opened(database)
    await support.furnish(ledger)
    back_up(database, database.with_name("older.db"))
    await ledger.reserve(support.reserve())
    await ledger.close()
    database.with_name("older.db").rename(database)
    assert problem(database) == "rolled_back"


@pytest.mark.parametrize("content", [b"x", b"%020d" % 3, b"%020d\n\n" % 3, b"-%019d\n" % 3, bytes(21)])
async def test_damaged_mark_is_named(files: Path, content: bytes) -> None:
    (files / "closed.head").write_bytes(content)
    assert problem(files / "closed") == "head"


async def test_mark_that_cannot_be_written_lags_and_harms_nothing(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = scene.opened(database)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        await ledger.submit(support.open_account())
    assert database.with_name("ledger.db.head").read_text() == "0" * 20 + "\n"
    await ledger.submit(support.grant())
    assert int(database.with_name("ledger.db.head").read_text()) == 2
    await ledger.close()
    ledger = scene.opened(database)
    assert (await scene.verified(ledger)).entries_count == 2
    await ledger.close()


async def test_mark_is_never_ahead_of_what_is_durable(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ahead of it, a kill between the two would have the ledger refuse its own whole file."""
    ledger = scene.opened(database)
    seen: list[tuple[int, int]] = []
    advance = HeadMark.advance

    def watched(mark: HeadMark, entries_count: int) -> None:
        advance(mark, entries_count)
        with closing(sqlite3.connect(database)) as db:
            stored_count = db.execute("SELECT count(*) FROM journal").fetchone()[0]
        seen.append((int(database.with_name("ledger.db.head").read_text()), stored_count))

    monkeypatch.setattr(HeadMark, "advance", watched)
    await support.furnish(ledger)
    assert seen == [(1, 1), (2, 2), (3, 3)]
    with pytest.raises(errors.StudyCapExceededError):
        await ledger.reserve(support.reserve(101))
    assert seen[3:] == [(3, 3)]
    await ledger.close()


async def test_schema_that_cannot_even_be_quoted_is_damage(database: Path) -> None:
    ledger = scene.opened(database)
    await support.furnish(ledger)
    await ledger.close()
    data = database.read_bytes()
    assert b"TRIGGER journal_is_never" in data
    database.write_bytes(data.replace(b"TRIGGER journal_is_never", b"TRIGGE\xd2 journal_is_never"))
    assert problem(database) == "malformed"


async def test_verifying_a_moved_file_makes_none_in_its_place(database: Path) -> None:
    """A new empty file there would have SQLite delete the log in which the latest entries are."""
    ledger = scene.opened(database)
    await support.furnish(ledger)
    log_bytes = database.with_name("ledger.db-wal").stat().st_size
    assert log_bytes > 0
    database.rename(database.with_name("elsewhere"))
    with pytest.raises(errors.StoreUnavailableError) as refused:
        await ledger.verify(None)
    assert refused.value.metadata == {"problem": "moved"}
    assert not database.exists()
    assert database.with_name("ledger.db-wal").stat().st_size == log_bytes
    database.with_name("elsewhere").rename(database)
    assert (await scene.verified(ledger)).differences == []
    await ledger.close()


async def test_verification_reads_the_file_that_is_served(database: Path) -> None:
    """A whole file put in place of the served one must not be verified for it."""
    ledger = scene.opened(database)
    await support.furnish(ledger)
    database.rename(database.with_name("elsewhere"))
    database.write_bytes(database.with_name("elsewhere").read_bytes())
    with pytest.raises(errors.StoreUnavailableError) as refused:
        await ledger.verify(None)
    assert refused.value.metadata == {"problem": "moved"}
    database.with_name("elsewhere").rename(database)
    await ledger.close()


async def test_log_deleted_while_serving_admits_nothing_more(database: Path) -> None:
    """What is written to a deleted log is gone with the process."""
    ledger = scene.opened(database)
    await support.furnish(ledger)
    database.with_name("ledger.db-wal").unlink()
    with pytest.raises(errors.StoreUnavailableError) as refused:
        await ledger.reserve(support.reserve())
    assert refused.value.metadata == {"problem": "moved"}
    assert not support.is_healthy(ledger)
    await ledger.close()
    again = scene.opened(database)
    assert (await scene.verified(again)).entries_count == 3
    await again.close()


async def test_deleted_lock_leaves_one_ledger_and_not_two(database: Path) -> None:
    first = scene.opened(database)
    await support.furnish(first)
    database.with_name("ledger.db.lock").unlink()
    second = scene.opened(database)
    with pytest.raises(errors.StoreUnavailableError) as refused:
        await first.reserve(support.reserve())
    assert refused.value.metadata == {"problem": "moved"}
    await second.reserve(support.reserve())
    assert (await scene.verified(second)).differences == []
    await first.close()
    await second.close()


async def test_copies_made_while_writing(database: Path) -> None:
    """A backup by SQLite is whole at every moment; a plain copy is older, refused or found, never wrong."""
    ledger = scene.opened(database)
    states: dict[int, object] = {}
    fates: Counter[str] = Counter()
    for number, command in enumerate(scene.commands()):
        await ledger.submit(command)
        states[number + 1] = await scene.sums(ledger)
        if number % 5 == 0:
            for name, made in (("backup", back_up), ("copy", shutil.copyfile)):
                target = database.with_name(f"{name}-{number}.db")
                made(database, target)
                fates[name + " " + await copy_fate(target, states, number + 1 if name == "backup" else None)] += 1
    await ledger.close()
    print(dict(fates))
    assert set(fates) <= {"backup whole", "copy whole", "copy refused", "copy found"}


async def copy_fate(path: Path, states: dict[int, object], entries_count: int | None) -> str:
    """`whole` where the copy verifies: then its balances are those after exactly its entries."""
    try:
        ledger = scene.opened(path)
    except errors.StoreCorruptError:
        return "refused"
    found = await scene.verified(ledger)
    if not found.differences and found.entries_count:
        assert entries_count in (None, found.entries_count)
        assert await scene.sums(ledger) == states[found.entries_count]
    await ledger.close()
    return "found" if found.differences else "whole"


def back_up(source: Path, target: Path) -> None:
    """What `sqlite3 FILE .backup` does, from another connection while the ledger serves."""
    with closing(sqlite3.connect(source)) as db, closing(sqlite3.connect(target)) as copy:
        db.backup(copy)
