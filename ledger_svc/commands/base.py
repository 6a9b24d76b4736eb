"""What a command is, and how one that carries a request id is answered twice."""

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from countersign.kit.canonical import canonical_json, sha256
from ledger_svc import errors
from ledger_svc.journal import EntryKind
from ledger_svc.workspace import RequestRecord, Wanted, Workspace

Answer_co = TypeVar("Answer_co", covariant=True)


class Command(Protocol[Answer_co]):
    """One mutation."""

    def wanted(self) -> Wanted:
        """What must be loaded before the command can be decided."""
        ...

    def decide(self, book: Workspace) -> Answer_co:
        """Post what the command changes and give its answer, or raise the refusal and leave the command undone."""
        ...


def inputs_digest(kind: EntryKind, inputs: Mapping[str, Any]) -> bytes:
    """SHA-256 of what a mutation does and with which inputs; the request id is not among them."""
    return sha256(canonical_json({"inputs": inputs, "kind": kind}))


def earlier_answer(book: Workspace, request_id: str, digest: bytes) -> RequestRecord | None:
    """What was done under the request id with the same inputs, or None where the id is new.

    Raises RequestIdConflictError where it was used with other inputs.
    """
    record = book.request(request_id)
    if record is not None and record.inputs_digest != digest:
        raise errors.RequestIdConflictError(
            "the request id was used before with other inputs; use a new one", request_id=request_id
        )
    return record
