"""What each harness is started with: exact arguments, switches and files, and no secret among them."""

import json
from pathlib import Path
from typing import Any

import pytest

from countersign.prose.codes import Code, ProseError
from countersign.prose.profiles import INVOCATION_VARIABLE, PROFILES, allowed_environment, load_credentials
from countersign.prose.recipes import RECIPES, Launch, Request
from countersign.prose.recipes.base import MAX_ARGUMENT_BYTES, MAX_ARGUMENTS, check_argv
from countersign.prose.settings import HarnessName, PermissionMode, read_settings
from tests.countersign.prose.conftest import SECRET

FOLDER = Path("/run-folder")
URL = "http://127.0.0.1:9/v1"


def launch_of(harness: HarnessName, profile: str, **values: str) -> Launch:
    from countersign.prose.config import of_flags

    settings = read_settings(of_flags({"harness": harness, "output_contract": "native", **values}), Path("/w"))
    chosen = next(one for one in PROFILES[harness] if one.name == profile)
    credentials = load_credentials(chosen, dict.fromkeys((*chosen.required, *chosen.optional), SECRET))
    program = (f"/bin/{harness}",)
    return RECIPES[harness].launch(Request(program, settings, credentials, FOLDER, b'Do "it".\n', "task\n"))


def test_claude() -> None:
    launch = launch_of(
        HarnessName.CLAUDE,
        "anthropic-api-key",
        model="m",
        permission_mode="acceptEdits",
        max_cost="0.5",
        provider_base_url=URL,
    )
    assert launch.argv == (
        *("/bin/claude", "-p", "--output-format", "stream-json", "--verbose"),
        *("--append-system-prompt-file", "/run-folder/instructions.md", "--permission-mode", "acceptEdits"),
        *("--model", "m", "--max-budget-usd", "0.5"),
    )
    assert launch.environment == {"ANTHROPIC_API_KEY": SECRET}
    assert launch.switches["ANTHROPIC_BASE_URL"] == URL
    assert {"DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY", "DISABLE_AUTO_COMPACT"} <= set(launch.switches)
    assert launch.files == {"instructions.md": b'Do "it".\n'}


def test_codex() -> None:
    launch = launch_of(
        HarnessName.CODEX, "openai-api-key", model="m", permission_mode="workspace-write", provider_base_url=URL
    )
    argv = launch.argv
    assert argv[:6] == ("/bin/codex", "exec", "--json", "--skip-git-repo-check", "--sandbox", "workspace-write")
    options = [argv[index + 1] for index, word in enumerate(argv) if word == "--config"]
    assert 'developer_instructions="Do \\"it\\".\\n"' in options
    assert f'model_providers.prose.base_url="{URL}"' in options
    assert 'model_providers.prose.wire_api="responses"' in options
    assert argv[-1] == "-"
    assert launch.environment == {"OPENAI_API_KEY": SECRET, "CODEX_API_KEY": SECRET, "CODEX_HOME": "/run-folder"}
    with pytest.raises(ProseError) as caught:
        launch_of(HarnessName.CODEX, "cached-chatgpt-login", provider_base_url=URL)
    assert caught.value.code is Code.TRANSPORT_UNSUPPORTED


@pytest.mark.parametrize("harness", [HarnessName.PI, HarnessName.OMP])
def test_pi_and_omp(harness: HarnessName) -> None:
    launch = launch_of(harness, "anthropic", model="m", permission_mode="read-only", provider_base_url=URL)
    assert launch.argv[:5] == (f"/bin/{harness}", "-p", "--mode", "json", "--no-session")
    assert launch.argv[-6:] == ("--tools", "read,grep,find,ls", "--provider", "anthropic", "--model", "m")
    assert launch.environment == {"ANTHROPIC_API_KEY": SECRET, "PI_CODING_AGENT_DIR": "/run-folder"}
    assert json.loads(launch.files["models.json"]) == {"providers": {"anthropic": {"baseUrl": URL}}}
    assert json.loads(launch.files["settings.json"]) == {"compaction": {"enabled": False}}
    with pytest.raises(ProseError) as caught:
        launch_of(harness, f"{harness}-harness-login", provider_base_url=URL)
    assert caught.value.code is Code.TRANSPORT_UNSUPPORTED


def test_gemini() -> None:
    launch = launch_of(HarnessName.GEMINI, "gemini-api-key", model="m", provider_base_url=URL)
    assert launch.argv == (
        *("/bin/gemini", "-o", "stream-json", "--skip-trust", "--approval-mode", "default", "-m", "m"),
    )
    assert launch.switches == {"GEMINI_CLI_HOME": "/run-folder", "GOOGLE_GEMINI_BASE_URL": URL}
    assert launch.files[".gemini/GEMINI.md"] == b'Do "it".\n'


def test_agents_sdk() -> None:
    launch = launch_of(HarnessName.AGENTS_SDK, "openai-api-key", model="m", provider_base_url=URL)
    assert launch.argv == ("/bin/agents-sdk", "--instructions", "/run-folder/instructions.md", "--model", "m")
    assert launch.switches == {"OPENAI_AGENTS_DISABLE_TRACING": "1", "OPENAI_BASE_URL": URL}


@pytest.mark.parametrize("harness", list(HarnessName))
def test_every_profile_and_mode_keeps_its_secret_out_of_sight(harness: HarnessName) -> None:
    for profile in PROFILES[harness]:
        for mode in RECIPES[harness].modes:
            launch = launch_of(harness, profile.name, permission_mode=mode)
            seen = [*launch.argv, *launch.switches.values(), launch.stdin.decode(), repr(launch.files)]
            assert not any(SECRET in text for text in seen)
            assert launch.stdin == b"task\n"
            assert INVOCATION_VARIABLE not in launch.environment


def test_a_mode_that_a_harness_has_not_is_refused() -> None:
    for harness, recipe in RECIPES.items():
        for mode in set(PermissionMode) - set(recipe.modes):
            with pytest.raises(ProseError) as caught:
                launch_of(harness, PROFILES[harness][0].name, permission_mode=mode)
            assert caught.value.code is Code.TRANSPORT_UNSUPPORTED


def test_the_environment_is_an_allow_list() -> None:
    given = {"PATH": "p", "HOME": "h", "LC_ALL": "l", "XDG_DATA_HOME": "x", "TZ": "z"}
    assert allowed_environment({**given, "OPENAI_API_KEY": "k", "LD_PRELOAD": "p", "PROSE_MODEL": "m"}) == given


@pytest.mark.parametrize(
    "argv", [["x"] * (MAX_ARGUMENTS + 1), ["x" * (MAX_ARGUMENT_BYTES + 1)], ["x" * 100_000] * 11, ["a\0b"]]
)
def test_arguments_beyond_what_the_system_takes(argv: list[str]) -> None:
    with pytest.raises(ProseError) as caught:
        check_argv(argv)
    assert caught.value.code is Code.INVOCATION_INVALID


def test_a_version_is_in_range_or_not() -> None:
    expected: dict[tuple[int, ...], Any] = {(2, 1, 196): False, (2, 1, 197): True, (2, 9): True, (3, 0): False}
    assert {version: RECIPES[HarnessName.CLAUDE].accepts(version) for version in expected} == expected
