"""A run before anything is launched: what would be, checked (design/native-harness.md, sections 2 and 6)."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from countersign.kit.canonical import canonical_json
from countersign.kit.money import nanos_to_text
from countersign.prose.codes import Code, ProseError
from countersign.prose.pricing import PriceTable, load_table
from countersign.prose.profiles import (
    INVOCATION_VARIABLE,
    Credentials,
    allowed_environment,
    choose_profile,
    load_credentials,
)
from countersign.prose.recipes import RECIPES, Launch, Request
from countersign.prose.settings import Settings
from countersign.prose.supervision import ChildSpec
from countersign.prose.task import Task, make_task
from countersign.prose.versions import Found, find_harness

INVOCATION_SCHEMA: Final = "countersign.run-invocation/1"
FOLDER_NAME: Final = "$RUN"
"""What stands for the run's own folder, whose name is drawn at random."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What is asked and given, checked without looking at the harness."""

    settings: Settings
    credentials: Credentials
    task: Task
    prices: PriceTable | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """What would be launched. `invocation` is canonical JSON that names no secret."""

    planned: Planned
    found: Found
    launch: Launch
    child: ChildSpec
    invocation: bytes


def plan(settings: Settings, language: tuple[str, ...], environ: Mapping[str, str]) -> Planned:
    """Check all that can be without the harness. Raises ProseError."""
    RECIPES[settings.harness].check(settings)
    task = make_task(settings, language)
    credentials = load_credentials(choose_profile(settings.harness, settings.auth_profile), environ)
    prices = None
    if settings.prices is not None:
        prices = load_table(settings.prices, settings.harness, credentials.profile.name)
    return Planned(settings, credentials, task, prices)


async def prepare(planned: Planned, invocation_id: str, folder: Path, environ: Mapping[str, str]) -> Prepared:
    """Find the harness, and word its launch. Raises ProseError."""
    settings = planned.settings
    recipe = RECIPES[settings.harness]
    found = await find_harness(recipe, environ)
    request = Request(
        program=found.program,
        settings=settings,
        credentials=planned.credentials,
        folder=folder,
        instructions=planned.task.bundle.model_visible,
        task=planned.task.text,
    )
    launch = recipe.launch(request)
    _require_no_secret(launch, planned.credentials)
    environment = allowed_environment(environ) | dict(launch.environment) | dict(launch.switches)
    environment[INVOCATION_VARIABLE] = invocation_id
    child = ChildSpec(
        argv=launch.argv,
        environment=environment,
        cwd=settings.cwd,
        stdin=launch.stdin,
        timeout_seconds=settings.timeout_seconds,
        output_bytes=settings.output_bytes,
    )
    return Prepared(planned, found, launch, child, _invocation(planned, found, launch, environment, folder))


def write_files(launch: Launch, folder: Path) -> None:
    """Write what the harness reads into the run's folder."""
    for name, content in launch.files.items():
        path = folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(content)


def _require_no_secret(launch: Launch, credentials: Credentials) -> None:
    shown = [*launch.argv, *launch.switches.values()]
    if any(secret in text for secret in credentials.secrets for text in shown):
        raise ProseError(Code.INVOCATION_INVALID, "an argument holds the auth profile's secret")


def _invocation(planned: Planned, found: Found, launch: Launch, environment: Mapping[str, str], folder: Path) -> bytes:
    """What is launched, without secrets: the ledger keeps it as the call's request."""
    settings = planned.settings

    def named(text: str) -> str:
        return text.replace(str(folder), FOLDER_NAME)

    about: dict[str, Any] = {
        "schema": INVOCATION_SCHEMA,
        "harness": settings.harness.value,
        "harness_version": found.version,
        "contract": settings.contract.value,
        "model": settings.model,
        "auth_profile": planned.credentials.profile.name,
        "permission_mode": settings.permission_mode.value,
        "argv": [named(argument) for argument in launch.argv],
        "environment_names": sorted(environment),
        "switches": {name: named(value) for name, value in launch.switches.items()},
        "cwd": str(settings.cwd),
        "image_digest": planned.task.bundle.digest.hex(),
        "language": list(planned.task.argv),
        "task": planned.task.text,
        "timeout_seconds": settings.timeout_seconds,
        "max_cost_usd": None if settings.max_cost is None else nanos_to_text(settings.max_cost.nanos),
    }
    return canonical_json(about)


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()
