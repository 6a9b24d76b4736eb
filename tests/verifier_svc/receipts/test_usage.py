"""Token counts of each format in classes that have no token in common."""

from typing import Any

import pytest

from verifier_svc.receipts.usage import chat_usage, generate_usage, messages_usage, responses_usage
from verifier_svc.receipts.verdicts import Usage

READERS = {"usage": (chat_usage, messages_usage, responses_usage), "usageMetadata": (generate_usage,)}


def test_chat_completions_include_what_is_cached_and_reasoned() -> None:
    stated = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        "completion_tokens_details": {"reasoning_tokens": 8},
    }
    usage = chat_usage({"usage": stated})
    assert usage == Usage(100, 20, cache_read=60, cache_write=30, reasoning=8)
    assert usage is not None
    assert usage.uncached_input == 10


def test_messages_exclude_what_is_cached() -> None:
    stated = {
        "input_tokens": 10,
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 30,
        "output_tokens": 20,
        "output_tokens_details": {"thinking_tokens": 8},
    }
    usage = messages_usage({"usage": stated})
    assert usage == Usage(100, 20, cache_read=60, cache_write=30, reasoning=8)
    assert usage is not None
    assert usage.uncached_input == 10
    assert messages_usage({"usage": {"input_tokens": 10, "output_tokens": 20}}) == Usage(10, 20)
    assert messages_usage({"usage": {"cache_read_input_tokens": 60}}) == Usage(None, None, cache_read=60)


def test_responses_include_what_is_cached_and_reasoned() -> None:
    stated = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 8},
        "total_tokens": 120,
    }
    assert responses_usage({"usage": stated}) == Usage(100, 20, cache_read=60, cache_write=30, reasoning=8)


def test_generated_content_counts_thoughts_and_tool_prompts_apart() -> None:
    stated = {
        "promptTokenCount": 90,
        "toolUsePromptTokenCount": 10,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 12,
        "thoughtsTokenCount": 8,
        "totalTokenCount": 120,
    }
    assert generate_usage({"usageMetadata": stated}) == Usage(100, 20, cache_read=60, reasoning=8)
    only_thoughts = {"promptTokenCount": 87, "thoughtsTokenCount": 78, "totalTokenCount": 165}
    assert generate_usage({"usageMetadata": only_thoughts}) == Usage(87, None, reasoning=78)


@pytest.mark.parametrize(
    ("reader", "stated"),
    [
        (chat_usage, {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 16}),
        (chat_usage, {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 11}}),
        (chat_usage, {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 5}}),
        (chat_usage, {"completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 6}}),
        (responses_usage, {"input_tokens": 10, "output_tokens": 5, "total_tokens": 14}),
        (responses_usage, {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 11}}),
        (responses_usage, {"output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 6}}),
        (messages_usage, {"output_tokens": 5, "output_tokens_details": {"thinking_tokens": 6}}),
    ],
)
def test_counts_that_contradict_one_another(reader: Any, stated: Any) -> None:
    assert reader({"usage": stated}).is_consistent is False


def test_generated_counts_that_contradict_one_another() -> None:
    good = {"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 2, "totalTokenCount": 17}
    for change in ({"totalTokenCount": 15}, {"toolUsePromptTokenCount": 1}, {"cachedContentTokenCount": 11}):
        usage = generate_usage({"usageMetadata": {**good, **change}})
        assert usage is not None
        assert usage.is_consistent is False


@pytest.mark.parametrize("odd", [None, True, -1, 1.0, "1", 2**63, [], {}])
def test_what_is_no_count_is_absent_and_not_zero(odd: Any) -> None:
    names = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "total_tokens")
    for reader in READERS["usage"]:
        assert reader({"usage": dict.fromkeys(names, odd)}) == Usage(is_consistent=odd is None)
    google = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount")
    assert generate_usage({"usageMetadata": dict.fromkeys(google, odd)}) == Usage(is_consistent=odd is None)


@pytest.mark.parametrize("name", ["cache_read_input_tokens", "cache_creation_input_tokens"])
def test_a_sum_with_an_unreadable_part_is_not_known(name: str) -> None:
    usage = {"input_tokens": 1, "output_tokens": 2, name: -1}
    assert messages_usage({"usage": usage}) == Usage(None, 2, is_consistent=False)
    assert messages_usage({"usage": {**usage, "input_tokens": 2**63 - 1, name: 1}}) is not None
    assert generate_usage({"usageMetadata": {"promptTokenCount": 2**63 - 1, "toolUsePromptTokenCount": 1}}) == Usage(
        is_consistent=False
    )


@pytest.mark.parametrize("odd", [None, 7, "x", []])
def test_usage_that_is_no_object_is_absent(odd: Any) -> None:
    for member, readers in READERS.items():
        for reader in readers:
            assert reader({}) is None
            assert reader({member: odd}) is None
