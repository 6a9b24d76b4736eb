"""What a request says of itself: the fixed header fields, and the key where the format wants it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from adapter_svc.admission import WireFormat

_NAME = re.compile(r"[A-Za-z0-9-]+")
_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_OF_THE_TRANSPORT = frozenset(
    {"accept-encoding", "connection", "content-length", "content-type", "cookie", "expect", "host", "keep-alive"}
    | {"proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "user-agent"}
)
"""Fields that say how a request is framed, or who sends it: nobody else sets them."""


@dataclass(frozen=True, slots=True)
class Authentication:
    """The header field that carries the key, its scheme (empty: the key alone), and fixed further fields.

    Raises ValueError for a field that is no header field, is named twice, or is the transport's own.
    """

    header: str = "Authorization"
    scheme: str = "Bearer"
    further: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        names = [self.header.lower(), *(name.lower() for name, _ in self.further)]
        values = [value for _, value in self.further] + ([self.scheme] if self.scheme else [])
        if not all(map(_NAME.fullmatch, names)) or not all(map(_VALUE.fullmatch, values)):
            raise ValueError("header fields are printable ASCII")
        if len(set(names)) < len(names) or not _OF_THE_TRANSPORT.isdisjoint(names):
            raise ValueError("a header field is named once and is not the transport's own")

    def fields(self, key: str | None) -> dict[str, str]:
        """The header fields for `key`; without one, the further fields alone."""
        carried = {} if key is None else {self.header: f"{self.scheme} {key}".lstrip()}
        return {**carried, **dict(self.further)}


BEARER = Authentication()

AUTHENTICATION: Mapping[WireFormat, Authentication] = MappingProxyType(
    {
        WireFormat.CHAT_COMPLETIONS: BEARER,
        WireFormat.MESSAGES: Authentication("x-api-key", "", (("anthropic-version", "2023-06-01"),)),
        WireFormat.RESPONSES: BEARER,
        WireFormat.GENERATE_CONTENT: Authentication("x-goog-api-key", ""),
    }
)
"""Where each wire format wants the key."""


def request_fields(host: str, body_bytes: int, authenticated: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """All header fields of one request. `authenticated` may say which answers it accepts; nothing else is replaced."""
    fields = {
        "Host": host,
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Connection": "close",
        "Content-Length": str(body_bytes),
        "Content-Type": "application/json",
        "User-Agent": "countersign",
    }
    if any(name.lower() == "accept" for name in authenticated):
        del fields["Accept"]
    return [(name.encode("ascii"), value.encode("ascii")) for name, value in {**fields, **authenticated}.items()]
