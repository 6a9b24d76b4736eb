"""`prose cli ...`: what is here, and what would count (design/native-harness.md, section 2).

Nothing is launched but an adapter and `--version`; of a secret only whether it is there is looked at.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countersign.prose.codes import ProseError
from countersign.prose.config import Values
from countersign.prose.grammar import OPTIONS
from countersign.prose.process_table import is_supported
from countersign.prose.profiles import INVOCATION_VARIABLE, PROFILES
from countersign.prose.recipes import RECIPES, Recipe
from countersign.prose.services import reach_adapter
from countersign.prose.settings import DEFAULT_OUTPUT_BYTES
from countersign.prose.versions import find_harness

DEFAULTS: Mapping[str, str] = {
    "permission_mode": "default",
    "output_contract": "image-envelope",
    "output": "human",
    "timeout": "10m",
    "native_output_bytes": str(DEFAULT_OUTPUT_BYTES),
    "dry_run": "false",
    "verbose": "false",
    "no_color": "false",
}


def explain(values: Values, cwd: Path) -> list[dict[str, Any]]:
    """Every option's value and where it comes from; values that were checked, and hold no secret."""
    rows = []
    for option in OPTIONS:
        given = values.get(option.key)
        value = DEFAULTS.get(option.key) if given is None else given.text
        if option.key == "cwd":
            value = str(cwd)
        source = "default" if given is None else given.source
        rows.append({"key": option.key, "value": value, "source": source})
    return rows


async def list_harnesses(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every harness: which is here, in which version, and what it offers."""
    return [await _about(recipe, environ) for recipe in RECIPES.values()]


async def _about(recipe: Recipe, environ: Mapping[str, str]) -> dict[str, Any]:
    about: dict[str, Any] = {
        "harness": recipe.harness.value,
        "versions": recipe.version_range,
        "executable": None,
        "version": None,
        "trouble": None,
        "auth_profiles": {
            profile.name: all(environ.get(name) for name in profile.required) for profile in PROFILES[recipe.harness]
        },
        "permission_modes": [mode.value for mode in recipe.modes],
        "provider_base_url": recipe.takes_base_url,
        "budget": recipe.takes_max_cost,
    }
    try:
        found = await find_harness(recipe, environ)
    except ProseError as error:
        return about | {"trouble": f"{error.code}: {error.detail}"}
    return about | {"executable": found.program[0], "version": found.version}


async def examine(environ: Mapping[str, str], values: Values) -> list[dict[str, Any]]:
    """What a run needs, each with whether it is there."""
    checks = [
        _check("system", is_supported(), "supervision needs /proc and process descriptors"),
        _check("recursion", not environ.get(INVOCATION_VARIABLE), "this is inside of a run"),
        await _check_adapter(values),
    ]
    wanted = values["harness"].text if "harness" in values else None
    for about in await list_harnesses(environ):
        if wanted in (None, about["harness"]):
            ready = about["trouble"] is None and any(about["auth_profiles"].values())
            trouble = about["trouble"] or "no auth profile's variables are set"
            # Nobody needs all of them: which is missing is said, and only the one that is asked for counts.
            checks.append(_check(f"harness {about['harness']}", ready, trouble, needed=wanted is not None))
    return checks


async def _check_adapter(values: Values) -> dict[str, Any]:
    address = values["adapter"].text if "adapter" in values else None
    try:
        async with reach_adapter(address):
            return _check("adapter", True, "")
    except ProseError as error:
        return _check("adapter", False, error.detail)


def _check(name: str, well: bool, otherwise: str, *, needed: bool = True) -> dict[str, Any]:
    return {"check": name, "well": well, "needed": needed, "detail": None if well else otherwise}
