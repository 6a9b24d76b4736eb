"""How each harness is launched: one module per harness, fixed argv, no shell (design/native-harness.md, section 6)."""

from collections.abc import Mapping
from typing import Final

from countersign.prose.recipes.agents_sdk import AGENTS_SDK
from countersign.prose.recipes.base import Launch, Recipe, Request
from countersign.prose.recipes.claude import CLAUDE
from countersign.prose.recipes.codex import CODEX
from countersign.prose.recipes.gemini import GEMINI
from countersign.prose.recipes.mock import MOCK
from countersign.prose.recipes.pi import OMP, PI
from countersign.prose.settings import HarnessName

RECIPES: Final[Mapping[HarnessName, Recipe]] = {
    recipe.harness: recipe for recipe in (CLAUDE, CODEX, OMP, PI, GEMINI, AGENTS_SDK, MOCK)
}

__all__ = ["RECIPES", "Launch", "Recipe", "Request"]
