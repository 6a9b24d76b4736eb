"""Revealing held-out templates after the freeze, as an amendment (design/study.md, Held-out templates)."""

import json
from pathlib import Path

from countersign.study.amendments import write_amendment
from countersign.study.built import BuiltStudy
from countersign.study.cases import Builders, build_cases
from countersign.study.errors import HeldOutRefused
from countersign.study.frozen_plan import plan_of, revealed_members
from countersign.study.held_out import development_structures, draw, opened
from countersign.study.held_out_audit import audit_held_out
from countersign.study.identities import planned_identities
from countersign.study.manifest import freeze, frozen_template, load

REASON = "the held-out templates are revealed"


async def reveal(services: Builders, folder: Path, seed: bytes) -> BuiltStudy:
    """Open the commitments of the study in `folder`: its held-out templates, their cases, episodes and prices.

    They are drawn against the development templates of the manifest as first frozen. Raises HeldOutRefused where there
    is nothing to reveal, where the seed does not open the commitments and where the audit finds anything, and
    StudyError as building does. Nothing is written then.
    """
    kept = load(folder)
    families = kept.document.get("families", [])
    if not families:
        raise HeldOutRefused("the study has no families: there is nothing to reveal")
    if revealed_members(kept.document):
        raise HeldOutRefused("the study's held-out templates are revealed already")
    plan = plan_of(kept.document)
    members = draw(plan, seed, development_structures(json.loads(kept.original)))
    openings = opened(families, members)
    revealed = [member.template for drawn in members.values() for member in drawn]
    whole = plan.model_copy(update={"templates": [*plan.templates, *revealed]})
    identities = planned_identities(whole)
    cases = await build_cases(services, whole, identities)
    document = freeze(whole, cases, identities).document
    replace = {
        "templates": [*kept.document["templates"], *map(frozen_template, revealed)],
        "families": openings,
        **{name: document[name] for name in ("cases", "episodes", "prices")},
    }
    found = audit_held_out({**kept.document, **replace})
    if found:
        raise HeldOutRefused(f"the revealed members do not pass their audit: {'; '.join(found)}")
    return BuiltStudy(whole, write_amendment(folder, kept, replace, REASON), cases, identities, is_new=False)
