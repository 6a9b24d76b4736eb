"""Turns traces and metrics on for as long as a process serves, where it was told to."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import grpc
import structlog

from countersign.kit.address import BadAddress, check_target, is_loopback, split_address
from countersign.kit.errors import CountersignError

log = structlog.get_logger()

ENDPOINT_VARIABLE = "COUNTERSIGN_OTLP_ENDPOINT"
"""Names the receiver of traces for every party of Countersign in an environment."""


class NotObservable(CountersignError):
    """Traces or metrics were asked for in a way that cannot be met."""

    reason = "INVALID_ARGUMENT"
    status = grpc.StatusCode.INVALID_ARGUMENT


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a process was told: where its spans go and where its metrics are served, both empty for nowhere.

    `insecure` allows plaintext spans beyond loopback, `metrics_anywhere` metrics there.
    """

    otlp_endpoint: str = ""
    metrics_listen: str = ""
    insecure: bool = False
    metrics_anywhere: bool = False


@contextmanager
def observed(service: str, wanted: Wanted) -> Iterator[None]:
    """Traces and metrics as wanted, as long as the context lasts. Raises NotObservable."""
    with ExitStack() as stack:
        if wanted.otlp_endpoint:
            _begin_traces(stack, service, wanted)
        if wanted.metrics_listen:
            _begin_metrics(stack, wanted)
        yield


def _begin_traces(stack: ExitStack, service: str, wanted: Wanted) -> None:
    try:
        check_target(wanted.otlp_endpoint, insecure=wanted.insecure)
    except BadAddress as error:
        raise NotObservable(f"setting otlp_endpoint: {error.message}") from None
    try:
        from countersign.kit.observability.sdk import exported_traces
    except ImportError:
        raise _missing("otlp_endpoint") from None
    stack.enter_context(exported_traces(service, wanted.otlp_endpoint))


def _begin_metrics(stack: ExitStack, wanted: Wanted) -> None:
    address = wanted.metrics_listen
    try:
        host, _ = split_address(address)
    except BadAddress:
        raise NotObservable(f"setting metrics_listen: {address!r} is not an address: write HOST:PORT") from None
    if not wanted.metrics_anywhere and not is_loopback(host):
        raise NotObservable(
            f"setting metrics_listen: {address} is not on loopback, and metrics ask nobody who they are: "
            "say --metrics-anywhere to serve them there"
        )
    try:
        from countersign.kit.observability.exposition import exposed_metrics
    except ImportError:
        raise _missing("metrics_listen") from None
    try:
        served = stack.enter_context(exposed_metrics(address))
    except OSError:
        raise NotObservable(
            f"setting metrics_listen: {address} is in use or not allowed: choose another port, or port 0 for any"
        ) from None
    log.info("metrics", address=served)


def _missing(setting: str) -> NotObservable:
    return NotObservable(f"setting {setting}: needs the extra: pip install 'countersign[observability]'")
