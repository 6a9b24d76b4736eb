"""Everything that runs: two adapters, two verifiers, a provider, the ledger on either store, and the links between."""

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.ledger_svc.postgres_cluster import Cluster, find_programs
from tests.soak.door import Door
from tests.soak.faults import DATABASE_LINK, LINKS, PROVIDER_LINK, Fault, Kind, Store
from tests.soak.links import Link
from tests.soak.services import STOPPED_STATUSES, Service, ended, free_port, guard, kill_all, python
from tests.soak.stores import PostgresReader, Reader, SqliteReader

DATABASE = "database"
BURY_SECONDS = 10.0


class Site:
    """The parts by their names; `begin` puts a store under it, `end` takes it away."""

    def __init__(self, folder: Path, door: Door) -> None:
        self.logs = folder / "logs"
        self.books = folder / "books"
        for made in (self.logs, self.books):
            made.mkdir(parents=True)
        # A Unix socket's path has at most 107 bytes.
        self._sockets = Path(tempfile.mkdtemp(prefix="cs-soak-"))
        self.links = {name: Link(name) for name in (*LINKS, DATABASE_LINK)}
        self.links[PROVIDER_LINK].serve = door.serve
        self.services: dict[str, Service] = {}
        self.wire_log = self.logs / "wire.jsonl"
        self.cluster: Cluster | None = None
        self._cluster_folder: Path | None = None
        self.database_is_down = asyncio.Lock()

    async def start(self) -> None:
        """Start what lives through every store."""
        for link in self.links.values():
            await link.start()
        port = free_port()
        listen = ("--listen", f"127.0.0.1:{port}", "--log", self.wire_log)
        await self._add("provider", python("countersign.cli", "rehearse", *listen)).start()
        self.links[PROVIDER_LINK].target = f"127.0.0.1:{port}"
        for number in (1, 2):
            for kind in ("adapter", "verifier"):
                name = f"{kind}-{number}"
                self._service(name, kind, "--ledger", self.links[f"{name}>ledger"].address, "--drain-seconds", "10")
                self.links[f"collectors>{name}"].target = self.address(name)

    async def begin(self, store: Store) -> Reader:
        """Start the ledgers on an empty store; what reads it beside them."""
        if store is Store.SQLITE:
            path = self.books / "ledger.sqlite"
            ledger = self._service("ledger-1", "ledger", "--database", path, "--sweep-seconds", "1")
            await ledger.start()
            self._lead({1: "ledger-1", 2: "ledger-1"})
            await self._start_others()
            return SqliteReader(path)
        dsn = await self._begin_database()
        file = self.books / "ledger.dsn"
        file.touch(mode=0o600)
        file.write_text(dsn["through the link"])
        for ledger_number in (1, 2):
            options = ("--postgres-file", file, "--sweep-seconds", "1")
            await self._service(f"ledger-{ledger_number}", "ledger", *options).start()
        self._lead({1: "ledger-1", 2: "ledger-2"})
        await self._start_others()
        return PostgresReader(dsn["beside it"])

    async def end(self) -> Mapping[str, int]:
        """Stop the ledgers and their store; the exit status of each."""
        statuses = {name: await self.services[name].stop() for name in self.ledgers()}
        for name in tuple(statuses):
            del self.services[name]
        await asyncio.to_thread(self._end_database)
        return statuses

    async def stop(self) -> Mapping[str, int]:
        """Stop everything that is left; the exit status of each."""
        statuses = {}
        for name, service in self.services.items():
            statuses[name] = await service.stop()
        for link in self.links.values():
            await link.stop()
        return statuses

    def abandon(self) -> None:
        """Leave nothing behind, in whatever state it is."""
        kill_all()
        self._end_database()
        shutil.rmtree(self._sockets, ignore_errors=True)

    async def bury(self) -> None:
        """Wait for the end of what was abandoned."""
        for service in self.services.values():
            if service.process is not None:
                await asyncio.wait_for(ended(service.process), BURY_SECONDS)

    def address(self, name: str) -> str:
        """Where the service itself listens, not the link to it."""
        return f"unix:{self._sockets}/{name}"

    def ledgers(self) -> list[str]:
        """The ledgers of the store that is under it."""
        return [name for name in self.services if name.startswith("ledger")]

    def collector_options(self) -> list[str]:
        """Where a collector finds the services: at the links."""
        options = ["--ledger", self.links["collectors>ledger"].address]
        for kind in ("adapter", "verifier"):
            for number in (1, 2):
                options += [f"--{kind}", self.links[f"collectors>{kind}-{number}"].address]
        return options

    async def apply(self, fault: Fault) -> None:
        """Begin the fault, wait until it is over, and mend what it broke."""
        if fault.target in self.links:
            await self._disturb(self.links[fault.target], fault)
        elif fault.target == DATABASE:
            await self._end_for_a_while(fault)
        else:
            await self._hit(self.services[fault.target], fault)

    async def _disturb(self, link: Link, fault: Fault) -> None:
        if fault.kind in (Kind.CUT, Kind.REFUSE):
            link.refuses = fault.kind is Kind.REFUSE
            link.cut()
        elif fault.kind is Kind.DELAY:
            link.delays = True
        elif fault.kind is Kind.STALL:
            link.passes.clear()
        else:
            link.cuts_answers = True
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            link.heal()

    async def _hit(self, service: Service, fault: Fault) -> None:
        async with service.busy:
            if fault.kind in (Kind.KILL, Kind.RESTART):
                await self._end_service(service, asked=fault.kind is Kind.RESTART)
                await asyncio.sleep(fault.seconds)
                await service.come_back()
                return
            try:
                if fault.kind is Kind.PAUSE:
                    service.pause()
                else:
                    service.fill_disk(full=True)
                await asyncio.sleep(fault.seconds)
            finally:
                service.resume()
                service.fill_disk(full=False)

    async def _end_service(self, service: Service, *, asked: bool) -> None:
        if not asked:
            await service.kill()
        elif (status := await service.stop()) not in STOPPED_STATUSES:
            raise RuntimeError(f"{service.name} was asked to stop and ended with status {status}")

    async def _end_for_a_while(self, fault: Fault) -> None:
        assert self.cluster is not None
        async with self.database_is_down:
            await asyncio.to_thread(self.cluster.kill if fault.kind is Kind.CRASH else self.cluster.stop)
            await asyncio.sleep(fault.seconds)
            await asyncio.to_thread(self.cluster.start)

    def _add(self, name: str, command: list[str]) -> Service:
        self.services[name] = Service(name, command, self.logs / f"{name}.log")
        return self.services[name]

    def _service(self, name: str, kind: str, *arguments: object) -> Service:
        listen = ("--listen", self.address(name), "--exit-with-stdin")
        return self._add(name, python(f"{kind}_svc", *listen, *arguments))

    async def _start_others(self) -> None:
        for service in self.services.values():
            if service.process is None:
                await service.start()

    def _lead(self, ledger_of: Mapping[int, str]) -> None:
        """Let every link to a ledger lead to the one of its number."""
        for number, name in ledger_of.items():
            self.links[f"adapter-{number}>ledger"].target = self.address(name)
            self.links[f"verifier-{number}>ledger"].target = self.address(name)
        self.links["collectors>ledger"].target = self.address(ledger_of[1])

    async def _begin_database(self) -> Mapping[str, str]:
        programs = find_programs()
        assert programs is not None
        # The server runs as another user where this is root: it must be able to go there.
        self._cluster_folder = Path(tempfile.mkdtemp(prefix="cs-soak-"))
        self.cluster = Cluster(programs, self._cluster_folder, guard())
        await asyncio.to_thread(self.cluster.create)
        await asyncio.to_thread(self.cluster.start)
        beside = await asyncio.to_thread(self.cluster.new_database)
        link = self.links[DATABASE_LINK]
        link.target = f"unix:{self._cluster_folder}/.s.PGSQL.5432"
        host, _, port = link.address.rpartition(":")
        through = self.cluster.dsn(dbname="d1", host=host, port=port, sslmode="disable")
        return {"beside it": beside, "through the link": through}

    def _end_database(self) -> None:
        if self.cluster is None or self._cluster_folder is None:
            return
        self.cluster.stop(signal.SIGQUIT)
        # Kept with the other books: whoever asks what broke may start it again.
        with suppress(OSError):
            shutil.move(self._cluster_folder, self.books / "postgres")
            shutil.copy(self.books / "postgres" / "log", self.logs / "database.log")
        self.cluster = None
