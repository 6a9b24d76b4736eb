"""A provider that is watched: a span by the semantic conventions for generative AI, and how long it took.

Of what is sent and answered, the span has names and counts alone: no message, no tool's argument, no header, no key.
"""

import time
from collections.abc import Mapping
from types import MappingProxyType

import httpx
import structlog

from adapter_svc import metrics
from adapter_svc.admission import DEFAULT_LIMITS, ServedIdentity, Usage, WireFormat
from adapter_svc.admission.formats import format_of, unary_body
from adapter_svc.admission.strict_json import read_strict
from adapter_svc.admission.verdict import Inadmissible
from adapter_svc.routes.errors import TransportFailure
from adapter_svc.routes.profile import Route
from adapter_svc.routes.transport import Provider, ProviderAnswer
from countersign.kit.limits import MAX_ID_CHARACTERS
from countersign.kit.observability import tracing
from countersign.kit.observability.tracing import Kind, Span, Value

log = structlog.get_logger()

PROVIDERS: Mapping[WireFormat, str] = MappingProxyType(
    {
        WireFormat.CHAT_COMPLETIONS: "openai",
        WireFormat.RESPONSES: "openai",
        WireFormat.MESSAGES: "anthropic",
        WireFormat.GENERATE_CONTENT: "gcp.gemini",
    }
)
"""`gen_ai.provider.name` names the flavour of the protocol, whoever speaks it."""

OPERATIONS: Mapping[WireFormat, str] = MappingProxyType(
    {each: "generate_content" if each is WireFormat.GENERATE_CONTENT else "chat" for each in WireFormat}
)
"""`gen_ai.operation.name` by format."""


class ObservedProvider:
    """Implements Provider: another one, watched. Changes nothing of what it sends or gives."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def send(self, route: Route, request: bytes) -> ProviderAnswer:
        """As the other one."""
        if not (tracing.is_on() or metrics.PROVIDER_SECONDS.is_on):
            return await self._provider.send(route, request)
        start, ended = time.monotonic(), "no_answer"
        with tracing.span(f"{OPERATIONS[route.wire_format]} {route.model}", Kind.CLIENT, _asked(route)) as span:
            try:
                answer = await self._provider.send(route, request)
                ended = f"{answer.status // 100}xx"
                _describe(span, route, answer)
            except TransportFailure as failure:
                metrics.TRANSPORT_FAILURES.add(1, failure.progress.value, failure.category.value)
                span.set({"countersign.transport.progress": failure.progress.value})
                span.fail(failure.category.value)
                raise
            finally:
                metrics.PROVIDER_SECONDS.record(time.monotonic() - start, route.wire_format.value, ended)
        return answer


def _asked(route: Route) -> dict[str, Value]:
    url = httpx.URL(route.base_url)
    port = url.port or {"http": 80, "https": 443}[url.scheme]
    return {
        "gen_ai.operation.name": OPERATIONS[route.wire_format],
        "gen_ai.provider.name": PROVIDERS[route.wire_format],
        "gen_ai.request.model": route.model,
        "gen_ai.request.max_tokens": route.output_cap,
        "http.request.method": "POST",
        "server.address": url.host,
        "server.port": port,
    }


def _describe(span: Span, route: Route, answer: ProviderAnswer) -> None:
    """Say how it was answered; only for a span that is recorded is the body read."""
    if not span.is_recording:
        return
    span.set({"http.response.status_code": answer.status})
    if not 200 <= answer.status < 300:
        span.fail(str(answer.status))
        return
    try:
        usage, served = _evidence(route, answer.body)
    except Inadmissible:
        return
    except Exception as failure:  # noqa: BLE001 - an answer that is paid for must not be lost to whoever watches it
        log.error("describing_failed", exception=type(failure).__name__)
        return
    found = {
        "gen_ai.response.model": served.model and _name(served.model),
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
    }
    span.set({name: value for name, value in found.items() if value is not None})


def _evidence(route: Route, raw: bytes) -> tuple[Usage, ServedIdentity]:
    """What an answer says of its tokens and its model. Raises Inadmissible where it is not read."""
    entry = format_of(route.wire_format, streamed=route.streamed)
    unary = unary_body(entry, raw, DEFAULT_LIMITS, streamed=route.streamed)
    body = read_strict(unary, DEFAULT_LIMITS)
    members = body if isinstance(body, dict) else {}
    return entry.billing(members, unary, DEFAULT_LIMITS).usage, entry.served(members)


def _name(text: str) -> str | None:
    """A name that a provider gives, where it can be one: a text is not exported under that title."""
    return text if len(text) <= MAX_ID_CHARACTERS and text.isprintable() and " " not in text else None
