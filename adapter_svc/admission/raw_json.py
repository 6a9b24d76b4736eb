"""Parts of a JSON text as the bytes that stand there: what is opaque is cut out and put together, never written anew
(design/admission.md, Continuation).

Meant for texts that `read_strict` has accepted; anything else raises Inadmissible `MALFORMED_JSON`.
"""

from collections.abc import Iterable, Mapping

import msgspec

from adapter_svc.admission.verdict import Inadmissible, Reason
from countersign.kit.canonical import canonical_json

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])


def members(raw: bytes, where: str = "") -> dict[str, bytes]:
    """The members of the object that `raw` is, in its order, each as its own bytes."""
    try:
        return {name: bytes(value) for name, value in _members.decode(raw).items()}
    except msgspec.DecodeError:
        raise Inadmissible(Reason.MALFORMED_JSON, where) from None


def items(raw: bytes, where: str = "") -> list[bytes]:
    """The items of the array that `raw` is, each as its own bytes."""
    try:
        return [bytes(value) for value in _items.decode(raw)]
    except msgspec.DecodeError:
        raise Inadmissible(Reason.MALFORMED_JSON, where) from None


def part(raw: bytes, *path: str | int) -> bytes:
    """The bytes at `path` (names of members, positions of items); Inadmissible where nothing stands there."""
    where = "".join(f"/{step}" for step in path)
    for step in path:
        try:
            raw = members(raw, where)[step] if isinstance(step, str) else items(raw, where)[step]
        except (KeyError, IndexError):
            raise Inadmissible(Reason.MALFORMED_JSON, where) from None
    return raw


def compose_object(parts: Mapping[str, bytes]) -> bytes:
    """The object with these members, in this order."""
    return b"{" + b",".join(canonical_json(name) + b":" + value for name, value in parts.items()) + b"}"


def compose_array(parts: Iterable[bytes]) -> bytes:
    """The array of these items."""
    return b"[" + b",".join(parts) + b"]"
