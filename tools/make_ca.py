"""A certificate authority for trying things out: `python tools/make_ca.py FOLDER --host HOST --client NAME`.

Not for anything that matters: the authority's key is forgotten, and nothing is ever revoked. Needs the
development dependencies.
"""

import argparse
import ipaddress
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAYS = 30
BACKDATED = timedelta(minutes=5)
"""Certificates begin a little in the past: clocks differ."""


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write `name`.pem and `name`.key, the key for its owner alone; both paths."""
        certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
        certificate.write_bytes(self.certificate)
        descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(self.key)
        return certificate, key


class Authority:
    """Signs certificates for servers and clients with a key that it makes."""

    def __init__(self, name: str = "Countersign trial authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = _dated(self._name, self._name, self._key.public_key(), datetime.now(UTC) + timedelta(days=DAYS))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_signing_use(), critical=True).add_extension(identifier, critical=False)
        self._issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
        self.certificate = builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM)

    def server(self, hosts: list[str], until: datetime | None = None) -> Pair:
        """A server's certificate for `hosts`, names or IP addresses."""
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        return self._issue(hosts[0], ExtendedKeyUsageOID.SERVER_AUTH, until, names)

    def client(self, name: str, until: datetime | None = None) -> Pair:
        """A client's certificate with the common name `name`."""
        return self._issue(name, ExtendedKeyUsageOID.CLIENT_AUTH, until, None)

    def _issue(
        self,
        name: str,
        use: x509.ObjectIdentifier,
        until: datetime | None,
        names: x509.SubjectAlternativeName | None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        end = until or datetime.now(UTC) + timedelta(days=DAYS)
        builder = _dated(_name(name), self._name, key.public_key(), end)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        builder = builder.add_extension(self._issuer, critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        signed = builder.sign(self._key, SHA256())
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return Pair(signed.public_bytes(Encoding.PEM), private)


def _dated(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, until: datetime
) -> x509.CertificateBuilder:
    start = min(datetime.now(UTC), until) - BACKDATED
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return builder.serial_number(x509.random_serial_number()).not_valid_before(start).not_valid_after(until)


def _signing_use() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def main() -> None:
    """Write ca.pem, server.pem and .key, and a pair for each client, into a folder."""
    parser = argparse.ArgumentParser(description="A certificate authority for trying things out.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--host", action="append", help="a name or IP address of the server", required=True)
    parser.add_argument("--client", action="append", default=[], help="a client's common name")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    authority = Authority()
    (given.folder / "ca.pem").write_bytes(authority.certificate)
    authority.server(given.host).write(given.folder, "server")
    for name in given.client:
        authority.client(name).write(given.folder, name)


if __name__ == "__main__":
    main()
