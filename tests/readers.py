"""The two readers of answers in words that both have: the adapter's admission and the verifier's decoder."""

import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from adapter_svc import admission as adapter
from countersign.kit.canonical import canonical_json
from countersign.study.recorded_requests import REQUEST_READERS
from verifier_svc.receipts import verdicts as verifier
from verifier_svc.receipts.decode import decode
from verifier_svc.receipts.schema import UnsupportedToolSchema, check_supported
from verifier_svc.receipts.wire import Answer, Expectation, WireFormat

READING = ("MALFORMED_JSON", "DUPLICATE_KEY", "LIMIT_EXCEEDED")
"""Faults of check 2: in a body the verifier says where in the text, the adapter nothing that the provider wrote."""
CLAIM = {"type": "string", "enum": ["saved", "not_saved", "unknown"]}
ENVIRONMENT_TOOLS: dict[str, Any] = {
    "wait": {"type": "object", "properties": {}, "additionalProperties": False},
    "finish": {"type": "object", "properties": {"claim": CLAIM}, "required": ["claim"], "additionalProperties": False},
}
OPEN: dict[str, Any] = {"type": "object", "additionalProperties": True}
"""Instead of a schema that the verifier does not judge."""


@dataclass(frozen=True)
class Expected:
    """What a route says of its answers, for both readers."""

    model: str | None = None
    aliases: frozenset[str] = frozenset()
    provider: str | None = None
    output_cap: int | None = None
    lenient: bool = False
    seen: frozenset[str] = frozenset()


ANY = Expected()


@dataclass(frozen=True, slots=True)
class Exchange:
    """A recorded answer, the form that it has, and the tools, ids and cap of its request."""

    id: str
    wire: str
    streamed: bool
    status: int
    body: bytes
    tools: dict[str, Any]
    seen: frozenset[str]
    output_cap: int | None


@cache
def recorded_exchanges(shared_data: Path) -> tuple[Exchange, ...]:
    """Every recorded exchange, in the file's order."""
    with gzip.open(shared_data / "exchanges" / "exchanges.jsonl.gz", "rt", encoding="utf-8") as lines:
        return tuple(_exchange(json.loads(line)) for line in lines)


def _exchange(line: dict[str, Any]) -> Exchange:
    reader, sent = REQUEST_READERS[line["format"]], line["request"]
    return Exchange(
        id=line["id"],
        wire=line["format"],
        streamed=line["stream"],
        status=line["status"],
        body=line["response_body"].encode(),
        tools={tool.name: _judged(tool.parameters) for tool in reader.tools(sent)},
        seen=frozenset(reader.seen_ids(sent)),
        output_cap=reader.output_cap(sent),
    )


def _judged(schema: Any) -> Any:
    try:
        check_supported(schema)
    except UnsupportedToolSchema:
        return OPEN
    return schema


def admitted(exchange: Exchange, body: bytes, expected: Expected = ANY) -> adapter.Admission:
    """The adapter's answer to `body` in the exchange's place."""
    return adapter.admit(
        adapter.AdmissionRequest(
            body=body,
            http_status=exchange.status,
            wire_format=adapter.WireFormat(exchange.wire),
            streamed=exchange.streamed,
            expected=adapter.ExpectedIdentity(expected.model, expected.aliases, expected.provider),
            tools=_offered(exchange),
            seen_tool_call_ids=expected.seen,
            output_cap=expected.output_cap,
            allowances=frozenset({adapter.Allowance.TOOL_CALLS_WITH_STOP} if expected.lenient else ()),
        )
    )


def _offered(exchange: Exchange) -> tuple[adapter.OfferedTool, ...]:
    return tuple(adapter.OfferedTool.of(name, schema) for name, schema in exchange.tools.items())


def decoded(exchange: Exchange, body: bytes, expected: Expected = ANY) -> verifier.Decoded:
    """The verifier's answer to `body` in the exchange's place."""
    expectation = Expectation(
        model=expected.model,
        model_aliases=expected.aliases,
        provider_name=expected.provider,
        output_cap=expected.output_cap,
        allowances=frozenset({verifier.Allowance.TOOL_CALLS_WITH_STOP} if expected.lenient else ()),
    )
    answer = Answer(WireFormat(exchange.wire), body, exchange.status, exchange.streamed)
    return decode(answer, exchange.tools, expected.seen, expectation)


def by_adapter(admission: adapter.Admission) -> dict[str, Any]:
    """What the adapter found."""
    verdict, usage = admission.verdict, admission.usage
    found: dict[str, Any] = {
        "kind": type(verdict).__name__,
        "model": admission.served.model,
        "provider": admission.served.provider_name,
        "usage": (
            *(usage.input_tokens, usage.output_tokens),
            *(usage.cached_tokens, usage.cache_write_tokens, usage.reasoning_tokens),
        ),
        "cost": admission.reported_cost,
    }
    if isinstance(verdict, adapter.Action):
        assert admission.continuation is not None
        called = (verdict.tool, verdict.tool_call_id, verdict.arguments)
        return {**found, "called": called, "message": admission.continuation.message}
    if isinstance(verdict, adapter.TextFinish):
        return {**found, "text": verdict.text}
    return {**found, **placed(verdict.reason.value, verdict.where)}


def by_verifier(reading: verifier.Decoded) -> dict[str, Any]:
    """What the verifier found."""
    verdict, usage = reading.verdict, reading.usage or verifier.Usage()
    found: dict[str, Any] = {
        "kind": type(verdict).__name__,
        "model": reading.model,
        "provider": reading.provider,
        "usage": (
            *(usage.input_tokens, usage.output_tokens),
            *(usage.cache_read, usage.cache_write, usage.reasoning),
        ),
        "cost": reading.reported_cost,
    }
    if isinstance(verdict, verifier.Action):
        called = (verdict.tool, verdict.call_id, canonical_json(dict(verdict.arguments)))
        return {**found, "called": called, "message": reading.continuation}
    if isinstance(verdict, verifier.TextFinish):
        return {**found, "text": verdict.text}
    return {**found, **placed(verdict.reason.value, verdict.where)}


def placed(reason: str, where: str) -> dict[str, str]:
    """A technical unknown's reason and place, the place as far as both say it."""
    is_pointer = reason in READING and not where.startswith("event ")
    return {"reason": reason, "where": "" if is_pointer else where}


def both(exchange: Exchange, body: bytes, expected: Expected = ANY) -> tuple[dict[str, Any], dict[str, Any]]:
    """What each found."""
    return by_adapter(admitted(exchange, body, expected)), by_verifier(decoded(exchange, body, expected))


def disagreements(exchange: Exchange, body: bytes, expected: Expected = ANY) -> list[tuple[str, Any, Any]]:
    """By what member they differ, and how."""
    mine, theirs = both(exchange, body, expected)
    return [(key, mine.get(key), theirs.get(key)) for key in {*mine, *theirs} if mine.get(key) != theirs.get(key)]
