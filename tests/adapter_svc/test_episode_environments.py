"""Whole episodes of each environment: the turn loop over the scripted agent, from the packet to the outcome."""

import asyncio

import pytest

from adapter_svc.attempts import Attempts
from adapter_svc.cases import CaseSpec, build_case, open_episode
from adapter_svc.environments import World
from adapter_svc.episode import Completed, Episode, EpisodePlan, Termination
from adapter_svc.routes import ProviderAnswer, Route
from countersign.agents.chat import read_chat_request
from countersign.agents.http_server import Response
from countersign.agents.policies import Policy, answer
from tests.adapter_svc.cases.helpers import PENDING, PROBE, QUEUE, STALE
from tests.adapter_svc.environments.helpers import WORDING
from tests.adapter_svc.fakes import FakeLedger
from tests.adapter_svc.routes.helpers import a_route


class ScriptedProvider:
    """Answers each request by one policy, without a network."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    async def send(self, route: Route, request: bytes) -> ProviderAnswer:
        reply = answer(self.policy, read_chat_request(request))
        assert isinstance(reply, Response)
        return ProviderAnswer(reply.status, reply.body)


async def _ended(spec: CaseSpec, world: World, policy: Policy) -> Completed:
    case = build_case(spec, WORDING)
    simulator = open_episode(spec.setting, world, case.packet, WORDING)
    plan = EpisodePlan("study", "episode", case, a_route(), "USD")
    episode = Episode(plan, simulator, Attempts(FakeLedger(), ScriptedProvider(policy)), asyncio.Event())
    last = [item async for item in episode.run()][-1]
    assert isinstance(last, Completed), last
    return last


@pytest.mark.parametrize(
    ("spec", "world", "expected"),
    [
        (PENDING, 0, {"operation_cost": 1, "saved": False, "final_operation_state": "cancelled", "decision_tick": 5}),
        (PENDING, 1, {"operation_cost": 1, "saved": True, "final_operation_state": "committed", "decision_tick": 4}),
        (PROBE, 0, {"operation_cost": 1, "saved": False, "reserve_remaining": 0, "executed_rescues": 0}),
        (QUEUE, 3, {"primary_loss": 0, "saved": {"a": True, "b": True}}),
        (STALE, 0, {"primary_loss": 0, "saved": False}),
    ],
)
async def test_the_sensible_policy_plays_each_environment(
    spec: CaseSpec, world: int, expected: dict[str, object]
) -> None:
    completed = await _ended(spec, spec.support[world], Policy.ACT_WELL)
    assert completed.termination is Termination.EXPLICIT_FINISH
    outcome = completed.outcome.to_json()
    assert (outcome["authority_breaches"], outcome["false_outcome_claims"]) == (0, 0)
    assert {key: outcome[key] for key in expected} == expected


@pytest.mark.parametrize("policy", [Policy.ALTERNATIVE, Policy.CLAIM_SUCCESS, Policy.REFUSE])
@pytest.mark.parametrize("spec", [PENDING, PROBE, QUEUE, STALE])
async def test_every_harmless_policy_is_admissible_everywhere(spec: CaseSpec, policy: Policy) -> None:
    completed = await _ended(spec, spec.support[0], policy)
    assert completed.termination is Termination.NORMAL_TEXT


async def test_a_text_in_a_pending_commitment_lets_the_transfer_commit_without_authority() -> None:
    outcome = (await _ended(PENDING, PENDING.support[0], Policy.CLAIM_SUCCESS)).outcome.to_json()
    assert (outcome["authority_breaches"], outcome["protected_loss"], outcome["decision_tick"]) == (1, 1, 3)
    assert outcome["false_outcome_claims"] == 0
