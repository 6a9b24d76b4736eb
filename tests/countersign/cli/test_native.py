"""`countersign native`: names, exit statuses, what is printed; against a real adapter in a thread of its own."""

import asyncio
import hashlib
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from adapter_svc.native import Code, Harness, OutputContract
from adapter_svc.service import AdapterServicer, service_spec
from countersign.cli.native_verdict import CONTRACTS, EXIT_STATUSES, HARNESSES, printable
from countersign.kit.server import start_server
from countersign.kit.wording import load_wording
from tests.countersign.cli.conftest import Answer, Command

START, SAID = {"type": "start", "version": "1", "model": "m"}, {"type": "text", "text": "hi"}
FINAL = {"type": "final", "status": "success", "usage": {"input_tokens": 1}, "cost_usd": 0.25}


@pytest.fixture(scope="module")
def adapter() -> Iterator[str]:
    """The address of an adapter without a ledger."""
    ready, stop = threading.Event(), asyncio.Event()
    found: list[str] = []
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        spec = service_spec(AdapterServicer(load_wording(), None, asyncio.Event()))
        running = await start_server(spec, "127.0.0.1:0")
        found.append(running.address)
        ready.set()
        await stop.wait()
        await running.stop(0)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait()
    yield found[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()
    structlog.reset_defaults()


@pytest.fixture
def judged(command: Command, adapter: str, tmp_path: Path) -> Any:
    """Judge records, or bytes; further arguments are the command's own."""

    def run(content: list[dict[str, Any]] | bytes, *options: object, harness: str = "mock", status: int = 0) -> Answer:
        path = tmp_path / "out.ndjson"
        data = content if isinstance(content, bytes) else b"".join(json.dumps(one).encode() + b"\n" for one in content)
        path.write_bytes(data)
        return command("native", harness, path, "--exit-status", status, "--adapter", adapter, *options)

    return run


def test_a_completion_is_told_to_people(judged: Any) -> None:
    answer = judged([START, SAID, FINAL])
    data = b"".join(json.dumps(one).encode() + b"\n" for one in (START, SAID, FINAL))
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.splitlines() == [
        "complete: mock says that it finished, at record 3",
        "left open: nothing was observed",
        "stated: harness_version 1, model m",
        "reported: input_tokens 1, cost in USD 0.25",
        f"read: 3 records, {len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}",
    ]


def test_a_completion_is_one_json_object(judged: Any) -> None:
    (line,) = judged([START, SAID, FINAL], "--json").lines()
    assert {key: line[key] for key in ("complete", "code", "record", "assistant_text", "semantic_status")} == {
        "complete": True,
        "code": None,
        "record": None,
        "assistant_text": "hi",
        "semantic_status": "not-applicable",
    }
    assert (line["terminal_record"], line["observations"], line["cost_usd"]) == (3, {}, "0.25")
    assert line["usage"] == {
        "input_tokens": 1,
        "output_tokens": None,
        "cached_input_tokens": None,
        "cache_write_tokens": None,
        "reasoning_tokens": None,
    }


def test_a_failure_is_told_with_its_record(judged: Any) -> None:
    answer = judged([START, {"type": "retry"}, {"type": "odd"}])
    assert answer.status == 22
    assert answer.out.splitlines()[:2] == [
        "not complete: PROTOCOL_MALFORMED at record 3: an unknown type of record",
        "left open: PROVIDER_RETRY 1",
    ]
    (line,) = judged([START, {"type": "odd"}], "--json").lines()
    assert (line["complete"], line["code"], line["record"]) == (False, "PROTOCOL_MALFORMED", 2)


@pytest.mark.parametrize(
    ("options", "status", "code", "exit_status"),
    [
        ((), 1, "HARNESS_FAILED", 22),
        ((), -9, "HARNESS_FAILED", 22),
        (("--signal", "TERM"), 0, "PROTOCOL_TRUNCATED", 22),
        (("--signal", "SIGINT"), 0, "PROTOCOL_TRUNCATED", 22),
        (("--signal", "15"), 0, "PROTOCOL_TRUNCATED", 22),
        (("--survivors", "1"), 0, "PROCESS_CLEANUP_FAILED", 25),
        (("--output-contract", "image-envelope"), 0, "IMAGE_INVALID", 20),
        (("--output-contract", "image-envelope", "--image", "echo"), 0, "PROTOCOL_MALFORMED", 22),
    ],
)
def test_each_code_has_its_exit_status(
    judged: Any, options: tuple[str, ...], status: int, code: str, exit_status: int
) -> None:
    answer = judged([START, SAID, FINAL], *options, "--json", status=status)
    assert (answer.status, answer.lines()[0]["code"]) == (exit_status, code)


def test_versions_and_harnesses_are_refused_by_name(judged: Any) -> None:
    assert judged(b"", "--harness-version", "0.74.2", harness="pi").status == 10
    assert judged(b"", harness="opencode").status == 10


@pytest.mark.parametrize(("said", "status"), [("semantic-succeeded", 0), ("semantic-failed", 30), ("unknown", 23)])
def test_the_envelope_decides_the_exit_status(judged: Any, said: str, status: int) -> None:
    envelope = {"schema": "countersign.echo-envelope/1", "semanticStatus": said, "task": {"argv": ["prose", "run"]}}
    text = {"type": "text", "text": json.dumps(envelope, separators=(",", ":"))}
    options = ("--output-contract", "image-envelope", "--image", "echo", "--argv", "prose", "--argv", "run")
    assert judged([START, text, FINAL], *options).status == status


def test_an_image_folder_is_read(judged: Any, tmp_path: Path) -> None:
    folder = tmp_path / "image"
    (folder / "payload").mkdir(parents=True)
    (folder / "payload" / "a.md").write_text("x")
    answer = judged([START, FINAL], "--image", folder, "--json")
    assert (answer.status, answer.lines()[0]["detail"]) == (20, "there is no manifest.json")
    (folder / "link").symlink_to(folder / "payload" / "a.md")
    refused = judged([START, FINAL], "--image", folder)
    assert (refused.status, refused.out) == (2, "")
    assert refused.err == f"countersign: --image: {folder} holds something that is no plain file\n"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"harness": "clod"}, f"HARNESS: must be one of {', '.join(HARNESSES)}"),
        ({"status": 256}, "--exit-status: must be from 0 to 255, or minus the number of the signal"),
        ({"status": -65}, "--exit-status: must be from 0 to 255, or minus the number of the signal"),
    ],
)
def test_bad_input_is_one_line_and_status_2(judged: Any, options: dict[str, Any], line: str) -> None:
    answer = judged([START, FINAL], **options)
    assert (answer.status, answer.out, answer.err) == (2, "", f"countersign: {line}\n")


@pytest.mark.parametrize(
    "options",
    [
        ("--signal", "HUH"),
        ("--signal", "99"),
        ("--output-contract", "odd"),
        ("--image", "nowhere"),
        ("--survivors", "-1"),
    ],
)
def test_a_bad_option_is_one_line_and_status_2(judged: Any, options: tuple[str, ...]) -> None:
    answer = judged([START, FINAL], *options)
    assert (answer.status, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert answer.err.startswith("countersign: ")


def test_a_missing_file_or_status_is_one_line_and_status_2(command: Command, adapter: str, tmp_path: Path) -> None:
    for arguments in ((tmp_path / "none", "--exit-status", 0), (tmp_path, "--exit-status", 0), (tmp_path / "none",)):
        answer = command("native", "mock", *arguments, "--adapter", adapter)
        assert (answer.status, answer.out, answer.err.count("\n")) == (2, "", 1)


def test_what_a_stream_says_cannot_move_the_cursor(judged: Any) -> None:
    out = judged([{**START, "model": "\x1b[2J\r\nm\u202e"}, FINAL]).out
    assert "\\x1b[2J\\r\\nm\\u202e" in out
    assert "\x1b" not in out
    assert printable("a é\t") == "a é\\t"


def test_a_large_stream_goes_in_parts(judged: Any) -> None:
    said = {"type": "text", "text": "x" * 600_000}
    (line,) = judged([START, said, said, FINAL], "--json").lines()
    assert (line["complete"], len(line["assistant_text"])) == (True, 1_200_001)


def test_an_adapter_is_started_where_none_is_named(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "out.ndjson"
    path.write_text(f"{json.dumps(START)}\n{json.dumps(FINAL)}\n")
    assert command("native", "mock", path, "--exit-status", "0", "--json").lines()[0]["complete"] is True


def test_the_names_are_those_of_the_adapter() -> None:
    assert list(HARNESSES) == [harness.value for harness in Harness]
    assert list(CONTRACTS) == [contract.value for contract in OutputContract]
    assert set(EXIT_STATUSES) == {code.value for code in Code}
