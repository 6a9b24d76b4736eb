"""docs/threat-model.md names a test for each defence, and each exists."""

import re

from tests.conftest import PROJECT_ROOT

ROW = re.compile(r"^\| .* \| .* \| `(tests/[^`]*)` \|$", re.MULTILINE)


def test_every_test_that_the_threat_model_names_exists() -> None:
    text = (PROJECT_ROOT / "docs" / "threat-model.md").read_text()
    table = text.partition("## Attacks, defences, tests")[2].partition("\n## ")[0]
    named = ROW.findall(table)
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert len(named) == len(rows) > 20, "every defence has a test"
    for name in named:
        path, _, function = name.partition("::")
        assert re.search(rf"^(async )?def {function}\(", (PROJECT_ROOT / path).read_text(), re.MULTILINE), name
