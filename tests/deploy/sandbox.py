"""A container without a container engine: the Dockerfile's own commands, run as an image of it would.

The builder's last steps run as they stand, into a folder that is /opt/countersign inside; dependencies are those that
the tests run with. Containers have a read-only root with nothing of this machine but the interpreter and the system's
libraries, a private /tmp and state folder, the secrets, one network namespace for all, and the images' user.
"""

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import PROJECT_ROOT
from tests.deploy.dockerfile import Image, stages
from tests.hosts.network import Host, Running

PREFIX = "/opt/countersign"
SECONDS = 60
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives", "/etc/nsswitch.conf")
INTERPRETER = Path(sys.base_prefix)
PACKAGES = next(Path(path) for path in sys.path if path.endswith("site-packages"))


def build(folder: Path) -> Path:
    """The wheel, made and installed as the builder does it; the folder that is PREFIX in every container."""
    prefix, source, wheels = folder / "prefix", folder / "src", folder / "dist"
    for made in (prefix, wheels):
        made.mkdir()
    source.mkdir()
    for line in stages()["builder"].all("COPY"):
        *names, target = line.split()
        for name in names:
            if not name.startswith("requirements/"):
                _copy(PROJECT_ROOT / name, source / (name if target != "./" else Path(name).name))
    build_tools = ["--bind", str(prefix), PREFIX, "--bind", str(source), "/src", "--bind", str(wheels), "/dist"]
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": "/tmp"}
    _once(build_tools, environment, "/src", [sys.executable, "-m", "venv", "--without-pip", PREFIX])
    site = next(prefix.glob("lib/python3*/site-packages"))
    (site / "dependencies.pth").write_text(f"{PACKAGES}\n")
    # The tests' environment has the build tools that the builder has in /opt/build.
    command = stages()["builder"].all("RUN")[-1].replace("/opt/build/bin/python", sys.executable)
    command = command.replace("/opt/build/bin", str(Path(sys.executable).parent))
    _once(build_tools, environment, "/src", ["sh", "-euc", command])
    return prefix


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*_pb2*"))
    else:
        shutil.copy(source, target)


def _once(mounts: Sequence[str], environment: Mapping[str, str], folder: str, command: Sequence[str]) -> None:
    ran = subprocess.run(
        [*_root(mounts, environment), "--chdir", folder, "--", *command],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def _root(mounts: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """bwrap's arguments for a root of its own, everything in it read-only but what `mounts` binds."""
    command = ["bwrap", "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    # First: the interpreter and the packages may lie in the machine's own /tmp.
    command += ["--tmpfs", "/tmp"]
    seen = (INTERPRETER, PACKAGES.parents[2])
    # Folders on the way to what is mounted: anybody may pass.
    ways = [
        way
        for path in (*seen, Path(PREFIX), Path("/run/secrets"), Path("/var/lib/x"), Path("/etc/hosts"))
        for way in path.parents
    ]
    for way in sorted(set(ways) - {Path("/")}):
        command += ["--perms", "0755", "--dir", str(way)]
    for path in SYSTEM:
        if Path(path).is_symlink():
            command += ["--symlink", str(Path(path).readlink()), path]
        elif Path(path).exists():
            command += ["--ro-bind", path, path]
    for path in dict.fromkeys(map(str, seen)):
        command += ["--ro-bind", path, path]
    command += ["--proc", "/proc", "--dev", "/dev", *mounts, "--remount-ro", "/", "--clearenv"]
    for name, value in environment.items():
        command += ["--setenv", name, value]
    return command


@dataclass(frozen=True, slots=True)
class Container:
    """What would be a container: an image, its secrets, and what a stack tells it besides."""

    host: Host
    prefix: Path
    image: Image
    secrets: Path
    state: Path
    names: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    extra_mounts: Sequence[str] = ()

    def command(self, *words: str) -> list[str]:
        """The arguments that run `words` in it."""
        mounts = ["--ro-bind", str(self.prefix), PREFIX, "--ro-bind", str(self.secrets), "/run/secrets"]
        mounts += ["--ro-bind", str(self.names), "/etc/hosts", "--bind", str(self.state), self.image.folder]
        mounts += self.extra_mounts
        user, _, group = self.image.user.partition(":")
        become = ["setpriv", "--reuid", user, "--regid", group, "--clear-groups", "--no-new-privs"]
        become += ["--bounding-set=-all", "--inh-caps=-all"]
        root = _root(mounts, {**self.image.environment, **self.environment})
        return self.host.command(*root, "--chdir", self.image.folder, "--", *become, *words)

    def start(self, name: str, log: Path, *arguments: str) -> Running:
        """Its ENTRYPOINT with its CMD, or with `arguments` in CMD's place; it has announced itself."""
        words = [*self.image.entrypoint, *(arguments or self.image.command)]
        running = Running(name, self.command(*words), log, announces=True)
        running.start()
        return running

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run words in it to their end."""
        return subprocess.run(self.command(*words), capture_output=True, text=True, timeout=SECONDS)
