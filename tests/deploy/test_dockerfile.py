"""The Dockerfile: pinned, no compiler in what is shipped, nobody is root, every variable is a setting."""

import re

import pytest

from tests.conftest import PROJECT_ROOT
from tests.deploy.dockerfile import DOCKERFILE, SERVICES, TARGETS, image, settings_of, stages
from tests.deploy.tools import run, tool


def test_the_linter_has_nothing_to_say() -> None:
    run(tool("hadolint"), "--no-color", DOCKERFILE)


def test_every_stage_begins_from_the_one_pinned_image_that_a_build_must_name() -> None:
    known = stages()
    assert {stage.base for stage in known.values()} - set(known) == {"${BASE}"}
    first_line = next(line for line in DOCKERFILE.read_text().splitlines() if line and not line.startswith("#"))
    assert first_line == "ARG BASE", "no default: a digest that nobody checked pins nothing"
    assert "*@sha256:*) ;; *) echo" in known["builder"].all("RUN")[0]


def test_everything_installed_is_pinned_by_its_hash() -> None:
    for stage in stages().values():
        for command in stage.all("RUN"):
            for line in re.findall(r"pip [^&]*install[^&]*", command):
                assert "--require-hashes" in line or "--no-index" in line, line


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_shipped_has_no_build_tools_and_no_root(target: str) -> None:
    known, name, chain = stages(), target, []
    while name in known:
        chain.append(known[name])
        name = known[name].base
    assert not {"builder", "builder-cli"} & {stage.name for stage in chain}
    commands = [command for stage in chain for command in stage.all("RUN")]
    assert all("pip" not in command and "apt" not in command for command in commands)
    assert "! command -v cc" in commands[0]
    copies = [line for stage in chain for line in stage.all("COPY")]
    assert all(re.fullmatch(r"--from=builder(-cli)? /opt/countersign /opt/countersign", line) for line in copies)
    assert image(target).user == "65532:65532"


@pytest.mark.parametrize("target", SERVICES)
def test_every_variable_of_an_image_is_a_setting_of_its_service(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = image(target)
    settings = settings_of(target, {}, monkeypatch)
    assert settings.listen == f"0.0.0.0:{given.port}"
    assert None not in (settings.access_file, settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
    prefixes = (f"COUNTERSIGN_{target.upper()}_", "COUNTERSIGN_HEALTH_", "PATH", "PYTHON")
    assert all(name.startswith(prefixes) for name in given.environment)


def test_what_is_copied_is_what_the_build_context_has() -> None:
    allowed = {line[1:] for line in (PROJECT_ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied: set[str] = set()
    for stage in stages().values():
        for line in stage.all("COPY"):
            if not line.startswith("--from"):
                copied |= set(line.split()[:-1])
    assert copied == allowed
    assert all((PROJECT_ROOT / name).exists() for name in copied)
