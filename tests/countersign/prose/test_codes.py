"""The fixed facts of the error codes."""

from collections import defaultdict

from countersign.prose.codes import FACTS, Code, ProseError
from countersign.prose.result import Outcome


def test_every_code_has_its_exit_status() -> None:
    statuses = defaultdict(set)
    for code in Code:
        statuses[FACTS[code].status].add(code.value)
    assert statuses == {
        2: {"CONFIG_INVALID", "INVOCATION_INVALID", "RECURSIVE_INVOCATION"},
        10: {"HARNESS_UNAVAILABLE", "HARNESS_INCOMPATIBLE", "HARNESS_NEEDS_AUTH", "TRANSPORT_UNSUPPORTED"},
        20: {"IMAGE_INVALID", "IMAGE_TOO_LARGE", "PROMPT_CHANNEL_UNSUPPORTED"},
        21: {"STARTUP_TIMEOUT"},
        22: {"PROTOCOL_MALFORMED", "PROTOCOL_TRUNCATED", "HARNESS_FAILED"},
        23: {"SEMANTIC_STATUS_UNKNOWN"},
        24: {"CANCELLED"},
        25: {"PROCESS_CLEANUP_FAILED"},
        70: {"INTERNAL_ERROR"},
    }


def test_three_may_work_when_run_again() -> None:
    retryable = {code.value for code in Code if FACTS[code].retryable}
    assert retryable == {"STARTUP_TIMEOUT", "PROTOCOL_TRUNCATED", "CANCELLED"}


def test_an_outcome_ends_with_its_error() -> None:
    assert Outcome("id", 0.0).exit_status == 0
    assert Outcome("id", 0.0, error=ProseError(Code.CANCELLED, "x")).exit_status == 24
