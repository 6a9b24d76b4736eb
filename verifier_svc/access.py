"""Which roles may make which calls of the verifier: a collector has its work verified, an auditor anybody's."""

from countersign.kit.access import MethodRoles, Role

_VERIFYING = frozenset({Role.COLLECTOR, Role.AUDITOR})

METHOD_ROLES: MethodRoles = {
    "VerifyTrace": _VERIFYING,
    "VerifyEpisode": _VERIFYING,
    "AuditPacket": _VERIFYING,
    "SolveComparator": _VERIFYING,
    "AnalyzeStudy": _VERIFYING,
}
