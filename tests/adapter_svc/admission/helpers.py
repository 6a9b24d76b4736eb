"""A good answer, to be spoilt one field at a time."""

import json
from collections.abc import Mapping
from typing import Any

from adapter_svc.admission import (
    Admission,
    AdmissionRequest,
    ExpectedIdentity,
    OfferedTool,
    Reason,
    TechnicalUnknown,
    WireFormat,
    admit,
)

ABSENT = object()
"""A value that removes the field."""

CLAIM = OfferedTool.of(
    "finish",
    {
        "type": "object",
        "properties": {"claim": {"type": "string", "enum": ["saved", "not_saved", "unknown"]}},
        "required": ["claim"],
        "additionalProperties": False,
    },
)
WAIT = OfferedTool.of("wait", {"type": "object", "properties": {}, "additionalProperties": False})


def fields(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**base, **changes}
    return {key: value for key, value in merged.items() if value is not ABSENT}


def body_of(message: Mapping[str, Any], *, choice: Mapping[str, Any], body: Mapping[str, Any]) -> bytes:
    whole = fields({"model": "m", "choices": [fields({"index": 0, "message": message}, choice)]}, body)
    return json.dumps(whole).encode()


def text_body(
    *, message: Mapping[str, Any] | None = None, choice: Mapping[str, Any] | None = None, **body: Any
) -> bytes:
    good = fields({"role": "assistant", "content": "all done"}, message or {})
    return body_of(good, choice={"finish_reason": "stop", **(choice or {})}, body=body)


def a_call(*, function: Mapping[str, Any] | None = None, **call: Any) -> dict[str, Any]:
    good = fields({"name": "finish", "arguments": '{"claim": "saved"}'}, function or {})
    return fields({"id": "call_1", "type": "function", "function": good}, call)


def tool_body(
    *calls: Any, message: Mapping[str, Any] | None = None, choice: Mapping[str, Any] | None = None, **body: Any
) -> bytes:
    good = {"role": "assistant", "content": None, "tool_calls": list(calls) or [a_call()]}
    return body_of(fields(good, message or {}), choice={"finish_reason": "tool_calls", **(choice or {})}, body=body)


def judge(body: bytes, **changes: Any) -> Admission:
    asked: dict[str, Any] = {
        "http_status": 200,
        "wire_format": WireFormat.CHAT_COMPLETIONS,
        "streamed": False,
        "expected": ExpectedIdentity(model="m"),
        "tools": (CLAIM, WAIT),
    }
    return admit(AdmissionRequest(body=body, **{**asked, **changes}))


def failure(body: bytes, **changes: Any) -> tuple[Reason, str]:
    """The reason and place of a technical unknown; asserts that it is one, with nothing to send back."""
    admission = judge(body, **changes)
    assert isinstance(admission.verdict, TechnicalUnknown)
    assert admission.continuation is None
    return admission.verdict.reason, admission.verdict.where
