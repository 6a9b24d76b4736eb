"""Reading a stop reason by a closed table (design/admission.md, Order of checks, 6)."""

from typing import Any

import pytest

from adapter_svc.admission.stop_table import StopClass, classify
from adapter_svc.admission.verdict import Inadmissible, Reason

TABLE: dict[str, StopClass | Reason] = {"end": StopClass.TEXT, "call": StopClass.TOOL, "cut": Reason.TRUNCATED}


def test_an_admissible_reason_has_its_class() -> None:
    assert (classify(TABLE, "end", "/x"), classify(TABLE, "call", "/x")) == (StopClass.TEXT, StopClass.TOOL)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("cut", Reason.TRUNCATED),
        (None, Reason.MISSING_STOP_REASON),
        ("", Reason.UNRECOGNIZED_STOP_REASON),
        ("END", Reason.UNRECOGNIZED_STOP_REASON),
        (["end"], Reason.UNRECOGNIZED_STOP_REASON),
        (0, Reason.UNRECOGNIZED_STOP_REASON),
    ],
)
def test_every_other_value_has_its_reason(value: Any, reason: Reason) -> None:
    with pytest.raises(Inadmissible) as caught:
        classify(TABLE, value, "/x")
    assert (caught.value.reason, caught.value.where) == (reason, "/x")
