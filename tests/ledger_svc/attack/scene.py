"""A ledger's file with something of everything in it, and everything that can be asked of it."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from countersign.kit.errors import CountersignError
from ledger_svc import errors
from ledger_svc.calls import AmountBasis, CallState, CostBasis
from ledger_svc.commands.accounts import RecordPriorSpend
from ledger_svc.commands.reservations import Admitted, Reserve
from ledger_svc.ledger import Ledger, Verification
from ledger_svc.storage.sqlite import SqliteStore
from tests.ledger_svc import support
from tests.ledger_svc.support import Clock

SUFFIXES = ("", "-wal", ".head")
"""The files that make a ledger; the shared-memory file and the lock say nothing that lasts."""

ACCOUNTS = ("lab", "other")
STUDIES = {"study": "lab", "blocked": "lab", "far": "other"}


def commands() -> Sequence[Any]:
    """Mutations that are all carried out: every kind of entry, every state, small and large payloads."""
    token = support.TOKEN
    made: list[Any] = [
        support.open_account(),
        support.open_account("other", currency="USD"),
        support.grant(100_000),
        support.grant(500, request_id="grant-2"),
        support.grant(700, request_id="grant-3", account_id="other"),
        RecordPriorSpend("prior-1", "lab", support.usd(12), "Ann", "the pilot"),
        support.open_study(50_000, max_in_flight=100),
        support.open_study(300, study_id="blocked", max_in_flight=100),
        support.open_study(500, study_id="far", account_id="other", max_in_flight=100),
    ]
    for turn in range(1, 13):
        at = support.slot(turn=turn)
        made.append(support.reserve(10 + turn, at=at, token=token, request=b"request %d " % turn * 20))
        if turn % 3:
            response = b"response %d " % turn * (900 if turn == 4 else 9)
            made.append(support.receipt(f"{turn}e-9", at=at, token=token, response=response))
    for turn in range(1, 5):
        made.append(support.reserve(5, at=support.slot(turn=turn, study_id="far")))
    far = support.slot(turn=1, study_id="far")
    made += [support.hold(at=far), support.resolve(3, at=far, again=True)]
    made += [support.reserve(6, at=far, token=support.OTHER_TOKEN)]
    made += [support.receipt("5e-9", at=far, token=support.OTHER_TOKEN, response=b"second")]
    made += [support.reserve(20, at=support.slot(turn=turn, study_id="blocked")) for turn in range(1, 5)]
    made += [support.hold(at=support.slot(turn=1, study_id="blocked"))]
    made += [support.receipt("", at=support.slot(turn=2, study_id="blocked"), response=b"no cost")]
    made += [support.receipt("3e-8", at=support.slot(turn=3, study_id="blocked"), response=b"too dear")]
    made += [Reserve(support.slot("free"), token, support.usd(0), AmountBasis.FREE_ROUTE, b"", b"free", support.LEASE)]
    made += [support.receipt("", at=support.slot("free"), basis=CostBasis.FREE_ROUTE)]
    return made


def call_ids() -> Sequence[bytes]:
    """The ids of every call that `commands` makes."""
    return sorted({command.slot.call_id() for command in commands() if isinstance(command, Reserve)})


def opened(path: Path) -> Ledger:
    """A started ledger on a file at a time before any lease ends; raises what the store refuses with."""
    ledger = Ledger(SqliteStore.open(path, busy_timeout_millis=20), Clock())
    ledger.start()
    return ledger


async def make(folder: Path) -> None:
    """Two sets of files in `folder`: `killed`, whose latest entries are only in its WAL, and `closed`."""
    path = folder / "closed"
    await _carried_out(path, commands()[:30])
    ledger = opened(path)
    for command in commands()[30:]:
        await ledger.submit(command)
    copy(path, folder / "killed")
    await ledger.close()


async def _carried_out(path: Path, made: Sequence[Any]) -> None:
    ledger = opened(path)
    for command in made:
        await ledger.submit(command)
    await ledger.close()


def copy(source: Path, target: Path) -> None:
    """All files of a ledger that nobody writes just now, under another name."""
    for suffix in SUFFIXES:
        each = target.with_name(target.name + suffix)
        each.unlink(missing_ok=True)
        if source.with_name(source.name + suffix).exists():
            shutil.copyfile(source.with_name(source.name + suffix), each)
    target.with_name(target.name + "-shm").unlink(missing_ok=True)


async def verified(ledger: Ledger) -> Verification:
    """What verification of all accounts finds."""
    return await ledger.verify(None)


async def sums(ledger: Ledger) -> list[Any]:
    """The balances of each account that exists, with its studies'."""
    seen: list[Any] = []
    for account_id in ACCOUNTS:
        try:
            page = await ledger.summarize(account_id, None, 0, 1_000)
        except errors.UnknownAccountError:
            continue
        seen.append((page.balances.account, list(page.balances.studies)))
    return seen


async def view(ledger: Ledger) -> list[Any]:
    """Everything that readers are told, in one value."""
    seen = await sums(ledger)
    for study_id in STUDIES:
        for states in ([state] for state in CallState):
            seen.append(list((await ledger.calls(study_id, states, 0, 1_000)).calls))
    for call_id in call_ids():
        for call in await ledger.attempts(call_id):
            stored = await ledger.receipt(call_id, call.attempt)
            seen.append((call, stored.request, stored.response))
    return seen


async def asked_again(ledger: Ledger) -> list[str]:
    """How each mutation is answered when it is asked again: nothing may be done a second time."""
    answers = []
    for command in commands():
        try:
            answer = await ledger.submit(command)
        except errors.StoreCorruptError:
            raise
        except CountersignError as refusal:
            answers.append(type(refusal).__name__)
            continue
        if isinstance(answer, Admitted):
            answers.append(f"admitted {answer.call.attempt} {answer.replayed}")
        else:
            answers.append(f"{type(answer).__name__} {getattr(answer, 'replayed', '')}")
    return answers
