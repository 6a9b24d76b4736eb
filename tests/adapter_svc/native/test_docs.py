"""docs/native.md says what the code's own tables say."""

import json
import re

from adapter_svc.native import PROTOCOLS, REFUSED, Code, Observation
from adapter_svc.native.notes import Notes
from adapter_svc.native.omp import OLD_VERSION
from adapter_svc.native.omp import PROFILES as OMP_PROFILES
from adapter_svc.native.pi import NO_TERMINAL_EVENT
from countersign.cli.native_verdict import EXIT_STATUSES
from tests.conftest import PROJECT_ROOT

TEXT = (PROJECT_ROOT / "docs" / "native.md").read_text("utf-8")
FLOWING = " ".join(TEXT.split())


def rows(title: str) -> list[list[str]]:
    """The cells of the table under a title, its head left out."""
    section = TEXT.split(f"## {title}\n")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"][
        2:
    ]


def test_each_harness_s_row_is_what_its_protocol_says() -> None:
    expected = [
        [harness.value, meaning.start, meaning.terminal, meaning.success, meaning.not_meant]
        for harness, meaning in ((harness, protocol.meaning) for harness, protocol in PROTOCOLS.items())
    ]
    assert rows("What each completion rests on, and what it does not mean") == expected


def test_what_is_refused_is_named_with_its_reason() -> None:
    for harness, reason in REFUSED.items():
        assert f"{harness.value} ({reason})" in FLOWING
    assert NO_TERMINAL_EVENT in FLOWING
    assert OLD_VERSION in FLOWING
    assert {profiles[0].since for profiles in OMP_PROFILES.values()} == {(18,)}


def test_every_code_has_its_exit_status() -> None:
    found = {row[0].strip("`"): int(row[1]) for row in rows("Verdicts") if row[0] != "complete"}
    assert found == dict(EXIT_STATUSES)
    assert found.keys() == {code.value for code in Code}


def test_every_event_s_body_is_described() -> None:
    notes = Notes()
    notes.started("mock")
    notes.say("hi")
    notes.tool_started("c", "t", {})
    notes.tool_ended("c", "t", failed=False, output_digest=b"")
    notes.commit()
    described = {row[0].strip("`"): row[1] for row in rows("For programs")}
    for event in notes.take_events():
        assert all(member in described[event.kind] for member in json.loads(event.body)), event.kind
    assert len(described) == notes.events


def test_every_observation_is_explained() -> None:
    assert [re.sub("`", "", row[0]) for row in rows("Observations")] == [name.value for name in Observation]
