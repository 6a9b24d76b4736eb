"""A frozen study with its cases built and audited: from a plan, or again from its manifest (design/study.md)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from countersign.kit.money import Money
from countersign.study.cases import Builders, BuiltCase, build_cases
from countersign.study.errors import HeldOutRefused, PacketRefused
from countersign.study.frozen_plan import plan_of, revealed_members
from countersign.study.held_out import committed, declarations, declared, development_structures, draw, opened
from countersign.study.identities import CaseKey, Identity, planned_identities, world_index
from countersign.study.manifest import Manifest, freeze, frozen_episodes, load_if_any, require_same
from countersign.study.plan_model import PlanFile
from countersign.study.prices import study_bound_nanos
from countersign.study.routes import wire_route
from countersign.study.runner import EpisodeOrder


@dataclass(frozen=True, slots=True)
class BuiltStudy:
    """A frozen study with its cases built and audited; `is_new` where its manifest is not kept yet."""

    plan: PlanFile
    manifest: Manifest
    cases: Mapping[CaseKey, BuiltCase]
    identities: Sequence[Identity]
    is_new: bool

    @property
    def bound(self) -> Money:
        """The most that the study can cost."""
        return Money(self.plan.account.currency, study_bound_nanos(self.plan, self.cases, self.identities))

    def orders(self, base_urls: Mapping[str, str]) -> list[EpisodeOrder]:
        """Every planned episode in frozen order, its route at its address in `base_urls`."""
        routes = {route.name: wire_route(route, base_urls[route.name]) for route in self.plan.routes}
        templates = {template.name: template for template in self.plan.templates}
        return [
            EpisodeOrder(
                study_id=self.manifest.study_id,
                manifest_digest=self.manifest.digest.hex(),
                currency=self.plan.account.currency,
                identity=identity,
                environment=templates[identity.template].environment,
                case=self.cases[identity.case],
                world_index=world_index(templates[identity.template], identity.world),
                route=routes[identity.route],
            )
            for identity in self.identities
        ]


async def build(services: Builders, plan: PlanFile, folder: Path | None, seed: bytes | None = None) -> BuiltStudy:
    """Build and audit every case of `plan` and freeze it; nothing is written.

    `folder` is where it is or will be kept, None for a look at the plan alone; `seed` draws the families' members,
    whose cases are built and audited too, and is needed only the first time. Raises StudyError, ManifestMismatch
    where `folder` keeps another study.
    """
    kept = None if folder is None else load_if_any(folder)
    whole = with_revealed(plan, kept)
    identities = planned_identities(whole)
    cases = await build_cases(services, whole, identities)
    manifest = freeze(whole, cases, identities, kept_families(plan, kept))
    if seed is not None:
        families = await _drawn(services, plan, kept or manifest, seed)
        manifest = manifest if kept is not None else freeze(whole, cases, identities, families)
    elif plan.families and folder is not None and kept is None:
        raise HeldOutRefused("the plan has families: freeze it with 'countersign study freeze PLAN --secret FILE'")
    if kept is not None:
        require_same(manifest, kept)
        manifest = kept
    return BuiltStudy(whole, manifest, cases, identities, kept is None)


def with_revealed(plan: PlanFile, kept: Manifest | None) -> PlanFile:
    """The plan with the held-out templates that its study has revealed: a plan file cannot name them."""
    revealed = [] if kept is None else revealed_members(kept.document)
    return plan.model_copy(update={"templates": [*plan.templates, *revealed]}) if revealed else plan


def kept_families(plan: PlanFile, kept: Manifest | None) -> list[Mapping[str, Any]]:
    """The families that the plan's study keeps, with their commitments; none where the plan declares others."""
    families = [] if kept is None else kept.document.get("families", [])
    return families if declarations(families) == declared(plan) else []


async def _drawn(services: Builders, plan: PlanFile, frozen: Manifest, seed: bytes) -> list[dict[str, Any]]:
    """The plan's families with their commitments, every member's packets audited so that none fails once revealed.

    Raises HeldOutRefused where the study keeps other commitments.
    """
    members = draw(plan, seed, development_structures(json.loads(frozen.original)))
    templates = [member.template for drawn in members.values() for member in drawn]
    whole = plan.model_copy(update={"templates": templates})
    await build_cases(services, whole, planned_identities(whole))
    opened(kept_families(plan, frozen), members)
    return committed(plan, members)


async def rebuild(services: Builders, manifest: Manifest) -> BuiltStudy:
    """Build and audit every case of a frozen study again, from its manifest and amendments alone.

    Raises StudyError, PacketRefused where a packet or an episode is not as frozen.
    """
    plan = plan_of(manifest.document)
    identities = planned_identities(plan)
    cases = await build_cases(services, plan, identities)
    found, frozen = frozen_episodes(cases, identities), manifest.document["episodes"]
    for identity, one, other in zip(identities, found, frozen, strict=False):
        if one != other:
            raise PacketRefused(f"{identity} is not as frozen: its packet or its place in the order is another one now")
    if len(found) != len(frozen):
        raise PacketRefused(f"the manifest lists {len(frozen)} episodes, its plan has {len(found)}")
    return BuiltStudy(plan, manifest, cases, identities, is_new=False)
