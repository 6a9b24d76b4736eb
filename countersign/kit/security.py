"""What protects a server: TLS, and who may call what."""

from dataclasses import dataclass, field

import grpc
import structlog

from countersign.kit.access import AccessPolicy, MethodRoles
from countersign.kit.access_file import AccessFile
from countersign.kit.settings import BadSettings, ServiceSettings
from countersign.kit.tls import server_credentials

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Security:
    """A server's side of access; `access_file` are the callers of `policy`, to be read anew on SIGHUP."""

    credentials: grpc.ServerCredentials | None = field(default=None, repr=False)
    policy: AccessPolicy | None = None
    access_file: AccessFile | None = None
    insecure: bool = False

    @property
    def may_leave_loopback(self) -> bool:
        """Whether it protects enough to listen beyond loopback: TLS and an access file, or `insecure`."""
        return self.insecure or (self.credentials is not None and self.policy is not None)


OPEN = Security()
"""Plaintext, and everybody may do everything: for loopback and Unix sockets."""


def load_security(settings: ServiceSettings, full_name: str, roles: MethodRoles) -> Security:
    """A service's protection as its settings ask for it. `roles` is the service's table.

    Raises BadSettings, BadTls, BadAccessFile or BadSecretFile.
    """
    credentials = _credentials(settings)
    if settings.access_file is None:
        return Security(credentials, insecure=settings.insecure)
    access_file = AccessFile(settings.access_file)
    return Security(credentials, AccessPolicy(full_name, roles, access_file), access_file, settings.insecure)


def log_security(security: Security, address: str) -> None:
    """Say in the log, once a server listens at `address`, how open it is."""
    if security.insecure:
        log.warning(
            "INSECURE", meaning="plaintext beyond loopback is allowed: receipts, prompts and tokens can be read"
        )
    if security.access_file is None:
        meaning = "no access file: everybody who can connect may make every call"
        log.warning("access_open", address=address, meaning=meaning)
    else:
        encrypted = security.credentials is not None
        log.info("access_by_role", address=address, tls=encrypted, **security.access_file.counts())


def _credentials(settings: ServiceSettings) -> grpc.ServerCredentials | None:
    certificate, key, client_ca = settings.tls_certificate, settings.tls_key, settings.tls_client_ca
    if certificate is not None and key is not None:
        return server_credentials(certificate, key, client_ca)
    if any(path is not None for path in (certificate, key, client_ca)):
        raise BadSettings("settings tls_certificate and tls_key go together, and tls_client_ca needs both")
    return None
