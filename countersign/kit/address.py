"""Addresses that a service listens on: loopback TCP or a Unix socket."""

import ipaddress
import socket
import stat
from pathlib import Path

import grpc

from countersign.kit.errors import CountersignError

UNIX_PREFIX = "unix:"
MAX_PORT_DIGITS = 5


class BadAddress(CountersignError):
    """An address that cannot be listened on or connected to."""

    reason = "INVALID_ARGUMENT"
    status = grpc.StatusCode.INVALID_ARGUMENT


def check_listen_address(address: str) -> None:
    """Check that `address` is `HOST:PORT` on loopback or `unix:PATH`, and that nobody listens on it.

    Raises BadAddress with a one-line message otherwise. Plaintext beyond loopback is refused
    (design/ledger.md, Access).
    """
    if address.startswith(UNIX_PREFIX):
        _check_socket_path(Path(address.removeprefix(UNIX_PREFIX)))
        return
    host, port = _split(address)
    if not _is_loopback(host):
        raise BadAddress(f"{address} is not on loopback: listen on 127.0.0.1:PORT, [::1]:PORT or unix:PATH")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            raise BadAddress(f"{address} is in use or not allowed: choose another port, or port 0 for any") from None


def check_target(address: str) -> None:
    """Check the form of an address to connect to; raises BadAddress."""
    if address.startswith(UNIX_PREFIX):
        if not address.removeprefix(UNIX_PREFIX):
            raise BadAddress("the Unix socket's path is missing: write unix:PATH")
        return
    _split(address)


def _split(address: str) -> tuple[str, int]:
    host, separator, port = address.rpartition(":")
    is_number = port.isascii() and port.isdigit() and len(port) <= MAX_PORT_DIGITS
    if not separator or not host or not is_number or int(port) > 65535:
        raise BadAddress(f"{address!r} is not an address: write HOST:PORT or unix:PATH")
    return host.strip("[]"), int(port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_socket_path(path: Path) -> None:
    if not path.parent.is_dir():
        raise BadAddress(f"the folder of the Unix socket {path} does not exist: make it first")
    if not path.exists():
        return
    if not stat.S_ISSOCK(path.stat().st_mode):
        raise BadAddress(f"{path} exists and is no socket: choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return
    raise BadAddress(f"a server already listens on {path}: choose another path")
