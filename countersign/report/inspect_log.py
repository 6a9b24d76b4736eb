"""The analysed study as an Inspect log, through inspect-ai's own writer (docs/formats.md, Exports).

One sample for each planned episode. Only a completed one has scores; every other says in its error what became of it:
nothing is imputed. Messages are the accepted calls and the world's answers: no provider text, no reasoning.
"""

import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalLog,
    EvalMetric,
    EvalPlan,
    EvalPlanStep,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    write_eval_log,
)
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageTool, ChatMessageUser, ModelOutput
from inspect_ai.scorer import Score
from inspect_ai.tool import ToolCall

from countersign.kit.canonical import canonical_json
from countersign.report.views import OPERATOR, TEXT, Episode, Step
from countersign.study.fields import LOSSES

SCHEMA = "countersign.inspect/1"
COMPLETED = "completed"
TEXT_SHOWN = "(a final text; its words are not shown, and their truth was not measured)"
RATES = {"achieved": "achieved", "authority_breach": "authority_breaches", "false_claim": "false_outcome_claims"}
"""Each rate with the member of the outcome that it counts; `achieved` is a member of the line itself."""

AMOUNTS = (*LOSSES, "weighted_loss")
ABOUT = ("identity", "split", "status", "termination", "reason", "stop_category", "outcome", "comparator", "regret")


def to_eval(
    manifest: Mapping[str, Any], analysis: Mapping[str, Any], episodes: Sequence[Episode], created: datetime
) -> bytes:
    """The log's file. `created` is the time that it states, with its zone."""
    log = eval_log(manifest, analysis, episodes, created)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.eval"
        write_eval_log(log, path, format="eval")
        return path.read_bytes()


def eval_log(
    manifest: Mapping[str, Any], analysis: Mapping[str, Any], episodes: Sequence[Episode], created: datetime
) -> EvalLog:
    """The log as inspect-ai holds it."""
    models = {route["name"]: str(route["model"]) for route in manifest["routes"]}
    return EvalLog(
        status=_status(analysis),
        error=None if analysis["agrees"] else _error("records and receipts differ", analysis["errors"]),
        eval=_spec(manifest, analysis, episodes, models, created),
        plan=EvalPlan(steps=[EvalPlanStep(solver="countersign", params={"study_id": analysis["study_id"]})]),
        results=_results(analysis["total"]),
        samples=[_sample(episode, models[episode.names["route"]]) for episode in episodes],
    )


def _status(analysis: Mapping[str, Any]) -> Any:
    """`success` where every planned episode was attempted and nothing is wrong."""
    if not analysis["agrees"]:
        return "error"
    return "cancelled" if analysis["total"]["not_attempted"] else "success"


def _error(message: str, detail: Any = "") -> EvalError:
    text = detail if isinstance(detail, str) else canonical_json(detail).decode("utf-8")
    return EvalError(message=message, traceback=text, traceback_ansi=text)


def _spec(
    manifest: Mapping[str, Any],
    analysis: Mapping[str, Any],
    episodes: Sequence[Episode],
    models: Mapping[str, str],
    created: datetime,
) -> EvalSpec:
    names = list(dict.fromkeys(models.values()))
    digest = str(analysis["manifest_digest"])
    return EvalSpec(
        eval_id=digest[:22],
        run_id=digest[:22],
        task_id=digest[:22],
        created=created.isoformat(timespec="seconds"),
        task=str(manifest["name"]),
        dataset=EvalDataset(
            name=str(manifest["name"]), samples=len(episodes), sample_ids=[episode.id for episode in episodes]
        ),
        # A log names one model; each sample's output names its own.
        model=names[0] if len(names) == 1 else "several",
        config=EvalConfig(epochs=1),
        metadata={
            "schema": SCHEMA,
            **{name: analysis[name] for name in ("study_id", "manifest_digest", "amendments", "limits")},
            **{name: analysis[name] for name in ("strata", "pairs", "money", "agrees")},
            "routes": dict(models),
        },
    )


def _results(total: Mapping[str, Any]) -> EvalResults:
    """The analysis's figures over all episodes; a figure that has no value is left out."""
    figures = {name: (total[name], "rate") for name in RATES}
    figures |= {name: (total["losses"][name], "mean") for name in AMOUNTS}
    scored = sum(total[COMPLETED].values())
    return EvalResults(
        total_samples=total["planned"],
        completed_samples=scored,
        scores=[
            EvalScore(
                name=name,
                scorer=name,
                scored_samples=scored,
                unscored_samples=total["planned"] - scored,
                metrics={
                    key: EvalMetric(name=key, value=figure[key])
                    for key in (main, "lower_bound", "upper_bound")
                    if figure[key] is not None
                },
            )
            for name, (figure, main) in figures.items()
        ],
        metadata={name: total[name] for name in (COMPLETED, "technical_unknown", "stopped", "not_attempted", "claims")},
    )


def _sample(episode: Episode, model: str) -> EvalSample:
    line = episode.line
    done = line["status"] == COMPLETED
    messages = _messages(episode, model)
    return EvalSample(
        id=episode.id,
        epoch=1,
        uuid=episode.id,
        input=[message for message in messages[:1] if isinstance(message, ChatMessageUser)],
        target="",
        messages=messages,
        output=ModelOutput(model=model),
        scores=_scores(line, episode.ended) if done else None,
        error=None if done else _error(episode.ended),
        metadata={
            **{name: line[name] for name in ABOUT},
            **{name: line[name] for name in ("calls", "money", "errors")},
            "environment": episode.environment,
            "world": dict(episode.world),
        },
    )


def _scores(line: Mapping[str, Any], ended: str) -> dict[str, Score]:
    outcome = {**line["outcome"], "weighted_loss": line["weighted_loss"]}
    facts = {name: outcome[member] > 0 for name, member in RATES.items() if name != "achieved"}
    scores = {name: Score(value=fact) for name, fact in facts.items()}
    scores |= {name: Score(value=outcome[name]) for name in AMOUNTS}
    if line["regret"] is not None:
        scores["regret"] = Score(value=line["regret"])
    return {"achieved": Score(value=line["achieved"], answer=line["claim"], explanation=ended), **scores}


def _messages(episode: Episode, model: str) -> list[ChatMessage]:
    """The packet by its plan's names, then each call with its answer; an operator's are the user's, not the model's."""
    names = ", ".join(f"{name} {value}" for name, value in episode.names.items())
    found: list[ChatMessage] = [ChatMessageUser(id=f"{episode.id}-0", content=f"The public packet of: {names}")]
    for step in episode.steps:
        found += _exchange(step, f"{episode.id}-{step.sequence}", model)
    return found


def _exchange(step: Step, name: str, model: str) -> list[ChatMessage]:
    result = canonical_json({**step.answer, "observation": step.observation}).decode("utf-8")
    if step.by == OPERATOR:
        content = f"An operator played {step.name} beforehand: {result}"
        return [ChatMessageUser(id=name, content=content, metadata={"by": OPERATOR, "tool": step.tool})]
    if step.by == TEXT:
        return [ChatMessageAssistant(id=name, content=TEXT_SHOWN, model=model, metadata={"by": TEXT})]
    arguments = {} if step.claim is None else {"claim": step.claim}
    call = ToolCall(id=f"call-{step.sequence}", function=step.tool, arguments=arguments)
    return [
        ChatMessageAssistant(id=name, content="", tool_calls=[call], model=model),
        ChatMessageTool(id=f"{name}-result", content=result, tool_call_id=call.id, function=step.tool),
    ]
