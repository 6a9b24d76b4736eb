"""The three services as the study client reaches them: one channel each, every call with a deadline."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from countersign.adapter.v1 import adapter_pb2, adapter_pb2_grpc
from countersign.kit.address import TLS_PREFIX, BadAddress
from countersign.kit.channel import call, open_channel
from countersign.kit.identity import ANONYMOUS, Identity
from countersign.kit.rpc_errors import ServiceError
from countersign.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from countersign.study.errors import BadInput, NobodyThere, NotThere, ServiceFailed, ServiceRefused, StudyError
from countersign.verifier.v1 import verifier_pb2, verifier_pb2_grpc

CALL_SECONDS = 30.0
"""The deadline of an ordinary call."""

VERIFY_SECONDS = 120.0
"""The deadline of a verification, which reads an episode's receipts."""

VERIFY_JOURNAL_SECONDS = 600.0
"""The deadline of a journal's verification, which reads all of an account."""

GREETING_SECONDS = 5.0
"""How long a service may take to say that it is there."""

FULL_NAMES = {
    "ledger": ledger_pb2.DESCRIPTOR.services_by_name["LedgerService"].full_name,
    "adapter": adapter_pb2.DESCRIPTOR.services_by_name["AdapterService"].full_name,
    "verifier": verifier_pb2.DESCRIPTOR.services_by_name["VerifierService"].full_name,
}

Q = TypeVar("Q")
A = TypeVar("A")

FAILURES = frozenset({"INTERNAL", "SERVICE_UNAVAILABLE", "STORE_UNAVAILABLE"})
"""Reasons of a service's own fault: the same call may succeed later."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the services listen; further adapters and verifiers share the work of the first."""

    ledger: str
    adapter: str
    verifier: str
    more_adapters: tuple[str, ...] = ()
    more_verifiers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Services:
    """Stubs of the three services, and of further adapters and verifiers."""

    ledger: ledger_pb2_grpc.LedgerServiceStub
    adapter: adapter_pb2_grpc.AdapterServiceStub
    verifier: verifier_pb2_grpc.VerifierServiceStub
    more_adapters: tuple[adapter_pb2_grpc.AdapterServiceStub, ...] = ()
    more_verifiers: tuple[verifier_pb2_grpc.VerifierServiceStub, ...] = ()


_shown: ContextVar[Identity] = ContextVar("countersign_identity", default=ANONYMOUS)


def show(identity: Identity) -> None:
    """Show `identity` on every channel that is opened in this context from now on."""
    _shown.set(identity)


@asynccontextmanager
async def open_services(addresses: Addresses, note: Callable[[str], None] = lambda _: None) -> AsyncIterator[Services]:
    """Channels to all of them for as long as the context lasts. Raises as `channel_to` does.

    Of several adapters, or verifiers, one that nobody answers for is left out where another answers: `note` is told.
    """
    async with AsyncExitStack() as stack:

        async def reach(service: str, *addresses: str) -> list[grpc.aio.Channel]:
            channels, missing = [], []
            for address in addresses:
                try:
                    channels.append(await stack.enter_async_context(channel_to(service, address)))
                except NobodyThere as error:
                    missing.append(error)
            if not channels:
                raise missing[0]
            for trouble in missing:
                note(f"{trouble.message}; the others begin without it")
            return channels

        (ledger,) = await reach("ledger", addresses.ledger)
        adapters = await reach("adapter", addresses.adapter, *addresses.more_adapters)
        verifiers = await reach("verifier", addresses.verifier, *addresses.more_verifiers)
        adapter, *more_adapters = map(adapter_pb2_grpc.AdapterServiceStub, adapters)
        verifier, *more_verifiers = map(verifier_pb2_grpc.VerifierServiceStub, verifiers)
        yield Services(
            ledger_pb2_grpc.LedgerServiceStub(ledger), adapter, verifier, tuple(more_adapters), tuple(more_verifiers)
        )


@asynccontextmanager
async def channel_to(service: str, address: str) -> AsyncIterator[grpc.aio.Channel]:
    """One channel for as long as the context lasts.

    Raises BadInput for a malformed address, NobodyThere where none answers at it, NotThere where another service does.
    """
    try:
        channel = open_channel(address, _shown.get())
    except BadAddress as error:
        raise BadInput(f"the {service}: {error.message}") from None
    async with channel:
        await _greet(service, address, channel)
        yield channel


async def _greet(service: str, address: str, channel: grpc.aio.Channel) -> None:
    """Ask for the service's health by its name, so that neither silence nor another service is taken for it."""
    request = health_pb2.HealthCheckRequest(service=FULL_NAMES[service])
    try:
        await call(health_pb2_grpc.HealthStub(channel).Check, request, GREETING_SECONDS)
    except ServiceError as error:
        if error.status is grpc.StatusCode.NOT_FOUND:
            raise NotThere(f"what listens at {address} is not the {service}: check the addresses") from None
        trust = ", or name its authority with --ca" if address.startswith(TLS_PREFIX) else ""
        raise NobodyThere(
            f"the {service} cannot be reached at {address}: check the address, or start it{trust}"
        ) from None


async def ask(
    service: str, method: "grpc.aio.UnaryUnaryMultiCallable[Q, A]", request: Q, seconds: float = CALL_SECONDS
) -> A:
    """Make one call to `service`. Raises ServiceFailed or ServiceRefused, whose line says what to do."""
    try:
        return await call(method, request, seconds)
    except ServiceError as error:
        raise service_trouble(service, error) from None


def is_failure(error: ServiceError) -> bool:
    """Whether the service or the way to it failed, rather than that it refused what was asked."""
    return not error.reason or error.reason in FAILURES


def service_trouble(service: str, error: ServiceError) -> StudyError:
    """The one line about what `service` answered instead of a result."""
    if error.is_unreachable:
        return ServiceFailed(f"the {service} cannot be reached ({error.status.name}): start it, then run this again")
    if error.status is grpc.StatusCode.UNIMPLEMENTED and not error.reason:
        return ServiceRefused(f"the {service} is older than this client and does not know this call: upgrade it")
    if is_failure(error):
        return ServiceFailed(f"the {service} failed ({error.reason or error.status.name}): its log tells why")
    details = ", ".join(f"{key}={value}" for key, value in sorted(error.metadata.items()))
    suffix = f" ({details})" if details else ""
    return ServiceRefused(f"the {service} refused: {error.reason}: {error.message}{suffix}")
