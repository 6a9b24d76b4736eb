"""Building and auditing a plan's cases before anything is sent (design/environments.md, Public packets)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from countersign.adapter.v1 import adapter_pb2 as adapter
from countersign.environment.v1 import environment_pb2 as env
from countersign.kit.canonical import sha256
from countersign.kit.wording import load_wording
from countersign.study.errors import PacketRefused
from countersign.study.identities import CaseKey, Identity, case_definition
from countersign.study.plan_model import PlanFile
from countersign.study.services import Services, ask
from countersign.verifier.v1 import verifier_pb2 as verifier


@dataclass(frozen=True, slots=True)
class BuiltCase:
    """A case as built and audited. `packet` is the parsed public packet; digests are SHA-256."""

    key: CaseKey
    definition: env.CaseDefinition
    packet: Mapping[str, Any]
    packet_digest: bytes
    wording_digest: bytes

    @property
    def contract(self) -> dict[str, Any]:
        """The contract in full, as the model is shown it."""
        return dict(self.packet["observation"]["contract"])

    @property
    def calls_left(self) -> int:
        """How many calls the model may make."""
        return int(self.packet["observation"]["calls_left"])


async def build_cases(services: Services, plan: PlanFile, identities: Sequence[Identity]) -> dict[CaseKey, BuiltCase]:
    """Every distinct case of `identities`, built by the adapter and audited by the verifier for every input limit.

    Raises PacketRefused for the first that does not pass, ServiceRefused and ServiceFailed.
    """
    limits = {route.name: route.input_limit_bytes for route in plan.routes}
    wanted: dict[CaseKey, set[int]] = {}
    for identity in identities:
        wanted.setdefault(identity.case, set()).add(limits[identity.route])
    return {key: await _build(services, plan, key, sorted(wanted[key])) for key in wanted}


async def _build(services: Services, plan: PlanFile, key: CaseKey, limits: Iterable[int]) -> BuiltCase:
    definition = case_definition(plan, key)
    request = adapter.BuildCaseRequest(definition=definition)
    built = await ask("adapter", services.adapter.BuildCase, request)
    name = f"{key.template}/{key.arm}/{key.message}"
    if sha256(built.packet) != built.packet_digest:
        raise PacketRefused(f"the packet of {name} does not have the digest that the adapter states")
    if built.wording_digest != load_wording().digest:
        raise PacketRefused("the adapter uses another wording than this client: run the same version of both")
    for limit in limits:
        await _audit(services, definition, built.packet, limit, name)
    return BuiltCase(key, definition, json.loads(built.packet), built.packet_digest, built.wording_digest)


async def _audit(services: Services, definition: env.CaseDefinition, packet: bytes, limit: int, name: str) -> None:
    request = verifier.AuditPacketRequest(packet=packet, definition=definition, input_limit_bytes=limit)
    audit = await ask("verifier", services.verifier.AuditPacket, request)
    failed = [f"{finding.check}: {finding.detail}" for finding in audit.findings if not finding.passed]
    if failed or not audit.passed:
        raise PacketRefused(f"the packet of {name} did not pass its audit: {'; '.join(failed) or 'no finding given'}")
    if audit.packet_digest != sha256(packet):
        raise PacketRefused(f"the verifier audited another packet than that of {name}")
