"""The recorded exchanges, with the tools that their requests offered as plain JSON schemas."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verifier_svc.receipts.decode import decode
from verifier_svc.receipts.schema import UnsupportedToolSchema, check_supported
from verifier_svc.receipts.verdicts import Decoded
from verifier_svc.receipts.wire import Answer, Expectation, WireFormat

OPEN: dict[str, Any] = {"type": "object", "additionalProperties": True}
"""Instead of a schema that this verifier does not judge."""


@dataclass(frozen=True)
class Exchange:
    """One recorded answer."""

    id: str
    format: str
    streamed: bool
    status: int
    body: str
    tools: dict[str, Any]

    @property
    def text(self) -> bytes:
        return self.body.encode()


def load(shared_data: Path) -> list[Exchange]:
    with gzip.open(shared_data / "exchanges" / "exchanges.jsonl.gz", "rt", encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    return [
        Exchange(
            item["id"],
            item["format"],
            item["stream"],
            item["status"],
            item["response_body"],
            offered(item["request"].get("tools") or []),
        )
        for item in found
    ]


def read(exchange: Exchange, body: bytes | None = None, streamed: bool | None = None, **expected: Any) -> Decoded:
    """The exchange's answer decoded, or another body in its place."""
    answer = Answer(
        WireFormat(exchange.format),
        exchange.text if body is None else body,
        exchange.status,
        exchange.streamed if streamed is None else streamed,
    )
    return decode(answer, exchange.tools, (), Expectation(**expected))


def offered(listed: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for tool in [listed] if isinstance(listed, dict) else listed:
        for function in (tool, tool.get("function"), *_declared(tool)):
            name = function.get("name") if isinstance(function, dict) else None
            if name is not None and tool.get("type", "function") in ("function", "custom"):
                found[name] = judged(schema_of(function))
    return found


def _declared(tool: Any) -> list[Any]:
    return [*tool.get("functionDeclarations", []), *tool.get("function_declarations", [])]


def schema_of(function: Any) -> Any:
    names = ("input_schema", "parametersJsonSchema", "parameters_json_schema", "parameters")
    return next((function[name] for name in names if function.get(name)), {"type": "object"})


def judged(schema: Any) -> Any:
    """The schema with its types as JSON Schema spells them, or the open one."""
    plain = lower_case(schema)
    try:
        check_supported(plain)
    except UnsupportedToolSchema:
        return OPEN
    return plain


def lower_case(schema: Any) -> Any:
    """Google's older declarations write types in capitals."""
    if isinstance(schema, list):
        return [lower_case(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value.lower() if key == "type" and isinstance(value, str) else lower_case(value)
        for key, value in schema.items()
    }
