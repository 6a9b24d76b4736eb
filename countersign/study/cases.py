"""Building and auditing a plan's cases before anything is sent (design/environments.md, Public packets)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from countersign.adapter.v1 import adapter_pb2 as adapter
from countersign.adapter.v1.adapter_pb2_grpc import AdapterServiceStub
from countersign.environment.v1 import environment_pb2 as env
from countersign.kit.canonical import sha256
from countersign.kit.wording import load_wording
from countersign.study.errors import PacketRefused
from countersign.study.identities import CaseKey, Identity, case_definition
from countersign.study.plan_model import PlanFile
from countersign.study.services import ask
from countersign.verifier.v1 import verifier_pb2 as verifier
from countersign.verifier.v1.verifier_pb2_grpc import VerifierServiceStub


class Builders(Protocol):
    """Who builds a case and who audits it; no ledger is needed for that."""

    @property
    def adapter(self) -> AdapterServiceStub:
        """Builds."""

    @property
    def verifier(self) -> VerifierServiceStub:
        """Audits."""


@dataclass(frozen=True, slots=True)
class BuiltCase:
    """A case as built and audited. `packet` is the parsed public packet; digests are SHA-256.

    `findings` are the audit's, for every input limit in rising order.
    """

    key: CaseKey
    definition: env.CaseDefinition
    packet: Mapping[str, Any]
    packet_digest: bytes
    wording_digest: bytes
    findings: tuple[Mapping[str, Any], ...] = ()

    @property
    def contract(self) -> dict[str, Any]:
        """The contract in full, as the model is shown it."""
        return dict(self.packet["observation"]["contract"])

    @property
    def calls_left(self) -> int:
        """How many calls the model may make."""
        return int(self.packet["observation"]["calls_left"])


async def build_cases(services: Builders, plan: PlanFile, identities: Sequence[Identity]) -> dict[CaseKey, BuiltCase]:
    """Every distinct case of `identities`, built by the adapter and audited by the verifier for every input limit.

    Raises PacketRefused for the first that does not pass, ServiceRefused and ServiceFailed.
    """
    limits = {route.name: route.input_limit_bytes for route in plan.routes}
    wanted: dict[CaseKey, set[int]] = {}
    for identity in identities:
        wanted.setdefault(identity.case, set()).add(limits[identity.route])
    return {
        key: await build_case(services, key, case_definition(plan, key), sorted(limits))
        for key, limits in wanted.items()
    }


async def build_case(
    services: Builders, key: CaseKey, definition: env.CaseDefinition, limits: Iterable[int]
) -> BuiltCase:
    """The case called `key`, built by the adapter and audited by the verifier for each of `limits`, in bytes.

    Raises as `build_cases` does.
    """
    request = adapter.BuildCaseRequest(definition=definition)
    built = await ask("adapter", services.adapter.BuildCase, request)
    name = f"{key.template}/{key.arm}/{key.message}"
    if sha256(built.packet) != built.packet_digest:
        raise PacketRefused(f"the packet of {name} does not have the digest that the adapter states")
    if built.wording_digest != load_wording().digest:
        raise PacketRefused("the adapter uses another wording than this client: run the same version of both")
    findings = [one for limit in limits for one in await _audit(services, definition, built.packet, limit, name)]
    packet = json.loads(built.packet)
    return BuiltCase(key, definition, packet, built.packet_digest, built.wording_digest, tuple(findings))


async def _audit(
    services: Builders, definition: env.CaseDefinition, packet: bytes, limit: int, name: str
) -> list[dict[str, Any]]:
    request = verifier.AuditPacketRequest(packet=packet, definition=definition, input_limit_bytes=limit)
    audit = await ask("verifier", services.verifier.AuditPacket, request)
    failed = [f"{finding.check}: {finding.detail}" for finding in audit.findings if not finding.passed]
    if failed or not audit.passed:
        raise PacketRefused(f"the packet of {name} did not pass its audit: {'; '.join(failed) or 'no finding given'}")
    if audit.packet_digest != sha256(packet):
        raise PacketRefused(f"the verifier audited another packet than that of {name}")
    return [{"input_limit_bytes": limit, "check": one.check, "passed": one.passed} for one in audit.findings]
