"""A good responses answer, unary or streamed, to be spoilt one field at a time."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from adapter_svc.admission import Admission, Reason, TechnicalUnknown, WireFormat
from tests.adapter_svc.admission import helpers
from tests.adapter_svc.admission.helpers import fields

REASONING: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA=="}


def a_part(text: str = "all done", **changes: Any) -> dict[str, Any]:
    return fields({"type": "output_text", "text": text, "annotations": []}, changes)


def a_refusal(text: Any = "I can't.") -> dict[str, Any]:
    return {"type": "refusal", "refusal": text}


def a_message(*parts: Any, **changes: Any) -> dict[str, Any]:
    good = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": list(parts) or [a_part()],
    }
    return fields(good, changes)


def a_call(**changes: Any) -> dict[str, Any]:
    good = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "finish",
        "arguments": '{"claim": "saved"}',
        "status": "completed",
    }
    return fields(good, changes)


def a_response(*output: Any, **changes: Any) -> dict[str, Any]:
    good = {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "m",
        "output": list(output),
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
    }
    return fields(good, changes)


def body(*output: Any, **changes: Any) -> bytes:
    return json.dumps(a_response(*output, **changes)).encode()


def text_body(**changes: Any) -> bytes:
    return body(a_message(), **changes)


def tool_body(**changes: Any) -> bytes:
    return body(REASONING, a_call(), **changes)


def judge(answer: bytes, **changes: Any) -> Admission:
    return helpers.judge(answer, **{"wire_format": WireFormat.RESPONSES, **changes})


def failure(answer: bytes, **changes: Any) -> tuple[Reason, str]:
    return helpers.failure(answer, **{"wire_format": WireFormat.RESPONSES, **changes})


def written(events: Sequence[Mapping[str, Any]], *, named: bool = True) -> bytes:
    """The events as a provider writes them."""
    lines = []
    for event in events:
        name = f"event: {event['type']}\n" if named else ""
        lines.append(f"{name}data: {json.dumps(event)}\n\n")
    return "".join(lines).encode()


def numbered(events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def streamed_failure(stream: bytes, **changes: Any) -> tuple[Reason, str]:
    return failure(stream, streamed=True, **changes)


def streamed_unknown(events: Sequence[Mapping[str, Any]]) -> TechnicalUnknown:
    verdict = judge(written(events), streamed=True).verdict
    assert isinstance(verdict, TechnicalUnknown)
    return verdict
