"""Hosts of the tests' own: network namespaces with an address each, on one bridge, and faults between them.

Each namespace lives exactly as long as a process of ours that holds it, and that process dies with the tests: nothing
stays configured, whatever ends them. The machine's own network is not touched.
"""

import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SUBNET = "10.77.0"
NEEDED = ("ip", "nft", "nsenter", "setpriv", "ss", "unshare")
"""iproute2, nftables and util-linux."""

COMMAND_SECONDS = 20
TABLE = "faults"
_CHAINS = f"""
table inet {TABLE} {{
    chain input {{ type filter hook input priority 0; }}
    chain output {{ type filter hook output priority 0; }}
}}
"""


def why_not() -> str | None:
    """Why no network can be made here; None where it can."""
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)} not installed; on Debian: apt-get install iproute2 nftables util-linux"
    tried = subprocess.run(["unshare", "--net", "ip", "link", "add", "br0", "type", "bridge"], capture_output=True)
    return None if tried.returncode == 0 else "no network namespace with a bridge can be made here: it needs root"


@dataclass(frozen=True, slots=True)
class Host:
    """One host: a name, an address, and the process that holds its network."""

    name: str
    address: str
    holder: "subprocess.Popen[bytes]"

    def command(self, *arguments: object, user: str | None = None) -> list[str]:
        """The arguments that run a program on this host, as `user` where named; it dies with whoever starts it."""
        become = ["--reuid", user, "--regid", user, "--clear-groups", "--reset-env"] if user is not None else []
        inside = ["nsenter", "--target", str(self.holder.pid), "--net"]
        return [*inside, "setpriv", *become, "--pdeathsig", "KILL", *map(str, arguments)]

    def run(self, *arguments: object, given: str | None = None, user: str | None = None) -> str:
        """Run a short program on this host, as `user` where named; its output. It must succeed."""
        command = self.command(*arguments, user=user)
        ran = subprocess.run(command, input=given, capture_output=True, text=True, timeout=COMMAND_SECONDS)
        assert ran.returncode == 0, f"{self.name}: {arguments}: {ran.stderr}"
        return ran.stdout

    def rule(self, chain: str, *rule: object) -> None:
        """Add a packet rule."""
        self.run("nft", "add", "rule", "inet", TABLE, chain, *rule)


class Network:
    """Hosts on one bridge."""

    def __init__(self) -> None:
        self._switch = Host("switch", "", _hold())
        self._switch.run("ip", "link", "add", "br0", "type", "bridge")
        self._switch.run("ip", "link", "set", "br0", "up")
        self.hosts: list[Host] = []

    def add(self, name: str) -> Host:
        """A new host with a cable to the bridge."""
        number = len(self.hosts) + 11
        host = Host(name, f"{SUBNET}.{number}", _hold())
        self.hosts.append(host)
        port = f"p{number}"
        cable = ("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", host.holder.pid)
        self._switch.run(*cable)
        self._switch.run("ip", "link", "set", port, "master", "br0", "up")
        up = f"address add {host.address}/24 dev eth0\nlink set lo up\nlink set eth0 up\n"
        host.run("ip", "-batch", "-", given=up)
        host.run("nft", "-f", "-", given=_CHAINS)
        return host

    def heal(self) -> None:
        """End every fault; connections that are still open go on when their next packet is sent again."""
        for host in self.hosts:
            host.run("nft", "flush", "table", "inet", TABLE)
            host.run("ip", "link", "set", "eth0", "up")

    def close(self) -> None:
        """Remove all of it."""
        for host in (*self.hosts, self._switch):
            host.holder.kill()
            host.holder.wait(COMMAND_SECONDS)


def cut(one: Host, other: Host) -> None:
    """Drop every packet between two hosts, without a word to either."""
    one.rule("input", "ip", "saddr", other.address, "drop")
    one.rule("output", "ip", "daddr", other.address, "drop")


def refuse(one: Host, other: Host) -> None:
    """Reset every connection between two hosts at its next packet, and any new one."""
    reset = ("meta", "l4proto", "tcp", "reject", "with", "tcp", "reset")
    # A reset for this host's own packets comes back over its loopback, and must get in.
    one.rule("input", "iifname", "eth0", "ip", "saddr", other.address, *reset)
    one.rule("output", "ip", "daddr", other.address, *reset)


def lose(host: Host, percent: int) -> None:
    """Drop so many of a hundred packets that reach the host, at random."""
    host.rule("input", "iifname", "eth0", "numgen", "random", "mod", 100, "<", percent, "drop")


def unplug(host: Host) -> None:
    """Pull the host's cable."""
    host.run("ip", "link", "set", "eth0", "down")


def give_up_on(one: Host, other: Host) -> None:
    """Let `one` give up its connections to `other` now, as keepalive would within 80 s of the other's silence."""
    one.run("ss", "--kill", "dst", other.address)


@contextmanager
def network() -> Iterator[Network]:
    """A network that is gone afterwards."""
    made = Network()
    try:
        yield made
    finally:
        made.close()


def _hold() -> "subprocess.Popen[bytes]":
    """A process with a network of its own, that ends with this one."""
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", "echo; exec sleep infinity"]
    holder = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with holder.stdout:
        assert holder.stdout.readline() == b"\n", "no network namespace"
    return holder


class Running:
    """A long-running program on a host, with its log; `kill`, `pause` and `resume` are signals to it alone."""

    def __init__(self, name: str, command: Sequence[str], log: Path, *, announces: bool) -> None:
        self.name, self._command, self.log, self._announces = name, list(command), log, announces
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait for the line by which it says that it listens."""
        with self.log.open("ab") as log:
            out = subprocess.PIPE if self._announces else log
            self.process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=out, stderr=log)
        if self.process.stdout is not None:
            line = self.process.stdout.readline()
            assert line, f"{self.name} did not start: {self.log.read_text()[-2000:]}"

    def pause(self) -> None:
        """Freeze it where it is."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, whatever state it is in."""
        if self.process is not None:
            self.process.kill()
            self._reap()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end; its exit status."""
        if self.process is None:
            return 0
        self._signal(signal.SIGCONT)
        self._signal(how)
        return self._reap()

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def _reap(self) -> int:
        assert self.process is not None
        status = self.process.wait(COMMAND_SECONDS)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.process = None
        return status
