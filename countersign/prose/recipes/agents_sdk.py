"""Our driver over the OpenAI Agents SDK, run with this interpreter; the library must be installed for it."""

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from countersign.prose.recipes.base import Launch, Recipe, Request
from countersign.prose.settings import HarnessName, PermissionMode

DRIVER = Path(__file__).parent.parent / "agents_sdk_driver.py"


def _program() -> tuple[str, ...]:
    return (sys.executable, "-I", str(DRIVER))


def _own_version() -> str | None:
    try:
        return version("openai-agents")
    except PackageNotFoundError:
        return None


def _build(request: Request) -> Launch:
    settings = request.settings
    argv = [*request.program, "--instructions", str(request.instructions_path)]
    if settings.model is not None:
        argv += ["--model", settings.model]
    switches = {"OPENAI_AGENTS_DISABLE_TRACING": "1"}
    if settings.provider_base_url is not None:
        switches["OPENAI_BASE_URL"] = settings.provider_base_url
    files = {request.instructions_path.name: request.instructions}
    return Launch(tuple(argv), request.task.encode(), request.credentials.variables, switches, files)


AGENTS_SDK = Recipe(
    harness=HarnessName.AGENTS_SDK,
    executable="",
    since=(0, 24),
    before=(1,),
    modes={PermissionMode.READ_ONLY: (), PermissionMode.DEFAULT: ()},
    build=_build,
    program=_program,
    own_version=_own_version,
)
