"""Which episodes a plan has, in frozen order, and what each is called (design/study.md; docs/formats.md)."""

from dataclasses import asdict, dataclass
from typing import Any

from countersign.environment.v1 import environment_pb2 as env
from countersign.kit.canonical import canonical_json, sha256
from countersign.study.errors import BadPlan
from countersign.study.fields import read_contract, read_weights, read_world
from countersign.study.plan import MAX_EPISODES, arm_instruction, message_body, prior_of, realised_worlds
from countersign.study.plan_model import HeldOutTemplate, PlanFile, RoutePlan, TemplatePlan


@dataclass(frozen=True, slots=True, order=True)
class CaseKey:
    """Names one case of a plan: all that a model is shown follows from these three."""

    template: str
    arm: str
    message: str


@dataclass(frozen=True, slots=True)
class Identity:
    """Names one planned episode by the plan's own names; `repetition` counts from 1."""

    route: str
    template: str
    world: str
    arm: str
    message: str
    repetition: int

    def to_json(self) -> dict[str, Any]:
        """The record's `identity`."""
        return asdict(self)

    @property
    def episode_id(self) -> str:
        """SHA-256 of the identity's canonical JSON, in hexadecimal."""
        return sha256(canonical_json(self.to_json())).hex()

    @property
    def case(self) -> CaseKey:
        """The case that the episode plays."""
        return CaseKey(self.template, self.arm, self.message)

    def __str__(self) -> str:
        parts = (self.route, self.template, self.world, self.arm, self.message, str(self.repetition))
        return "/".join(parts)


def planned_identities(plan: PlanFile) -> list[Identity]:
    """Every planned episode in frozen order: by route, template, world, arm, message, repetition.

    Raises BadPlan where there are none, or more than MAX_EPISODES.
    """
    identities = [identity for route in plan.routes for identity in _of_route(plan, route)]
    if not identities:
        raise BadPlan("the plan has no episodes: its routes leave out every template or arm that there is")
    if len(identities) > MAX_EPISODES:
        raise BadPlan(f"the plan has {len(identities)} episodes: at most {MAX_EPISODES} are possible")
    return identities


def case_definition(plan: PlanFile, key: CaseKey) -> env.CaseDefinition:
    """The case called `key`, as the services take it."""
    template = next(one for one in plan.templates if one.name == key.template)
    arm = next(one for one in plan.arms if one.name == key.arm)
    message = next(one for one in plan.messages if one.name == key.message)
    return env.CaseDefinition(
        contract=read_contract(template.environment, template.contract),
        support=[read_world(template.environment, world.fields) for world in template.worlds],
        prior=prior_of(template),
        loss_weights=read_weights(template.loss_weights) if template.loss_weights else None,
        operator_prefix=template.operator_prefix,
        procedure_instruction=arm_instruction(arm),
        untrusted_message=message_body(message),
    )


def world_index(template: TemplatePlan, world: str) -> int:
    """Where `world` stands in the template's support."""
    return [one.name for one in template.worlds].index(world)


def _of_route(plan: PlanFile, route: RoutePlan) -> list[Identity]:
    return [
        Identity(route.name, template.name, world, arm.name, message.name, repetition)
        for template in plan.templates
        if _plays(route, template)
        for world in realised_worlds(template)
        for arm in plan.arms
        if route.arms is None or arm.name in route.arms
        for message in plan.messages
        for repetition in range(1, (route.repetitions or plan.study.repetitions) + 1)
    ]


def _plays(route: RoutePlan, template: TemplatePlan) -> bool:
    """Whether the route is run on the template; a family's name stands for its revealed members."""
    names = {template.name, template.family} if isinstance(template, HeldOutTemplate) else {template.name}
    return route.templates is None or not names.isdisjoint(route.templates)
