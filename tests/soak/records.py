"""What a collection leaves behind, checked: its report, its records, and that nothing secret is in them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.soak.studies import misfit, outcome_key, outcome_text
from tests.soak.violations import Invariant, Violation

SECRETS = (b"c2ln", b"ZW5j", b"Z0FB")
"""Parts of the reasoning that the scripted agent sends: signatures and encrypted blocks of every wire format."""

STOP_CATEGORIES = frozenset({
    "input_limit", "budget_stop", "billing_unresolved", "billing_above_reservation", "transport_unknown",
    "unresolved_prior_request", "study_blocked", "service_unavailable", "interrupted",
})  # fmt: skip


def report_faults(report: Mapping[str, Any], planned: int, *, is_settled: bool) -> Iterator[Violation]:
    """I7, I8: the report's counts; where nothing is left to do, its money and its verification too."""
    total = report["total"]
    for line in (total, *report["strata"]):
        counted = sum(sum(line[name].values()) for name in ("completed", "technical_unknown", "stopped"))
        if counted + line["not_attempted"] != line["planned"]:
            yield Violation(
                Invariant.I8, f"{report['study_id']}: planned {line['planned']} is not the sum of its parts"
            )
    if total["planned"] != planned:
        yield Violation(Invariant.I8, f"{report['study_id']}: {total['planned']} are counted, {planned} were planned")
    if sum(line["planned"] for line in report["strata"]) != planned:
        yield Violation(Invariant.I8, f"{report['study_id']}: the strata are not all that was planned")
    if total["verification"]["differs"]:
        yield Violation(Invariant.I7, f"{report['study_id']}: the verifier differs")
    if is_settled and report["money"]["adds_up"] is not True:
        yield Violation(Invariant.I2, f"{report['study_id']}: settled, and {report['money']['differences']}")
    if is_settled and total["verification"]["not_verified"]:
        yield Violation(Invariant.I7, f"{report['study_id']}: settled, and some are not verified")


def record_faults(record: Mapping[str, Any]) -> Iterator[Violation]:
    """I5, I7: one record by itself."""
    name = f"{record['study_id']}, {record['identity']['route']}, {record['episode_id'][:12]}"
    if (record["outcome"] is not None) != (record["status"] == "completed"):
        yield Violation(Invariant.I5, f"{name}: {record['status']} with outcome {record['outcome']}")
    if record["status"] == "stopped" and record["stop_category"] not in STOP_CATEGORIES:
        yield Violation(Invariant.I8, f"{name}: stopped as {record['stop_category']}")
    if record["verification"] is not None and not record["verification"]["agrees"]:
        yield Violation(Invariant.I7, f"{name}: {record['verification']['differences']}")
    if (what := misfit(record)) is not None:
        yield Violation(Invariant.I5, f"{name}: {what}")
    answered = [call for call in record["calls"] if call["response_digest"]]
    if len(record["events"]) - record["prefix_count"] > len(answered):
        yield Violation(Invariant.I5, f"{name}: more events than answers")


def records_in(folder: Path) -> list[dict[str, Any]]:
    """Every record that a collection wrote."""
    return [json.loads(path.read_text()) for path in sorted((folder / "records").glob("*.json"))]


class Outcomes:
    """What came of each way of playing; it is the same each time, whatever was disturbed meanwhile."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, ...], tuple[str, str]] = {}

    def faults(self, record: Mapping[str, Any]) -> Iterator[Violation]:
        """I5: an outcome that another episode of the same policy, template and world contradicts."""
        if record["status"] != "completed":
            return
        outcome, where = self._first.setdefault(outcome_key(record), (outcome_text(record), record["study_id"]))
        if outcome != outcome_text(record):
            yield Violation(
                Invariant.I5, f"{outcome_key(record)} came to {outcome} in {where}, now {record['outcome']}"
            )


class SecretScan:
    """I9: looks through files for reasoning; a file that grows is read from where the last look ended."""

    def __init__(self, secrets: Sequence[bytes] = SECRETS) -> None:
        self._secrets = secrets
        self._read: dict[Path, int] = {}
        self.bytes_count = 0

    def faults(self, paths: Sequence[Path]) -> Iterator[Violation]:
        """Every file with a secret in it."""
        overlap = max(map(len, self._secrets))
        for path in paths:
            try:
                with path.open("rb") as file:
                    file.seek(max(0, self._read.get(path, 0) - overlap))
                    text = file.read()
                    self._read[path] = file.tell()
            except OSError:
                continue
            self.bytes_count += len(text)
            for secret in self._secrets:
                if secret in text:
                    yield Violation(Invariant.I9, f"{path}: {secret!r}")
                    break

    def forget(self, folder: Path) -> None:
        """The folder's files are gone."""
        self._read = {path: at for path, at in self._read.items() if folder not in path.parents}
