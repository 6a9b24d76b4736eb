"""Routes: as frozen in a manifest, and as the services take them once the address is known."""

from typing import Any

from google.protobuf.duration_pb2 import Duration

from countersign.adapter.v1 import adapter_pb2 as adapter
from countersign.study.amounts import plain_json
from countersign.study.plan_model import RoutePlan, TokenPricesPlan
from countersign.study.route_options import request_options, route_options_json

_ALLOWANCES = {"tool_calls_with_stop": adapter.DIALECT_ALLOWANCE_TOOL_CALLS_WITH_STOP}


def frozen_route(route: RoutePlan) -> dict[str, Any]:
    """The route as its manifest holds it: an agent by its kind, never by the port that it happens to get."""
    frozen: dict[str, Any] = plain_json(route.model_dump())
    return {**frozen, "model": route.model_name, "request_options": request_options(route)}


def wire_route(route: RoutePlan, base_url: str) -> adapter.Route:
    """The route as the services take it, at `base_url`."""
    wire = adapter.Route(
        name=route.name,
        base_url=base_url,
        wire_format=adapter.WireFormat.Value(f"WIRE_FORMAT_{route.wire_format.upper()}"),
        streamed=route.streamed,
        model=route.model_name,
        identity=adapter.ExpectedIdentity(
            model=route.model_name, aliases=route.aliases, provider_name=route.provider_name
        ),
        api_key_variable=route.api_key_variable,
        charge_reported_cost=route.charge_reported_cost,
        output_cap=route.output_cap,
        input_limit_bytes=route.input_limit_bytes,
        connect_timeout=_duration(route.connect_timeout_millis),
        first_byte_timeout=_duration(route.first_byte_timeout_millis),
        total_timeout=_duration(route.total_timeout_millis),
        allowances=[_ALLOWANCES[name] for name in route.allowances],
        request_options_json=route_options_json(route),
        output_cap_member=route.output_cap_member,
    )
    if isinstance(route.price, TokenPricesPlan):
        wire.tokens.input_per_million = route.price.input_per_million
        wire.tokens.output_per_million = route.price.output_per_million
        wire.tokens.cached_input_per_million = route.price.cached_input_per_million or ""
        wire.tokens.cache_write_per_million = route.price.cache_write_per_million or ""
    else:
        wire.free.SetInParent()
    return wire


def _duration(millis: int) -> Duration:
    return Duration(seconds=millis // 1000, nanos=millis % 1000 * 1_000_000)
