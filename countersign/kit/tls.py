"""Certificates and keys from files, checked before gRPC gets them: it tells of a wrong one at the first call only."""

import ssl
from pathlib import Path

import grpc

from countersign.kit.errors import CountersignError
from countersign.kit.secret_files import read_secret_file


class BadTls(CountersignError):
    """TLS files that cannot be used; the message names the file and never what is in it."""

    reason = "INVALID_ARGUMENT"
    status = grpc.StatusCode.INVALID_ARGUMENT


def server_credentials(certificate: Path, key: Path, client_ca: Path | None) -> grpc.ServerCredentials:
    """What a server shows; with `client_ca` every client must show a certificate of one of these authorities.

    Raises BadTls or BadSecretFile.
    """
    pair = _read_pair(certificate, key)
    authorities = None if client_ca is None else _read_authorities(client_ca)
    return grpc.ssl_server_credentials([pair], authorities, require_client_auth=authorities is not None)


def channel_credentials(
    ca: Path | None, certificate: Path | None = None, key: Path | None = None
) -> grpc.ChannelCredentials:
    """What a client trusts and shows: the authorities in `ca` (public ones for None), and a certificate where given.

    Raises BadTls or BadSecretFile.
    """
    authorities = None if ca is None else _read_authorities(ca)
    if certificate is None and key is None:
        return grpc.ssl_channel_credentials(authorities)
    if certificate is None or key is None:
        raise BadTls("a certificate and its key go together: give both or neither")
    own_key, own_chain = _read_pair(certificate, key)
    return grpc.ssl_channel_credentials(authorities, own_key, own_chain)


def _read_pair(certificate: Path, key: Path) -> tuple[bytes, bytes]:
    """A private key and its certificate chain, in gRPC's order."""
    chain = _read_public(certificate, "the certificate")
    private = read_secret_file(key, "the key")
    try:
        # A key that asks for a pass phrase gets an empty one, rather than a prompt at a terminal.
        ssl.create_default_context().load_cert_chain(certificate, key, password=lambda: "")
    except (ssl.SSLError, ValueError):
        raise BadTls(
            f"the certificate {certificate} and the key {key} are not a PEM pair without pass phrase"
        ) from None
    return private, chain


def _read_authorities(path: Path) -> bytes:
    data = _read_public(path, "the authorities' file")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=data.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise BadTls(f"the authorities' file {path} holds no PEM certificates") from None
    return data


def _read_public(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadTls(f"{what} {path} cannot be read: {error.strerror}") from None
