"""Public packets: built a second time, and audited (design/environments.md, Public packets)."""

from verifier_svc.packets.audit import Finding, PacketCheck, audit_arms, audit_packet
from verifier_svc.packets.build import DeclaredCase, build_packet

__all__ = ["DeclaredCase", "Finding", "PacketCheck", "audit_arms", "audit_packet", "build_packet"]
