"""A PostgreSQL cluster of the tests' own: made in a temporary folder, reached by a Unix socket, removed at the end."""

import os
import pwd
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

PASSWORD = "of the tests only"


def find_programs() -> Path | None:
    """The folder of PostgreSQL's server programs, the newest where there are several."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    # Debian keeps them off the path.
    found = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return max((path.parent for path in found), key=lambda folder: float(folder.parent.name), default=None)


class Cluster:
    """One server and its data. Its superuser's name is `tester`; the password is asked for on every connection.

    `guard` is a command that runs the server's programs, which are then its arguments.
    """

    def __init__(self, programs: Path, folder: Path, guard: Sequence[str] = ()) -> None:
        self._programs = programs
        self._guard = guard
        self._folder = folder
        self._data = folder / "data"
        self._as_user = _unprivileged()
        self._log = folder / "log"
        self._server: subprocess.Popen[bytes] | None = None
        self._names_count = 0

    def create(self) -> None:
        """Make the data folder."""
        os.chown(self._folder, self._as_user.get("user", -1), self._as_user.get("group", -1))
        password_file = self._folder / "password"
        password_file.write_text(PASSWORD)
        password_file.chmod(0o644)
        made = self._begin(
            *("initdb", "--pgdata", self._data, "--username", "tester", "--pwfile", password_file),
            *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"),
        )
        assert made.wait() == 0, f"initdb failed; see {self._log}"
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write(f"listen_addresses = ''\nunix_socket_directories = '{self._folder}'\n")
            settings.write("shared_buffers = '16MB'\nmax_connections = 60\n")

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        self._server = self._begin("postgres", "-D", self._data)
        answers = False
        while not answers:
            assert self._server.poll() is None, f"the server does not start; see {self._log}"
            try:
                psycopg.connect(self.dsn()).close()
                answers = True
            except psycopg.OperationalError:
                continue

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends sessions and writes a checkpoint, SIGQUIT does neither."""
        if self._server is not None:
            self._server.send_signal(how)
            self._server.wait()
            self._server = None

    def kill(self) -> None:
        """End every process of the server by SIGKILL, as a power failure would, and wait until they are gone."""
        assert self._server is not None
        children = Path(f"/proc/{self._server.pid}/task/{self._server.pid}/children").read_text().split()
        descriptors = [os.pidfd_open(int(process)) for process in children]
        self.stop(signal.SIGKILL)
        for descriptor in descriptors:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            # Readable once the process has ended.
            select.select([descriptor], [], [])
            os.close(descriptor)

    def dsn(self, **changes: Any) -> str:
        """How the superuser connects to the database `postgres`, but for the changes."""
        plain = {"host": str(self._folder), "dbname": "postgres", "user": "tester", "password": PASSWORD}
        return make_conninfo("", **{**plain, **changes})

    def new_schema(self) -> str:
        """A DSN whose tables are in an empty schema of their own."""
        self._names_count += 1
        name = f"s{self._names_count}"
        self.execute(self.dsn(), f"CREATE SCHEMA {name}")
        return self.dsn(options=f"-c search_path={name}")

    def new_database(self, options: str = "") -> str:
        """A DSN of an empty database of its own."""
        self._names_count += 1
        name = f"d{self._names_count}"
        self.execute(self.dsn(), f"CREATE DATABASE {name} TEMPLATE template0 {options}")
        return self.dsn(dbname=name)

    def execute(self, dsn: str, *statements: str) -> list[tuple[Any, ...]]:
        """Execute statements as an administrator; returns the last one's rows."""
        rows: list[tuple[Any, ...]] = []
        with psycopg.connect(dsn, autocommit=True) as db:
            for statement in statements:
                cursor = db.execute(statement)
                rows = cursor.fetchall() if cursor.description is not None else []
        return rows

    def configure(self, name: str, value: str | None) -> None:
        """Change a setting of the running server (None: back to its default), and wait until new sessions have it."""
        change = f"RESET {name}" if value is None else f"SET {name} = '{value}'"
        self.execute(self.dsn(), f"ALTER SYSTEM {change}", "SELECT pg_reload_conf()")
        query = f"SELECT current_setting('{name}') = coalesce(%s, boot_val) FROM pg_settings WHERE name = '{name}'"
        done = False
        while not done:
            with psycopg.connect(self.dsn()) as db:
                row = db.execute(query, (value,)).fetchone()
            done = row is not None and bool(row[0])

    def wait_for(self, condition: str, count: int = 1) -> None:
        """Wait until so many sessions are in a state, a condition on `pg_stat_activity`."""
        query = f"SELECT count(*) FROM pg_stat_activity WHERE {condition}"
        with psycopg.connect(self.dsn(), autocommit=True) as db:
            found = -1
            while found < count:
                row = db.execute(query).fetchone()
                found = -1 if row is None else row[0]

    def _begin(self, program: str, *arguments: object) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*self._guard, str(self._programs / program), *map(str, arguments)],
                **self._as_user,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


def _unprivileged() -> dict[str, Any]:
    """Whom to run the server as: it refuses to run as root."""
    if os.getuid() != 0:
        return {}
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = names.get("postgres") or names["nobody"]
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A running server that the whole session shares; skips where PostgreSQL is not installed."""
    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL's server is not installed (no initdb); on Debian: apt-get install postgresql")
    with tempfile.TemporaryDirectory(prefix="countersign-") as name:
        cluster = Cluster(programs, Path(name))
        cluster.create()
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop(signal.SIGQUIT)
