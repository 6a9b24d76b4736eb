"""OMP and pi: print mode, JSON lines, the image appended to the system prompt, the task on standard input.

With a key of a provider the harness has an agent folder of the run's own, with its login, sessions and settings left
out; with its own login it has the user's.
"""

import json
from collections.abc import Mapping
from functools import partial

from countersign.kit.canonical import canonical_json
from countersign.prose.codes import Code, ProseError
from countersign.prose.recipes.base import Launch, Recipe, Request
from countersign.prose.settings import HarnessName, PermissionMode

_SWITCHES = {"PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}
_READ_ONLY = ("--tools", "read,grep,find,ls")


def _build(request: Request, extra: tuple[str, ...], modes: Mapping[PermissionMode, tuple[str, ...]]) -> Launch:
    settings = request.settings
    keyed = bool(request.credentials.profile.required)
    argv = [*request.program, "-p", "--mode", "json", "--no-session", *extra]
    argv += ["--append-system-prompt", str(request.instructions_path)]
    argv += modes[settings.permission_mode]
    environment = dict(request.credentials.variables)
    files = {request.instructions_path.name: request.instructions}
    if keyed:
        provider = request.credentials.profile.name
        argv += ["--provider", provider]
        environment["PI_CODING_AGENT_DIR"] = str(request.folder)
        files["settings.json"] = canonical_json({"compaction": {"enabled": False}})
        if settings.provider_base_url is not None:
            models = {"providers": {provider: {"baseUrl": settings.provider_base_url}}}
            files["models.json"] = json.dumps(models).encode()
    elif settings.provider_base_url is not None:
        raise ProseError(Code.TRANSPORT_UNSUPPORTED, "--provider-base-url needs an auth profile with a key")
    if settings.model is not None:
        argv += ["--model", settings.model]
    return Launch(tuple(argv), request.task.encode(), environment, _SWITCHES, files)


_OMP_MODES = {PermissionMode.DEFAULT: (), PermissionMode.READ_ONLY: _READ_ONLY}
_PI_MODES = {PermissionMode.DEFAULT: (), PermissionMode.READ_ONLY: _READ_ONLY}

OMP = Recipe(
    harness=HarnessName.OMP,
    executable="omp",
    since=(18, 2),
    before=(19,),
    modes=_OMP_MODES,
    build=partial(_build, extra=("--no-title", "--no-lsp", "--auto-approve"), modes=_OMP_MODES),
)
PI = Recipe(
    harness=HarnessName.PI,
    executable="pi",
    since=(1, 6),
    before=(2,),
    modes=_PI_MODES,
    build=partial(_build, extra=(), modes=_PI_MODES),
)
