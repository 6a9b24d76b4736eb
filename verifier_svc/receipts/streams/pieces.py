"""Putting an object together from the members that several events bring (docs/formats.md, Opaque items of a streamed
answer)."""

import json
from dataclasses import dataclass, field
from typing import Any

from countersign.kit.canonical import canonical_json
from verifier_svc.receipts.schema import equal
from verifier_svc.receipts.slices import raw_elements, raw_members, written_array, written_object
from verifier_svc.receipts.streams.events import Event, contradiction

_NULL = b"null"
_SAYS_NOTHING = (_NULL, b'""')


@dataclass(slots=True)
class ObjectPieces:
    """An object that grows: `joined` names the texts that come in pieces; arrays grow too where `grows_arrays`.

    One member is one kind of value: beside a piece of text or an array, anything of another kind that says something is
    a contradiction.
    """

    joined: frozenset[str] = frozenset()
    grows_arrays: bool = False
    whole: dict[str, bytes] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    arrays: dict[str, list[bytes]] = field(default_factory=dict)

    def add(self, name: str, raw: bytes, event: Event) -> None:
        """Take one member in; raises Inadmissible where it contradicts an earlier one."""
        if name in self.joined and raw[:1] == b'"':
            self.texts.setdefault(name, []).extend([json.loads(raw)] if raw != b'""' else [])
        elif self.grows_arrays and raw[:1] == b"[":
            self.arrays.setdefault(name, []).extend(raw_elements(raw))
        else:
            self._settle(name, raw, event)
        if self._is_mixed(name):
            raise contradiction(event)

    def _settle(self, name: str, raw: bytes, event: Event) -> None:
        """Keep the one value of a member that is repeated.

        Null and the empty text say nothing, null less than the empty text; what is equal as JSON is a repeat. The value
        that is kept is read once, however often it is repeated.
        """
        known = self.whole.get(name, _NULL)
        if known == _NULL or (known in _SAYS_NOTHING and raw not in _SAYS_NOTHING):
            self.whole[name] = raw
        elif raw != known and raw not in _SAYS_NOTHING:
            if name not in self.values:
                self.values[name] = json.loads(known)
            if not equal(self.values[name], json.loads(raw)):
                raise contradiction(event)

    def _is_mixed(self, name: str) -> bool:
        kinds = (not self.is_silent(name), bool(self.texts.get(name)), name in self.arrays)
        return sum(kinds) > 1

    def is_silent(self, name: str) -> bool:
        """Whether no value of a kind that does not grow says anything."""
        return self.whole.get(name, _NULL) in _SAYS_NOTHING

    def add_all(self, raw: bytes, event: Event) -> None:
        """Take every member of an object in."""
        for name, value in raw_members(raw).items():
            self.add(name, value, event)

    def members(self) -> dict[str, bytes]:
        """What came so far, as JSON texts: of an array or value and what says nothing, the former."""
        said = {name: raw for name, raw in self.whole.items() if raw not in _SAYS_NOTHING}
        return {
            **self.whole,
            **{name: canonical_json("".join(texts)) for name, texts in self.texts.items()},
            **{name: written_array(elements) for name, elements in self.arrays.items()},
            **said,
        }

    def write(self) -> bytes:
        """The object so far."""
        return written_object(self.members())
