"""What the model wrote for everybody to read in an admitted answer; never its reasoning (design/architecture.md, I9).

The text of a final answer is the verdict's. Beside a tool call it stands among the opaque items that go back to the
provider, of which only what the formats call text is taken.
"""

import json
from collections.abc import Iterator
from typing import Any

from verifier_svc.receipts.verdicts import Action, Decoded, TextFinish
from verifier_svc.receipts.wire import WireFormat


def said(wire_format: WireFormat, decoded: Decoded) -> str:
    """The visible text of an answer, "" where there is none or where the answer was not admitted."""
    if isinstance(decoded.verdict, TextFinish):
        return decoded.verdict.text
    if not isinstance(decoded.verdict, Action) or decoded.continuation is None:
        return ""
    return "".join(_texts(wire_format, json.loads(decoded.continuation)))


def _texts(wire_format: WireFormat, items: Any) -> Iterator[str]:
    match wire_format:
        case WireFormat.CHAT_COMPLETIONS:
            content = items.get("content")
            if isinstance(content, str):
                yield content
            elif isinstance(content, list):
                yield from _of_type(content, "text")
        case WireFormat.MESSAGES:
            yield from _of_type(items, "text")
        case WireFormat.RESPONSES:
            for item in items:
                if item.get("type") == "message":
                    yield from _of_type(item["content"], "output_text")
        case WireFormat.GENERATE_CONTENT:
            for part in items["parts"]:
                if not part.get("thought") and isinstance(part.get("text"), str):
                    yield part["text"]


def _of_type(parts: Any, kind: str) -> Iterator[str]:
    for part in parts:
        if part.get("type") == kind:
            yield part["text"]
