"""What a run is asked to be: every option's value, checked (design/native-harness.md, section 2)."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

from countersign.kit.money import Money, MoneyError, text_to_nanos_exact
from countersign.prose.codes import Code, ProseError
from countersign.prose.config import Sourced, Values

MEBIBYTE: Final = 1024 * 1024
MIN_OUTPUT_BYTES: Final = MEBIBYTE
MAX_OUTPUT_BYTES: Final = 256 * MEBIBYTE
DEFAULT_OUTPUT_BYTES: Final = 64 * MEBIBYTE
MAX_TIMEOUT_SECONDS: Final = 24 * 3600
MAX_VALUE_CHARACTERS: Final = 4096
CURRENCY: Final = "USD"
"""What harnesses report their cost in."""

_DURATION: Final = re.compile(r"([1-9][0-9]{0,5})([smh])")
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")


class HarnessName(StrEnum):
    """An agent program, as a person names it."""

    CLAUDE = "claude"
    CODEX = "codex"
    OMP = "omp"
    PI = "pi"
    GEMINI = "gemini"
    AGENTS_SDK = "agents-sdk"
    MOCK = "mock"


class PermissionMode(StrEnum):
    """What the program may do without asking."""

    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    WORKSPACE_WRITE = "workspace-write"
    READ_ONLY = "read-only"


class Contract(StrEnum):
    """What makes a run complete (section 1)."""

    NATIVE = "native"
    IMAGE_ENVELOPE = "image-envelope"


class Rendering(StrEnum):
    """How a result is said."""

    HUMAN = "human"
    JSON = "json"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True)
class Settings:
    """Every option, checked. `cwd` is resolved; amounts are in US dollars."""

    harness: HarnessName
    cwd: Path
    model: str | None
    auth_profile: str | None
    permission_mode: PermissionMode
    contract: Contract
    output: Rendering
    timeout_seconds: int
    native_log: Path | None
    output_bytes: int
    image: str | None
    max_cost: Money | None
    study: str | None
    ledger: str | None
    prices: Path | None
    adapter: str | None
    provider_base_url: str | None
    dry_run: bool
    verbose: bool
    no_color: bool


def read_settings(values: Values, cwd: Path) -> Settings:
    """Check every value. Raises ProseError, which names a value's source and never the value."""
    contract = _choice(values, "output_contract", Contract, Contract.IMAGE_ENVELOPE)
    if "harness" not in values:
        raise ProseError(Code.INVOCATION_INVALID, "name the agent program with --harness")
    settings = Settings(
        harness=_harness(values["harness"]),
        cwd=cwd,
        model=_text(values, "model"),
        auth_profile=_text(values, "auth_profile"),
        permission_mode=_choice(values, "permission_mode", PermissionMode, PermissionMode.DEFAULT),
        contract=contract,
        output=read_rendering(values),
        timeout_seconds=_parsed(values, "timeout", duration_seconds, 600, "must be as 90s, 10m or 1h, up to 24h"),
        native_log=_parsed(values, "native_log", _new_file, None, "must be an absolute path that is not there yet"),
        output_bytes=_output_bytes(values, contract),
        image=_text(values, "image"),
        max_cost=_parsed(values, "max_cost", _amount, None, "must be an amount of US dollars above zero"),
        study=_text(values, "study"),
        ledger=_text(values, "ledger"),
        prices=_parsed(values, "prices", _present_file, None, "must be a file that is there"),
        adapter=_text(values, "adapter"),
        provider_base_url=_parsed(
            values, "provider_base_url", _base_url, None, "must be an http or https URL without user, query or fragment"
        ),
        dry_run=_flag(values, "dry_run"),
        verbose=_flag(values, "verbose"),
        no_color=_flag(values, "no_color"),
    )
    _require_money_together(settings)
    return settings


def read_rendering(values: Values) -> Rendering:
    """How to say the result. Raises ProseError."""
    return _choice(values, "output", Rendering, Rendering.HUMAN)


def read_cwd(flags: Mapping[str, str], environ: Mapping[str, str]) -> Path:
    """The working folder, resolved, which the project's file is found from. Raises ProseError."""
    if "cwd" in flags:
        given = Sourced(flags["cwd"], "flag", Code.INVOCATION_INVALID)
    elif "PROSE_CWD" in environ:
        given = Sourced(environ["PROSE_CWD"], "PROSE_CWD", Code.CONFIG_INVALID)
    else:
        given = Sourced(".", "flag", Code.INVOCATION_INVALID)
    try:
        path = Path(given.text).resolve(strict=True)
        str(path).encode("utf-8")
        usable = path.is_dir() and os.access(path, os.R_OK | os.X_OK)
    except (OSError, ValueError, RuntimeError):
        usable = False
    if not usable:
        raise given.reject("cwd", "must be a folder that is there")
    return path


def duration_seconds(text: str) -> int:
    """`90s`, `10m`, `1h` in seconds. Raises ValueError."""
    found = _DURATION.fullmatch(text)
    seconds = int(found[1]) * _UNIT_SECONDS[found[2]] if found else 0
    if not 1 <= seconds <= MAX_TIMEOUT_SECONDS:
        raise ValueError
    return seconds


def _harness(value: Sourced) -> HarnessName:
    if value.text == "opencode":
        raise ProseError(Code.HARNESS_INCOMPATIBLE, "opencode has no terminal event that a completion could rest on")
    try:
        return HarnessName(value.text)
    except ValueError:
        raise value.reject("harness", f"must be one of {', '.join(HarnessName)}") from None


def _choice(values: Values, key: str, choices: type[E], default: E) -> E:
    return _parsed(values, key, choices, default, f"must be one of {', '.join(choices)}")


def _parsed(values: Values, key: str, parse: Callable[[str], T], default: T, requirement: str) -> T:
    if key not in values:
        return default
    try:
        return parse(values[key].text)
    except ValueError:
        raise values[key].reject(key, requirement) from None


def _text(values: Values, key: str) -> str | None:
    return _parsed(values, key, _plain_text, None, f"must be plain text of up to {MAX_VALUE_CHARACTERS} characters")


def _plain_text(text: str) -> str | None:
    if len(text) > MAX_VALUE_CHARACTERS or not text.isprintable() or text.startswith("-"):
        raise ValueError
    return text


def _flag(values: Values, key: str) -> bool:
    return key in values and values[key].text == "true"


def _output_bytes(values: Values, contract: Contract) -> int:
    requirement = f"must be {MIN_OUTPUT_BYTES} to {MAX_OUTPUT_BYTES} bytes"
    limit = _parsed(values, "native_output_bytes", _whole, DEFAULT_OUTPUT_BYTES, requirement)
    if "native_output_bytes" in values:
        given = values["native_output_bytes"]
        if not MIN_OUTPUT_BYTES <= limit <= MAX_OUTPUT_BYTES:
            raise given.reject("native_output_bytes", requirement)
        if contract is not Contract.NATIVE:
            raise given.reject("native_output_bytes", "is for --output-contract native only")
    return limit


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise ValueError
    return int(text)


def _new_file(text: str) -> Path | None:
    path = Path(text)
    if not path.is_absolute() or "\0" in text or path.exists() or path.is_symlink() or not path.parent.is_dir():
        raise ValueError
    return path


def _present_file(text: str) -> Path | None:
    path = Path(text)
    if "\0" in text or not path.is_file():
        raise ValueError
    return path


def _amount(text: str) -> Money | None:
    try:
        nanos = text_to_nanos_exact(text)
    except MoneyError:
        raise ValueError from None
    if nanos <= 0:
        raise ValueError
    return Money(CURRENCY, nanos)


def _base_url(text: str) -> str | None:
    parts = urlsplit(text)
    plain = text.isascii() and text.isprintable() and " " not in text and '"' not in text and "\\" not in text
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain or parts.username is not None:
        raise ValueError
    if parts.query or parts.fragment:
        raise ValueError
    return text.rstrip("/")


def _require_money_together(settings: Settings) -> None:
    if settings.study is not None and (settings.max_cost is None or settings.ledger is None):
        raise ProseError(Code.INVOCATION_INVALID, "--study needs --max-cost and --ledger")
    if settings.prices is not None and settings.study is None:
        raise ProseError(Code.INVOCATION_INVALID, "--prices needs --study")
