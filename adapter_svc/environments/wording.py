"""The fixed texts of one environment, read from the wording resource (docs/formats.md, The wording resource).

The resource arrives as an argument, parsed, so that this package stays free of files.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from adapter_svc.environments.errors import WordingError

DISCLOSURES = ("tick_order", "costs", "authority", "stopping", "claims", "settlement")
"""The disclosure ids that each environment's transition rules must hold."""


@dataclass(frozen=True, slots=True)
class EnvironmentWording:
    """The texts of one environment: rules shown in observations and packets, and a description for each tool."""

    authority_rule: str
    semantics: str
    transition_rules: Mapping[str, str]
    tools: Mapping[str, str]


def environment_wording(document: Mapping[str, Any], environment: str, tools: Iterable[str]) -> EnvironmentWording:
    """Read the texts of `environment` and the descriptions of exactly its `tools`.

    Raises WordingError where a text is missing, blank or not one that docs/formats.md names.
    """
    section = member(document, "environments", environment)
    return EnvironmentWording(
        authority_rule=text(section, "authority_rule"),
        semantics=text(section, "semantics"),
        transition_rules=_texts(section, "transition_rules", DISCLOSURES),
        tools=_texts(section, "tools", tools),
    )


def text(document: Mapping[str, Any], *path: str) -> str:
    """The nonblank text at `path`. Raises WordingError where there is none."""
    value = _value(document, path)
    if not isinstance(value, str) or not value.strip():
        raise WordingError(f"the wording has no text at {'.'.join(path)}")
    return value


def member(document: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """The object at `path`. Raises WordingError where there is none."""
    value = _value(document, path)
    if not isinstance(value, Mapping):
        raise WordingError(f"the wording has no object at {'.'.join(path)}")
    return value


def _value(document: Mapping[str, Any], path: tuple[str, ...]) -> object:
    value: object = document
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _texts(section: Mapping[str, Any], name: str, keys: Iterable[str]) -> dict[str, str]:
    texts = {str(key): text(section, name, key) for key in keys}
    if set(texts) != set(member(section, name)):
        raise WordingError(f"the wording's {name} must have exactly {', '.join(sorted(texts))}")
    return texts
