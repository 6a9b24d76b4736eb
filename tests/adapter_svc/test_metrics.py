"""Verdicts are counted by format and reason; a transport failure is one line of the log."""

import pytest
import structlog

from adapter_svc import metrics
from adapter_svc.admission import (
    Action,
    Admission,
    Reason,
    ServedIdentity,
    TechnicalUnknown,
    TextFinish,
    Usage,
    Verdict,
    WireFormat,
)
from adapter_svc.attempts import Attempts, StopCategory, TurnStopped
from adapter_svc.routes import FailureCategory, RequestProgress, TransportFailure
from tests.adapter_svc.fakes import FakeLedger, FakeProvider, an_order
from tests.adapter_svc.routes.helpers import a_route
from tests.countersign.kit.observability.recording import attributes, recording


def admission(verdict: Verdict) -> Admission:
    return Admission(verdict, None, Usage(), None, ServedIdentity(), bytes(32))


@pytest.mark.parametrize(
    ("verdict", "labels"),
    [
        (Action("wait", b"{}", "1", ""), ("messages", "action", "")),
        (TextFinish("done"), ("messages", "text_finish", "")),
        (TechnicalUnknown(Reason.TRUNCATED, "/stop_reason"), ("messages", "technical_unknown", "TRUNCATED")),
    ],
)
def test_a_verdict_is_counted_and_given_on(verdict: Verdict, labels: tuple[str, ...]) -> None:
    given = admission(verdict)
    assert metrics.judged(WireFormat.MESSAGES, given) is given
    with recording() as recorded:
        assert metrics.judged(WireFormat.MESSAGES, given) is given
        assert recorded.values("countersign_adapter_admissions_total") == {labels: 1}


async def test_a_transport_failure_is_one_line_and_in_its_turns_span() -> None:
    failure = TransportFailure(RequestProgress.SENDING, FailureCategory.CONNECTION_BROKEN)
    attempts = Attempts(FakeLedger(), FakeProvider([], [failure]))
    with recording() as recorded, structlog.testing.capture_logs() as lines:
        result = await attempts.run(an_order(), a_route())
    assert isinstance(result, TurnStopped)
    assert result.category is StopCategory.TRANSPORT_UNKNOWN
    assert lines == [
        {
            "event": "transport_failure",
            "progress": "SENDING",
            "category": "CONNECTION_BROKEN",
            "log_level": "warning",
        }
    ]
    (turn,) = recorded.spans("turn")
    assert attributes(turn) == {"countersign.turn": 1, "countersign.stop_category": "TRANSPORT_UNKNOWN"}
    assert attempts.in_flight == 0
