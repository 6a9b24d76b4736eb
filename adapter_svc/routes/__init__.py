"""Frozen ways to providers: profiles, request bodies, prices and the transport (design/admission.md, Routes)."""

from adapter_svc.routes.errors import (
    ContinuationChanged,
    FailureCategory,
    InputLimitExceeded,
    InvalidRoute,
    MissingKey,
    RequestProgress,
    TransportFailure,
)
from adapter_svc.routes.price import Bound, Cost, cost_of_answer, reservation_bound
from adapter_svc.routes.profile import FreePrice, OutputCapMember, Route, Timeouts, TokenPrices
from adapter_svc.routes.request import build_request
from adapter_svc.routes.request_form import Turn
from adapter_svc.routes.transport import HttpProvider, Provider, ProviderAnswer, check_key

__all__ = [
    "Bound",
    "ContinuationChanged",
    "Cost",
    "FailureCategory",
    "FreePrice",
    "HttpProvider",
    "InputLimitExceeded",
    "InvalidRoute",
    "MissingKey",
    "OutputCapMember",
    "Provider",
    "ProviderAnswer",
    "RequestProgress",
    "Route",
    "Timeouts",
    "TokenPrices",
    "TransportFailure",
    "Turn",
    "build_request",
    "check_key",
    "cost_of_answer",
    "reservation_bound",
]
