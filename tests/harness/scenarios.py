"""What the provider does, and what a run comes to then with each program; docs/native.md has the same as a table."""

from dataclasses import dataclass, field
from typing import Any

Act = dict[str, Any]
DONE: Act = {"text": "FINAL: done."}
OUTLIVING = "setsid sleep 321 > /dev/null 2>&1 < /dev/null & echo started"
FAILED, CANCELLED, CLEANUP = (22, "HARNESS_FAILED"), (24, "CANCELLED"), (25, "PROCESS_CLEANUP_FAILED")
MALFORMED = (22, "PROTOCOL_MALFORMED")
COMPLETE = (0, None)
UNSURE = {"TEXT_POSSIBLY_TRUNCATED": 1}


@dataclass(frozen=True)
class Verdict:
    """What a run came to: its exit status and error code, the observations, the provider's turns, how often it said
    the scripted text."""

    end: tuple[int, str | None] = COMPLETE
    observations: dict[str, int] = field(default_factory=dict)
    turns: int = 1
    said: int = 1


@dataclass(frozen=True)
class Scenario:
    """One script and its verdicts by program; `core` names those that continuous integration runs too."""

    name: str
    script: list[Act]
    verdicts: dict[str, Verdict]
    core: frozenset[str] = frozenset({"claude", "codex"})
    timeout: str = "25s"
    writes: bool = False


def _noted(count: int = 1, **more: int) -> dict[str, int]:
    """Codex reports one error of its own in every run: it knows nothing about the model."""
    return {"TRANSIENT_ERROR": count, **more}


SCENARIOS = [
    Scenario(
        "tool use",
        [{"write": "out.txt", "content": "hi"}, DONE],
        {
            "claude": Verdict(turns=2),
            "codex": Verdict(observations=_noted(), turns=2),
            "omp": Verdict(turns=2),
            "pi": Verdict(turns=2),
            "gemini": Verdict(observations=UNSURE, turns=2),
        },
        writes=True,
    ),
    Scenario(
        "text only",
        [DONE],
        {
            "claude": Verdict(),
            "codex": Verdict(observations=_noted()),
            "omp": Verdict(),
            "pi": Verdict(),
            "gemini": Verdict(observations=UNSURE),
            "agents-sdk": Verdict(),
        },
    ),
    Scenario(
        "refusal",
        [{**DONE, "refusal": True}],
        {
            "claude": Verdict(FAILED),
            "codex": Verdict(observations=_noted(EMPTY_FINAL_TEXT=1), said=0),
            "omp": Verdict(FAILED, said=0),
            "pi": Verdict(FAILED, said=0),
            "gemini": Verdict(observations=UNSURE),
            "agents-sdk": Verdict(FAILED, said=0),
        },
    ),
    Scenario(
        "filtered",
        # In the other formats a filter is how a refusal shows.
        [{**DONE, "stop": "content_filter"}],
        {"codex": Verdict(FAILED, _noted(7), turns=6, said=6), "agents-sdk": Verdict(MALFORMED, said=0)},
        core=frozenset(),
    ),
    Scenario(
        "output cap",
        [{**DONE, "stop": "length"}],
        {
            "claude": Verdict(FAILED, turns=4, said=4),
            "codex": Verdict(FAILED, _noted(2)),
            "omp": Verdict(FAILED, said=0),
            "pi": Verdict(FAILED, said=0),
            "gemini": Verdict(observations=UNSURE),
            "agents-sdk": Verdict(MALFORMED, said=0),
        },
    ),
    Scenario(
        "empty answer",
        [{}],
        {
            "claude": Verdict(observations={"EMPTY_FINAL_TEXT": 1}, turns=2, said=0),
            "codex": Verdict(observations=_noted(EMPTY_FINAL_TEXT=1), said=0),
            "omp": Verdict(observations={"EMPTY_FINAL_TEXT": 1, "PROVIDER_RETRY": 3}, turns=12, said=0),
            "pi": Verdict(observations={"EMPTY_FINAL_TEXT": 1}, said=0),
            "gemini": Verdict(FAILED, {"TRANSIENT_ERROR": 1}, turns=4, said=0),
            "agents-sdk": Verdict(observations={"EMPTY_FINAL_TEXT": 1}, said=0),
        },
    ),
    Scenario(
        "HTTP 400",
        [{"status": 400}],
        {
            "claude": Verdict(FAILED, said=0),
            "codex": Verdict(FAILED, _noted(2), said=0),
            "omp": Verdict(FAILED, said=0),
            "pi": Verdict(FAILED, said=0),
            "gemini": Verdict(FAILED, said=0),
            "agents-sdk": Verdict(FAILED, said=0),
        },
    ),
    Scenario(
        "HTTP 500 once",
        [{"status": 500}, DONE],
        {
            "claude": Verdict(observations={"PROVIDER_RETRY": 1}, turns=2),
            "codex": Verdict(observations=_noted(), turns=2),
            "omp": Verdict(turns=2),
            "pi": Verdict(observations={"PROVIDER_RETRY": 1, "TRANSIENT_ERROR": 1}, turns=2),
            "gemini": Verdict(observations=UNSURE, turns=2),
            "agents-sdk": Verdict(turns=2),
        },
    ),
    Scenario(
        "HTTP 500 always",
        [{"status": 500}],
        # The rest go on for longer than a test may take.
        {
            "codex": Verdict(FAILED, _noted(7), turns=30, said=0),
            "pi": Verdict(FAILED, {"PROVIDER_RETRY": 3, "TRANSIENT_ERROR": 3}, turns=4, said=0),
            "agents-sdk": Verdict(FAILED, turns=3, said=0),
        },
        core=frozenset(),
        timeout="90s",
    ),
    Scenario(
        "cut connection",
        [{**DONE, "cut": True}],
        {
            "claude": Verdict(FAILED, turns=2, said=0),
            "codex": Verdict(FAILED, _noted(7), turns=6, said=0),
            "pi": Verdict(FAILED, {"PROVIDER_RETRY": 3, "TRANSIENT_ERROR": 3}, turns=4, said=0),
            "gemini": Verdict(FAILED, said=0),
            "agents-sdk": Verdict(MALFORMED, said=0),
        },
        core=frozenset({"claude"}),
    ),
    Scenario(
        "no end event",
        [{**DONE, "endless": True}],
        {
            "claude": Verdict(),
            "codex": Verdict(FAILED, _noted(7), turns=6, said=6),
            "omp": Verdict(),
            "pi": Verdict(FAILED, {"PROVIDER_RETRY": 3, "TRANSIENT_ERROR": 3}, turns=4, said=0),
            "gemini": Verdict(FAILED, {"TRANSIENT_ERROR": 1}, turns=4, said=0),
            "agents-sdk": Verdict(MALFORMED, said=0),
        },
        timeout="40s",
        core=frozenset({"claude"}),
    ),
    Scenario(
        "no answer",
        [{"hang": True}],
        {
            "claude": Verdict(CANCELLED, said=0),
            "codex": Verdict(CANCELLED, _noted(), said=0),
            "omp": Verdict(CANCELLED, said=0),
            "pi": Verdict(CANCELLED, said=0),
            "gemini": Verdict(CANCELLED, said=0),
            "agents-sdk": Verdict(CANCELLED, said=0),
        },
        timeout="15s",
        core=frozenset(),
    ),
    Scenario(
        "tool fails",
        [{"shell": "echo boom >&2; exit 7"}, DONE],
        {
            "claude": Verdict(observations={"TOOL_FAILED": 1}, turns=2),
            "codex": Verdict(observations=_noted(TOOL_FAILED=1), turns=2),
            "omp": Verdict(observations={"TOOL_FAILED": 1}, turns=2),
            "pi": Verdict(observations={"TOOL_FAILED": 1}, turns=2),
        },
    ),
    Scenario(
        "tool outlives the run",
        [{"shell": OUTLIVING}, DONE],
        # Codex ends what its sandbox holds; those of the others are found in their sessions, and killed.
        {
            "claude": Verdict(CLEANUP, turns=2),
            "codex": Verdict(observations=_noted(), turns=2),
            "omp": Verdict(CLEANUP, turns=2),
            "pi": Verdict(CLEANUP, turns=2),
        },
    ),
    Scenario(
        "tool in the background",
        [{"shell": "sleep 1", "background": True}, DONE],
        # The end of the task makes a turn of its own, and that a second result.
        {"claude": Verdict(observations={"MULTIPLE_TERMINAL": 2}, turns=3, said=2)},
    ),
]
