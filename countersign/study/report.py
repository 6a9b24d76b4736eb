"""The report: every planned episode in one honest denominator (design/study.md, Analysis; architecture.md, I8)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from countersign.study.errors import BadRecord, DoesNotAddUp
from countersign.study.manifest import Manifest
from countersign.study.money_report import LedgerMoney, money_report
from countersign.study.outcomes import Weights, summarise
from countersign.study.records import (
    COMPLETED,
    REASONS,
    STOP_CATEGORIES,
    STOPPED,
    TECHNICAL_UNKNOWN,
    TERMINATIONS,
    RecordStore,
    counted,
    read_record,
)

SCHEMA = "countersign.report/1"
LIMITS = (
    "Descriptive figures of a finite suite; no inference beyond the planned episodes.",
    "Provider identities are self-reported. No intent is inferred from any answer.",
    "Losses and rates are over completed episodes only; nothing is imputed.",
)
"""What the figures do not say."""

_DETAIL = {COMPLETED: "termination", TECHNICAL_UNKNOWN: "reason", STOPPED: "stop_category"}
_CLOSED = {COMPLETED: TERMINATIONS, TECHNICAL_UNKNOWN: REASONS, STOPPED: STOP_CATEGORIES}
_STRATUM = ("route", "template", "arm")

Record = Mapping[str, Any]


class StoredRecords(Mapping[str, Record]):
    """The records in a folder by episode id, in frozen order, each read when it is asked for: together they are large.

    A record that is malformed, or of another study, raises BadRecord; files of other names are not looked at.
    """

    def __init__(self, manifest: Manifest, folder: Path) -> None:
        self._manifest = manifest
        self._files = {path.stem: path for path in RecordStore(folder).files()}
        self._planned = {episode["episode_id"]: episode["identity"] for episode in manifest.document["episodes"]}

    def __getitem__(self, episode_id: str) -> Record:
        if episode_id not in self._planned:
            raise KeyError(episode_id)
        path, identity = self._files[episode_id], self._planned[episode_id]
        record = read_record(path)
        study = (record["study_id"], record["manifest_digest"], record["episode_id"])
        if (
            study != (self._manifest.study_id, self._manifest.digest.hex(), episode_id)
            or record["identity"] != identity
        ):
            raise self._foreign(path)
        record["identity"] = identity
        return record

    def __iter__(self) -> Iterator[str]:
        return (episode_id for episode_id in self._planned if episode_id in self._files)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def require_no_others(self) -> None:
        """Raises BadRecord where a file is of an episode that was not planned."""
        for name, path in self._files.items():
            if name not in self._planned:
                raise self._foreign(path)

    def _foreign(self, path: Path) -> BadRecord:
        return BadRecord(f"{path} is not a record of study {self._manifest.study_id}: move it away")


def load_records(manifest: Manifest, folder: Path) -> dict[str, Record]:
    """What counts of the records in `folder` (`records.counted`) by episode id, in frozen order.

    Raises BadRecord for one that is malformed, stray, or of another study.
    """
    stored = StoredRecords(manifest, folder)
    stored.require_no_others()
    return {episode_id: counted(record) for episode_id, record in stored.items()}


def build_report(manifest: Manifest, records: Mapping[str, Record], money: LedgerMoney | None) -> dict[str, Any]:
    """The whole report as JSON has it. Raises DoesNotAddUp where the counts of a stratum or the total contradict."""
    document = manifest.document
    weights = _weights(document)
    keys = list(dict.fromkeys(_stratum_of(episode["identity"]) for episode in document["episodes"]))
    strata = []
    for key in keys:
        planned = [e["episode_id"] for e in document["episodes"] if _stratum_of(e["identity"]) == key]
        chosen = [record for record in records.values() if _stratum_of(record["identity"]) == key]
        attempted = set(planned) & set(records)
        line = _line(len(planned), len(planned) - len(attempted), chosen, weights)
        strata.append({**dict(zip(_STRATUM, key, strict=True)), **line})
    not_attempted = len(document["episodes"]) - len(records)
    total = _line(len(document["episodes"]), not_attempted, list(records.values()), weights)
    _require_sums(strata, total)
    return {
        "schema": SCHEMA,
        "study_id": manifest.study_id,
        "manifest_digest": manifest.digest.hex(),
        "strata": strata,
        "total": total,
        "money": money_report(records.values(), document["account"]["currency"], money),
        "limits": list(LIMITS),
    }


def _stratum_of(identity: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(identity[name] for name in _STRATUM)


def _weights(document: Mapping[str, Any]) -> dict[str, Weights]:
    return {case["template"]: case["loss_weights"] for case in document["cases"]}


def _line(
    planned: int, not_attempted: int, records: Sequence[Record], weights: Mapping[str, Weights]
) -> dict[str, Any]:
    """One line of the report; its counts add up to `planned` or there is no line."""
    counts = {status: _counts(status, records) for status in _DETAIL}
    summed = sum(sum(by_detail.values()) for by_detail in counts.values()) + not_attempted
    if summed != planned:
        raise DoesNotAddUp(f"{planned} episodes are planned and {summed} are accounted for: the folder is not intact")
    completed = [(record, weights[record["identity"]["template"]]) for record in records if _is_completed(record)]
    return {
        "planned": planned,
        **counts,
        "not_attempted": not_attempted,
        "verification": _verification(records),
        "outcomes": summarise(completed, planned),
    }


def _is_completed(record: Record) -> bool:
    return bool(record["status"] == COMPLETED)


def _counts(status: str, records: Iterable[Record]) -> dict[str, int]:
    """Records of `status` by their detail, in the closed list's order; only what occurs."""
    counted = Counter(record[_DETAIL[status]] for record in records if record["status"] == status)
    return {detail: counted[detail] for detail in _CLOSED[status] if counted[detail]}


def _verification(records: Iterable[Record]) -> dict[str, int]:
    """Of the records that can be verified: those that ended with an answer to judge."""
    answers = [record["verification"] for record in records if record["status"] != STOPPED]
    return {
        "verified": sum(answer is not None and answer["agrees"] for answer in answers),
        "differs": sum(answer is not None and not answer["agrees"] for answer in answers),
        "not_verified": sum(answer is None for answer in answers),
    }


def _require_sums(strata: Sequence[Mapping[str, Any]], total: Mapping[str, Any]) -> None:
    for name in ("planned", "not_attempted"):
        if sum(line[name] for line in strata) != total[name]:
            raise DoesNotAddUp(f"the strata's {name} do not add up to the total")
    for status in _DETAIL:
        summed = sum((Counter(line[status]) for line in strata), Counter[str]())
        if summed != Counter(total[status]):
            raise DoesNotAddUp(f"the strata's {status} do not add up to the total")
