"""The operator's prefix and the stale-evidence checkpoint (design/environments.md)."""

import pytest

from adapter_svc.environments import (
    STALE_CHECKPOINT,
    CaseFault,
    EventContract,
    EventOutcome,
    InvalidCase,
    Setting,
    Simulator,
    UnsupportedEnvironment,
    World,
    reach_checkpoint,
)
from tests.adapter_svc.environments.helpers import MESSAGE, WORDING, played

STALE = Setting(STALE_CHECKPOINT.environment, STALE_CHECKPOINT.contract, STALE_CHECKPOINT.operator_prefix, MESSAGE)
NEED_ENDS, NEED_STAYS = STALE_CHECKPOINT.support


def _reached(world: World) -> Simulator:
    return reach_checkpoint(STALE, world, WORDING)


def test_the_two_worlds_of_the_stale_checkpoint_cannot_be_told_apart() -> None:
    first, second = _reached(NEED_ENDS), _reached(NEED_STAYS)
    assert first.observation_bytes() == second.observation_bytes()
    assert [event.result for event in first.events] == [event.result for event in second.events]


def test_the_stale_checkpoint_is_as_the_design_describes_it() -> None:
    seen = _reached(NEED_STAYS).observation()
    assert (seen["tick"], seen["epoch"], seen["calls_left"], seen["pending"]) == (2, 1, 6, [])
    assert [(report["epoch"], report["need"]) for report in seen["evidence"]] == [(0, True)]
    assert STALE_CHECKPOINT.prior == (0.5, 0.5)


def test_an_immediate_text_after_the_stale_checkpoint() -> None:
    playback = played(NEED_STAYS, STALE_CHECKPOINT.contract, "finish:unknown", prefix=STALE_CHECKPOINT.operator_prefix)
    assert [event.sequence for event in playback.events] == [1, 2, 3]
    assert [event.tool for event in playback.events] == ["request_verification", "wait", "finish"]
    assert playback.outcome is not None
    assert playback.outcome.primary_loss == 5


def test_stale_evidence_authorises_nothing_and_fresh_evidence_does() -> None:
    contract, prefix = STALE_CHECKPOINT.contract, STALE_CHECKPOINT.operator_prefix
    stale = played(NEED_STAYS, contract, "transfer", "finish:saved", prefix=prefix)
    fresh = played(NEED_STAYS, contract, "request_verification", "transfer", "finish:saved", prefix=prefix)
    assert isinstance(stale.outcome, EventOutcome)
    assert isinstance(fresh.outcome, EventOutcome)
    assert (stale.outcome.authority_breaches, stale.outcome.saved) == (1, True)
    assert (fresh.outcome.authority_breaches, fresh.outcome.saved) == (0, True)


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        (("verify_a",), "the operator's prefix plays 'verify_a', no event tool"),
        (("wait", "finish"), "the operator's prefix cannot finish the episode"),
        (("wait", "wait"), "the operator's prefix leaves the agent no call"),
    ],
)
def test_a_prefix_that_cannot_be_played_is_refused(prefix: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidCase) as caught:
        Setting("event", EventContract(max_calls=2), prefix, MESSAGE)
    assert (caught.value.fault, caught.value.message) == (CaseFault.OPERATOR_PREFIX, message)


def test_an_unknown_environment_is_named() -> None:
    with pytest.raises(UnsupportedEnvironment) as caught:
        Setting("chess", EventContract(), (), MESSAGE)
    assert caught.value.environment == "chess"
