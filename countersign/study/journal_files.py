"""An exported journal: one JSON object a line, and checking such lines without a ledger (docs/ledger.md, Export)."""

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from countersign.kit.canonical import canonical_json, sha256
from countersign.kit.rpc_errors import from_rpc_error
from countersign.ledger.v1 import ledger_pb2 as ledger
from countersign.ledger.v1 import ledger_pb2_grpc
from countersign.study.errors import BadInput, StudyError
from countersign.study.lines import member
from countersign.study.services import service_trouble

EXPORT_SECONDS = 3600.0
"""The deadline of a whole export."""

GENESIS = "00" * 32
"""What the first entry of a journal names as the chain digest before it."""


class NotWritable(StudyError):
    """A stored entry that JSON lines cannot hold: it was changed behind the ledger's back."""

    exit_status = 1


_TEXTS = ("account", "kind", "body_digest", "previous", "chain")
_MEMBERS = {*_TEXTS, "sequence", "body", "at"}


@dataclass(frozen=True, slots=True)
class ExportFinding:
    """What the lines of an export hold: entries `first` to `last`, the last chain digest, and where they go wrong.

    `difference` is None where every digest follows from what is there and from the digest before it.
    """

    account_id: str
    first: int
    last: int
    chain: str
    difference: str | None


async def exported_entries(
    stub: ledger_pb2_grpc.LedgerServiceStub, account_id: str, from_sequence: int
) -> AsyncIterator[ledger.JournalEntry]:
    """An account's entries in order. Raises ServiceFailed and ServiceRefused."""
    request = ledger.ExportJournalRequest(account_id=account_id, from_sequence=from_sequence)
    try:
        async for page in stub.ExportJournal(request, timeout=EXPORT_SECONDS):
            for entry in page.entries:
                yield entry
    except grpc.aio.AioRpcError as error:
        raise service_trouble("ledger", from_rpc_error(error)) from None


def entry_line(entry: ledger.JournalEntry) -> bytes:
    """The entry as one line of canonical JSON with its end. Raises NotWritable."""
    try:
        line = {
            "account": entry.account_id,
            "sequence": entry.sequence,
            "kind": entry.kind,
            "body": _read_body(entry.body),
            "body_digest": entry.body_digest.hex(),
            "previous": entry.previous_chain_digest.hex(),
            "chain": entry.chain_digest.hex(),
            "at": entry.written_at.ToJsonString(),
        }
        return canonical_json(line) + b"\n"
    except (ValueError, RecursionError):
        raise NotWritable(
            f"entry {entry.sequence} of account {entry.account_id} is damaged: 'countersign ledger verify' tells how"
        ) from None


def check_lines(
    lines: Iterable[tuple[int, Mapping[str, Any]]], where: str, heads: Iterable[ledger.JournalHead] = ()
) -> ExportFinding:
    """Recompute every digest of an export's lines (numbered from 1), up to the first that is wrong.

    Where `heads` are given, the export must pass through each one of its account. Raises BadInput for a line of the
    wrong form, where there is none, and where no head can be compared with it.
    """
    expected = {(head.account_id, head.sequence): head.chain_digest.hex() for head in heads}
    finding: ExportFinding | None = None
    for number, line in lines:
        entry = _Line.read(line, f"{where} line {number}")
        fault = entry.fault(finding, expected)
        if finding is None:
            finding = ExportFinding(entry.account, entry.sequence, entry.sequence - 1, entry.previous, None)
        if fault is not None:
            difference = f"line {number}, entry {entry.sequence} of account {entry.account}: {fault}"
            return replace(finding, difference=difference)
        finding = replace(finding, last=entry.sequence, chain=entry.chain)
    if finding is None:
        raise BadInput(f"{where} has no entries")
    return _covered(finding, expected, where) if expected else finding


def _covered(finding: ExportFinding, expected: Mapping[tuple[str, int], str], where: str) -> ExportFinding:
    """The finding, with a difference where the export ends before a head."""
    sequences = [sequence for account_id, sequence in expected if account_id == finding.account_id]
    if not sequences:
        raise BadInput(f"the checkpoint says nothing about account {finding.account_id}, whose entries {where} holds")
    if max(sequences) < finding.first - 1:
        raise BadInput(
            f"{where} begins after the checkpoint's entry {max(sequences)}: export --from that entry or an earlier one"
        )
    if max(sequences) <= finding.last:
        return finding
    difference = (
        f"it ends at entry {finding.last}, before the checkpoint's entry {max(sequences)}:"
        " it was cut short, or made before the checkpoint"
    )
    return replace(finding, difference=difference)


@dataclass(frozen=True, slots=True)
class _Line:
    account: str
    sequence: int
    kind: str
    body: dict[str, Any]
    body_digest: str
    previous: str
    chain: str
    at_micros: int

    @staticmethod
    def read(line: Mapping[str, Any], where: str) -> "_Line":
        if set(line) != _MEMBERS:
            raise BadInput(f"{where}: must have exactly the members {', '.join(sorted(_MEMBERS))}")
        return _Line(
            sequence=member(line, "sequence", int, where),
            body=member(line, "body", dict, where),
            at_micros=_read_time(member(line, "at", str, where), where),
            **{name: member(line, name, str, where) for name in _TEXTS},
        )

    def fault(self, before: ExportFinding | None, expected: Mapping[tuple[str, int], str]) -> str | None:
        """What is wrong with the line by itself, after the lines before it, and by a checkpoint's heads."""
        if before is not None and self.account != before.account_id:
            return f"the lines before are of account {before.account_id}"
        if before is not None and self.sequence != before.last + 1:
            return f"the entry before is {before.last}: entries are missing, or out of order"
        if self._digest_of_body() != self.body_digest:
            return "its body is not the one that body_digest names"
        if self.previous != self._known_previous(before, expected):
            return "it does not follow from the entry before it"
        if self.chain != self._digest_of_chain():
            return "its chain digest does not follow from what it says"
        if expected.get((self.account, self.sequence), self.chain) != self.chain:
            return "it is not the entry that the checkpoint names: it or one before it was rewritten"
        return None

    def _known_previous(self, before: ExportFinding | None, expected: Mapping[tuple[str, int], str]) -> str:
        """The chain digest before the line, as far as anything but the line itself tells it."""
        if before is not None:
            return before.chain
        if self.sequence == 1:
            return GENESIS
        return expected.get((self.account, self.sequence - 1), self.previous)

    def _digest_of_body(self) -> str:
        try:
            return sha256(canonical_json(self.body)).hex()
        except (ValueError, RecursionError):
            return ""

    def _digest_of_chain(self) -> str:
        said = {
            "account_id": self.account,
            "at_micros": self.at_micros,
            "body_digest": self.body_digest,
            "kind": self.kind,
            "previous_chain": self.previous,
            "sequence": self.sequence,
        }
        return sha256(canonical_json(said)).hex()


def _read_time(text: str, where: str) -> int:
    """Microseconds since the Unix epoch. Raises BadInput for a time that `entry_line` would write otherwise."""
    time = Timestamp()
    try:
        time.FromJsonString(text)
        micros = time.ToMicroseconds()
        time.FromMicroseconds(micros)
        if time.ToJsonString() == text:
            return micros
    except ValueError:
        pass
    raise BadInput(f"{where}: at: must be a time as RFC 3339 writes it, in UTC and whole microseconds")


def _read_body(body: bytes) -> dict[str, Any]:
    value = json.loads(body)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value
