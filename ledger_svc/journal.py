"""The hash-chained journal: one entry a mutation, one chain an account (design/ledger.md, Journal)."""

from collections.abc import Mapping
from enum import StrEnum
from json.encoder import encode_basestring
from typing import Any

from msgspec import Struct

from countersign.kit.canonical import canonical_json, sha256

GENESIS_CHAIN = bytes(32)
"""What the first entry of an account names as the entry before it."""


class EntryKind(StrEnum):
    """What an entry records."""

    ACCOUNT_OPENED = "ACCOUNT_OPENED"
    BUDGET_GRANTED = "BUDGET_GRANTED"
    PRIOR_SPEND_RECORDED = "PRIOR_SPEND_RECORDED"
    STUDY_OPENED = "STUDY_OPENED"
    CALL_RESERVED = "CALL_RESERVED"
    CALL_CHARGED = "CALL_CHARGED"
    CALL_HELD = "CALL_HELD"
    CALL_RESOLVED = "CALL_RESOLVED"


class Entry(Struct, frozen=True, gc=False):
    """One journal entry. `body` is canonical JSON, `at` microseconds since the Unix epoch."""

    account_id: str
    sequence: int
    kind: str
    body: bytes
    body_digest: bytes
    previous_chain: bytes
    chain: bytes
    at: int


def next_entry(
    account_id: str, sequence: int, previous_chain: bytes, kind: EntryKind, body: Mapping[str, Any], at: int
) -> Entry:
    """The entry that follows `previous_chain`; `sequence` counts from 1."""
    return entry_after(account_id, sequence, previous_chain, kind, canonical_json(body), at)


def entry_after(account_id: str, sequence: int, previous_chain: bytes, kind: EntryKind, body: bytes, at: int) -> Entry:
    """As `next_entry`, from a body that is canonical JSON already."""
    digest = sha256(body)
    chain = chain_digest(account_id, sequence, kind, digest, previous_chain, at)
    return Entry(account_id, sequence, kind, body, digest, previous_chain, chain, at)


def chain_digest(
    account_id: str, sequence: int, kind: str, body_digest: bytes, previous_chain: bytes, at: int
) -> bytes:
    """SHA-256 over the canonical JSON of all that an entry says and of the chain digest before it."""
    # Written out in its order: every entry, and every entry's verification, needs it once.
    text = (
        f'{{"account_id":{encode_basestring(account_id)},"at_micros":{at},"body_digest":"{body_digest.hex()}",'
        f'"kind":{encode_basestring(kind)},"previous_chain":"{previous_chain.hex()}","sequence":{sequence}}}'
    )
    return sha256(text.encode("utf-8"))


def first_fault(entry: Entry, expected_sequence: int, expected_chain: bytes) -> str | None:
    """What is wrong with an entry by itself and in its place: sequence, body_digest or chain; None where nothing is."""
    if entry.sequence != expected_sequence:
        return "sequence"
    if sha256(entry.body) != entry.body_digest:
        return "body_digest"
    chain = chain_digest(
        entry.account_id, entry.sequence, entry.kind, entry.body_digest, entry.previous_chain, entry.at
    )
    if entry.previous_chain != expected_chain or entry.chain != chain:
        return "chain"
    return None
