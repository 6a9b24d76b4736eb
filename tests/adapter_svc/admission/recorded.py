"""Recorded answers of real providers, judged as their requests asked (data/exchanges/README.md)."""

import gzip
import json
from pathlib import Path
from typing import Any

from adapter_svc.admission import Admission, AdmissionRequest, ExpectedIdentity, OfferedTool, WireFormat, admit

Exchange = dict[str, Any]
CAPS = ("max_completion_tokens", "max_tokens", "max_output_tokens")


def read_exchanges(shared_data: Path, wire_format: WireFormat) -> list[Exchange]:
    with gzip.open(shared_data / "exchanges" / "exchanges.jsonl.gz", "rt", encoding="utf-8") as lines:
        every = [json.loads(line) for line in lines]
    return [one for one in every if one["format"] == wire_format]


def offered(exchange: Exchange) -> tuple[OfferedTool, ...]:
    """The functions that the request offered: `function` holds one in chat_completions, responses has it as it is."""
    tools = exchange["request"].get("tools") or []
    functions = [tool.get("function", tool) for tool in tools if tool.get("type", "function") == "function"]
    return tuple(OfferedTool.of(function["name"], function.get("parameters") or {}) for function in functions)


def body_of(exchange: Exchange) -> bytes:
    return str(exchange["response_body"]).encode("utf-8", "surrogatepass")


def request_of(exchange: Exchange, **changes: Any) -> AdmissionRequest:
    asked: dict[str, Any] = {
        "body": body_of(exchange),
        "http_status": exchange["status"],
        "wire_format": WireFormat(exchange["format"]),
        "streamed": exchange["stream"],
        "expected": ExpectedIdentity(),
        "tools": offered(exchange),
        "output_cap": next((exchange["request"][name] for name in CAPS if exchange["request"].get(name)), None),
    }
    return AdmissionRequest(**{**asked, **changes})


def admission_of(exchange: Exchange, **changes: Any) -> Admission:
    return admit(request_of(exchange, **changes))
