"""Signing heads, and what is believed of a checkpoint."""

import json

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from countersign.kit.canonical import canonical_json
from countersign.ledger.v1 import ledger_pb2 as ledger
from countersign.study.checkpoints import (
    NotGenuine,
    private_key_pem,
    public_key_pem,
    read_checkpoint,
    read_private_key,
    read_public_key,
    sign_checkpoint,
)
from countersign.study.errors import BadInput

AT = "2026-01-02T03:04:05Z"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC_KEY = KEY.public_key().public_bytes_raw()
HEADS = (
    ledger.JournalHead(account_id="lab", sequence=7, chain_digest=b"7" * 32),
    ledger.JournalHead(account_id="ö", sequence=1, chain_digest=b"1" * 32),
)


def test_what_was_signed_is_read() -> None:
    found = read_checkpoint(sign_checkpoint(HEADS, AT, KEY), "x", PUBLIC_KEY)
    assert (found.heads, found.at, found.public_key) == (HEADS, AT, PUBLIC_KEY)


def test_the_file_is_canonical_and_its_signature_covers_all_else() -> None:
    content = sign_checkpoint(HEADS, AT, KEY)
    value = json.loads(content)
    assert content == canonical_json(value) + b"\n"
    signature = bytes.fromhex(value.pop("signature"))
    assert value == {
        "schema": "countersign.checkpoint/1",
        "at": AT,
        "heads": [
            {"account": "lab", "sequence": 7, "chain": "37" * 32},
            {"account": "ö", "sequence": 1, "chain": "31" * 32},
        ],
        "public_key": PUBLIC_KEY.hex(),
    }
    Ed25519PublicKey.from_public_bytes(PUBLIC_KEY).verify(signature, canonical_json(value))


def test_a_journal_without_entries_is_not_signed() -> None:
    with pytest.raises(BadInput):
        sign_checkpoint([ledger.JournalHead(account_id="lab")], AT, KEY)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("at", "2026-01-02T03:04:06Z"),
        ("heads", [{"account": "lab", "sequence": 7, "chain": "37" * 32}]),
        ("heads", [{"account": "lab", "sequence": 7, "chain": "38" * 32}]),
        ("public_key", Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw().hex()),
        ("public_key", "ff" * 32),
        ("signature", "00" * 64),
    ],
)
def test_a_changed_member_is_not_believed(name: str, value: object) -> None:
    changed = {**json.loads(sign_checkpoint(HEADS, AT, KEY)), name: value}
    with pytest.raises(NotGenuine):
        read_checkpoint(canonical_json(changed), "x")


def test_another_key_is_not_believed() -> None:
    with pytest.raises(NotGenuine, match="another key"):
        read_checkpoint(sign_checkpoint(HEADS, AT, KEY), "x", bytes(32))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schema", "countersign.checkpoint/2"),
        ("heads", []),
        ("heads", [{"account": "lab", "sequence": 0, "chain": ""}]),
        ("heads", [{"account": "lab", "sequence": "7", "chain": "37" * 32}]),
        ("heads", [{"account": "lab", "sequence": 7, "chain": "37" * 31}]),
        ("heads", [{"account": "lab", "sequence": 7, "chain": "37" * 32, "more": 1}]),
        ("public_key", "AB" * 32),
        ("signature", "00" * 64 + "\n"),
        ("more", 1),
    ],
)
def test_what_is_not_of_the_form_is_wrong_input(name: str, value: object) -> None:
    changed = {**json.loads(sign_checkpoint(HEADS, AT, KEY)), name: value}
    with pytest.raises(BadInput, match="x is not a checkpoint"):
        read_checkpoint(canonical_json(changed), "x")


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"null"])
def test_what_is_no_object_is_wrong_input(content: bytes) -> None:
    with pytest.raises(BadInput, match="x is not a checkpoint"):
        read_checkpoint(content, "x")


def test_keys_are_read_back_and_others_refused() -> None:
    private, public = private_key_pem(KEY), public_key_pem(KEY)
    assert read_private_key(private, "x").private_bytes_raw() == bytes(range(32))
    assert read_public_key(public, "x") == PUBLIC_KEY
    curve = generate_private_key(SECP256R1())
    other = curve.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    locked = KEY.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"pass")
    )
    for pem in (b"", public, other, locked, private[:60]):
        with pytest.raises(BadInput):
            read_private_key(pem, "x")
    other_public = curve.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for pem in (b"", private, other_public):
        with pytest.raises(BadInput):
            read_public_key(pem, "x")
