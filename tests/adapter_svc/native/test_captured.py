"""Every captured stream of a real agent program gets the verdict that expectations.toml says, and why."""

import hashlib
import json
import tomllib
from pathlib import Path

import pytest

from adapter_svc.native import Completion, NativeReader, Opening, ProcessEnd
from countersign.kit.canonical import canonical_json
from tests.adapter_svc.native.helpers import (
    HARNESS_OF_FOLDER,
    captured,
    captured_end,
    code_of,
    counts,
    judge,
    opening_of,
    streams_folder,
)

CLASSES = tomllib.loads((Path(__file__).parent / "expectations.toml").read_text("utf-8"))["class"]
STREAMS = [(stream, found["verdict"]) for found in CLASSES for stream in found["streams"]]
PATHS = [stream["path"] for stream, _ in STREAMS]
COMPLETE = [stream["path"] for stream, verdict in STREAMS if verdict == "complete"]


@pytest.mark.parametrize(("stream", "verdict"), STREAMS, ids=PATHS)
def test_the_verdict_is_the_expected_one(stream: dict[str, object], verdict: str) -> None:
    path = str(stream["path"])
    found = judge(opening_of(path), captured(path), captured_end(path))
    record = found.facts.terminal_record if isinstance(found, Completion) else found.record
    assert (code_of(found), record, counts(found)) == (verdict, stream["record"], stream["observations"])


def test_every_captured_stream_is_expected_once_and_every_class_has_a_reason() -> None:
    folder = streams_folder()
    assert sorted(PATHS) == sorted(path.relative_to(folder).as_posix()[:-7] for path in folder.glob("*/*.ndjson"))
    assert all(found["reason"] for found in CLASSES)


@pytest.mark.parametrize("path", PATHS)
def test_byte_by_byte_is_the_same_as_whole(path: str) -> None:
    data, end = captured(path), captured_end(path)
    whole, pieces = NativeReader(opening_of(path)), NativeReader(opening_of(path))
    events = whole.feed(data)
    assert [event for at in range(len(data)) for event in pieces.feed(data[at : at + 1])] == events
    assert pieces.finish(end) == whole.finish(end)


@pytest.mark.parametrize("path", PATHS)
def test_events_are_numbered_and_digested(path: str) -> None:
    data = captured(path)
    reader = NativeReader(opening_of(path))
    events = [event for at in range(0, len(data), 777) for event in reader.feed(data[at : at + 777])]
    found = reader.finish(captured_end(path))
    bodies = [json.loads(event.body) for event in events]
    log = b"".join(
        canonical_json({"body": body, "kind": event.kind, "sequence": number}) + b"\n"
        for number, (event, body) in enumerate(zip(events, bodies, strict=True))
    )
    assert [event.sequence for event in events] == list(range(len(events)))
    assert (found.facts.events, found.facts.events_digest) == (len(events), hashlib.sha256(log).digest())
    assert (found.facts.output_bytes, found.facts.output_digest) == (len(data), hashlib.sha256(data).digest())
    assert [event.kind for event in events].count("harness.started") == (1 if events else 0)
    if isinstance(found, Completion):
        said = [body for event, body in zip(events, bodies, strict=True) if event.kind == "assistant.message"]
        text = "".join(("" if body["continues"] or not at else "\n") + body["text"] for at, body in enumerate(said))
        assert found.assistant_text == text


@pytest.mark.parametrize("path", COMPLETE)
def test_a_completion_needs_the_process_to_end_well(path: str) -> None:
    data, opening = captured(path), opening_of(path)
    ends = {
        "HARNESS_FAILED": [ProcessEnd(exit_status=1), ProcessEnd(signal=9), ProcessEnd(exit_status=0, signal=9)],
        "PROTOCOL_TRUNCATED": [
            ProcessEnd(exit_status=0, signalled_before_terminal=True),
            ProcessEnd(exit_status=0, drained=False),
        ],
        "PROCESS_CLEANUP_FAILED": [ProcessEnd(exit_status=0, survivors=1), ProcessEnd(exit_status=1, survivors=1)],
    }
    for code, found in ends.items():
        assert {code_of(judge(opening, data, end)) for end in found} == {code}


@pytest.mark.parametrize("path", [path for path in PATHS if path.startswith(("pi/", "pi-0.74.2/"))])
def test_an_older_pi_is_known_by_its_records_too(path: str) -> None:
    found = judge(Opening(HARNESS_OF_FOLDER["pi"]), captured(path), captured_end(path))
    assert code_of(found) == ("PROTOCOL_MALFORMED" if "+rpc" in path else "HARNESS_INCOMPATIBLE")


@pytest.mark.parametrize(
    ("path", "version", "model", "session", "tokens", "cost"),
    [
        ("claude/tool_ok", "2.1.197", "claude-sonnet-4-5", True, (200, 40, 0), "0.0012000000000000001"),
        ("claude-latest/text", "2.1.332", "claude-sonnet-4-5", True, (100, 20, 0), "0.0006000000000000001"),
        ("codex/tool_ok", "", "", True, (200, 40, 0), None),
        ("gemini/tool_ok", "", "gemini-2.5-flash", True, (200, 40, 0), None),
        ("omp/tool_ok", "", "fake-model", True, (200, 40, 0), "0.00028"),
        ("omp/tool_ok+rpc", "", "fake-model", False, (200, 40, 0), "0.00028"),
        ("pi-latest/drop", "", "fake-model", True, (500, 24, 0), "0.00054799999999999996"),
        ("agents-sdk/tool_ok", "", "gpt-fake", False, (200, 40, 0), None),
    ],
)
def test_what_a_stream_states_is_told(
    path: str, version: str, model: str, session: bool, tokens: tuple[int, ...], cost: str | None
) -> None:
    facts = judge(opening_of(path), captured(path), captured_end(path)).facts
    usage = facts.usage
    assert (facts.harness_version, facts.model, bool(facts.session_id)) == (version, model, session)
    assert (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens) == tokens
    assert facts.cost_text == cost
