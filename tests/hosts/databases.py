"""A PostgreSQL primary with a synchronous standby, each on a host of its own, over TLS; and failing over."""

import shutil
import signal
import time
from pathlib import Path

from tests.hosts.network import Host, Running
from tools.make_ca import Authority

USER = "postgres"
PASSWORD = "of the tests only"
PORT = 5432
READY_SECONDS = 20.0
POLL_SECONDS = 0.05

_SETTINGS = """
listen_addresses = '{address}'
unix_socket_directories = '{folder}'
shared_buffers = '16MB'
max_connections = 40
ssl = on
ssl_cert_file = '{folder}/server.pem'
ssl_key_file = '{folder}/server.key'
wal_receiver_timeout = '5s'
synchronous_commit = local
"""
"""By them a commit waits for no standby: that the ledger's do is its own doing."""

_ACCESS = """
local all all trust
hostssl all all 10.77.0.0/24 scram-sha-256
hostssl replication all 10.77.0.0/24 scram-sha-256
"""


class Database:
    """One server on one host. As superuser it is asked over its own socket."""

    def __init__(self, host: Host, programs: Path, folder: Path, authority: Authority) -> None:
        self.host, self._programs, self._folder = host, programs, folder
        folder.mkdir(mode=0o755)
        pair = authority.server([host.address]).write(folder, "server")
        for path in (folder, *pair):
            shutil.chown(path, USER, USER)
        self._data = folder / "data"
        command = host.command(programs / "postgres", "-D", self._data, user=USER)
        self.server = Running(f"postgres on {host.name}", command, folder / "log", announces=False)

    def create(self) -> None:
        """Make an empty cluster that asks for a password beyond its own socket."""
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        options = ("--username", USER, "--pwfile", secret, "--encoding", "UTF8", "--locale", "C", "--no-sync")
        self._program("initdb", "--pgdata", self._data, *options)
        (self._data / "pg_hba.conf").write_text(_ACCESS)
        self._configure()

    def copy(self, primary: "Database") -> None:
        """Become a standby of `primary`, from a fresh copy of it."""
        shutil.rmtree(self._data, ignore_errors=True)
        dsn = f"host={primary.host.address} user={USER} password='{PASSWORD}' sslmode=require"
        dsn += f" application_name={self.host.name}"
        options = ("--checkpoint", "fast", "--write-recovery-conf", "--no-sync", "--wal-method", "stream")
        self._program("pg_basebackup", "--pgdata", self._data, "--dbname", dsn, *options)
        self._configure()

    def start(self) -> None:
        """Start, and wait until it answers."""
        self.server.start()
        self.wait_for("SELECT true")

    def promote(self) -> None:
        """Make the standby the primary, which waits for no standby of its own until it has one."""
        self.query("SELECT pg_promote()")
        self.wait_for("SELECT NOT pg_is_in_recovery()")
        self.synchronise(None)

    def synchronise(self, standby: "Database | None") -> None:
        """Let every commit wait for `standby`'s disk, and wait until that one follows."""
        names = f'FIRST 1 ("{standby.host.name}")' if standby is not None else ""
        self.query(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        self.query("SELECT pg_reload_conf()")
        self.wait_for(f"SELECT current_setting('synchronous_standby_names') = '{names}'")
        if standby is not None:
            self.wait_for("SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'")

    def stop(self) -> None:
        """End it without ceremony; what it committed is on disk."""
        self.server.stop(signal.SIGQUIT)

    def query(self, statement: str) -> str:
        """What the superuser hears to one statement."""
        psql = (self._programs / "psql", "--host", self._folder, "--username", USER, "--no-psqlrc", "-Atqc", statement)
        return self._program(*psql).strip()

    def wait_for(self, condition: str) -> None:
        """Poll until the condition holds."""
        end = time.monotonic() + READY_SECONDS
        while True:
            try:
                if self.query(condition) == "t":
                    return
            except AssertionError:
                assert self.server.process is not None
                assert self.server.process.poll() is None, f"see {self.server.log}"
            assert time.monotonic() < end, f"{self.host.name}: not in time: {condition}"
            time.sleep(POLL_SECONDS)

    def _configure(self) -> None:
        settings = _SETTINGS.format(address=self.host.address, folder=self._folder)
        with (self._data / "postgresql.conf").open("a") as file:
            file.write(settings)

    def _program(self, program: str | Path, *arguments: object) -> str:
        path = self._programs / program if isinstance(program, str) else program
        return self.host.run(path, *arguments, user=USER)


def dsn_file(path: Path, authority: Path, *databases: Database) -> Path:
    """A file with the DSN that names all of them: whichever can be written is the ledger's."""
    hosts = ",".join(one.host.address for one in databases)
    path.touch(mode=0o600)
    tls = f"sslmode=verify-full sslrootcert={authority}"
    path.write_text(f"host={hosts} port={PORT} dbname=postgres user={USER} password='{PASSWORD}' {tls}\n")
    return path
