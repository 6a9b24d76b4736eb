"""Putting an object together from the members that several events bring (docs/formats.md, Opaque items of a streamed
answer)."""

import json
from dataclasses import dataclass, field

from countersign.kit.canonical import canonical_json
from verifier_svc.receipts.schema import equal
from verifier_svc.receipts.slices import raw_elements, raw_members, written_array, written_object
from verifier_svc.receipts.streams.events import Event, contradiction

_NULL = b"null"
_SAYS_NOTHING = (_NULL, b'""')


def settled(known: bytes | None, new: bytes, event: Event) -> bytes:
    """The one value of a member that is repeated; raises Inadmissible where `new` contradicts what is known.

    Null and the empty text say nothing, null less than the empty text; what is equal as JSON is a repeat.
    """
    if known in (None, _NULL) or (known in _SAYS_NOTHING and new not in _SAYS_NOTHING):
        return new
    if new == known or new in _SAYS_NOTHING or equal(json.loads(known), json.loads(new)):
        return known
    raise contradiction(event)


@dataclass(slots=True)
class ObjectPieces:
    """An object that grows: `joined` names the texts that come in pieces; arrays grow too where `grows_arrays`."""

    joined: frozenset[str]
    grows_arrays: bool = False
    whole: dict[str, bytes] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    arrays: dict[str, list[bytes]] = field(default_factory=dict)

    def add(self, name: str, raw: bytes, event: Event) -> None:
        """Take one member in; raises Inadmissible where it contradicts an earlier one."""
        if name in self.joined and raw[:1] == b'"':
            self.texts.setdefault(name, []).append(json.loads(raw))
        elif self.grows_arrays and raw[:1] == b"[":
            self.arrays.setdefault(name, []).extend(raw_elements(raw))
        else:
            self.whole[name] = settled(self.whole.get(name), raw, event)

    def add_all(self, raw: bytes, event: Event) -> None:
        """Take every member of an object in."""
        for name, value in raw_members(raw).items():
            self.add(name, value, event)

    def members(self) -> dict[str, bytes]:
        """What came so far, as JSON texts; a value of another kind stands before pieces, null does not."""
        grown = {
            **{name: written_array(elements) for name, elements in self.arrays.items()},
            **{name: canonical_json("".join(texts)) for name, texts in self.texts.items()},
        }
        return {**self.whole, **{name: raw for name, raw in grown.items() if self.whole.get(name, _NULL) == _NULL}}

    def write(self) -> bytes:
        """The object so far."""
        return written_object(self.members())
