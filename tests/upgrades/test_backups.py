"""Back-ups of books on which a ledger works, restored: what they have, what they lack, and how that is found."""

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from countersign.ledger.v1 import ledger_pb2 as pb
from tests.integration.stack import environment_of
from tests.ledger_svc.postgres_cluster import Cluster, cluster
from tests.upgrades.books import Books, keep, opening_of, prior_spend, require_nothing_again, reservation
from tests.upgrades.stores import Database, File, Stored, ledger_process, opened, require_verified

__all__ = ["cluster"]

BUSY = "busy"
BEFORE = 20
"""How many calls are made before the back-up begins."""


@pytest.fixture(params=["sqlite", "postgres"])
def stored(tmp_path: Path, request: pytest.FixtureRequest) -> Stored:
    """Nothing yet, in a store of each kind."""
    if request.param == "sqlite":
        return File(tmp_path / "ledger.sqlite")
    server: Cluster = request.getfixturevalue("cluster")
    return Database(server, server.new_database(), tmp_path)


def play(books: Books, turn: int) -> None:
    """One call of the busy study, from reservation to charge."""
    asked = reservation(BUSY, turn)
    admission = books.call("Reserve", asked).admission
    cost = pb.Cost(basis=pb.COST_BASIS_PROVIDER_REPORTED, amount_text="0.000000001")
    receipt = pb.RecordReceiptRequest(
        call_id=admission.call_id, attempt_token=asked.attempt_token, http_status=200, response=b"answer", cost=cost
    )
    books.call("RecordReceipt", receipt)


@contextmanager
def playing(books: Books) -> Iterator[None]:
    """Calls are made, one after another, for as long as the context lasts; at least `BEFORE` before it begins."""
    begun, stop = threading.Event(), threading.Event()
    faults: list[BaseException] = []

    def run() -> None:
        try:
            turn = 0
            while not stop.is_set():
                turn += 1
                play(books, turn)
                if turn == BEFORE:
                    begun.set()
        except BaseException as fault:  # noqa: BLE001 -- raised again below, in the test's own thread
            faults.append(fault)
        finally:
            begun.set()

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not faults, faults


def journal(books: Books, account: str = "lab") -> list[bytes]:
    """Every entry of an account's journal, as bytes to compare."""
    parts = books.ask.ExportJournal(pb.ExportJournalRequest(account_id=account), timeout=20)
    return [entry.SerializeToString(deterministic=True) for part in parts for entry in part.entries]


def command(*words: object) -> tuple[int, str]:
    """The status of a command of `countersign ledger`, and all that it says."""
    run = subprocess.run(
        [sys.executable, "-m", "countersign.cli", "ledger", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env=environment_of(Path(__file__).parents[2]),
    )
    return run.returncode, run.stdout + run.stderr


def test_a_back_up_taken_while_calls_are_made_has_a_beginning_of_the_journal(stored: Stored, tmp_path: Path) -> None:
    with opened(stored, tmp_path) as books:
        keep(books)
        books.call("OpenStudy", opening_of(BUSY))
        with playing(books):
            restored = stored.back_up(tmp_path)
        play(books, 1_000_000)
        whole = journal(books)
    heads = restored.heads()
    with opened(restored, tmp_path) as books:
        require_verified(books, heads)
        kept = journal(books)
        assert whole[: len(kept)] == kept
        assert 2 * BEFORE < len(kept) < len(whole)
        require_nothing_again(books)


def test_a_stale_back_up_is_found_by_a_later_checkpoint_and_booked_anew(stored: Stored, tmp_path: Path) -> None:
    key, early, late = (tmp_path / name for name in ("audit.key", "early.json", "late.json"))
    assert command("checkpoint-key", key)[0] == 0
    checked = ("--public-key", f"{key}.pub")
    process = ledger_process(stored, tmp_path)
    with opened(stored, tmp_path, process=process) as books:
        keep(books)
        books.call("OpenStudy", opening_of(BUSY))
        play(books, 1)
        assert command("checkpoint", "--ledger", process.address, "--key", key, "--out", early)[0] == 0
        restored = stored.back_up(tmp_path)
        play(books, 2)
        assert command("checkpoint", "--ledger", process.address, "--key", key, "--out", late)[0] == 0
    length = restored.heads()["lab"][0]
    process = ledger_process(restored, tmp_path)
    with opened(restored, tmp_path, process=process) as books:
        verify = ("verify", "--ledger", process.address, *checked, "--checkpoint")
        assert command(*verify, early)[0] == 0
        status, said = command(*verify, late)
        expected = f"account lab: its journal ends at entry {length}, before entry {length + 2}, which was noted down"
        assert (status, f"{expected}: it was cut short" in said) == (1, True), said
        # Why its study must not be resumed: a call that was paid would be admitted once more.
        forgotten = books.call("Reserve", reservation(BUSY, 2, attempt=9))
        assert forgotten.WhichOneof("answer") == "admission"
        before = balance(books)
        spent = ("0.000000001", "--by", "ann", "--reason", "forgotten", "--ledger", process.address)
        assert command("prior-spend", "lab", *spent)[0] == 0
        assert balance(books) == before - 1
        assert command("checkpoint", "--ledger", process.address, "--key", key, "--out", tmp_path / "new.json")[0] == 0
        assert command(*verify, tmp_path / "new.json")[0] == 0


def balance(books: Books) -> int:
    """What is left to the account `lab`, in nano-dollars."""
    available = books.call("Summarize", pb.SummarizeRequest(account_id="lab")).balances.available
    return int(available.units * 10**9 + available.nanos)


def test_a_stale_back_up_in_the_place_of_the_file_is_refused_until_its_mark_is_removed(tmp_path: Path) -> None:
    stored = File(tmp_path / "ledger.sqlite")
    with opened(stored, tmp_path) as books:
        keep(books)
        copy = stored.back_up(tmp_path)
        books.call("RecordPriorSpend", prior_spend("other", 1))
    shutil.copyfile(copy.path, stored.path)
    run = subprocess.run(
        [sys.executable, "-m", "ledger_svc", "--listen", "127.0.0.1:0", *stored.options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout) == (2, "")
    (line,) = run.stderr.splitlines()
    assert line.startswith("ledger: the ledger's file has lost journal entries that were acknowledged")
    Path(f"{stored.path}.head").unlink()
    with opened(stored, tmp_path) as books:
        require_verified(books, copy.heads())
