"""Which roles may make which calls of the adapter: it spends money and shows packets, so all are a collector's."""

from countersign.kit.access import MethodRoles, Role

_COLLECTOR = frozenset({Role.COLLECTOR})

METHOD_ROLES: MethodRoles = {
    "Adapt": _COLLECTOR,
    "BuildCase": _COLLECTOR,
    "PlayActions": _COLLECTOR,
    "RunEpisode": _COLLECTOR,
    "ReadNativeStream": _COLLECTOR,
}
