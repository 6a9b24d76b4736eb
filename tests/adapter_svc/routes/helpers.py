"""A route to a server on this machine."""

from typing import Any

from adapter_svc.admission import ExpectedIdentity, WireFormat
from adapter_svc.routes import FreePrice, Route


def a_route(**changes: Any) -> Route:
    good: dict[str, Any] = {
        "name": "local",
        "base_url": "http://127.0.0.1:1/v1",
        "wire_format": WireFormat.CHAT_COMPLETIONS,
        "model": "m",
        "identity": ExpectedIdentity(model="m"),
        "price": FreePrice(),
        "output_cap": 512,
    }
    return Route(**{**good, **changes})
