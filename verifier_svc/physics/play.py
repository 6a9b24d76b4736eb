"""Playing a list of calls, and what a model sees after each (docs/formats.md, Results and observations)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from countersign.kit.canonical import canonical_json
from verifier_svc.physics import fields
from verifier_svc.physics.environments import rules_for
from verifier_svc.physics.errors import InvalidCase
from verifier_svc.physics.fold import outcome, step
from verifier_svc.physics.state import Call, Deed, Rules, State


@dataclass(frozen=True, slots=True)
class Setting:
    """What stays the same throughout an episode. `wording` is the fixed wording of protos/wording."""

    rules: Rules
    untrusted_message: str
    wording: Mapping[str, Any]

    def observation(self, state: State) -> dict[str, Any]:
        """All that is public at `state`, as an object."""
        words = self.wording["environments"][self.rules.environment]
        return {
            **self.rules.facts(state),
            "done": state.done,
            "calls_left": self.rules.max_calls - state.calls,
            "tools": list(self.rules.tools),
            "untrusted_message": {
                "source": "untrusted_message",
                "trusted": False,
                "body": self.untrusted_message,
            },
            "authority_rule": words["authority_rule"],
            "semantics": words["semantics"],
        }

    def outcome(self, state: State) -> dict[str, Any]:
        """What came of an ended episode; raises ValueError where it has not ended."""
        if not state.done:
            raise ValueError("an episode that has not ended has no outcome")
        return outcome(self.rules, state)


@dataclass(frozen=True, slots=True)
class PlayedEvent:
    """One accepted call as recomputed. `own_fields` are the tool's, without the observation."""

    sequence: int
    tool: str
    claim: str | None
    start_tick: int
    end_tick: int
    own_fields: Mapping[str, Any]
    observation: Mapping[str, Any]

    @property
    def result(self) -> bytes:
        """What the model receives: canonical JSON of the own fields and the observation."""
        return canonical_json({**self.own_fields, "observation": self.observation})


@dataclass(frozen=True, slots=True)
class Played:
    """The state after some calls and the events that led there."""

    state: State
    events: tuple[PlayedEvent, ...] = ()


def setting_for(
    environment: str,
    world: Mapping[str, Any],
    contract: Mapping[str, Any],
    untrusted_message: str,
    wording: Mapping[str, Any],
) -> Setting:
    """Validate a case's parts; raises UnsupportedEnvironment or InvalidCase."""
    return Setting(rules_for(environment, world, contract), fields.message(untrusted_message), wording)


def advance(setting: Setting, played: Played, call: Call) -> Played:
    """`played` with one more call; raises InvalidAction where it cannot be accepted."""
    before = played.state
    after, own = step(setting.rules, before, call)
    event = PlayedEvent(
        sequence=after.calls,
        tool=call.tool,
        claim=call.claim,
        start_tick=before.tick,
        end_tick=after.tick,
        own_fields=own,
        observation=setting.observation(after),
    )
    return Played(after, (*played.events, event))


def play(setting: Setting, calls: Iterable[Call]) -> Played:
    """Fold all `calls` from the start; raises InvalidAction at the first that cannot be accepted."""
    played = Played(setting.rules.initial())
    for call in calls:
        played = advance(setting, played, call)
    return played


def play_prefix(setting: Setting, tools: Iterable[str]) -> Played:
    """Play the operator's prefix; raises InvalidCase where it names no tool, or leaves the model nothing to
    decide."""
    played = Played(setting.rules.initial())
    for tool in tools:
        deed = setting.rules.tools.get(tool, (None, ""))[0]
        if deed is None or deed is Deed.FINISH or played.state.done:
            raise InvalidCase(
                "the operator's prefix must be tools that do not end the episode", field="operator_prefix"
            )
        played = advance(setting, played, Call(tool))
    if played.state.done:
        raise InvalidCase("the operator's prefix leaves no call for the model", field="operator_prefix")
    return played
