"""One provider response becomes an action, a text finish or a technical unknown (design/admission.md)."""

from adapter_svc.admission.admit import admit
from adapter_svc.admission.billing import Billing
from adapter_svc.admission.errors import InvalidToolSchema, UnsupportedWireFormat
from adapter_svc.admission.formats import read_billing
from adapter_svc.admission.limits import DEFAULT_LIMITS, MAX_BODY_BYTES, Limits
from adapter_svc.admission.request import (
    AdmissionRequest,
    Allowance,
    ExpectedIdentity,
    OfferedTool,
    WireFormat,
)
from adapter_svc.admission.schemas import require_usable
from adapter_svc.admission.verdict import (
    Action,
    Admission,
    Continuation,
    Origin,
    Reason,
    ServedIdentity,
    TechnicalUnknown,
    TextFinish,
    Usage,
    Verdict,
)

__all__ = [
    "DEFAULT_LIMITS",
    "MAX_BODY_BYTES",
    "Action",
    "Admission",
    "AdmissionRequest",
    "Allowance",
    "Billing",
    "Continuation",
    "ExpectedIdentity",
    "InvalidToolSchema",
    "Limits",
    "OfferedTool",
    "Origin",
    "Reason",
    "ServedIdentity",
    "TechnicalUnknown",
    "TextFinish",
    "UnsupportedWireFormat",
    "Usage",
    "Verdict",
    "WireFormat",
    "admit",
    "read_billing",
    "require_usable",
]
