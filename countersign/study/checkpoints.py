"""Checkpoints: a journal's heads under an Ed25519 signature (design/ledger.md, Journal; RFC 8032).

A head commits to every entry up to it, so a rewritten history is found out by anybody who has kept a checkpoint, even
where the chain and the balances were rewritten with it. The file is one line of canonical JSON; the signature covers
the same object without its member `signature`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from countersign.kit.canonical import canonical_json
from countersign.ledger.v1 import ledger_pb2 as ledger
from countersign.study.errors import BadInput, StudyError

SCHEMA: Literal["countersign.checkpoint/1"] = "countersign.checkpoint/1"

MAX_SEQUENCE = 2**63 - 1

_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class NotGenuine(StudyError):
    """A checkpoint that its signature does not cover, or that another key has signed."""

    exit_status: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was signed: the heads, when (RFC 3339), and with which key (32 bytes, RFC 8032)."""

    heads: tuple[ledger.JournalHead, ...]
    at: str
    public_key: bytes


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Head(_Form):
    account: Annotated[str, Field(min_length=1)]
    sequence: Annotated[int, Field(ge=1, le=MAX_SEQUENCE)]
    chain: _Digest


class _Signed(_Form):
    schema_: Annotated[Literal["countersign.checkpoint/1"], Field(alias="schema")]
    heads: Annotated[list[_Head], Field(min_length=1)]
    at: Annotated[str, Field(min_length=1)]
    public_key: _Digest
    signature: Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]


def private_key_pem(key: Ed25519PrivateKey) -> bytes:
    """The key as PEM (PKCS 8), without a passphrase."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def public_key_pem(key: Ed25519PrivateKey) -> bytes:
    """The key's public half as PEM."""
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def read_private_key(pem: bytes, where: str) -> Ed25519PrivateKey:
    """An Ed25519 private key from PEM. Raises BadInput, which names `where` and nothing of the content."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise BadInput(f"{where} is not a checkpoint key: make one with 'countersign ledger checkpoint-key FILE'")
    return key


def read_public_key(pem: bytes, where: str) -> bytes:
    """The 32 bytes of an Ed25519 public key from PEM. Raises BadInput."""
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise BadInput(f"{where} is not a checkpoint's public key: 'ledger checkpoint-key FILE' wrote it to FILE.pub")
    return key.public_bytes_raw()


def sign_checkpoint(heads: Iterable[ledger.JournalHead], at: str, key: Ed25519PrivateKey) -> bytes:
    """The file of a checkpoint of these heads, taken at `at` (RFC 3339). Raises BadInput where there is no entry."""
    members = [
        {"account": head.account_id, "sequence": head.sequence, "chain": head.chain_digest.hex()}
        for head in heads
        if head.sequence
    ]
    if not members:
        raise BadInput("there is nothing to sign: the ledger has no journal yet")
    signed = {"schema": SCHEMA, "heads": members, "at": at, "public_key": key.public_key().public_bytes_raw().hex()}
    return canonical_json({**signed, "signature": key.sign(canonical_json(signed)).hex()}) + b"\n"


def read_checkpoint(content: bytes, where: str, public_key: bytes | None = None) -> Checkpoint:
    """A checkpoint whose signature holds, by `public_key` (32 bytes) or, without one, by the key that it names itself.

    Raises BadInput where the content is no checkpoint, and NotGenuine where the signature or the key is not right.
    """
    try:
        found = _Signed.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"{where} is not a checkpoint: {place + ': ' if place else ''}{first['msg']}") from None
    named = bytes.fromhex(found.public_key)
    if public_key is not None and public_key != named:
        raise NotGenuine(f"{where} is signed by another key: {found.public_key} rather than {public_key.hex()}")
    signed = found.model_dump(by_alias=True, exclude={"signature"})
    try:
        Ed25519PublicKey.from_public_bytes(named).verify(bytes.fromhex(found.signature), canonical_json(signed))
    except (InvalidSignature, ValueError):
        raise NotGenuine(f"{where} was changed after it was signed: its signature does not hold") from None
    heads = tuple(
        ledger.JournalHead(account_id=head.account, sequence=head.sequence, chain_digest=bytes.fromhex(head.chain))
        for head in found.heads
    )
    return Checkpoint(heads, found.at, named)
