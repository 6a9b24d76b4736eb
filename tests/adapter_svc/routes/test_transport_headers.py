"""What a request says of itself, byte for byte, and where each wire format gets its key."""

import pytest

from adapter_svc.admission import WireFormat
from adapter_svc.routes import HttpProvider
from adapter_svc.routes.transport_headers import AUTHENTICATION, BEARER, Authentication
from tests.adapter_svc.routes.helpers import a_route
from tests.adapter_svc.routes.raw_server import answering, plain_answer, serving

KEY = "sk-1"


async def head_sent(authentication: Authentication | None = None, *, keyed: bool = True) -> list[str]:
    """The request's line and fields, but for the host."""
    provider = (
        HttpProvider({"ROUTE_KEY": KEY})
        if authentication is None
        else HttpProvider({"ROUTE_KEY": KEY}, authentication={WireFormat.CHAT_COMPLETIONS: authentication})
    )
    async with serving(answering(plain_answer(b"{}"))) as server:
        route = a_route(base_url=server.base_url, api_key_variable="ROUTE_KEY" if keyed else "")
        await provider.send(route, b"{}")
        line, host, *fields = server.heads[0].decode("ascii").removesuffix("\r\n\r\n").split("\r\n")
        assert host == f"Host: 127.0.0.1:{server.port}"
        return [line, *fields]


OWN = [
    "POST /v1/chat/completions HTTP/1.1",
    "Accept: application/json",
    "Accept-Encoding: identity",
    "Connection: close",
    "Content-Length: 2",
    "Content-Type: application/json",
    "User-Agent: countersign",
]


@pytest.mark.parametrize(
    ("authentication", "fields"),
    [
        (None, ["Authorization: Bearer sk-1"]),
        (BEARER, ["Authorization: Bearer sk-1"]),
        (Authentication("Authorization", ""), ["Authorization: sk-1"]),
        (AUTHENTICATION[WireFormat.MESSAGES], ["x-api-key: sk-1", "anthropic-version: 2023-06-01"]),
        (AUTHENTICATION[WireFormat.RESPONSES], ["Authorization: Bearer sk-1"]),
        (AUTHENTICATION[WireFormat.GENERATE_CONTENT], ["x-goog-api-key: sk-1"]),
    ],
)
async def test_the_key_is_where_the_format_wants_it(authentication: Authentication | None, fields: list[str]) -> None:
    assert await head_sent(authentication) == OWN + fields


async def test_a_route_without_a_key_sends_the_further_fields_alone() -> None:
    fields = await head_sent(AUTHENTICATION[WireFormat.MESSAGES], keyed=False)
    assert fields == [*OWN, "anthropic-version: 2023-06-01"]


async def test_what_is_accepted_may_be_said_otherwise() -> None:
    fields = await head_sent(Authentication(further=(("Accept", "text/event-stream"),)))
    assert [field for field in fields if field.startswith("Accept:")] == ["Accept: text/event-stream"]


def test_every_wire_format_has_its_authentication() -> None:
    assert set(AUTHENTICATION) == set(WireFormat)


@pytest.mark.parametrize(
    ("header", "scheme", "further"),
    [
        ("", "Bearer", ()),
        ("Auth orization", "Bearer", ()),
        ("Authorization", "Bearer\r\nX: y", ()),
        ("Authorization", "Bearer ", ()),
        ("Authorization", "Bearer", (("X", ""),)),
        ("Authorization", "Bearer", (("X", "a\nb"),)),
        ("Authorization", "Bearer", (("X", "schlüssel"),)),
        ("Authorization", "Bearer", (("authorization", "other"),)),
        ("Authorization", "Bearer", (("X", "1"), ("x", "2"))),
        ("Host", "", ()),
        ("Authorization", "Bearer", (("Transfer-Encoding", "chunked"),)),
        ("Authorization", "Bearer", (("Content-Length", "0"),)),
        ("Authorization", "Bearer", (("Connection", "keep-alive"),)),
        ("Authorization", "Bearer", (("Accept-Encoding", "br"),)),
        ("Authorization", "Bearer", (("Expect", "100-continue"),)),
    ],
)
def test_fields_that_are_no_fields_or_not_theirs_are_refused(
    header: str, scheme: str, further: tuple[tuple[str, str], ...]
) -> None:
    with pytest.raises(ValueError, match="header field"):
        Authentication(header, scheme, further)
