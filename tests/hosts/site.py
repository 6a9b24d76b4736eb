"""A whole site on several hosts: database and standby, ledger, two adapters, verifier, provider, relay, collector.

Every service is reached by mutual TLS and knows its callers by tokens; the database by verified TLS and a password.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from countersign.kit.access import Role
from countersign.kit.access_file import mint_token
from tests.hosts.databases import Database, dsn_file
from tests.hosts.network import Host, Network, Running, network
from tools.make_ca import Authority

SERVICE_PORT, PROVIDER_PORT, RELAY_PORT, AGENT_PORT = 7301, 8000, 8080, 9000
POLL_SECONDS = 0.01
MINTED_AT = datetime(2026, 5, 1, tzinfo=UTC)
NO_FAULT = {"delay_millis": 0, "cut_after": None}

ROLES: dict[str, tuple[Role, ...]] = {
    "adapter-1": (Role.ADAPTER,),
    "adapter-2": (Role.ADAPTER,),
    "verifier": (Role.AUDITOR,),
    "collector": (Role.OPERATOR, Role.COLLECTOR),
    "inspector": (Role.AUDITOR,),
}

# A message of its own for each episode: no two slots have the same request. The agent refuses reasoning that came back
# with another byte.
PLAN = """
name = "{name}"
account = {{ id = "{name}", currency = "USD", grant = "{cap}" }}
study = {{ cap = "{cap}", call_ceiling = "0.05", max_in_flight = {in_flight}, stop = "never", readiness = "waived" }}
arms = [{{ name = "neutral", wording = "neutral" }}]
messages = [{messages}]

[[templates]]
name = "queue"
environment = "queue"
worlds = [{{ name = "both", need_a = true, need_b = true }}]

[[routes]]
name = "agent"
base_url = "http://{provider}/v1"
model = "scripted/alternative"
price = {{ input_per_million = "0.50", output_per_million = "1.50" }}
output_cap = 256
input_limit_bytes = 60000
connect_timeout_millis = 5000
first_byte_timeout_millis = 10000
total_timeout_millis = 15000
"""
CALLS_PER_EPISODE = 3
CAP_NANOS = 10**9


@dataclass
class Site:
    """Everything that runs, and where."""

    folder: Path
    net: Network
    programs: Path
    authority: Authority = field(default_factory=Authority)
    tokens: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        names = ("database-1", "database-2", "ledger", "adapter-1", "adapter-2", "verifier", "provider", "relay")
        self.hosts = {name: self.net.add(name) for name in (*names, "collector")}
        self.keys = self.folder / "keys"
        self.keys.mkdir()
        self.ca = self.keys / "ca.pem"
        self.ca.write_bytes(self.authority.certificate)
        self.access = self.keys / "access.toml"
        for name, roles in ROLES.items():
            token = mint_token(self.access, name, roles, MINTED_AT)
            self.tokens.append(token)
            file = self.keys / f"{name}.token"
            file.touch(mode=0o600)
            file.write_text(token)
            self.authority.client(name).write(self.keys, f"{name}-client")
        self.primary = self._database("database-1")
        self.standby = self._database("database-2")
        dsn = dsn_file(self.keys / "ledger.dsn", self.ca, self.primary, self.standby)
        self.ledger = self._service("ledger", "ledger", "--postgres-file", dsn, "--sweep-seconds", "0.2")
        ledger = ["--ledger", self.address("ledger"), "--ledger-ca", self.ca]
        self.adapters = [
            self._service(name, "adapter", *ledger, *self._shown(name, "--ledger-"))
            for name in ("adapter-1", "adapter-2")
        ]
        self.verifier = self._service("verifier", "verifier", *ledger, *self._shown("verifier", "--ledger-"))
        self.wire_log = self.folder / "wire.jsonl"
        self.mode = self.folder / "mode.json"
        self.relay_mode()
        plain = self.folder / "plain.json"
        plain.write_text(json.dumps(NO_FAULT))
        agent = ("countersign.agents.scripted", "--listen", f"127.0.0.1:{AGENT_PORT}", "--log", self.wire_log)
        front = (f"{self['provider'].address}:{PROVIDER_PORT}", f"127.0.0.1:{AGENT_PORT}", plain)
        relay = (f"{self['relay'].address}:{RELAY_PORT}", front[0], self.mode)
        self.provider = self._python("provider", *agent)
        self.provider_front = self._python("provider", "tests.hosts.relay", *front)
        self.relay = self._python("relay", "tests.hosts.relay", *relay)

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def address(self, name: str) -> str:
        """Where the service on this host is reached."""
        return f"tls:{self[name].address}:{SERVICE_PORT}"

    @property
    def services(self) -> list[Running]:
        """In the order of their start."""
        return [self.provider, self.provider_front, self.relay, self.ledger, *self.adapters, self.verifier]

    def start(self) -> None:
        """Start all of it."""
        self.primary.create()
        self.primary.start()
        self.follow()
        for service in self.services:
            service.start()

    def follow(self) -> None:
        """Make the other database a synchronous standby of the primary."""
        self.standby.copy(self.primary)
        self.standby.start()
        self.primary.synchronise(self.standby)

    def fail_over(self) -> None:
        """Promote the standby; who was primary must be fenced before, and is the standby to be from then on."""
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def repair(self) -> None:
        """End every fault, and start what does not run."""
        self.net.heal()
        self.relay_mode()
        if self.primary.server.process is None:
            self.fail_over()
        if self.standby.server.process is None:
            self.follow()
        for service in self.services:
            if service.process is None:
                service.start()
            service.resume()

    def stop(self) -> None:
        """End all of it, however it stands."""
        for service in reversed(self.services):
            service.kill()
        for database in (self.primary, self.standby):
            database.stop()

    def relay_mode(self, **changes: Any) -> None:
        """How the relay treats connections from now on."""
        new = self.mode.with_suffix(".new")
        new.write_text(json.dumps({**NO_FAULT, **changes}))
        new.replace(self.mode)

    def wire(self) -> list[dict[str, Any]]:
        """Every request that the provider received, in order; a line that is being written does not count."""
        text = self.wire_log.read_text() if self.wire_log.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def countersign(self, *arguments: object) -> list[str]:
        """The command line on the collector's host, with what it shows."""
        shown = self._shown("collector", "--")
        return self._module("collector", "countersign.cli", *shown, "--ca", self.ca, *arguments)

    def _shown(self, name: str, prefix: str) -> list[object]:
        pair = (self.keys / f"{name}-client.pem", self.keys / f"{name}-client.key")
        token = (f"{prefix}token-file", self.keys / f"{name}.token")
        return [*token, f"{prefix}certificate", pair[0], f"{prefix}key", pair[1]]

    def inspect(self, study_id: str, account_id: str) -> dict[str, Any]:
        """What the ledger says, asked by an auditor from the collector's host."""
        shown = ("inspector.token", "ca.pem", "inspector-client.pem", "inspector-client.key")
        keys = (self.keys / name for name in shown)
        command = self._module(
            "collector", "tests.hosts.inspector", self.address("ledger"), study_id, account_id, *keys
        )
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stderr
        answer: dict[str, Any] = json.loads(ran.stdout)
        return answer

    def logs(self) -> str:
        """What every service said."""
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def _database(self, name: str) -> Database:
        return Database(self[name], self.programs, self.folder / name, self.authority)

    def _service(self, host: str, service: str, *arguments: object) -> Running:
        certificate, key = self.authority.server([self[host].address, "localhost"]).write(self.keys, host)
        tls = ("--tls-certificate", certificate, "--tls-key", key, "--tls-client-ca", self.ca)
        listen = ("--listen", f"{self[host].address}:{SERVICE_PORT}", "--access-file", self.access, "--exit-with-stdin")
        return self._python(host, f"{service}_svc", *listen, *tls, *arguments)

    def _python(self, host: str, module: str, *arguments: object) -> Running:
        log = self.folder / f"{host}-{module}.log"
        return Running(f"{module} on {host}", self._module(host, module, *arguments), log, announces=True)

    def _module(self, host: str, module: str, *arguments: object) -> list[str]:
        return self[host].command(sys.executable, "-m", module, *arguments)


@dataclass
class Study:
    """One study at a site, in a folder of its own; nothing else is collected meanwhile.

    `in_flight` calls may be under way by the ledger's word, `workers` episodes run at once.
    """

    site: Site
    folder: Path
    episodes: int
    in_flight: int
    workers: int
    statuses: list[int] = field(default_factory=list)
    collector: "subprocess.Popen[bytes] | None" = None

    def __post_init__(self) -> None:
        self.folder.mkdir()
        messages = ", ".join(f'{{ name = "m{n}", body = "Message {n}." }}' for n in range(self.episodes))
        cap = f"{CAP_NANOS // 10**9}.{CAP_NANOS % 10**9:09}"
        provider = f"{self.site['relay'].address}:{RELAY_PORT}"
        plan = PLAN.format(name=self.name, cap=cap, in_flight=self.in_flight, messages=messages, provider=provider)
        self.plan.write_text(plan)
        self.wire_before = len(self.site.wire())

    @property
    def name(self) -> str:
        """The study's name, and its account's."""
        return self.folder.name

    @property
    def plan(self) -> Path:
        """The plan's file."""
        return self.folder / "plan.toml"

    @property
    def out(self) -> Path:
        """The collector's own folder."""
        return self.folder / "out"

    def start(self, *adapters: str) -> None:
        """Start a collector that knows these adapters; both where none is named."""
        names = adapters or ("adapter-1", "adapter-2")
        where: list[object] = ["--ledger", self.site.address("ledger"), "--verifier", self.site.address("verifier")]
        for name in names:
            where += ["--adapter", self.site.address(name)]
        command = self.site.countersign(
            "collect", self.plan, "--out", self.out, *where, "--json", "--max-in-flight", self.workers
        )
        with (self.folder / "report.jsonl").open("wb") as out, (self.folder / "collect.log").open("ab") as log:
            self.collector = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=log)

    def wait(self, seconds: float = 40) -> int:
        """The collector's exit status once it has ended by itself."""
        assert self.collector is not None
        self.statuses.append(self.collector.wait(seconds))
        return self.statuses[-1]

    def collect(self, *adapters: str) -> int:
        """Run a collector to its end; its exit status."""
        self.start(*adapters)
        return self.wait()

    def end(self) -> None:
        """Leave no collector behind."""
        if self.collector is not None and self.collector.poll() is None:
            self.collector.send_signal(signal.SIGKILL)
            self.collector.wait(20)

    def wire(self) -> list[dict[str, Any]]:
        """The requests of this study that the provider received."""
        return self.site.wire()[self.wire_before :]

    def await_requests(self, count: int) -> None:
        """Poll until the provider has received so many requests."""
        self.until(lambda: len(self.wire()) >= count)

    def until(self, reached: Callable[[], bool], seconds: float = 30) -> None:
        """Poll until `reached`, while the collector runs."""
        end = time.monotonic() + seconds
        while not reached():
            assert self.collector is not None
            assert self.collector.poll() is None, f"the collection ended too early: {self.said()[-2000:]}"
            assert time.monotonic() < end, f"not in time: {self.said()[-2000:]}"
            time.sleep(POLL_SECONDS)

    def said(self) -> str:
        """What the collectors said."""
        return (self.folder / "collect.log").read_text()

    def report(self) -> dict[str, Any]:
        """The last collection's report."""
        lines = (self.folder / "report.jsonl").read_text().splitlines()
        assert lines, self.said()
        last: dict[str, Any] = json.loads(lines[-1])
        assert last["event"] == "report", (last, self.said())
        return last

    def records(self) -> list[dict[str, Any]]:
        """Every record."""
        return [json.loads(path.read_text()) for path in sorted((self.out / "records").glob("*.json"))]


@contextmanager
def running_site(folder: Path, programs: Path) -> Iterator[Site]:
    """A started site, of which nothing is left afterwards."""
    with network() as net:
        site = Site(folder, net, programs)
        try:
            site.start()
            yield site
        finally:
            site.stop()
