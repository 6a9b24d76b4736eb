"""Answers in the other three formats to start from, and one way to judge them."""

import json
from typing import Any

from tests.verifier_svc.receipts.responses import TOOLS
from verifier_svc.receipts.decode import decode
from verifier_svc.receipts.verdicts import Decoded, Reason, TechnicalUnknown, Verdict
from verifier_svc.receipts.wire import Answer, Expectation, WireFormat

Body = dict[str, Any]


def decoded(
    wire_format: WireFormat,
    body: Any,
    expectation: Expectation | None = None,
    status: int = 200,
    seen: tuple[str, ...] = (),
    streamed: bool = False,
) -> Decoded:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return decode(Answer(wire_format, data, status, streamed), TOOLS, seen, expectation)


def judge(wire_format: WireFormat, body: Any, expectation: Expectation | None = None, **more: Any) -> Verdict:
    return decoded(wire_format, body, expectation, **more).verdict


def unknown(
    wire_format: WireFormat, body: Any, expectation: Expectation | None = None, **more: Any
) -> tuple[Reason, str]:
    verdict = judge(wire_format, body, expectation, **more)
    assert isinstance(verdict, TechnicalUnknown), verdict
    return verdict.reason, verdict.where


def text_block(text: Any = "Done.", **more: Any) -> Body:
    return {"type": "text", "text": text, **more}


def tool_use(name: Any = "wait", arguments: Any = None, call_id: Any = "toolu_1", **more: Any) -> Body:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {} if arguments is None else arguments, **more}


def message(*content: Any, stop_reason: Any = "end_turn", **more: Any) -> Body:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m-1",
        "content": list(content) or [text_block()],
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
        **more,
    }


def calling(*content: Any, **more: Any) -> Body:
    return message(*content, stop_reason="tool_use", **more)


def said(*parts: Any, **more: Any) -> Body:
    content = [{"type": "output_text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content, **more}


def function_call(name: Any = "wait", arguments: Any = "{}", call_id: Any = "call_1", **more: Any) -> Body:
    call = {"id": "fc_1", "call_id": call_id, "name": name, "arguments": arguments}
    return {"type": "function_call", "status": "completed", **call, **more}


def response(*output: Any, status: Any = "completed", **more: Any) -> Body:
    return {
        "id": "resp_1",
        "object": "response",
        "model": "m-1",
        "status": status,
        "error": None,
        "incomplete_details": None,
        "output": list(output) or [said("Done.")],
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
        **more,
    }


def called(name: Any = "wait", **more: Any) -> Body:
    return {"functionCall": {"name": name, **more}}


def generated(*parts: Any, finish: Any = "STOP", role: Any = "model", **candidate: Any) -> Body:
    content = {"parts": list(parts) or [{"text": "Done."}], "role": role}
    counts = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    return {
        "candidates": [{"content": content, "finishReason": finish, "index": 0, **candidate}],
        "modelVersion": "m-1",
        "usageMetadata": counts,
    }
