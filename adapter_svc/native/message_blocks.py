"""The blocks of an assistant's message, while they stream and when they stand (design/native-harness.md, section 5)."""

from typing import Final

from adapter_svc.native.framing import Record
from adapter_svc.native.shapes import child, count, name, need, text
from adapter_svc.native.verdict import Malformed

TYPE_OF_EVENT: Final = {"text": "text", "thinking": "thinking", "toolcall": "toolCall"}
"""By the part before the underscore of an event's type."""
STEPS: Final = frozenset({"start", "delta", "end"})
THINKING_TYPES: Final = frozenset({"thinking", "redactedThinking"})


class StreamedBlocks:
    """What the updates of one message said of its blocks."""

    def __init__(self) -> None:
        self._types: list[str] = []
        self._ended: set[int] = set()

    def read(self, event: Record) -> str:
        """Read one `assistantMessageEvent`; the type of the block that it is about.

        Raises Malformed for an unknown kind, an index out of range, or a block that changes its type or goes on.
        """
        kind, _, step = text(event, "type").partition("_")
        if kind not in TYPE_OF_EVENT or step not in STEPS:
            raise Malformed("an update of an unknown kind")
        block_type, index = TYPE_OF_EVENT[kind], count(event, "contentIndex")
        if step == "start":
            need(index == len(self._types), "a block starts out of order")
            self._types.append(block_type)
            return block_type
        need(index < len(self._types), "an update of a block that did not start")
        need(self._types[index] == block_type, "a block changes its type")
        need(index not in self._ended, "a block goes on after its end")
        if step == "delta":
            text(event, "delta")
        else:
            self._ended.add(index)
            child(event, "toolCall") if block_type == "toolCall" else text(event, "content")
        return block_type

    def require_final(self, blocks: list[Record]) -> None:
        """Raises Malformed unless the finished message has these blocks, of these types."""
        need(len(blocks) >= len(self._types), "a finished message lacks a block that was streamed")
        for streamed, block in zip(self._types, blocks, strict=False):
            final = "thinking" if block["type"] in THINKING_TYPES else block["type"]
            need(streamed == final, "a block changes its type")


def check_blocks(blocks: list[Record]) -> None:
    """Raises Malformed unless every block is of a known type and well formed."""
    for block in blocks:
        kind = text(block, "type")
        if kind == "text":
            text(block, "text")
        elif kind == "toolCall":
            name(block, "id")
            name(block, "name")
            child(block, "arguments")
        else:
            need(kind in THINKING_TYPES or kind == "image", "a block of an unknown type")
