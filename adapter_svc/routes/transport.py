"""One attempt at one request: no retry, no redirect, no proxy, no reused connection (design/admission.md, Routes).

What is reported in which case is in docs/transport.md. The request is written to a socket here and not by an HTTP
client: clients resend, redirect, keep connections and log.
"""

import asyncio
import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

import httpx

from adapter_svc.admission import MAX_BODY_BYTES, WireFormat
from adapter_svc.routes.errors import FailureCategory, MissingKey, RequestProgress, TransportFailure
from adapter_svc.routes.profile import Route, Timeouts
from adapter_svc.routes.transport_headers import AUTHENTICATION, Authentication, request_fields
from adapter_svc.routes.transport_http import MAX_HEAD_BYTES, Exchange, Outgoing, ProviderAnswer
from adapter_svc.routes.transport_wire import Address, AttemptRefused, Wire, connected, tls_context

__all__ = ["HttpProvider", "Provider", "ProviderAnswer", "check_key"]

_DEFAULT_PORTS = {"http": 80, "https": 443}
_WIRE_BYTES_PER_BODY_BYTE = 2
"""Room for the framing of small chunks; beyond it, an answer is all framing, or compresses to more than it is."""


class Provider(Protocol):
    """What the turn loop needs of a provider."""

    async def send(self, route: Route, request: bytes) -> ProviderAnswer:
        """Send `request` once. Raises TransportFailure where no complete answer came."""


def check_key(route: Route, environment: Mapping[str, str] | None = None) -> None:
    """Refuse a route whose key is not there, before anything is reserved. Raises MissingKey."""
    variable = route.api_key_variable
    if variable and _key(route, os.environ if environment is None else environment) is None:
        raise MissingKey(f"set {variable} to the route's key where the adapter runs", variable=variable)


def _key(route: Route, environment: Mapping[str, str]) -> str | None:
    key = environment.get(route.api_key_variable, "")
    return key if key and key.isascii() and key.isprintable() and " " not in key else None


class HttpProvider:
    """Sends over HTTP/1.1. `environment` holds the keys and is read at each sending; limits are in bytes.

    `authentication` says for each wire format how the key is shown. `authority_file` is a PEM file of the only
    authorities to trust, in place of the public ones.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        max_body_bytes: int = MAX_BODY_BYTES,
        authentication: Mapping[WireFormat, Authentication] = AUTHENTICATION,
        authority_file: str | None = None,
    ) -> None:
        self._environment = os.environ if environment is None else environment
        self._max_body_bytes = max_body_bytes
        self._authentication = authentication
        self._tls = tls_context(authority_file)

    async def send(self, route: Route, request: bytes) -> ProviderAnswer:
        """Post `request` to the route, once, over a connection of its own.

        Raises TransportFailure. A cancelled caller leaves no open connection.
        """
        url = httpx.URL(route.endpoint)
        outgoing = self._outgoing(route, url, request)
        attempt = _Attempt(route.timeouts, self._max_body_bytes)
        address = Address(
            url.raw_host.decode("ascii"),
            url.port or _DEFAULT_PORTS[url.scheme],
            route.timeouts.connect_millis / 1000,
        )
        outcome = await attempt.run(address, outgoing, self._tls if url.scheme == "https" else None)
        if isinstance(outcome, FailureCategory):
            # Raised outside of any handler: what went wrong below may show what was sent, and is forgotten.
            raise TransportFailure(attempt.progress, outcome)
        return outcome

    def _outgoing(self, route: Route, url: httpx.URL, body: bytes) -> Outgoing:
        key = _key(route, self._environment) if route.api_key_variable else None
        if route.api_key_variable and key is None:
            raise TransportFailure(RequestProgress.NOT_CONNECTED, FailureCategory.KEY_MISSING)
        authenticated = self._authentication[route.wire_format].fields(key)
        fields = request_fields(url.netloc.decode("ascii"), len(body), authenticated)
        return Outgoing(url.raw_path, fields, body)


class _Attempt:
    """One request under three deadlines, of which one is running at a time."""

    def __init__(self, timeouts: Timeouts, max_body_bytes: int) -> None:
        self.progress = RequestProgress.NOT_CONNECTED
        self._timeouts = timeouts
        self._max_body_bytes = max_body_bytes
        self._total_end = asyncio.get_running_loop().time() + timeouts.total_millis / 1000
        self._deadline = asyncio.timeout_at(None)
        self._when_due = FailureCategory.TOTAL_TIMEOUT

    async def run(
        self, address: Address, request: Outgoing, tls: ssl.SSLContext | None
    ) -> ProviderAnswer | FailureCategory:
        """The answer, or what ended the attempt; the connection is closed in any case."""
        try:
            async with self._deadline:
                self._reach(RequestProgress.NOT_CONNECTED)
                max_received_bytes = _WIRE_BYTES_PER_BODY_BYTE * self._max_body_bytes + 4 * MAX_HEAD_BYTES
                async with connected(address, tls, max_received_bytes) as wire:
                    return await self._exchange(wire, request)
        except AttemptRefused as refused:
            return refused.category
        except (OSError, UnicodeError):
            # The operating system knows a TimeoutError of its own: only ours is a deadline's.
            return self._when_due if self._deadline.expired() else self._broken()

    async def _exchange(self, wire: Wire, request: Outgoing) -> ProviderAnswer:
        exchange = Exchange(wire, self._max_body_bytes)
        self._reach(RequestProgress.SENDING)
        # A provider that stops reading may have said why: its answer is looked for even after a failed sending.
        with suppress(OSError):
            await exchange.send(request)
            self._reach(RequestProgress.SENT)
        sent = self.progress is RequestProgress.SENT
        status = await exchange.read_head()
        self._reach(RequestProgress.RESPONSE_STARTED)
        answer = await exchange.read_body()
        if not sent and 200 <= status < 300:
            # Whatever this answers, it is not the request that the ledger keeps.
            raise AttemptRefused(FailureCategory.CONNECTION_BROKEN)
        return answer

    def _reach(self, progress: RequestProgress) -> None:
        """Note how far the request got, and let that phase's deadline run, or the total's if it is sooner."""
        self.progress = progress
        phases = {
            RequestProgress.NOT_CONNECTED: (self._timeouts.connect_millis, FailureCategory.CONNECT_TIMEOUT),
            RequestProgress.SENT: (self._timeouts.first_byte_millis, FailureCategory.FIRST_BYTE_TIMEOUT),
        }
        due, self._when_due = self._total_end, FailureCategory.TOTAL_TIMEOUT
        if progress in phases:
            millis, category = phases[progress]
            phase_end = asyncio.get_running_loop().time() + millis / 1000
            if phase_end < due:
                due, self._when_due = phase_end, category
        self._deadline.reschedule(due)

    def _broken(self) -> FailureCategory:
        if self.progress is RequestProgress.NOT_CONNECTED:
            return FailureCategory.CONNECT_FAILED
        return FailureCategory.CONNECTION_BROKEN
