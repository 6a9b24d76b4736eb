"""What a model wrote for everybody to read, and nothing that is opaque (design/architecture.md, I9)."""

from typing import Any

import pytest

from countersign.kit.canonical import canonical_json
from verifier_svc.receipts.said import said
from verifier_svc.receipts.verdicts import Action, Decoded, Reason, TechnicalUnknown, TextFinish
from verifier_svc.receipts.wire import WireFormat

CHAT, MESSAGES, RESPONSES, GENERATE = WireFormat
SECRET = "what it thought"
ITEMS: dict[str, tuple[WireFormat, Any, str]] = {
    "a chat message": (CHAT, {"content": "I wait.", "reasoning": SECRET}, "I wait."),
    "chat parts": (CHAT, {"content": [{"type": "thinking", "thinking": SECRET}, {"type": "text", "text": "I"}]}, "I"),
    "no chat text": (CHAT, {"content": None, "reasoning_content": SECRET}, ""),
    "content blocks": (
        MESSAGES,
        [
            {"type": "thinking", "thinking": SECRET, "signature": "s"},
            {"type": "text", "text": "I "},
            {"type": "tool_use", "id": "1", "name": "wait", "input": {"text": SECRET}},
            {"type": "text", "text": "wait."},
        ],
        "I wait.",
    ),
    "output items": (
        RESPONSES,
        [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": SECRET}], "encrypted_content": SECRET},
            {"type": "message", "content": [{"type": "output_text", "text": "I wait."}]},
            {"type": "function_call", "name": "wait", "arguments": "{}"},
        ],
        "I wait.",
    ),
    "content parts": (
        GENERATE,
        {
            "parts": [
                {"text": SECRET, "thought": True},
                {"text": "I wait.", "thoughtSignature": SECRET},
                {"functionCall": {"name": "wait", "args": {}}},
            ]
        },
        "I wait.",
    ),
}


@pytest.mark.parametrize(("wire_format", "items", "text"), ITEMS.values(), ids=ITEMS)
def test_beside_a_call_only_the_text_is_taken(wire_format: WireFormat, items: Any, text: str) -> None:
    decoded = Decoded(Action("wait", {}, "1"), continuation=canonical_json(items))
    assert said(wire_format, decoded) == text


def test_a_final_text_is_all_of_it() -> None:
    assert said(CHAT, Decoded(TextFinish("Done."), continuation=b'{"content":"other"}')) == "Done."


def test_what_was_not_admitted_says_nothing() -> None:
    unknown = TechnicalUnknown(Reason.TRUNCATED, "")
    assert said(CHAT, Decoded(unknown, continuation=b'{"content":"half a sent"}')) == ""
    assert said(CHAT, Decoded(Action("wait", {}, "1"))) == ""
