"""What the benchmark of admission reads: good answers are admitted, spoilt ones refused for what they are."""

import pytest

from benchmarks.admission_readers import Refused, by_hand, ours
from benchmarks.admission_samples import ARGUMENTS, TOOL, Sample, good_samples, spoilt_samples

FAULTS = {
    "duplicate key in the body": "DUPLICATE_KEY",
    "duplicate key in the arguments": "MALFORMED_ARGUMENTS",
    "NaN": "MALFORMED_JSON",
    "Infinity": "MALFORMED_JSON",
    "number that no double holds (1e400)": "LIMIT_EXCEEDED",
    "lone surrogate": "MALFORMED_JSON",
    "missing stop reason": "MISSING_STOP_REASON",
    "unknown stop reason": "UNRECOGNIZED_STOP_REASON",
    "tool call with `stop`": "AMBIGUOUS_TERMINATION",
    "unknown tool": "UNKNOWN_TOOL",
    "arguments against the schema": "INVALID_ARGUMENTS",
    "arguments with an extra field": "INVALID_ARGUMENTS",
    "another model": "IDENTITY_MISMATCH",
    "negative usage": "usage",
    "byte-order mark": "MALFORMED_JSON",
    "trailing data": "MALFORMED_JSON",
    "second tool call": "MULTIPLE_TOOL_CALLS",
    "empty text": "EMPTY_TEXT",
    "cut stream (no [DONE])": "STREAM_INCOMPLETE",
    "stream cut before the stop reason": "STREAM_INCOMPLETE",
    "error event after a 200": "PROVIDER_ERROR",
}


@pytest.mark.parametrize("sample", good_samples(), ids=lambda sample: sample.name)
def test_a_good_answer_is_read(sample: Sample) -> None:
    assert ours(sample)() == (TOOL, ARGUMENTS)
    assert by_hand(sample)() == (TOOL, ARGUMENTS)


def test_every_fault_is_refused_for_what_it_is() -> None:
    found = {}
    for sample in spoilt_samples():
        with pytest.raises(Refused) as refusal:
            ours(sample)()
        found[sample.name] = str(refusal.value)
    assert found == FAULTS
