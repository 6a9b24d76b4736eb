"""A site that the session shares, whole again before each test."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hosts.network import why_not
from tests.hosts.site import Site, Study, running_site
from tests.ledger_svc.postgres_cluster import find_programs


@pytest.fixture(scope="session")
def shared_site() -> Iterator[Site]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL's server is not installed (no initdb); on Debian: apt-get install postgresql")
    # Not pytest's own folder: the database's user must be able to pass through it.
    with tempfile.TemporaryDirectory(prefix="countersign-hosts-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with running_site(folder, programs) as site:
            yield site


@pytest.fixture
def site(shared_site: Site) -> Iterator[Site]:
    shared_site.repair()
    yield shared_site
    shared_site.repair()


@pytest.fixture
def open_study(site: Site) -> Iterator[Callable[..., Study]]:
    """Opens a study of so many episodes; no collector outlives the test."""
    opened: list[Study] = []

    def make(name: str, episodes: int = 1, in_flight: int = 1, workers: int = 0) -> Study:
        opened.append(Study(site, site.folder / name, episodes, in_flight, workers or in_flight))
        return opened[-1]

    yield make
    for study in opened:
        study.end()
