"""Amendments: later changes of a frozen study, each naming what it follows (docs/formats.md, Manifest)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countersign.kit.canonical import canonical_json, sha256
from countersign.study.built import BuiltStudy, kept_families, with_revealed
from countersign.study.cases import Builders, build_cases
from countersign.study.errors import AmendmentRefused
from countersign.study.files import create_atomically, make_folder
from countersign.study.identities import planned_identities
from countersign.study.manifest import (
    AMENDMENT_SCHEMA,
    AMENDMENTS_FOLDER,
    Manifest,
    amendment_name,
    differences,
    followed_by,
    freeze,
    load,
)
from countersign.study.plan_model import PlanFile

FIXED = ("name", "account", "families")
"""What an amendment may not change: who the study is, who pays, and what was committed to."""


async def amend(services: Builders, folder: Path, plan: PlanFile, reason: str) -> BuiltStudy:
    """Amend the study in `folder` so that it is `plan`, every packet audited; the amended study.

    Raises AmendmentRefused where nothing changes or what is fixed would, BadManifest for a broken chain, BadInput where
    another amendment was written meanwhile, and StudyError as building does. Nothing is written then.
    """
    kept = load(folder)
    whole = with_revealed(plan, kept)
    identities = planned_identities(whole)
    cases = await build_cases(services, whole, identities)
    changed = _replaced(kept, freeze(whole, cases, identities, kept_families(plan, kept)).document)
    manifest = write_amendment(folder, kept, changed, reason)
    return BuiltStudy(whole, manifest, cases, identities, is_new=False)


def write_amendment(folder: Path, kept: Manifest, replace: Mapping[str, Any], reason: str) -> Manifest:
    """Write the amendment that follows `kept`, never over another; the amended study. Raises as `amend` does."""
    if not reason.strip():
        raise AmendmentRefused("an amendment needs a reason: say in a sentence why the frozen study is changed")
    body = {"schema": AMENDMENT_SCHEMA, "parent": kept.chain[-1], "reason": reason, "replace": dict(replace)}
    amendment = canonical_json({**body, "amendment_digest": sha256(canonical_json(body)).hex()})
    path = folder / AMENDMENTS_FOLDER / f"{amendment_name(len(kept.amendments) + 1)}.json"
    amended = followed_by(kept, amendment, path)
    make_folder(path.parent)
    create_atomically(path, amendment)
    return amended


def _replaced(kept: Manifest, document: Mapping[str, Any]) -> dict[str, Any]:
    """The members of `document` that differ from what `kept` says. Raises AmendmentRefused."""
    changed = differences({"families": [], **kept.document}, document)
    for name in FIXED:
        if name in changed:
            raise AmendmentRefused(f"an amendment cannot change {name}: freeze another study in another folder")
    if not changed:
        raise AmendmentRefused("the plan says what is frozen already: there is nothing to amend")
    return {name: document[name] for name in changed}
