"""The evidence of each item of a study's readiness (design/study.md, Readiness)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from countersign.environment.v1 import environment_pb2 as env
from countersign.kit.canonical import canonical_json, sha256
from countersign.kit.channel import call
from countersign.kit.money import Money, nanos_to_text
from countersign.kit.money_wire import from_wire
from countersign.kit.rpc_errors import ServiceError
from countersign.study.built import BuiltStudy
from countersign.study.errors import ServiceRefused
from countersign.study.held_out_audit import audit_held_out
from countersign.study.ledger_objects import account_available, study_standing
from countersign.study.price_check import BY_HAND, CURRENT, FREE, checked_price
from countersign.study.probes import build_probes, probe_evidence
from countersign.study.report import LIMITS
from countersign.study.services import Services, service_trouble
from countersign.verifier.v1 import verifier_pb2 as verifier

STATE_LIMIT = 500_000
"""The most belief states that are visited for one comparator."""

SOLVE_SECONDS = 600.0
"""The deadline of solving one template's comparator."""

UNSOLVED = frozenset({"NOT_IMPLEMENTED", "STATE_LIMIT_EXCEEDED"})
"""Why a verifier does not solve a comparator, without any fault of the case."""

ANALYSIS_SCHEMA = "countersign.analysis/1"


@dataclass(frozen=True, slots=True)
class ItemEvidence:
    """Whether an item holds, in words, and what that rests on."""

    holds: bool
    says: str
    evidence: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """SHA-256 of the evidence's canonical JSON, in hexadecimal."""
        return sha256(canonical_json(self.evidence)).hex()


def manifest(built: BuiltStudy) -> ItemEvidence:
    """The manifest and its amendments: loading them has recomputed every digest. Held-out members pass their audit."""
    chain, found = built.manifest.chain, audit_held_out(built.manifest.document)
    evidence = {
        "manifest": chain[0],
        "amendments": list(chain[1:]),
        "chain": built.manifest.digest.hex(),
        "held_out_findings": found,
    }
    return ItemEvidence(not found, "; ".join(found) or f"intact, with {len(chain) - 1} amendments", evidence)


def packets(built: BuiltStudy) -> ItemEvidence:
    """Every packet, built again: it has the frozen digest and passed every check of the verifier."""
    audited = [
        {
            "template": key.template,
            "arm": key.arm,
            "message": key.message,
            "packet_digest": case.packet_digest.hex(),
            "findings": list(case.findings),
        }
        for key, case in sorted(built.cases.items())
    ]
    holds = all(one["passed"] for case in built.cases.values() for one in case.findings)
    return ItemEvidence(holds, f"{len(audited)} packets rebuilt as frozen and audited", {"packets": audited})


async def comparators(services: Services, built: BuiltStudy) -> ItemEvidence:
    """The exact comparator of every template; arm and message change nothing about it.

    Where the verifier does not solve it, the item holds if the plan says so. Raises ServiceFailed and ServiceRefused.
    """
    by_template: dict[str, env.CaseDefinition] = {}
    for key in sorted(built.cases):
        by_template.setdefault(key.template, built.cases[key].definition)
    solved = {name: await _solved(services, definition) for name, definition in by_template.items()}
    unsolved = sorted(name for name, one in solved.items() if "unsolved" in one)
    declared = built.plan.study.comparators == "unsolved"
    evidence = {"declared": built.plan.study.comparators, "state_limit": STATE_LIMIT, "templates": solved}
    if not unsolved:
        return ItemEvidence(True, f"{len(solved)} solved exactly", evidence)
    says = f"unsolved: {', '.join(unsolved)}"
    advice = ", as the plan declares" if declared else '; declare study.comparators = "unsolved" to do without'
    return ItemEvidence(declared, says + advice, evidence)


async def _solved(services: Services, definition: env.CaseDefinition) -> dict[str, Any]:
    request = verifier.SolveComparatorRequest(definition=definition, state_limit=STATE_LIMIT)
    try:
        answer = await call(services.verifier.SolveComparator, request, SOLVE_SECONDS)
    except ServiceError as error:
        if error.reason in UNSOLVED:
            return {"unsolved": error.reason}
        raise service_trouble("verifier", error) from None
    return {"expected_loss": answer.expected_loss, "certificate": answer.certificate_digest.hex()}


async def probes(services: Services, built: BuiltStudy, folder: Path) -> ItemEvidence:
    """A handshake of every route, each record verified against the receipts. Raises ServiceFailed, ServiceRefused."""
    planned = await build_probes(services, built, {route.name: route.base_url or "" for route in built.plan.routes})
    found = await probe_evidence(services, planned, folder)
    missing = [f"{one['route']}: {one['state']}" for one in found if one["state"] != "verified"]
    says = "; ".join(missing) or f"{len(found)} routes answered, every record verified"
    return ItemEvidence(not missing, says, {"probes": found})


def prices(built: BuiltStudy, now: datetime) -> ItemEvidence:
    """Every price against the installed package; one written by hand is current by declaration."""
    checked = [checked_price(route, now) for route in built.plan.routes]
    stale = [f"{one['route']}: {one['state']}" for one in checked if one["state"] not in (FREE, CURRENT, BY_HAND)]
    counts = ", ".join(
        f"{number} {state}"
        for state, number in (
            ("as in the installed package", _count(checked, CURRENT)),
            ("written by hand, current by declaration", _count(checked, BY_HAND)),
            ("free", _count(checked, FREE)),
        )
        if number
    )
    return ItemEvidence(not stale, "; ".join(stale) or counts, {"prices": checked})


def _count(checked: list[dict[str, Any]], state: str) -> int:
    return sum(one["state"] == state for one in checked)


async def budget(services: Services, built: BuiltStudy) -> ItemEvidence:
    """What the account has against what the study may still cost. Raises ServiceFailed and ServiceRefused."""
    account_id = built.plan.account.id
    available = await account_available(services.ledger, account_id)
    used = await _accounted(services, account_id, built.manifest.study_id, available.currency)
    evidence = {
        "account": account_id,
        "currency": available.currency,
        "available": nanos_to_text(available.nanos),
        "accounted": nanos_to_text(used.nanos),
        "study_bound": nanos_to_text(built.bound.nanos),
    }
    holds = available.currency == built.bound.currency and available.nanos + used.nanos >= built.bound.nanos
    says = f"{available} available, {used} accounted for, the study can cost at most {built.bound}"
    return ItemEvidence(holds, says, evidence)


async def _accounted(services: Services, account_id: str, study_id: str, currency: str) -> Money:
    """What the study's calls account for so far, in any state; nothing where it is not open yet."""
    try:
        balances = (await study_standing(services.ledger, account_id, study_id)).balances
    except ServiceRefused:
        return Money(currency, 0)
    states = (balances.charged, balances.reserved, balances.held, balances.resolved)
    return Money(currency, sum(from_wire(state).nanos for state in states))


def scoring(built: BuiltStudy) -> ItemEvidence:
    """How outcomes are weighed and what is missing is treated: frozen with the manifest."""
    document = built.manifest.document
    evidence = {
        "loss_weights": {one["template"]: one["loss_weights"] for one in document["cases"]},
        "stop": document["study"]["stop"],
        "analysis": ANALYSIS_SCHEMA,
        "rules": list(LIMITS),
    }
    return ItemEvidence(True, f"{len(evidence['loss_weights'])} templates' weights and the stop rule frozen", evidence)
