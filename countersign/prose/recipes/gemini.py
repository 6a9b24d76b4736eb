"""Gemini CLI: its stream as JSON lines, the image as the global context file, the task on standard input.

It has a home of the run's own: context, settings and no login but the key.
"""

from countersign.kit.canonical import canonical_json
from countersign.prose.recipes.base import Launch, Recipe, Request
from countersign.prose.settings import HarnessName, PermissionMode

_SETTINGS = {
    "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}},
}


def _build(request: Request) -> Launch:
    settings = request.settings
    argv = [*request.program, "-o", "stream-json", "--skip-trust", *GEMINI.modes[settings.permission_mode]]
    if settings.model is not None:
        argv += ["-m", settings.model]
    switches = {"GEMINI_CLI_HOME": str(request.folder)}
    if settings.provider_base_url is not None:
        switches["GOOGLE_GEMINI_BASE_URL"] = settings.provider_base_url
    files = {".gemini/GEMINI.md": request.instructions, ".gemini/settings.json": canonical_json(_SETTINGS)}
    return Launch(tuple(argv), request.task.encode(), request.credentials.variables, switches, files)


GEMINI = Recipe(
    harness=HarnessName.GEMINI,
    executable="gemini",
    since=(0, 61),
    before=(1,),
    modes={
        PermissionMode.DEFAULT: ("--approval-mode", "default"),
        PermissionMode.ACCEPT_EDITS: ("--approval-mode", "auto_edit"),
        PermissionMode.READ_ONLY: ("--approval-mode", "plan"),
    },
    build=_build,
)
