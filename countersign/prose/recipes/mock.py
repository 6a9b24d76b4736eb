"""The scripted harness: its model names the script."""

import sys
from pathlib import Path

from countersign.prose import mock_harness
from countersign.prose.recipes.base import Launch, Recipe, Request
from countersign.prose.settings import HarnessName, PermissionMode


def _program() -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", str(Path(mock_harness.__file__)))


def _build(request: Request) -> Launch:
    argv = [*request.program, request.settings.model or mock_harness.DEFAULT]
    files = {request.instructions_path.name: request.instructions}
    return Launch(tuple(argv), request.task.encode(), request.credentials.variables, {}, files)


MOCK = Recipe(
    harness=HarnessName.MOCK,
    executable="",
    since=(1,),
    before=(2,),
    modes=dict.fromkeys(PermissionMode, ()),
    build=_build,
    takes_base_url=False,
    takes_max_cost=True,
    program=_program,
    own_version=lambda: mock_harness.VERSION,
)
