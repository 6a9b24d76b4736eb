"""The manifest: a plan frozen into canonical JSON with its own digest, and its amendments (design/study.md)."""

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
AMENDMENT_SCHEMA = "countersign.amendment/1"
MANIFEST_NAME = "manifest.json"
AMENDMENTS_FOLDER = "amendments"
AMENDED_FOLDER = "amended"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A frozen study. `document` is the manifest as parsed, with its amendments in place of what they replace.

    `original` and `amendments` are the files' bytes, `chain` their own digests in order, in hexadecimal.
    """

    document: Mapping[str, Any]
    original: bytes
    chain: tuple[str, ...]
    amendments: tuple[bytes, ...] = ()

    @property
    def digest(self) -> bytes:
        """The chain's digest: the manifest's own without amendments (docs/formats.md, Manifest and amendments)."""
        return bytes.fromhex(self.chain[0]) if len(self.chain) == 1 else sha256("".join(self.chain).encode("ascii"))

    @property
    def study_id(self) -> str:
        """The plan's name and the start of the chain's digest: another manifest or amendment is another study."""
        return f"{self.document['name']}-{self.digest.hex()[:16]}"

    def folder(self, root: Path) -> Path:
        """Where the records and the analysis of this study are: `root` itself, or a folder of the last amendment's own.

        So that nothing of the study that an amendment leaves behind is touched.
        """
        return root / AMENDED_FOLDER / amendment_name(len(self.amendments)) if self.amendments else root


def freeze(
    plan: PlanFile,
    cases: Mapping[CaseKey, BuiltCase],
    identities: Sequence[Identity],
    families: Sequence[Mapping[str, Any]] = (),
) -> Manifest:
    """The manifest of `plan`. Equal plans, cases and families (with their commitments) give equal bytes.

    Raises PriceRefused.
    """
    wording = {case.wording_digest.hex() for case in cases.values()}
    body = {
        "schema": SCHEMA,
        "name": plan.name,
        "account": plan.account.model_dump(),
        "study": plan.study.model_dump(),
        "templates": [frozen_template(template) for template in plan.templates],
        "families": list(families),
        "arms": [{"name": arm.name, "instruction": arm_instruction(arm)} for arm in plan.arms],
        "messages": [{"name": message.name, "body": message_body(message)} for message in plan.messages],
        "routes": [frozen_route(route) for route in plan.routes],
        "prices": price_plan(plan, cases, identities),
        "wording_digest": wording.pop(),
        "cases": [_case(cases[key]) for key in sorted(cases)],
        "episodes": frozen_episodes(cases, identities),
    }
    digest = sha256(canonical_json(body)).hex()
    document = {**body, "manifest_digest": digest}
    return Manifest(document, canonical_json(document), (digest,))


def frozen_episodes(cases: Mapping[CaseKey, BuiltCase], identities: Sequence[Identity]) -> list[dict[str, Any]]:
    """Every planned episode as the manifest lists it."""
    return [
        {
            "episode_id": identity.episode_id,
            "identity": identity.to_json(),
            "packet_digest": cases[identity.case].packet_digest.hex(),
        }
        for identity in identities
    ]


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The members in which two frozen plans differ, their digests aside."""
    return [key for key in new if key != "manifest_digest" and old.get(key) != new[key]]


def require_same(manifest: Manifest, kept: Manifest) -> None:
    """Require that a plan, frozen as `manifest`, says what its folder has `kept`.

    Raises ManifestMismatch where it keeps another study, which is never overwritten.
    """
    changed = differences({"families": [], **kept.document}, manifest.document)
    if changed:
        raise ManifestMismatch(
            f"the folder's {MANIFEST_NAME} is the manifest of another study ({', '.join(changed)} differ): choose"
            " another --out, restore the plan, or change the study with 'countersign study amend'"
        )


def keep(manifest: Manifest, folder: Path) -> None:
    """Write the manifest into `folder`. Raises BadInput."""
    write_atomically(folder / MANIFEST_NAME, manifest.original)


def load_if_any(folder: Path) -> Manifest | None:
    """As `load`; None where `folder` has no manifest."""
    return load(folder) if (folder / MANIFEST_NAME).exists() else None


def load(folder: Path) -> Manifest:
    """The manifest in `folder` with its amendments applied.

    Raises BadManifest where one is missing, malformed or altered, or does not follow the one before.
    """
    path = folder / MANIFEST_NAME
    if not path.is_file():
        raise BadManifest(f"{path} does not exist: name the folder of a frozen study or of a collection")
    original = read_bytes(path)
    document = _digested(original, path, SCHEMA, "manifest_digest", "a manifest")
    manifest = Manifest(document, original, (document["manifest_digest"],))
    for path in amendment_files(folder):
        manifest = followed_by(manifest, read_bytes(path), path)
    return manifest


def amendment_files(folder: Path) -> list[Path]:
    """The amendments in `folder` in order. Raises BadManifest where a number is missing or a file is none of them."""
    found = sorted((folder / AMENDMENTS_FOLDER).glob("*.json"))
    expected = [f"{amendment_name(number)}.json" for number in range(1, len(found) + 1)]
    for path, name in zip(found, expected, strict=True):
        if path.name != name:
            raise BadManifest(f"{path} stands where {name} must: an amendment is missing, or the file is none")
    return found


def amendment_name(number: int) -> str:
    """What the amendment of this number, counted from 1, is called."""
    return f"{number:04}"


def followed_by(manifest: Manifest, amendment: bytes, path: Path) -> Manifest:
    """The study once it is amended. Raises BadManifest where the amendment is not of the documented form.

    `path` names it in errors.
    """
    document = _digested(amendment, path, AMENDMENT_SCHEMA, "amendment_digest", "an amendment")
    if document.get("parent") != manifest.chain[-1] or not isinstance(document.get("replace"), dict):
        raise BadManifest(f"{path} does not follow the manifest or amendment before it")
    return Manifest(
        document={**manifest.document, **document["replace"]},
        original=manifest.original,
        chain=(*manifest.chain, document["amendment_digest"]),
        amendments=(*manifest.amendments, amendment),
    )


def _digested(raw: bytes, path: Path, schema: str, member: str, what: str) -> dict[str, Any]:
    """The document in `raw`, its digest recomputed. Raises BadManifest."""
    try:
        document: dict[str, Any] = json.loads(raw)
        body = {key: value for key, value in document.items() if key != member}
        of_schema = document["schema"] == schema
        intact = sha256(canonical_json(body)).hex() == document[member]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise BadManifest(f"{path} is not {what}") from None
    if not of_schema:
        raise BadManifest(f"{path} is not {what} of schema {schema}")
    if not intact:
        raise BadManifest(f"{path} does not have the digest that it states: it was altered")
    return document


def frozen_template(template: TemplatePlan) -> dict[str, Any]:
    """A template as the manifest holds it."""
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
