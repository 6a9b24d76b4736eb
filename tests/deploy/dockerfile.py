"""The Dockerfile as data: its stages, and what an image of one would run, with what is inherited."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from adapter_svc.settings import AdapterSettings
from countersign.kit.settings import ServiceSettings, load_settings
from ledger_svc.settings import LedgerSettings
from tests.conftest import PROJECT_ROOT
from verifier_svc.settings import VerifierSettings

DOCKERFILE = PROJECT_ROOT / "Dockerfile"
SERVICES: Mapping[str, type[ServiceSettings]] = {
    "ledger": LedgerSettings,
    "adapter": AdapterSettings,
    "verifier": VerifierSettings,
}
TARGETS = (*SERVICES, "cli")


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: what it begins from, and its instructions in order, the `FROM` left out."""

    name: str
    base: str
    instructions: tuple[tuple[str, str], ...]

    def all(self, keyword: str) -> list[str]:
        """The arguments of every instruction of this kind."""
        return [argument for word, argument in self.instructions if word == keyword]


@dataclass(frozen=True, slots=True)
class Image:
    """What a container of a target is started with."""

    entrypoint: list[str]
    command: list[str]
    healthcheck: list[str]
    environment: Mapping[str, str]
    user: str
    folder: str
    port: int | None


def stages(path: Path = DOCKERFILE) -> dict[str, Stage]:
    """Every stage by its name, in order."""
    kept = "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith("#"))
    lines = [line.strip() for line in re.sub(r"\\\n", " ", kept).splitlines() if line.strip()]
    found: dict[str, Stage] = {}
    for line in lines:
        keyword, _, argument = line.partition(" ")
        if keyword == "FROM":
            base, _, name = argument.partition(" AS ")
            found[name] = Stage(name, base, ())
        elif found:
            last = next(reversed(found.values()))
            found[last.name] = Stage(last.name, last.base, (*last.instructions, (keyword, " ".join(argument.split()))))
    return found


def image(target: str) -> Image:
    """What an image of `target` runs, with what its stages inherit."""
    known, chain = stages(), []
    name = target
    while name in known:
        chain.insert(0, known[name])
        name = known[name].base
    of = {word: [one for stage in chain for one in stage.all(word)] for word in ("ENV", "USER", "WORKDIR", "EXPOSE")}
    environment = dict(part.split("=", 1) for line in of["ENV"] for part in line.split())

    def last(keyword: str) -> str:
        return next((one for stage in reversed(chain) for one in reversed(stage.all(keyword))), "[]")

    healthcheck = last("HEALTHCHECK").partition("CMD ")[2] or "[]"
    port = int(of["EXPOSE"][-1]) if of["EXPOSE"] else None
    words = [json.loads(one) for one in (last("ENTRYPOINT"), last("CMD"), healthcheck)]
    return Image(words[0], words[1], words[2], environment, of["USER"][-1], of["WORKDIR"][-1], port)


def settings_of(target: str, given: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> ServiceSettings:
    """What a service's image would be told, with what is `given` by its environment; refuses what is unknown."""
    environment = {**image(target).environment, **given}
    for name, value in environment.items():
        if name.startswith("COUNTERSIGN_"):
            monkeypatch.setenv(name, value)
    return load_settings(SERVICES[target], image(target).command, environment)
