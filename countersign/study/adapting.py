"""Recorded exchanges through the adapter's admission (design/admission.md): one line in, one verdict out."""

import json
from collections.abc import Mapping
from typing import Any

from countersign.adapter.v1 import adapter_pb2 as adapter
from countersign.adapter.v1 import adapter_pb2_grpc
from countersign.kit.canonical import canonical_json
from countersign.kit.channel import call
from countersign.kit.enums import name_of
from countersign.kit.rpc_errors import ServiceError
from countersign.study.errors import BadInput
from countersign.study.lines import member
from countersign.study.recorded_requests import REQUEST_READERS, Declared, asked_model
from countersign.study.services import CALL_SECONDS, service_trouble

WIRE_FORMATS = {
    "chat_completions": adapter.WIRE_FORMAT_CHAT_COMPLETIONS,
    "messages": adapter.WIRE_FORMAT_MESSAGES,
    "responses": adapter.WIRE_FORMAT_RESPONSES,
    "generate_content": adapter.WIRE_FORMAT_GENERATE_CONTENT,
}
UNSUPPORTED = "unsupported"
VERDICTS = ("action", "text_finish", "technical_unknown", UNSUPPORTED)
"""Every verdict of a line; the last where the adapter cannot judge an exchange of this kind."""

_NOT_JUDGED = frozenset({"UNSUPPORTED_WIRE_FORMAT", "INVALID_TOOL_SCHEMA", "SIZE_LIMIT_EXCEEDED"})


def adapt_request(
    line: Mapping[str, Any], route: adapter.Route | None, where: str, *, requested_model: bool = False
) -> adapter.AdaptRequest:
    """What to ask of the adapter for one recorded exchange; `route` says who is expected and what is allowed.

    Without a route any model is expected, or with `requested_model` the one that was asked for. The tools are those
    that the request offered. Raises BadInput where the line is not an exchange.
    """
    name = member(line, "format", str, where)
    if name not in WIRE_FORMATS:
        raise BadInput(f"{where}: format: must be one of {', '.join(WIRE_FORMATS)}")
    status = member(line, "status", int, where)
    if not 100 <= status <= 999:
        raise BadInput(f"{where}: status: must be an HTTP status")
    sent = member(line, "request", dict, where)
    if not isinstance(sent.get("tools") or [], list | dict):
        raise BadInput(f"{where}: request.tools: must be a list")
    reader = REQUEST_READERS[name]
    return adapter.AdaptRequest(
        # A lone surrogate is passed on as the bytes that it was: the adapter says that they are no UTF-8.
        body=member(line, "response_body", str, where).encode("utf-8", "surrogatepass"),
        http_status=status,
        wire_format=WIRE_FORMATS[name],
        streamed=member(line, "stream", bool, where),
        identity=route.identity if route is not None else _identity(line, requested_model),
        tools=[_tool(declared) for declared in reader.tools(sent)],
        # Each once, in the conversation's order.
        seen_tool_call_ids=list(dict.fromkeys(reader.seen_ids(sent))),
        output_cap=route.output_cap if route is not None else reader.output_cap(sent),
        allowances=route.allowances if route is not None else (),
    )


async def adapt_line(
    stub: adapter_pb2_grpc.AdapterServiceStub,
    line: Mapping[str, Any],
    route: adapter.Route | None,
    where: str,
    *,
    requested_model: bool = False,
) -> dict[str, Any]:
    """The verdict on one exchange as JSON has it. Raises BadInput, ServiceFailed and ServiceRefused."""
    about = {"id": member(line, "id", str, where), "format": line.get("format"), "stream": line.get("stream")}
    request = adapt_request(line, route, where, requested_model=requested_model)
    try:
        answer = await call(stub.Adapt, request, CALL_SECONDS)
    except ServiceError as error:
        if error.reason not in _NOT_JUDGED:
            raise service_trouble("adapter", error) from None
        return {**about, **_verdict(UNSUPPORTED, reason=error.reason)}
    return {**about, **_verdict_of(answer)}


def _verdict_of(answer: adapter.AdaptResponse) -> dict[str, Any]:
    match answer.WhichOneof("verdict"):
        case "action":
            return _verdict("action", tool=answer.action.tool, arguments=json.loads(answer.action.arguments))
        case "text_finish":
            return _verdict("text_finish")
        case _:
            unknown = answer.technical_unknown
            reason = name_of(adapter.UnknownReason, unknown.reason, "UNKNOWN_REASON_")
            return _verdict("technical_unknown", reason=reason, where=unknown.where)


def _verdict(name: str, **members: Any) -> dict[str, Any]:
    return {"verdict": name, "reason": None, "where": None, "tool": None, "arguments": None, **members}


def _identity(line: Mapping[str, Any], requested_model: bool) -> adapter.ExpectedIdentity | None:
    return adapter.ExpectedIdentity(model=asked_model(line)) if requested_model else None


def _tool(declared: Declared) -> adapter.Tool:
    parameters = canonical_json(declared.parameters).decode("utf-8", "replace")
    return adapter.Tool(name=declared.name, description=declared.description, parameters_json=parameters)
