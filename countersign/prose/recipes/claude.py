"""Claude Code: print mode, its stream as JSON lines, the task on standard input."""

from countersign.kit.money import nanos_to_text
from countersign.prose.recipes.base import Launch, Recipe, Request
from countersign.prose.settings import HarnessName, PermissionMode

_SWITCHES = {
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTO_COMPACT": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}


def _build(request: Request) -> Launch:
    settings = request.settings
    argv = [*request.program, "-p", "--output-format", "stream-json", "--verbose"]
    argv += ["--append-system-prompt-file", str(request.instructions_path)]
    argv += CLAUDE.modes[settings.permission_mode]
    if settings.model is not None:
        argv += ["--model", settings.model]
    if settings.max_cost is not None:
        argv += ["--max-budget-usd", nanos_to_text(settings.max_cost.nanos)]
    switches = dict(_SWITCHES)
    if settings.provider_base_url is not None:
        switches["ANTHROPIC_BASE_URL"] = settings.provider_base_url
    return Launch(
        argv=tuple(argv),
        stdin=request.task.encode(),
        environment=request.credentials.variables,
        switches=switches,
        files={request.instructions_path.name: request.instructions},
    )


CLAUDE = Recipe(
    harness=HarnessName.CLAUDE,
    executable="claude",
    since=(2, 1, 197),
    before=(3,),
    modes={
        PermissionMode.DEFAULT: ("--permission-mode", "default"),
        PermissionMode.ACCEPT_EDITS: ("--permission-mode", "acceptEdits"),
        PermissionMode.READ_ONLY: ("--permission-mode", "plan"),
    },
    build=_build,
    takes_max_cost=True,
)
