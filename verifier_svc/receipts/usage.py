"""Token counts of each wire format, in classes that have no token in common.

- chat_completions and responses: the input includes what came from a cache and what was written to one, the output
  includes the reasoning.
- messages: `input_tokens` excludes both kinds of cached tokens, so the input is the sum of the three; the output
  includes the thinking. Without `input_tokens` the input is not known.
- generate_content: the input is the prompt, cached content included, and what the provider's own tools put in; the
  output is the candidates' tokens and the thoughts'. Where the candidates' count is absent the output is not known,
  though there are thoughts.

A count that is absent or null is not known and stays None. So does one that is there and no whole number from 0 to
2**63 - 1, and a sum that has such a part; that makes the usage inconsistent, as a part that is more than its whole or a
total that is not the sum does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verifier_svc.receipts.rules import member_of
from verifier_svc.receipts.verdicts import Usage

_LARGEST_COUNT = 2**63 - 1


@dataclass(slots=True)
class _Counts:
    """The counts of one response, by their path; `are_readable` until one was asked for that is there and no count."""

    stated: Mapping[str, Any]
    are_readable: bool = True

    def at(self, *path: str) -> int | None:
        value = self._stated_at(path)
        if value is not None and not _is_count(value):
            self.are_readable = False
            return None
        return None if value is None else int(value)

    def _stated_at(self, path: tuple[str, ...]) -> Any:
        value: Any = self.stated
        for name in path:
            value = member_of(value, name)
        return value

    def first(self, *paths: tuple[str, ...]) -> int | None:
        """The count at the first path that has anything."""
        stated = [path for path in paths if self._stated_at(path) is not None]
        return self.at(*stated[0]) if stated else None

    def total(self, first: str, *others: str) -> int | None:
        """The sum; not known without the first count, and where one of them is unreadable or it is no count itself."""
        are_readable, self.are_readable = self.are_readable, True
        counts = [self.at(first), *map(self.at, others)]
        total = sum(count or 0 for count in counts)
        is_known = self.are_readable and counts[0] is not None and _is_count(total)
        self.are_readable &= are_readable and (is_known or counts[0] is None)
        return total if is_known else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_COUNT


def chat_usage(response: Mapping[str, Any]) -> Usage | None:
    """The usage of a chat completion; None where there is no such object."""
    counts = _counts(response, "usage")
    if counts is None:
        return None
    return _usage(
        counts,
        counts.at("prompt_tokens"),
        counts.at("completion_tokens"),
        cache_read=counts.first(
            ("prompt_tokens_details", "cached_tokens"),
            ("prompt_cache_hit_tokens",),
            ("num_cached_tokens",),
            ("cached_tokens",),
        ),
        cache_write=counts.at("prompt_tokens_details", "cache_write_tokens"),
        reasoning=counts.at("completion_tokens_details", "reasoning_tokens"),
        total=counts.at("total_tokens"),
    )


def messages_usage(response: Mapping[str, Any]) -> Usage | None:
    """The usage of a message; None where there is no such object."""
    counts = _counts(response, "usage")
    if counts is None:
        return None
    return _usage(
        counts,
        counts.total("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
        counts.at("output_tokens"),
        cache_read=counts.at("cache_read_input_tokens"),
        cache_write=counts.at("cache_creation_input_tokens"),
        reasoning=counts.at("output_tokens_details", "thinking_tokens"),
    )


def responses_usage(response: Mapping[str, Any]) -> Usage | None:
    """The usage of a response; None where there is no such object."""
    counts = _counts(response, "usage")
    if counts is None:
        return None
    return _usage(
        counts,
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
    return _usage(
        counts,
        counts.total("promptTokenCount", "toolUsePromptTokenCount"),
        counts.total("candidatesTokenCount", "thoughtsTokenCount"),
        cache_read=counts.at("cachedContentTokenCount"),
        reasoning=counts.at("thoughtsTokenCount"),
        total=counts.at("totalTokenCount"),
    )


def _counts(response: Mapping[str, Any], member: str) -> _Counts | None:
    stated = response.get(member)
    return _Counts(stated) if isinstance(stated, dict) else None


def _usage(
    counts: _Counts,
    input_tokens: int | None,
    output_tokens: int | None,
    *,
    cache_read: int | None,
    reasoning: int | None,
    cache_write: int | None = None,
    total: int | None = None,
) -> Usage:
    is_whole = input_tokens is None or (cache_read or 0) + (cache_write or 0) <= input_tokens
    is_sum = None in (total, input_tokens, output_tokens) or total == (input_tokens or 0) + (output_tokens or 0)
    is_part = output_tokens is None or (reasoning or 0) <= output_tokens
    is_consistent = counts.are_readable and is_whole and is_part and is_sum
    return Usage(input_tokens, output_tokens, cache_read, cache_write, reasoning, is_consistent)
