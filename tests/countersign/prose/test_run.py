"""Whole runs of the scripted harness, judged by a real adapter: every ending, and what the result says of it."""

import hashlib
import json
import os
import stat
from pathlib import Path

import pytest

from countersign.images import shipped_image
from countersign.prose.mock_harness import SCRIPTS
from tests.countersign.prose.conftest import SECRET, Answer, Prose


def test_a_completed_run(prose: Prose, workspace: Path) -> None:
    answer = prose("text")
    result = answer.result
    assert (answer.status, answer.err) == (0, "")
    assert result["terminal"] == {
        "classification": "completed",
        "transport_completed": True,
        "terminal_event_observed": True,
        "exit_status": 0,
        "signal": None,
        "signal_sent": None,
    }
    assert result["assistant_text"] == "First line.\nSecond line."
    assert result["semantic"] == {"status": "not-applicable", "envelope_digest": None}
    assert (result["cwd"], result["cost_usd"], result["usage"]["input_tokens"]) == (str(workspace), "0.0125", 10)
    assert (result["model"], result["requested_model"], result["observations"]) == ("mock-model", "text", {})
    assert result["supervision"]["stdout_drained"]
    assert result["error"] is None


def test_the_task_is_the_framing_and_the_arguments_as_they_are(bare: Prose, adapter: str) -> None:
    options = ("--harness=mock", "--output-contract=native", "--output=json", f"--adapter={adapter}", "--model=task")
    answer = bare(*options, "run", 'a "b"', "--model", "ü\n")
    task = 'The task follows as one JSON object.\n{"argv":["prose","run","a \\"b\\"","--model","ü\\n"]}\n'
    assert answer.result["assistant_text"] == task
    assert answer.result["digests"]["task"] == hashlib.sha256(task.encode()).hexdigest()


def test_people_get_all_of_the_text(prose: Prose) -> None:
    answer = prose("text", rendering="human")
    assert (answer.status, answer.out, answer.err) == (0, "First line.\nSecond line.\n", "")


def test_native_text_is_never_taken_for_an_envelope(prose: Prose) -> None:
    line = '{"schema":"countersign.echo-envelope/1","semanticStatus":"semantic-failed"}'
    answer = prose("say:" + line)
    assert (answer.status, answer.result["assistant_text"]) == (0, line)
    assert answer.result["semantic"]["status"] == "not-applicable"


@pytest.mark.parametrize(
    ("script", "status", "code"),
    [
        ("truncated", 22, "PROTOCOL_TRUNCATED"),
        ("cut", 22, "PROTOCOL_TRUNCATED"),
        ("crash", 22, "PROTOCOL_TRUNCATED"),
        ("no-such-script", 22, "PROTOCOL_TRUNCATED"),
        ("malformed", 22, "PROTOCOL_MALFORMED"),
        ("error", 22, "HARNESS_FAILED"),
        ("exit-after-success:3", 22, "HARNESS_FAILED"),
    ],
)
def test_runs_that_are_not_complete(prose: Prose, script: str, status: int, code: str) -> None:
    answer = prose(script)
    assert (answer.status, answer.code) == (status, code)
    assert answer.result["terminal"]["classification"] == "failed"
    assert not answer.result["terminal"]["transport_completed"]
    assert answer.result["supervision"]["remaining"] == 0


def test_a_stream_that_can_no_longer_be_complete_is_ended_at_once(prose: Prose) -> None:
    # The script hangs after its bad record, for far longer than this run's timeout.
    result = prose("malformed", "--timeout=1h").result
    assert (result["error"]["record"], result["terminal"]["signal_sent"]) == (2, 15)


@pytest.mark.parametrize(
    ("script", "options", "status", "code", "signal_sent"),
    [
        ("silent", ["--timeout=1s"], 21, "STARTUP_TIMEOUT", 15),
        ("hang", ["--timeout=4s"], 24, "CANCELLED", 15),
        ("flood", ["--native-output-bytes=1048576"], 22, "PROTOCOL_MALFORMED", 15),
    ],
)
def test_runs_that_are_ended_from_here(
    prose: Prose, script: str, options: list[str], status: int, code: str, signal_sent: int
) -> None:
    answer = prose(script, *options)
    assert (answer.status, answer.code, answer.result["terminal"]["signal_sent"]) == (status, code, signal_sent)
    assert answer.result["supervision"]["remaining"] == 0


@pytest.mark.parametrize("kind", ["group", "bare", "loud"])
def test_what_a_harness_leaves_behind_is_killed_and_said(prose: Prose, kind: str) -> None:
    answer = prose(f"survivor:{kind}")
    supervision = answer.result["supervision"]
    assert (answer.status, answer.code) == (25, "PROCESS_CLEANUP_FAILED")
    assert (supervision["left_behind"], supervision["killed"], supervision["remaining"]) == (1, 1, 0)
    assert supervision["stdout_drained"]


def test_standard_error_is_drained_and_bounded(prose: Prose) -> None:
    answer = prose("flood-stderr:4", "--verbose", rendering="human")
    assert answer.status == 0
    assert len(answer.err) < 20_000
    assert prose("flood-stderr:4").result["supervision"]["stderr_bytes"] == 4 * 1024 * 1024


@pytest.mark.parametrize(
    ("status", "expected", "code"),
    [("semantic-succeeded", 0, None), ("semantic-failed", 30, None), ("unknown", 23, "SEMANTIC_STATUS_UNKNOWN")],
)
def test_the_envelope_decides_under_its_contract(prose: Prose, status: str, expected: int, code: str | None) -> None:
    answer = prose(f"envelope:{status}", "--output-contract=image-envelope", "--image=echo")
    assert (answer.status, answer.code, answer.result["semantic"]["status"]) == (expected, code, status)
    if code is None:
        assert answer.result["assistant_text"] == "Some prose."
        assert answer.result["semantic"]["envelope_digest"] is not None


def test_an_envelope_that_is_not_there_is_a_broken_protocol(prose: Prose) -> None:
    answer = prose("text", "--output-contract=image-envelope", "--image=echo")
    assert (answer.status, answer.code) == (22, "PROTOCOL_MALFORMED")


def test_json_lines_are_numbered_without_gaps_and_end_once(prose: Prose) -> None:
    lines = [json.loads(line) for line in prose("tool", rendering="jsonl").out.splitlines()]
    assert [line["sequence"] for line in lines] == list(range(7))
    assert [line["type"] for line in lines] == [
        "runner.started",
        "harness.started",
        "tool.started",
        "tool.ended",
        "assistant.message",
        "harness.completed",
        "runner.completed",
    ]
    assert lines[-1]["body"]["observations"] == {"PROVIDER_RETRY": 1}


@pytest.mark.parametrize(
    ("script", "options"),
    [("error", []), ("silent", ["--timeout=1s"]), ("text", ["--image=/nowhere"]), ("text", ["--nope"])],
)
def test_json_lines_of_a_failure_end_with_it(prose: Prose, script: str, options: list[str]) -> None:
    lines = [json.loads(line) for line in prose(script, *options, rendering="jsonl").out.splitlines()]
    assert [line["sequence"] for line in lines] == list(range(len(lines)))
    assert [line["type"] for line in lines].count("runner.failed") == 1
    assert (lines[-1]["type"], lines[-1]["body"]["schema"]) == ("runner.failed", "countersign.run-result/1")
    assert "harness.completed" not in [line["type"] for line in lines]


def test_many_records_come_in_order(prose: Prose) -> None:
    result = prose("many:5000").result
    assert result["assistant_text"] == "\n".join(f"line {number}" for number in range(5000))


@pytest.mark.parametrize(
    ("options", "env", "status", "code"),
    [
        (["--timeout=0s"], {}, 2, "INVOCATION_INVALID"),
        (["--auth-profile=openai"], {}, 2, "INVOCATION_INVALID"),
        ([], {"PROSE_TIMEOUT": "x"}, 2, "CONFIG_INVALID"),
        ([], {"PROSE_INVOCATION_ID": "x"}, 2, "RECURSIVE_INVOCATION"),
        (["--adapter=127.0.0.1:1"], {}, 2, "CONFIG_INVALID"),
        (["--auth-profile=mock-api-key"], {}, 10, "HARNESS_NEEDS_AUTH"),
        (["--auth-profile=mock-api-key"], {"MOCK_API_KEY": ""}, 10, "HARNESS_NEEDS_AUTH"),
        (["--harness=codex", "--auth-profile=cached-chatgpt-login"], {"PATH": "/nowhere"}, 10, "HARNESS_UNAVAILABLE"),
        (["--harness=codex"], {}, 10, "HARNESS_NEEDS_AUTH"),
        (["--harness=opencode"], {}, 10, "HARNESS_INCOMPATIBLE"),
        (["--harness=codex", "--permission-mode=acceptEdits"], {}, 10, "TRANSPORT_UNSUPPORTED"),
        (["--provider-base-url=http://127.0.0.1:1/v1"], {}, 10, "TRANSPORT_UNSUPPORTED"),
        (["--image=/nowhere"], {}, 20, "IMAGE_INVALID"),
        (["--output-contract=image-envelope"], {}, 2, "INVOCATION_INVALID"),
    ],
)
def test_what_is_not_launched(prose: Prose, options: list[str], env: dict[str, str], status: int, code: str) -> None:
    answer = prose("text", *options, env=env)
    assert (answer.status, answer.code) == (status, code)
    assert answer.result["terminal"]["classification"] == "not-launched"
    assert answer.result["supervision"] is None


def test_an_image_from_a_folder(prose: Prose, workspace: Path) -> None:
    folder = workspace / "image"
    for name, content in shipped_image("native").items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    assert prose("text", f"--image={folder}").status == 0
    (folder / "payload" / "link.md").symlink_to("/etc/hostname")
    assert prose("text", f"--image={folder}").code == "IMAGE_INVALID"
    (folder / "payload" / "link.md").unlink()
    (folder / "payload" / "more.md").write_bytes(b"x" * (5 * 1024 * 1024))
    answer = prose("text", f"--image={folder}")
    assert (answer.status, answer.code) == (20, "IMAGE_TOO_LARGE")


def test_an_image_that_needs_another_channel(prose: Prose, workspace: Path) -> None:
    folder = workspace / "image"
    for name, content in shipped_image("native").items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.replace(b'"system-append"', b'"user-prefix"'))
    answer = prose("text", f"--image={folder}")
    assert (answer.status, answer.code) == (20, "PROMPT_CHANNEL_UNSUPPORTED")


def test_a_harness_of_another_version_is_refused(prose: Prose, workspace: Path) -> None:
    program = workspace / "codex"
    program.write_text("#!/bin/sh\necho codex-cli 0.9.1\n")
    program.chmod(0o755)
    env = {"PATH": f"{workspace}:{os.environ['PATH']}", "OPENAI_API_KEY": SECRET}
    answer = prose("text", "--harness=codex", "--auth-profile=openai-api-key", env=env)
    assert (answer.status, answer.code) == (10, "HARNESS_INCOMPATIBLE")
    assert "0.9.1" in answer.result["error"]["detail"]


def test_a_dry_run_says_what_would_be_launched(prose: Prose, workspace: Path) -> None:
    answer = prose("text", "--dry-run", "--auth-profile=mock-api-key", env={"MOCK_API_KEY": SECRET})
    planned = json.loads(answer.out)
    assert (answer.status, planned["schema"]) == (0, "countersign.run-invocation/1")
    assert planned["argv"][-1] == "text"
    assert "MOCK_API_KEY" in planned["environment_names"]
    assert SECRET not in answer.out
    assert list(workspace.iterdir()) == []


def environment_of(answer: Answer) -> dict[str, str]:
    environment: dict[str, str] = json.loads(answer.result["assistant_text"])
    return environment


def test_the_child_has_an_allowed_environment_and_one_profile(prose: Prose, environment: dict[str, str]) -> None:
    others = {"OPENAI_API_KEY": "sk-other", "LC_ALL": "C", "XDG_CACHE_HOME": "/x", "HTTP_PROXY": "http://x"}
    answer = prose("environment", env={**others, "MOCK_API_KEY": SECRET})
    seen = environment_of(answer)
    # LC_CTYPE is Python's own, in a child without a locale.
    assert set(seen) - {"LC_CTYPE"} == {"PROSE_INVOCATION_ID", "LC_ALL", "XDG_CACHE_HOME", *environment}
    assert seen["PROSE_INVOCATION_ID"] == answer.result["invocation_id"]
    assert "MOCK_API_KEY" in environment_of(
        prose("environment", "--auth-profile=mock-api-key", env={"MOCK_API_KEY": SECRET})
    )


@pytest.mark.parametrize("rendering", ["human", "json", "jsonl"])
def test_a_key_is_seen_nowhere(prose: Prose, tmp_path: Path, rendering: str) -> None:
    log = tmp_path / "native.log"
    options = ("--auth-profile=mock-api-key", "--verbose", f"--native-log={log}")
    answer = prose("environment", *options, env={"MOCK_API_KEY": SECRET}, rendering=rendering)
    assert answer.status == 0
    assert "[redacted]" in answer.out
    for text in (answer.out, answer.err, log.read_text()):
        assert SECRET not in text
    assert "[redacted]" in log.read_text()


def test_a_key_among_the_arguments_is_refused(prose: Prose) -> None:
    answer = prose(SECRET, "--auth-profile=mock-api-key", env={"MOCK_API_KEY": SECRET})
    assert (answer.status, answer.code) == (2, "INVOCATION_INVALID")
    assert SECRET not in answer.out


def test_the_native_log_has_what_the_harness_wrote(prose: Prose, tmp_path: Path) -> None:
    log = tmp_path / "native.log"
    result = prose("tool", f"--native-log={log}").result
    assert result["native_log"] == str(log)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert hashlib.sha256(log.read_bytes()).hexdigest() == result["digests"]["raw_stdout"]
    again = prose("tool", f"--native-log={log}")
    assert (again.status, again.code) == (2, "INVOCATION_INVALID")


def test_an_error_for_people_has_its_source_detail_and_action(prose: Prose) -> None:
    answer = prose("error", rendering="human")
    assert answer.err.splitlines() == [
        "prose: HARNESS_FAILED: The harness reports that it failed.",
        "  Source: harness, record 2",
        "  Detail: the script ends with an error",
        "  Action: Read what it says, and correct the cause.",
    ]


def test_the_same_launch_has_the_same_invocation_digest(prose: Prose) -> None:
    digests = {prose("text").result["digests"]["invocation"] for _ in range(2)}
    assert len(digests) == 1


def test_config_explain_names_each_source(bare: Prose, workspace: Path, environment: dict[str, str]) -> None:
    (workspace / ".prose").mkdir()
    (workspace / ".prose" / "cli.toml").write_text('model = "m"\n')
    answer = bare("--output=json", "--timeout=5s", "cli", "config", "explain", env={"PROSE_IMAGE": "echo"})
    rows = {row["key"]: (row["value"], row["source"]) for row in map(json.loads, answer.out.splitlines())}
    assert rows["model"] == ("m", f"{workspace}/.prose/cli.toml:1")
    assert rows["timeout"] == ("5s", "flag")
    assert rows["image"] == ("echo", "PROSE_IMAGE")
    assert rows["output_contract"] == ("image-envelope", "default")
    refused = bare("cli", "config", "explain", env={"PROSE_PROVIDER_BASE_URL": f"http://{SECRET}@x"})
    assert (refused.status, SECRET in refused.out + refused.err) == (2, False)


def test_harness_list_and_doctor(bare: Prose, adapter: str) -> None:
    rows = [json.loads(line) for line in bare("--output=json", "cli", "harness", "list").out.splitlines()]
    assert [row["harness"] for row in rows] == ["claude", "codex", "omp", "pi", "gemini", "agents-sdk", "mock"]
    assert rows[-1]["trouble"] is None
    doctor = bare("--harness=mock", f"--adapter={adapter}", "--output=json", "cli", "doctor")
    assert doctor.status == 0
    assert all(json.loads(line)["well"] for line in doctor.out.splitlines())
    assert bare("--harness=mock", "--adapter=127.0.0.1:1", "cli", "doctor").status == 10
    assert bare("--harness=claude", f"--adapter={adapter}", "cli", "doctor", env={"PATH": "/nowhere"}).status == 10
    assert bare(f"--adapter={adapter}", "cli", "doctor", env={"PATH": "/nowhere"}).status == 0


def test_every_script_is_played_somewhere() -> None:
    source = Path(__file__).read_text() + (Path(__file__).parent / "test_command.py").read_text()
    source += (Path(__file__).parent / "test_money.py").read_text()
    assert [name for name in SCRIPTS if f'"{name}' not in source] == []
