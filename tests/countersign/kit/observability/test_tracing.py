"""Spans: nothing while off; while on, names and reasons and never a text."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from countersign.kit.errors import InvalidArgument
from countersign.kit.observability import tracing
from countersign.kit.observability.tracing import NO_SPAN, Kind
from tests.countersign.kit.observability.recording import Recorded, attributes, ids, parent_of, recording

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SECRET = "a text that nobody may see"


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    with recording() as recorded:
        yield recorded


def test_while_off_every_span_is_the_same_nothing() -> None:
    assert not tracing.is_on()
    assert tracing.span("a") is tracing.begin("b") is tracing.detached() is NO_SPAN
    assert not NO_SPAN.is_recording
    with tracing.span("a") as span:
        span.set({"key": 1})
        span.fail("X")
        span.refuse("X")
        span.end()
        tracing.annotate({"key": 2})
        assert (tracing.traceparent(), tracing.log_ids()) == ("", {})


def test_a_span_belongs_to_the_one_around_it(recorded: Recorded) -> None:
    with tracing.span("outer", Kind.SERVER, {"a": 1}), tracing.span("inner"):
        tracing.annotate({"b": 2})
    inner, outer = recorded.spans()
    assert parent_of(inner) == ids(outer)
    assert (parent_of(outer), attributes(outer), attributes(inner)) == (None, {"a": 1}, {"b": 2})


def test_a_span_belongs_to_the_traceparent_that_it_is_given(recorded: Recorded) -> None:
    span = tracing.begin("one", parent=f"00-{TRACE}-{SPAN}-01")
    span.end()
    (ended,) = recorded.spans()
    assert parent_of(ended) == (int(TRACE, 16), int(SPAN, 16))


@pytest.mark.parametrize(
    "traceparent", ["", "00", "\x00", f"00-{TRACE}-{SPAN}", f"00-{'0' * 32}-{SPAN}-01", SECRET * 99]
)
def test_what_is_no_traceparent_begins_a_trace(recorded: Recorded, traceparent: str) -> None:
    with tracing.span("around"):
        tracing.begin("one", parent=traceparent).end()
    first, around = recorded.spans()
    assert parent_of(first) is None
    assert ids(first)[0] != ids(around)[0]


def test_the_traceparent_and_the_ids_in_the_log_are_those_of_what_runs(recorded: Recorded) -> None:
    assert (tracing.traceparent(), tracing.log_ids()) == ("", {})
    with tracing.span("one"):
        traceparent, log_ids = tracing.traceparent(), tracing.log_ids()
        with tracing.detached():
            assert (tracing.traceparent(), tracing.log_ids()) == ("", {})
    trace, span = ids(recorded.spans()[0])
    assert log_ids == {"trace_id": f"{trace:032x}", "span_id": f"{span:016x}"}
    assert traceparent.rpartition("-")[0] == f"00-{trace:032x}-{span:016x}"


@pytest.mark.parametrize(
    ("error", "kind"), [(ValueError(SECRET), "ValueError"), (InvalidArgument(SECRET), "INVALID_ARGUMENT")]
)
def test_of_an_exception_only_its_kind_is_told(recorded: Recorded, error: Exception, kind: str) -> None:
    with pytest.raises(type(error)), tracing.span("one"):
        raise error
    (span,) = recorded.spans()
    assert attributes(span) == {"error.type": kind}
    assert span.status.status_code is StatusCode.ERROR
    assert SECRET not in json.dumps(json.loads(span.to_json()))


@pytest.mark.parametrize(("said", "status"), [("fail", StatusCode.ERROR), ("refuse", StatusCode.UNSET)])
def test_what_was_said_of_the_end_stands(recorded: Recorded, said: str, status: Any) -> None:
    def end() -> None:
        with tracing.span("one") as span:
            getattr(span, said)("KNOWN")
            raise ValueError(SECRET)

    with pytest.raises(ValueError, match=SECRET):
        end()
    (ended,) = recorded.spans()
    assert (attributes(ended), ended.status.status_code) == ({"error.type": "KNOWN"}, status)
