"""The text of a message: one string, or a list of known parts (design/admission.md, step 7 and
Particulars)."""

from typing import Any

from verifier_svc.receipts.verdicts import Inadmissible, Reason, TextFinish


def final_text(message: dict[str, Any], text: str, where: str) -> TextFinish:
    """The text finish of a text stop without calls, whose content reads `text`; raises Inadmissible."""
    refusal = refusal_text(message, where)
    if text.strip():
        return TextFinish(text)
    if refusal.strip():
        raise Inadmissible(Reason.STRUCTURED_REFUSAL, f"{where}/refusal")
    raise Inadmissible(Reason.EMPTY_TEXT, f"{where}/content")


def refusal_text(message: dict[str, Any], where: str) -> str:
    """The structured refusal, "" where there is none; raises Inadmissible where it is no text."""
    refusal = message.get("refusal")
    if refusal is None or isinstance(refusal, str):
        return refusal or ""
    raise Inadmissible(Reason.INVALID_MESSAGE, f"{where}/refusal")


def content_text(message: dict[str, Any], where: str) -> str:
    """The content's text, "" where it is absent or null; raises Inadmissible for content of another form."""
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise Inadmissible(Reason.INVALID_MESSAGE, f"{where}/content")
    return "".join(_part(part, f"{where}/content/{index}") for index, part in enumerate(content))


def _part(part: Any, where: str) -> str:
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    if isinstance(part, dict) and part.get("type") == "thinking":
        return ""
    raise Inadmissible(Reason.INVALID_MESSAGE, where)
