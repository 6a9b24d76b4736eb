"""Hatchling's build hook: generate the stubs before a wheel or an editable install is made."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class GenerateStubs(BuildHookInterface[Any]):
    """Generates from protos/ into the source tree; version control ignores what it writes."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Generate the stubs for a build of `version`."""
        sys.path.insert(0, str(Path(self.root) / "tools"))
        try:
            from generate import generate
        finally:
            sys.path.pop(0)
        generate(Path(self.root))
