"""Known episodes: what is played, what agrees, what is refused."""

from pathlib import Path
from typing import Any

import pytest

from countersign.study.errors import BadInput
from countersign.study.fields import outcome_json, read_outcome
from countersign.study.lines import read_lines
from countersign.study.replaying import play_request, replay_line
from countersign.study.services import Services
from tests.countersign.study.fakes import outcome

LINE: dict[str, Any] = {
    "id": "e1",
    "environment": "event",
    "world": {"need": True, "effective": True, "alternative": False, "change_tick": None, "changed_need": None},
    "contract": {"deadline": 3},
    "operator_prefix": [],
    "actions": [{"tool": "finish", "claim": "saved"}],
    "outcome": outcome_json(outcome()),
}


async def test_an_episode_that_agrees(services: Services) -> None:
    line = {**LINE, "step_results": [{}], "views": [[1, 3]]}
    answer = await replay_line(services.adapter, services.verifier, line, "f line 1")
    assert answer == {
        "id": "e1",
        "environment": "event",
        "outcome": LINE["outcome"],
        "agrees": True,
        "reason": None,
        "differences": [],
    }


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"outcome": {**LINE["outcome"], "saved": False}}, (0, "outcome.saved", False, True)),
        ({"step_results": [{"executed": True}]}, (1, "result", {"executed": True}, {})),
        ({"views": [[2, 3]]}, (1, "tick", 2, 1)),
    ],
)
async def test_a_disagreement_is_named(
    services: Services, change: dict[str, Any], difference: tuple[int, str, Any, Any]
) -> None:
    answer = await replay_line(services.adapter, services.verifier, {**LINE, **change}, "f line 1")
    assert answer["agrees"] is False
    assert answer["differences"][0] == dict(zip(("sequence", "field", "expected", "actual"), difference, strict=True))


async def test_an_unsupported_environment_neither_agrees_nor_differs(services: Services) -> None:
    line = {**LINE, "environment": "probe", "world": {"need": True}, "contract": {}}
    answer = await replay_line(services.adapter, services.verifier, line, "f line 1")
    assert (answer["agrees"], answer["reason"]) == (None, "UNSUPPORTED_ENVIRONMENT")


async def test_an_action_that_is_refused_disagrees(services: Services) -> None:
    line = {**LINE, "actions": [{"tool": "fly", "claim": None}]}
    answer = await replay_line(services.adapter, services.verifier, line, "f line 1")
    assert (answer["agrees"], answer["reason"]) == (False, "INVALID_ACTION")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"environment": "sea"}, "environment: must be one of"),
        ({"world": {"need": 1, "effective": True}}, "world.need: must be true or false"),
        ({"world": {"need": True}}, "world.effective: missing"),
        ({"contract": {"deadline": True}}, "contract.deadline: must be a whole number"),
        ({"contract": {"deadline": 0}}, "contract.deadline: must be 1 to 100"),
        ({"actions": ["finish"]}, "actions: each must be an object"),
        ({"actions": [{"tool": "finish", "claim": "maybe"}]}, "claim: must be one of"),
        ({"operator_prefix": "wait"}, "operator_prefix: must be a list"),
        ({"outcome": {"primary_loss": -1}}, "outcome.primary_loss: must be a whole number"),
        ({"outcome": {"saved": {"a": True}}}, "outcome.final_deadlines: must name the same jobs"),
        ({"outcome": None}, "outcome: must be an object"),
        ({"id": 7}, "id: must be a text"),
    ],
)
async def test_a_malformed_episode_names_its_line(services: Services, change: dict[str, Any], line: str) -> None:
    with pytest.raises(BadInput) as caught:
        await replay_line(services.adapter, services.verifier, {**LINE, **change}, "f line 4")
    assert caught.value.message.startswith("f line 4: ")
    assert line in caught.value.message


def test_every_published_episode_can_be_asked_and_its_outcome_read_back(shared_data: Path) -> None:
    lines = list(read_lines(shared_data / "episodes" / "records.jsonl"))
    assert len(lines) == 159
    for number, line in lines:
        play_request(line, f"line {number}")
        assert outcome_json(read_outcome(line["outcome"])) == line["outcome"]
