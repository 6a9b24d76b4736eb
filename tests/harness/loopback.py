"""Hold a network of loopback alone: under `unshare --net`, switch the interface on and wait for standard input."""

import fcntl
import socket
import struct
import sys

_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
READY = "ready"


def main() -> None:
    """Switch loopback on, say so, and stay until standard input ends."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        fcntl.ioctl(opened, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))
    print(READY, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
