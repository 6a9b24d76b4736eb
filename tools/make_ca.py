"""A certificate authority for trying things out: `python tools/make_ca.py FOLDER --host HOST --client NAME`.

With `--machine NAME` it makes a folder for each machine, which holds all that the machine needs. Not for anything that
matters: the authority's key is forgotten, and nothing is ever revoked.
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


def make_machine(authority: Authority, folder: Path) -> None:
    """A new `folder` for the machine of that name: ca.pem, and a pair each to show as a server and as a client.

    The server's certificate is also for localhost. Raises FileExistsError.
    """
    folder.mkdir(mode=0o700)
    (folder / "ca.pem").write_bytes(authority.certificate)
    authority.server([folder.name, "localhost"]).write(folder, "server")
    authority.client(folder.name).write(folder, "client")


def main() -> None:
    """Write ca.pem, server.pem and .key, a pair for each client, and a folder for each machine, into a folder."""
    parser = argparse.ArgumentParser(description="A certificate authority for trying things out.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--host", action="append", default=[], help="a name or IP address of the server")
    parser.add_argument("--client", action="append", default=[], help="a client's common name")
    parser.add_argument("--machine", action="append", default=[], help="a machine's name, by which others reach it")
    given = parser.parse_args()
    if not given.host and not given.machine:
        parser.error("--host or --machine is missing")
    if taken := [name for name in given.machine if "/" in name or (given.folder / name).exists()]:
        parser.error(f"--machine {taken[0]}: not a name, or {given.folder / taken[0]} is there already")
    given.folder.mkdir(parents=True, exist_ok=True)
    authority = Authority()
    (given.folder / "ca.pem").write_bytes(authority.certificate)
    if given.host:
        authority.server(given.host).write(given.folder, "server")
    for name in given.client:
        authority.client(name).write(given.folder, name)
    for name in dict.fromkeys(given.machine):
        make_machine(authority, given.folder / name)


if __name__ == "__main__":
    main()
