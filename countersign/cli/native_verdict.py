"""A native stream's verdict for people and programs (design/native-harness.md, section 2)."""

from collections.abc import Mapping
from typing import Any, Final

from countersign.adapter.v1 import adapter_pb2 as pb

HARNESSES: Final = {
    "claude": pb.HARNESS_CLAUDE,
    "codex": pb.HARNESS_CODEX,
    "omp": pb.HARNESS_OMP,
    "pi": pb.HARNESS_PI,
    "gemini": pb.HARNESS_GEMINI,
    "agents-sdk": pb.HARNESS_AGENTS_SDK,
    "mock": pb.HARNESS_MOCK,
    "opencode": pb.HARNESS_OPENCODE,
}
CONTRACTS: Final = {
    "native": pb.OUTPUT_CONTRACT_NATIVE,
    "image-envelope": pb.OUTPUT_CONTRACT_IMAGE_ENVELOPE,
}
EXIT_STATUSES: Final[Mapping[str, int]] = {
    "HARNESS_INCOMPATIBLE": 10,
    "IMAGE_INVALID": 20,
    "IMAGE_TOO_LARGE": 20,
    "PROTOCOL_MALFORMED": 22,
    "PROTOCOL_TRUNCATED": 22,
    "HARNESS_FAILED": 22,
    "SEMANTIC_STATUS_UNKNOWN": 23,
    "PROCESS_CLEANUP_FAILED": 25,
}
"""By error code."""
SEMANTIC_FAILED: Final = "semantic-failed"
SEMANTIC_FAILED_STATUS: Final = 30
INTERNAL_STATUS: Final = 70

_USAGE: Final = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens", "reasoning_tokens")


def exit_status(verdict: pb.ReadNativeStreamResponse) -> int:
    """What a command ends with: 0 for a completion whose envelope, if any, does not say that the program failed."""
    if verdict.WhichOneof("part") == "completion":
        return SEMANTIC_FAILED_STATUS if verdict.completion.semantic_status == SEMANTIC_FAILED else 0
    return EXIT_STATUSES.get(verdict.failure.code, INTERNAL_STATUS)


def verdict_object(harness: str, verdict: pb.ReadNativeStreamResponse) -> dict[str, Any]:
    """The verdict as one JSON object; digests in hexadecimal, what was not reported as null."""
    complete = verdict.WhichOneof("part") == "completion"
    ended = verdict.completion if complete else verdict.failure
    about: dict[str, Any] = {
        "harness": harness,
        "complete": complete,
        "code": None,
        "record": None,
        "detail": None,
        "observations": {observation.name: observation.count for observation in ended.observations},
        "assistant_text": None,
        "semantic_status": None,
        "envelope_digest": None,
        **_facts(ended.facts, ended.output_digest),
    }
    if complete:
        found = verdict.completion
        about |= {"assistant_text": found.assistant_text, "semantic_status": found.semantic_status}
        about["envelope_digest"] = found.envelope_digest.hex() or None
    else:
        failure = verdict.failure
        about |= {"code": failure.code, "record": failure.record or None, "detail": failure.detail}
    return about


def verdict_lines(about: Mapping[str, Any]) -> list[str]:
    """The same for people: the verdict, what is left open, what was reported; not the assistant's text."""
    if about["complete"]:
        lines = [f"complete: {about['harness']} says that it finished, at record {about['terminal_record']}"]
    else:
        where = f" at record {about['record']}" if about["record"] else ""
        lines = [f"not complete: {about['code']}{where}: {about['detail']}"]
    if about["semantic_status"] not in (None, "not-applicable"):
        lines.append(f"envelope: {printable(about['semantic_status'])}")
    counts = ", ".join(f"{name} {count}" for name, count in about["observations"].items())
    lines.append(f"left open: {counts or 'nothing was observed'}")
    stated = [f"{key} {printable(about[key])}" for key in ("harness_version", "model", "session_id") if about[key]]
    lines.append(f"stated: {', '.join(stated) or 'nothing'}")
    tokens = [f"{key} {value}" for key, value in about["usage"].items() if value is not None]
    lines.append(f"reported: {', '.join(tokens) or 'no tokens'}, cost in USD {about['cost_usd'] or 'unavailable'}")
    lines.append(f"read: {about['records']} records, {about['output_bytes']} bytes, SHA-256 {about['output_digest']}")
    return lines


def printable(text: str) -> str:
    """`text` of a stream as a terminal may show it: what is no printable character is escaped."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _facts(facts: pb.NativeFacts, output_digest: bytes) -> dict[str, Any]:
    usage = {name: getattr(facts.usage, name) if facts.usage.HasField(name) else None for name in _USAGE}
    return {
        "harness_version": facts.harness_version or None,
        "model": facts.model or None,
        "session_id": facts.session_id or None,
        "usage": usage,
        "cost_usd": facts.reported_cost_text if facts.HasField("reported_cost_text") else None,
        "terminal_record": facts.terminal_record if facts.HasField("terminal_record") else None,
        "records": facts.records_count,
        "output_bytes": facts.output_bytes,
        "output_digest": output_digest.hex(),
        "events": facts.events_count,
        "events_digest": facts.events_digest.hex(),
        "image_digest": facts.image_digest.hex() or None,
    }
