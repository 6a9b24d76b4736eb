"""A view of a collection that shows nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

from countersign.study.runner import EpisodeOrder


class SilentView:
    """Says nothing."""

    def begin(self, planned: int, kept: Sequence[Mapping[str, Any]], cap_nanos: int = 0) -> None: ...

    def note(self, text: str) -> None: ...

    def finished(self, order: EpisodeOrder, record: Mapping[str, Any]) -> None: ...
