"""Between protobuf and the adapter's types of routes and admission. No rules here either."""

import grpc
from google.protobuf.duration_pb2 import Duration

from adapter_svc.admission import (
    Action,
    Admission,
    AdmissionRequest,
    Allowance,
    ExpectedIdentity,
    OfferedTool,
    Usage,
    WireFormat,
)
from adapter_svc.mapping import set_fields
from adapter_svc.routes import FreePrice, InvalidRoute, OutputCapMember, Route, Timeouts, TokenPrices
from adapter_svc.routes.profile import DEFAULT_INPUT_LIMIT_BYTES
from countersign.adapter.v1 import adapter_pb2 as pb
from countersign.kit.errors import CountersignError, InvalidArgument
from countersign.kit.limits import MAX_BODY_BYTES

NANOS_PER_MILLI = 1_000_000
WIRE_FORMATS = {pb.WireFormat.Value(f"WIRE_FORMAT_{known.name}"): known for known in WireFormat}


class BodyTooLarge(CountersignError):
    """A body beyond the limit was handed in."""

    reason = "SIZE_LIMIT_EXCEEDED"
    status = grpc.StatusCode.INVALID_ARGUMENT


def read_wire_format(value: "pb.WireFormat.ValueType") -> WireFormat:
    """The wire format; raises InvalidArgument where none is named."""
    known = WIRE_FORMATS.get(value)
    if known is None:
        raise InvalidArgument("name a wire format", field="wire_format")
    return known


def read_allowance(value: "pb.DialectAllowance.ValueType") -> Allowance:
    """A dialect allowance; raises InvalidArgument for one that this version does not know."""
    if value not in pb.DialectAllowance.values() or value == pb.DIALECT_ALLOWANCE_UNSPECIFIED:
        raise InvalidArgument("an allowance is not known", field="allowances")
    return Allowance(pb.DialectAllowance.Name(value).removeprefix("DIALECT_ALLOWANCE_"))


def read_identity(message: pb.ExpectedIdentity, default_model: str) -> ExpectedIdentity:
    """Who is expected to answer; `default_model` where the message names none, empty for any."""
    return ExpectedIdentity(
        model=message.model or default_model or None,
        aliases=frozenset(message.aliases),
        provider_name=message.provider_name or None,
    )


def read_admission_request(request: pb.AdaptRequest) -> AdmissionRequest:
    """One response to judge; raises InvalidArgument or BodyTooLarge for the caller's own faults."""
    if len(request.body) > MAX_BODY_BYTES:
        raise BodyTooLarge(f"the body has more than {MAX_BODY_BYTES} bytes", limit_bytes=MAX_BODY_BYTES)
    return AdmissionRequest(
        body=request.body,
        http_status=request.http_status,
        wire_format=read_wire_format(request.wire_format),
        streamed=request.streamed,
        expected=read_identity(request.identity, ""),
        tools=tuple(OfferedTool(tool.name, tool.parameters_json.encode("utf-8")) for tool in request.tools),
        seen_tool_call_ids=frozenset(request.seen_tool_call_ids),
        output_cap=request.output_cap if request.HasField("output_cap") else None,
        allowances=frozenset(read_allowance(value) for value in request.allowances),
    )


def write_admission(admission: Admission) -> pb.AdaptResponse:
    """An admission's evidence on the wire; the caller adds the verdict."""
    answer = pb.AdaptResponse(
        usage=_write_usage(admission.usage),
        reported_cost_text=admission.reported_cost,
        served=pb.ServedIdentity(
            model=admission.served.model or "", provider_name=admission.served.provider_name or ""
        ),
        raw_digest=admission.raw_digest,
    )
    if admission.continuation is not None:
        items, digest = admission.continuation.message, admission.continuation.digest
        answer.continuation.CopyFrom(pb.Continuation(items=items, digest=digest))
    return answer


def write_action(action: Action) -> pb.AdmittedAction:
    """An admitted tool call on the wire."""
    return pb.AdmittedAction(
        tool=action.tool, arguments=action.arguments, tool_call_id=action.tool_call_id, text=action.text
    )


def _write_usage(usage: Usage) -> pb.Usage:
    return pb.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_input_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )


def read_route(message: pb.Route) -> Route:
    """A frozen route; raises InvalidRoute, InvalidArgument or UnsupportedWireFormat."""
    defaults = Timeouts()
    given = set_fields(message)
    return Route(
        name=message.name,
        base_url=message.base_url,
        wire_format=read_wire_format(message.wire_format),
        model=message.model,
        identity=read_identity(message.identity, message.model),
        price=_read_price(message),
        output_cap=message.output_cap,
        api_key_variable=message.api_key_variable,
        charge_reported_cost=message.charge_reported_cost,
        input_limit_bytes=given.get("input_limit_bytes", DEFAULT_INPUT_LIMIT_BYTES),
        timeouts=Timeouts(
            connect_millis=_millis(given.get("connect_timeout"), defaults.connect_millis),
            first_byte_millis=_millis(given.get("first_byte_timeout"), defaults.first_byte_millis),
            total_millis=_millis(given.get("total_timeout"), defaults.total_millis),
        ),
        allowances=frozenset(read_allowance(value) for value in message.allowances),
        request_options=message.request_options_json.encode("utf-8") or b"{}",
        output_cap_member=_read_cap_member(message.output_cap_member),
        streamed=message.streamed,
    )


def _read_price(message: pb.Route) -> FreePrice | TokenPrices:
    kind = message.WhichOneof("price")
    if kind is None:
        raise InvalidRoute("say what the route costs, or that it is free", field="price")
    if kind == "free":
        return FreePrice()
    tokens = message.tokens
    return TokenPrices(
        input_per_million=tokens.input_per_million,
        output_per_million=tokens.output_per_million,
        cached_input_per_million=tokens.cached_input_per_million,
        cache_write_per_million=tokens.cache_write_per_million,
    )


def _read_cap_member(text: str) -> OutputCapMember:
    try:
        return OutputCapMember(text or OutputCapMember.MAX_TOKENS)
    except ValueError:
        raise InvalidRoute("the cap goes in max_tokens or max_completion_tokens", field="output_cap_member") from None


def _millis(duration: Duration | None, default: int) -> int:
    return default if duration is None else duration.seconds * 1000 + duration.nanos // NANOS_PER_MILLI
