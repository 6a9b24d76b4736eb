"""Token counts of each wire format, in classes that have no token in common.

- chat_completions and responses: the input includes what came from a cache and what was written to one, the output
  includes the reasoning.
- messages: `input_tokens` excludes both kinds of cached tokens, so the input is the sum of the three; the output
  includes the thinking.
- generate_content: the input is the prompt, cached content included, and what the provider's own tools put in; the
  output is the candidates' tokens and the thoughts'. Where the candidates' count is absent the output is not known,
  though there are thoughts.

A count that is absent, null or no whole number from 0 to 2**63 - 1 is not known and stays None. A part that is more
than its whole, or a total that is not the sum, makes the usage inconsistent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verifier_svc.receipts.rules import member_of
from verifier_svc.receipts.verdicts import Usage

_LARGEST_COUNT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Counts:
    """The counts of one response, by their path."""

    stated: Mapping[str, Any]

    def at(self, *path: str) -> int | None:
        value: Any = self.stated
        for name in path:
            value = member_of(value, name)
        is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_COUNT
        return value if is_count else None


def chat_usage(response: Mapping[str, Any]) -> Usage | None:
    """The usage of a chat completion; None where there is no such object."""
    counts = _counts(response, "usage")
    if counts is None:
        return None
    return _usage(
        counts.at("prompt_tokens"),
        counts.at("completion_tokens"),
        cache_read=counts.at("prompt_tokens_details", "cached_tokens"),
        cache_write=counts.at("prompt_tokens_details", "cache_write_tokens"),
        reasoning=counts.at("completion_tokens_details", "reasoning_tokens"),
        total=counts.at("total_tokens"),
    )


def messages_usage(response: Mapping[str, Any]) -> Usage | None:
    """The usage of a message; None where there is no such object."""
    counts = _counts(response, "usage")
    if counts is None:
        return None
    cache_read, cache_write = counts.at("cache_read_input_tokens"), counts.at("cache_creation_input_tokens")
    uncached = counts.at("input_tokens")
    return _usage(
        None if uncached is None else uncached + (cache_read or 0) + (cache_write or 0),
        counts.at("output_tokens"),
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=counts.at("output_tokens_details", "thinking_tokens"),
        total=None,
    )


def responses_usage(response: Mapping[str, Any]) -> Usage | None:
    """The usage of a response; None where there is no such object."""
    counts = _counts(response, "usage")
    if counts is None:
        return None
    return _usage(
        counts.at("input_tokens"),
        counts.at("output_tokens"),
        cache_read=counts.at("input_tokens_details", "cached_tokens"),
        cache_write=counts.at("input_tokens_details", "cache_write_tokens"),
        reasoning=counts.at("output_tokens_details", "reasoning_tokens"),
        total=counts.at("total_tokens"),
    )


def generate_usage(response: Mapping[str, Any]) -> Usage | None:
    """The usage of generated content; None where there is no such object."""
    counts = _counts(response, "usageMetadata")
    if counts is None:
        return None
    prompt, candidates, thoughts = (
        counts.at(name) for name in ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
    )
    return _usage(
        None if prompt is None else prompt + (counts.at("toolUsePromptTokenCount") or 0),
        None if candidates is None else candidates + (thoughts or 0),
        cache_read=counts.at("cachedContentTokenCount"),
        cache_write=None,
        reasoning=thoughts,
        total=counts.at("totalTokenCount"),
    )


def _counts(response: Mapping[str, Any], member: str) -> _Counts | None:
    stated = response.get(member)
    return _Counts(stated) if isinstance(stated, dict) else None


def _usage(
    input_tokens: int | None,
    output_tokens: int | None,
    *,
    cache_read: int | None,
    cache_write: int | None,
    reasoning: int | None,
    total: int | None,
) -> Usage:
    is_whole = input_tokens is None or (cache_read or 0) + (cache_write or 0) <= input_tokens
    is_sum = None in (total, input_tokens, output_tokens) or total == (input_tokens or 0) + (output_tokens or 0)
    is_part = output_tokens is None or (reasoning or 0) <= output_tokens
    return Usage(input_tokens, output_tokens, cache_read, cache_write, reasoning, is_whole and is_part and is_sum)
