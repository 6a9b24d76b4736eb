"""Credentials and the child's environment: an allow-list and exactly one profile's variables (section 6)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from countersign.prose.codes import Code, ProseError
from countersign.prose.settings import HarnessName

INVOCATION_VARIABLE: Final = "PROSE_INVOCATION_ID"
"""In every process of a run: a command that finds it set is inside of a run, and refuses to start another."""

ALLOWED: Final = frozenset({"PATH", "HOME", "USER", "TMPDIR", "LANG", "TZ"})
ALLOWED_PREFIXES: Final = ("LC_", "XDG_")


@dataclass(frozen=True, slots=True)
class AuthProfile:
    """Where credentials come from: the `required` variables are secrets; the `optional` ones name a login's place."""

    name: str
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


def _provider_profiles(login: str, agent_folder: str) -> tuple[AuthProfile, ...]:
    return (
        AuthProfile(login, optional=(agent_folder,)),
        AuthProfile("anthropic", required=("ANTHROPIC_API_KEY",)),
        AuthProfile("openai", required=("OPENAI_API_KEY",)),
        AuthProfile("openrouter", required=("OPENROUTER_API_KEY",)),
        AuthProfile("google", required=("GEMINI_API_KEY",)),
    )


PROFILES: Final[Mapping[HarnessName, tuple[AuthProfile, ...]]] = {
    HarnessName.CLAUDE: (
        AuthProfile("claude-subscription", optional=("CLAUDE_CONFIG_DIR",)),
        AuthProfile("anthropic-api-key", required=("ANTHROPIC_API_KEY",)),
    ),
    HarnessName.CODEX: (
        AuthProfile("cached-chatgpt-login", optional=("CODEX_HOME",)),
        AuthProfile("openai-api-key", required=("OPENAI_API_KEY",)),
    ),
    HarnessName.OMP: _provider_profiles("omp-harness-login", "PI_CODING_AGENT_DIR"),
    HarnessName.PI: _provider_profiles("pi-harness-login", "PI_CODING_AGENT_DIR"),
    HarnessName.GEMINI: (AuthProfile("gemini-api-key", required=("GEMINI_API_KEY",)),),
    HarnessName.AGENTS_SDK: (AuthProfile("openai-api-key", required=("OPENAI_API_KEY",)),),
    HarnessName.MOCK: (AuthProfile("none"), AuthProfile("mock-api-key", required=("MOCK_API_KEY",))),
}


@dataclass(frozen=True, slots=True)
class Credentials:
    """A chosen profile and its variables. `secrets` are the values that may be seen nowhere."""

    profile: AuthProfile
    variables: Mapping[str, str]

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values of the profile's secret variables."""
        return tuple(self.variables[name] for name in self.profile.required)


def choose_profile(harness: HarnessName, name: str | None) -> AuthProfile:
    """The profile `name` of `harness`; where it has only one that needs nothing, that may be left out.

    Raises ProseError: INVOCATION_INVALID for a profile of another harness, HARNESS_NEEDS_AUTH where none is named.
    """
    profiles = PROFILES[harness]
    names = ", ".join(profile.name for profile in profiles)
    if name is None:
        if harness is HarnessName.MOCK:
            return profiles[0]
        raise ProseError(Code.HARNESS_NEEDS_AUTH, f"name an auth profile of {harness}: {names}")
    for profile in profiles:
        if profile.name == name:
            return profile
    raise ProseError(Code.INVOCATION_INVALID, f"--auth-profile: {harness} has {names}")


def load_credentials(profile: AuthProfile, environ: Mapping[str, str]) -> Credentials:
    """The profile's variables. Raises ProseError, HARNESS_NEEDS_AUTH, where one is missing or empty."""
    for name in profile.required:
        if not environ.get(name):
            raise ProseError(Code.HARNESS_NEEDS_AUTH, f"the auth profile {profile.name} needs the variable {name}")
    names = (*profile.required, *(name for name in profile.optional if environ.get(name)))
    return Credentials(profile, {name: environ[name] for name in names})


def allowed_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What of this process's environment any child is given."""
    return {name: value for name, value in environ.items() if name in ALLOWED or name.startswith(ALLOWED_PREFIXES)}
