"""Addresses that a service listens on or that a client connects to: TCP, with or without TLS, or a Unix socket."""

import ipaddress
import socket
import stat
from pathlib import Path

import grpc

from countersign.kit.errors import CountersignError

UNIX_PREFIX = "unix:"
TLS_PREFIX = "tls:"
"""Before a HOST:PORT to connect to: the channel is encrypted and the server proves who it is."""
MAX_PORT_DIGITS = 5


class BadAddress(CountersignError):
    """An address that cannot be listened on or connected to."""

    reason = "INVALID_ARGUMENT"
    status = grpc.StatusCode.INVALID_ARGUMENT


def check_listen_address(address: str, *, protected: bool = False) -> None:
    """Check that `address` is `HOST:PORT` or `unix:PATH`, and that nobody listens on it.

    Beyond loopback only a service that is `protected` may listen (design/ledger.md, Access). Raises BadAddress with a
    one-line message otherwise.
    """
    if address.startswith(UNIX_PREFIX):
        _check_socket_path(Path(address.removeprefix(UNIX_PREFIX)))
        return
    host, port = split_address(address)
    if not protected and not is_loopback(host):
        raise BadAddress(
            f"{address} is not on loopback: listen on 127.0.0.1:PORT, [::1]:PORT or unix:PATH, "
            "or give both TLS files and an access file"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            raise BadAddress(f"{address} is in use or not allowed: choose another port, or port 0 for any") from None


def check_target(address: str, *, insecure: bool = False) -> None:
    """Check an address to connect to: `tls:HOST:PORT`, `unix:PATH`, or `HOST:PORT` on loopback.

    Only `insecure` allows plaintext beyond loopback. Raises BadAddress.
    """
    if address.startswith(UNIX_PREFIX):
        if not address.removeprefix(UNIX_PREFIX):
            raise BadAddress("the Unix socket's path is missing: write unix:PATH")
        return
    host, _ = split_address(address.removeprefix(TLS_PREFIX))
    if not (address.startswith(TLS_PREFIX) or insecure or is_loopback(host)):
        raise BadAddress(f"{address} is not on loopback and would be plaintext: write tls:{address}, or say --insecure")


def split_address(address: str) -> tuple[str, int]:
    """The host, without brackets, and the port of HOST:PORT. Raises BadAddress."""
    host, separator, port = address.rpartition(":")
    is_number = port.isascii() and port.isdigit() and len(port) <= MAX_PORT_DIGITS
    if not separator or not host or not is_number or int(port) > 65535:
        raise BadAddress(f"{address!r} is not an address: write HOST:PORT, tls:HOST:PORT or unix:PATH")
    host = host.strip("[]")
    if ":" in host and not _is_ip_address(host):
        raise BadAddress(f"{address!r} is not an address: {host!r} is no host")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine and nothing beyond it; of names only localhost is."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


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
