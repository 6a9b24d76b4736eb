"""Recorded exchanges of one format, each judged with the tools that its request offered and no model expected.

The offer is read with `countersign adapt`'s own reader (data/exchanges/README.md).
"""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

from adapter_svc.admission import Admission, ExpectedIdentity, OfferedTool, TechnicalUnknown, WireFormat
from countersign.study.recorded_requests import REQUEST_READERS
from tests.adapter_svc.admission.helpers import judge

Exchange = dict[str, Any]


def exchanges_of(shared_data: Path, wire_format: WireFormat) -> list[Exchange]:
    """Every recorded exchange of the format, streamed ones included, in the file's order."""
    with gzip.open(shared_data / "exchanges" / "exchanges.jsonl.gz", "rt", encoding="utf-8") as lines:
        every = [json.loads(line) for line in lines]
    return [one for one in every if one["format"] == wire_format.value]


def offered(exchange: Exchange) -> tuple[OfferedTool, ...]:
    """The functions that the exchange's request declared."""
    reader = REQUEST_READERS[exchange["format"]]
    return tuple(OfferedTool.of(tool.name, tool.parameters) for tool in reader.tools(exchange["request"]))


def admission_of(exchange: Exchange, **changes: Any) -> Admission:
    """The exchange's answer, judged; `changes` are other members of the admission request."""
    reader = REQUEST_READERS[exchange["format"]]
    asked: dict[str, Any] = {
        "http_status": exchange["status"],
        "wire_format": WireFormat(exchange["format"]),
        "streamed": exchange["stream"],
        "tools": offered(exchange),
        "expected": ExpectedIdentity(),
        "output_cap": reader.output_cap(exchange["request"]),
        "body": exchange["response_body"].encode(),
    }
    return judge(**{**asked, **changes})


def row(exchange: Exchange) -> dict[str, str]:
    """The line that pins the exchange's verdict."""
    verdict = admission_of(exchange).verdict
    reason, where = (verdict.reason.value, verdict.where) if isinstance(verdict, TechnicalUnknown) else ("", "")
    return {"id": exchange["id"], "verdict": type(verdict).__name__, "reason": reason, "where": where}


def pinned(name: str) -> list[dict[str, str]]:
    """The pinned lines of a file beside the tests; lines that begin with # say why."""
    with (Path(__file__).parent / name).open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t"))
