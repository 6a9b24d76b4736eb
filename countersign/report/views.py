"""What a report shows, read out of an analysis, its episodes and their records; nothing is recomputed here."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from countersign.kit.printable import printable_lines
from countersign.study.analysing import VisibleText

OPERATOR = "operator"
MODEL = "model"
TEXT = "text"


@dataclass(frozen=True, slots=True)
class Report:
    """A piece of evidence that an episode asked for: `delivered` is None while it is pending."""

    id: str
    source: str
    requested: int
    due: int
    delivered: int | None
    says: str


@dataclass(frozen=True, slots=True)
class Step:
    """One accepted call: who made it, when, what the world answered, and what could be seen afterwards."""

    sequence: int
    tool: str
    claim: str | None
    start: int
    end: int
    by: str
    answer: Mapping[str, Any]
    observation: Mapping[str, Any]
    said: VisibleText | None = None

    @property
    def name(self) -> str:
        """The call as people write it."""
        return f"{self.tool}({self.claim})" if self.claim else self.tool

    @property
    def is_breach(self) -> bool:
        """Whether it used a protected resource without the authority to."""
        return self.answer.get("executed") is True and self.answer.get("authorized") is False

    @property
    def is_authorized(self) -> bool:
        """Whether it used a protected resource with the authority to."""
        return self.answer.get("executed") is True and self.answer.get("authorized") is True

    @property
    def answered(self) -> str:
        """The world's own answer in words."""
        return ", ".join(f"{name.replace('_', ' ')}: {_word(value)}" for name, value in self.answer.items()) or "-"

    @property
    def words(self) -> str:
        """What the model wrote beside or instead of the call; what would steer a page or a terminal is escaped."""
        return "" if self.said is None else printable_lines(self.said.text)

    @property
    def shown(self) -> str:
        """The observation as indented JSON, without the long texts that never change."""
        fixed = ("authority_rule", "semantics", "untrusted_message", "tools", "contract")
        return json.dumps({k: v for k, v in self.observation.items() if k not in fixed}, indent=2, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Episode:
    """One planned episode: the verifier's line and, where it was attempted, its steps."""

    line: Mapping[str, Any]
    environment: str
    world: Mapping[str, Any]
    steps: tuple[Step, ...]

    @property
    def id(self) -> str:
        """The episode's id."""
        return str(self.line["episode_id"])

    @property
    def names(self) -> Mapping[str, Any]:
        """The plan's names."""
        identity: Mapping[str, Any] = self.line["identity"]
        return identity

    @property
    def ended(self) -> str:
        """How it ended, in words."""
        detail = self.line["termination"] or self.line["reason"] or self.line["stop_category"]
        status = str(self.line["status"]).replace("_", " ")
        return f"{status}: {str(detail).replace('_', ' ')}" if detail else status

    @property
    def deadlines(self) -> dict[str, int]:
        """The last known deadline of each obligation; empty where none is seen."""
        if not self.steps:
            return {}
        seen = self.steps[-1].observation
        if "deadlines" in seen:
            return {f"deadline {job}": tick for job, tick in seen["deadlines"].items()}
        return {"deadline": seen["deadline"]} if "deadline" in seen else {}

    @property
    def reports(self) -> list[Report]:
        """Every report that was asked for, in order."""
        found: dict[str, Report] = {}
        for step in self.steps:
            for one in step.observation.get("pending", []):
                found[one["id"]] = Report(one["id"], _source(one), step.start, one["due_tick"], None, "pending")
            for one in step.observation.get("evidence", []):
                asked = one.get("requested_tick", step.start)
                came = one.get("delivered_tick", step.end)
                found[one["id"]] = Report(one["id"], _source(one), asked, came, came, _content(one))
        return list(found.values())


def episodes_of(
    lines: Sequence[Mapping[str, Any]],
    records: Mapping[str, Mapping[str, Any]],
    texts: Mapping[str, Mapping[int, VisibleText]],
) -> list[Episode]:
    """Every planned episode in frozen order; `records` are by episode id, `texts` by episode id and turn."""
    return [_episode(line, records.get(line["episode_id"]), texts.get(line["episode_id"], {})) for line in lines]


def _episode(line: Mapping[str, Any], record: Mapping[str, Any] | None, texts: Mapping[int, VisibleText]) -> Episode:
    if record is None:
        return Episode(line, "", {}, ())
    origins = {one["sequence"]: one["origin"] for one in record["origins"]}
    # Each admitted answer is one event of the model's, in the order of the turns.
    turn_of = {sequence: turn for turn, sequence in enumerate(sorted(origins), start=1)}
    steps = tuple(
        _step(event, origins.get(event["sequence"]), texts.get(turn_of.get(event["sequence"], 0)))
        for event in record["events"]
    )
    return Episode(line, record["environment"], record["world"], steps)


def _step(event: Mapping[str, Any], origin: str | None, said: VisibleText | None) -> Step:
    result = json.loads(event["result"])
    by = {None: OPERATOR, "NORMAL_TEXT": TEXT}.get(origin, MODEL)
    answer = {name: value for name, value in result.items() if name != "observation"}
    return Step(
        sequence=event["sequence"],
        tool=event["tool"],
        claim=event["claim"],
        start=event["start_tick"],
        end=event["end_tick"],
        by=by,
        answer=answer,
        observation=result["observation"],
        said=said,
    )


def _source(report: Mapping[str, Any]) -> str:
    job = f" {report['job']}" if "job" in report else ""
    return f"{report['source']}{job}"


def _content(report: Mapping[str, Any]) -> str:
    known = {name: report[name] for name in ("epoch", "need", "effective") if name in report}
    return ", ".join(f"{name} {_word(value)}" for name, value in known.items())


def _word(value: Any) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
