"""docs/admission.md against the code."""

import re
from pathlib import Path

from adapter_svc.admission import Reason
from benchmarks.admission_samples import spoilt_samples

PAGE = Path(__file__).parents[3] / "docs" / "admission.md"


def rows_of(heading: str) -> list[str]:
    """The first cells of the table under a heading."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    cells = re.findall(r"^\| (.*?) \|", section, re.MULTILINE)
    return [cell for cell in cells[1:] if set(cell) != {"-"}]


def test_the_page_lists_every_reason() -> None:
    assert rows_of("Reasons") == [f"`{reason.value}`" for reason in Reason]


def test_the_page_lists_every_fault_that_the_benchmark_tries() -> None:
    assert rows_of("What other readers let through") == [sample.name for sample in spoilt_samples()]
