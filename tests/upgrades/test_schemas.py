"""Books that older ledgers kept, opened by today's; and the reverse. Each version's file is made by its own code."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger_svc.storage import postgres_schema, sqlite_schema
from tests.integration.stack import environment_of
from tests.ledger_svc.postgres_cluster import Cluster, cluster
from tests.upgrades.books import go_on, keep, require_nothing_again
from tests.upgrades.older import extract, schema_makers
from tests.upgrades.stores import Database, File, Stored, asked, ledger_process, opened, require_verified

__all__ = ["cluster"]

KINDS = {
    "sqlite": ("ledger_svc/storage/sqlite_schema.py", sqlite_schema.SCHEMA_VERSION),
    "postgres": ("ledger_svc/storage/postgres_schema.py", postgres_schema.SCHEMA_VERSION),
}
CASES = [(kind, version) for kind, (_, newest) in KINDS.items() for version in range(1, newest + 1)]


class Trees:
    """The trees of older versions, each laid out once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, kind: str, version: int) -> Path:
        """The tree whose code first made a schema."""
        makers = schema_makers(KINDS[kind][0])
        assert version in makers, f"the history has no {kind} schema {version}"
        target = self._folder / makers[version]
        return target if target.exists() else extract(makers[version], target)


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Trees:
    return Trees(tmp_path_factory.mktemp("trees"))


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def case(request: pytest.FixtureRequest) -> tuple[str, int]:
    """A kind of store and a version of its schema, today's included."""
    found: tuple[str, int] = request.param
    return found


@pytest.fixture
def stored(case: tuple[str, int], tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stored]:
    """Nothing yet, in a store of that kind."""
    if case[0] == "sqlite":
        yield File(tmp_path / "ledger.sqlite")
    else:
        server: Cluster = request.getfixturevalue("cluster")
        yield Database(server, server.new_database(), tmp_path)


def test_books_of_an_older_version_are_brought_forward(
    case: tuple[str, int], stored: Stored, trees: Trees, tmp_path: Path
) -> None:
    kind, version = case
    with opened(stored, tmp_path, trees.of(kind, version)) as books:
        keep(books)
        before = books.everything()
    heads = stored.heads()
    assert (stored.version(), set(heads)) == (version, {"lab", "other"})
    with opened(stored, tmp_path) as books:
        assert books.everything() == before
        require_verified(books, heads)
        require_nothing_again(books)
        assert books.everything() == before
        go_on(books)
    assert stored.version() == KINDS[kind][1]
    with opened(stored, tmp_path) as books:
        require_verified(books, stored.heads())


@pytest.mark.parametrize("case", [("sqlite", 1), ("postgres", 1)], ids=["sqlite", "postgres"], indirect=True)
def test_books_of_an_older_version_that_was_killed_are_brought_forward_whole(
    case: tuple[str, int], stored: Stored, trees: Trees, tmp_path: Path
) -> None:
    process = ledger_process(stored, tmp_path, trees.of(*case))
    process.start()
    with asked(process) as books:
        keep(books)
        before = books.everything()
    process.kill()
    heads = stored.heads()
    with opened(stored, tmp_path) as books:
        assert books.everything() == before
        require_verified(books, heads)


def test_books_of_today_are_refused_by_older_versions_and_stay_as_they_are(
    case: tuple[str, int], stored: Stored, trees: Trees, tmp_path: Path
) -> None:
    kind, version = case
    older = trees.of(kind, version)
    with opened(stored, tmp_path) as books:
        keep(books)
        everything = books.everything()
    if version == KINDS[kind][1]:
        # The same schema: going back to that version is possible.
        with opened(stored, tmp_path, older) as books:
            assert books.everything() == everything
        return
    contents = stored.contents()
    run = subprocess.run(
        [sys.executable, "-m", "ledger_svc", "--listen", "127.0.0.1:0", *stored.options],
        cwd=older,
        env=environment_of(older),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout) == (2, "")
    (line,) = run.stderr.splitlines()
    assert "newer version; use that one" in line
    assert stored.contents() == contents
