"""What a recipe takes and gives, and the bounds of an argument vector."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from countersign.prose.codes import Code, ProseError
from countersign.prose.profiles import Credentials
from countersign.prose.settings import HarnessName, PermissionMode, Settings

MAX_ARGUMENTS: Final = 1024
MAX_ARGUMENT_BYTES: Final = 128 * 1024 - 1
"""Linux refuses one argument or variable of 128 KiB."""
MAX_ARGV_BYTES: Final = 1024 * 1024
"""Of all arguments together: half of what Linux allows by default, the rest is the environment's."""

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be launched. `folder` is private to the run and removed after it; `task` goes in the user channel."""

    program: tuple[str, ...]
    settings: Settings
    credentials: Credentials
    folder: Path
    instructions: bytes
    task: str

    @property
    def instructions_path(self) -> Path:
        """Where the instructions stand as a file."""
        return self.folder / "instructions.md"


@dataclass(frozen=True, slots=True)
class Launch:
    """One child: its arguments, what its environment has beyond the allow-list, its input, files in the run's folder.

    `environment` holds secrets; `switches` and `argv` do not.
    """

    argv: tuple[str, ...]
    stdin: bytes
    environment: Mapping[str, str] = field(default_factory=dict)
    switches: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one harness is launched, in versions from `since` until before `before`.

    `executable` is looked for on PATH; empty where `program` gives the program. `modes` are the permission modes that
    the harness has, as arguments. `outside_temporary` asks for a run's folder that is not where temporary files are.
    """

    harness: HarnessName
    executable: str
    since: Version
    before: Version
    modes: Mapping[PermissionMode, tuple[str, ...]]
    build: Callable[[Request], Launch]
    takes_base_url: bool = True
    takes_max_cost: bool = False
    outside_temporary: bool = False
    program: Callable[[], tuple[str, ...]] | None = None
    own_version: Callable[[], str | None] | None = None

    @property
    def version_range(self) -> str:
        """The versions, for people."""
        return f">={_spelled(self.since)},<{_spelled(self.before)}"

    def accepts(self, version: Version) -> bool:
        """Whether a version is in range."""
        return self.since <= version < self.before

    def launch(self, request: Request) -> Launch:
        """What to start. Raises ProseError where the harness cannot do what the settings ask."""
        self.check(request.settings)
        launch = self.build(request)
        check_argv(launch.argv)
        return launch

    def check(self, settings: Settings) -> None:
        """Raises ProseError, TRANSPORT_UNSUPPORTED, where the harness has no way to do what the settings ask."""
        if settings.permission_mode not in self.modes:
            have = ", ".join(self.modes)
            raise ProseError(Code.TRANSPORT_UNSUPPORTED, f"--permission-mode: {self.harness} has {have}")
        if settings.provider_base_url is not None and not self.takes_base_url:
            raise ProseError(Code.TRANSPORT_UNSUPPORTED, f"--provider-base-url: {self.harness} takes none")
        if settings.max_cost is not None and settings.study is None and not self.takes_max_cost:
            raise ProseError(
                Code.TRANSPORT_UNSUPPORTED, f"--max-cost: {self.harness} has no budget of its own; name a --study"
            )


def _spelled(version: Version) -> str:
    return ".".join(map(str, version))


def check_argv(argv: Sequence[str]) -> None:
    """Raises ProseError, INVOCATION_INVALID, where the system would refuse the arguments."""
    sizes = [len(argument.encode("utf-8", "surrogateescape")) for argument in argv]
    if len(argv) > MAX_ARGUMENTS or sum(sizes) > MAX_ARGV_BYTES or max(sizes) > MAX_ARGUMENT_BYTES:
        raise ProseError(Code.INVOCATION_INVALID, "the harness's arguments are more than the system takes")
    if any("\0" in argument for argument in argv):
        raise ProseError(Code.INVOCATION_INVALID, "an argument holds a NUL")
