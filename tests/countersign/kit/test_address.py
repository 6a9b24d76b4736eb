"""Which addresses may be listened on and connected to."""

import socket
from pathlib import Path

import pytest

from countersign.kit.address import BadAddress, check_listen_address, check_target


@pytest.mark.parametrize("address", ["127.0.0.1:0", "127.8.9.10:0", "localhost:0"])
def test_loopback_may_be_listened_on(address: str) -> None:
    check_listen_address(address)


@pytest.mark.parametrize(
    "address", ["0.0.0.0:0", "[::]:0", "10.0.0.1:0", "example.test:0", "[2001:db8::1]:0", "127.0.0.1.example.test:0"]
)
def test_what_others_can_reach_may_not(address: str) -> None:
    with pytest.raises(BadAddress, match="not on loopback"):
        check_listen_address(address)


@pytest.mark.parametrize(
    "address", ["", "nonsense", ":1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:-1", "127.0.0.1:65536", "127.0.0.1:٣"]
)
@pytest.mark.parametrize("check", [check_listen_address, check_target])
def test_what_has_not_the_form_is_no_address(check: object, address: str) -> None:
    assert callable(check)
    with pytest.raises(BadAddress, match="is not an address"):
        check(address)


def test_a_port_of_thousands_of_digits_is_no_address_either() -> None:
    with pytest.raises(BadAddress):
        check_target("127.0.0.1:" + "9" * 5_000)


@pytest.mark.parametrize("address", ["tls:example.test:443", "tls:10.0.0.1:1", "[::1]:65535", "unix:relative.sock"])
def test_anything_of_the_form_may_be_connected_to(address: str) -> None:
    check_target(address)


def test_a_unix_target_names_its_path() -> None:
    with pytest.raises(BadAddress, match="path is missing"):
        check_target("unix:")


def test_a_busy_port_is_refused_and_a_free_one_is_not_kept() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(BadAddress, match="in use"):
            check_listen_address(address)
    check_listen_address(address)
    check_listen_address(address)


def test_a_socket_that_a_dead_server_left_may_be_taken(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        with pytest.raises(BadAddress, match="already listens"):
            check_listen_address(f"unix:{path}")
    check_listen_address(f"unix:{path}")


@pytest.mark.parametrize(
    ("name", "says"), [("file", "is no socket"), ("none/s", "does not exist"), (".", "is no socket")]
)
def test_a_path_that_is_something_else_is_refused(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(BadAddress, match=says):
        check_listen_address(f"unix:{tmp_path}/{name}")
    assert (tmp_path / "file").read_text() == "kept"
