"""The manifest: a plan frozen into canonical JSON with its own digest (design/study.md)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from countersign.kit.canonical import canonical_json, sha256
from countersign.study.amounts import plain_json
from countersign.study.cases import BuiltCase
from countersign.study.errors import BadManifest, ManifestMismatch
from countersign.study.files import read_bytes, write_atomically
from countersign.study.identities import CaseKey, Identity
from countersign.study.plan import arm_instruction, message_body, prior_of, realised_worlds
from countersign.study.plan_model import PlanFile, TemplatePlan
from countersign.study.prices import price_plan
from countersign.study.routes import frozen_route

SCHEMA = "countersign.manifest/1"
MANIFEST_NAME = "manifest.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A frozen study. `document` is the manifest as parsed, its digest included; `digest` is SHA-256 without it."""

    document: Mapping[str, Any]
    digest: bytes

    @property
    def study_id(self) -> str:
        """The plan's name and the start of the digest: another manifest is another study."""
        return f"{self.document['name']}-{self.digest.hex()[:16]}"

    def to_bytes(self) -> bytes:
        """The file's content."""
        return canonical_json(self.document)


def freeze(plan: PlanFile, cases: Mapping[CaseKey, BuiltCase], identities: Sequence[Identity]) -> Manifest:
    """The manifest of `plan`. Equal plans and cases give equal bytes. Raises PriceRefused."""
    wording = {case.wording_digest.hex() for case in cases.values()}
    body = {
        "schema": SCHEMA,
        "name": plan.name,
        "account": plan.account.model_dump(),
        "study": plan.study.model_dump(),
        "templates": [_template(template) for template in plan.templates],
        "arms": [{"name": arm.name, "instruction": arm_instruction(arm)} for arm in plan.arms],
        "messages": [{"name": message.name, "body": message_body(message)} for message in plan.messages],
        "routes": [frozen_route(route) for route in plan.routes],
        "prices": price_plan(plan, cases, identities),
        "wording_digest": wording.pop(),
        "cases": [_case(cases[key]) for key in sorted(cases)],
        "episodes": [
            {
                "episode_id": identity.episode_id,
                "identity": identity.to_json(),
                "packet_digest": cases[identity.case].packet_digest.hex(),
            }
            for identity in identities
        ],
    }
    digest = sha256(canonical_json(body))
    return Manifest({**body, "manifest_digest": digest.hex()}, digest)


def is_new(manifest: Manifest, folder: Path) -> bool:
    """Whether `folder` has no manifest yet; an equal one is not new.

    Raises ManifestMismatch where it holds another one, which is never overwritten, and BadManifest.
    """
    path = folder / MANIFEST_NAME
    if not path.exists():
        return True
    kept = load(folder)
    if kept.digest != manifest.digest:
        changed = [key for key in manifest.document if kept.document.get(key) != manifest.document[key]]
        keys = ", ".join(key for key in changed if key != "manifest_digest") or "its members"
        raise ManifestMismatch(
            f"{path} is the manifest of another study ({keys} differ): choose another --out, or restore the plan"
        )
    return False


def keep(manifest: Manifest, folder: Path) -> None:
    """Write the manifest into `folder`. Raises BadInput."""
    write_atomically(folder / MANIFEST_NAME, manifest.to_bytes())


def load(folder: Path) -> Manifest:
    """The manifest in `folder`. Raises BadManifest where it is missing, malformed or altered."""
    path = folder / MANIFEST_NAME
    if not path.is_file():
        raise BadManifest(f"{path} does not exist: name the folder of a collection")
    try:
        document = json.loads(read_bytes(path))
        claimed = bytes.fromhex(document["manifest_digest"])
        body = {key: value for key, value in document.items() if key != "manifest_digest"}
        intact = document["schema"] == SCHEMA and sha256(canonical_json(body)) == claimed
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise BadManifest(f"{path} is not a manifest") from None
    if not intact:
        raise BadManifest(f"{path} does not have the digest that it states: it was altered")
    return Manifest(document, claimed)


def _template(template: TemplatePlan) -> dict[str, Any]:
    frozen: dict[str, Any] = plain_json(template.model_dump())
    return {**frozen, "prior": prior_of(template), "realised": realised_worlds(template)}


def _case(case: BuiltCase) -> dict[str, Any]:
    return {
        "template": case.key.template,
        "arm": case.key.arm,
        "message": case.key.message,
        "packet_digest": case.packet_digest.hex(),
        "contract": case.contract,
        "loss_weights": case.packet["loss_weights"],
    }
