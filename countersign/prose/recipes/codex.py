"""Codex: `exec --json`, the image as developer instructions, the task on standard input."""

import json

from countersign.prose.codes import Code, ProseError
from countersign.prose.recipes.base import MAX_ARGUMENT_BYTES, Launch, Recipe, Request
from countersign.prose.settings import HarnessName, PermissionMode

PROVIDER = "prose"
"""The name under which a provider at a given base URL is configured."""
_NO_COMPACTION_TOKENS = 1_000_000_000


def _build(request: Request) -> Launch:
    settings = request.settings
    options = {
        "developer_instructions": _toml_text(request.instructions.decode()),
        "check_for_update_on_startup": "false",
        "analytics.enabled": "false",
        "feedback.enabled": "false",
        "model_auto_compact_token_limit": str(_NO_COMPACTION_TOKENS),
    }
    if len(options["developer_instructions"]) > MAX_ARGUMENT_BYTES // 4:
        raise ProseError(Code.IMAGE_TOO_LARGE, "the image is more than Codex takes as developer instructions")
    if settings.provider_base_url is not None:
        if not request.credentials.profile.required:
            raise ProseError(Code.TRANSPORT_UNSUPPORTED, "--provider-base-url needs an auth profile with a key")
        options |= _provider(settings.provider_base_url)
    argv = [*request.program, "exec", "--json", "--skip-git-repo-check"]
    argv += CODEX.modes[settings.permission_mode]
    if settings.model is not None:
        argv += ["--model", settings.model]
    for key, value in options.items():
        argv += ["--config", f"{key}={value}"]
    environment = dict(request.credentials.variables)
    if "OPENAI_API_KEY" in environment:
        # What `codex exec` reads for the provider that it has built in.
        environment["CODEX_API_KEY"] = environment["OPENAI_API_KEY"]
        # A login cached in the home folder would be another credential than the one that was chosen.
        environment["CODEX_HOME"] = str(request.folder)
    return Launch(argv=(*argv, "-"), stdin=request.task.encode(), environment=environment)


def _provider(base_url: str) -> dict[str, str]:
    prefix = f"model_providers.{PROVIDER}"
    return {
        "model_provider": _toml_text(PROVIDER),
        f"{prefix}.name": _toml_text(PROVIDER),
        f"{prefix}.base_url": _toml_text(base_url),
        f"{prefix}.wire_api": _toml_text("responses"),
        f"{prefix}.env_key": _toml_text("OPENAI_API_KEY"),
    }


def _toml_text(text: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's, but for DEL."""
    return json.dumps(text).replace("\x7f", "\\u007f")


CODEX = Recipe(
    harness=HarnessName.CODEX,
    executable="codex",
    since=(0, 171, 0),
    before=(1,),
    modes={
        PermissionMode.DEFAULT: (),
        PermissionMode.WORKSPACE_WRITE: ("--sandbox", "workspace-write"),
        PermissionMode.READ_ONLY: ("--sandbox", "read-only"),
    },
    build=_build,
    # In a home among temporary files, which its commands may write, Codex makes no sandbox helper: no command runs.
    outside_temporary=True,
)
