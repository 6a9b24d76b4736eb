"""Fixtures of the ledger's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ledger_svc.ledger import Ledger
from tests.ledger_svc.postgres_cluster import cluster as cluster
from tests.ledger_svc.support import Clock, furnish, make_ledger


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where a test's ledger is kept."""
    return tmp_path / "ledger.db"


@pytest.fixture
async def empty_ledger(database: Path, clock: Clock) -> AsyncIterator[Ledger]:
    """A started ledger without accounts."""
    ledger = make_ledger(database, clock)
    yield ledger
    await ledger.close()


@pytest.fixture
async def ledger(empty_ledger: Ledger) -> Ledger:
    """A ledger with an account of 100 nano-dollars and a strictly serial study of the same cap."""
    await furnish(empty_ledger)
    return empty_ledger
