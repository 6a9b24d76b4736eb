"""What the verifier's metrics count (docs/observability.md)."""

import re
from collections.abc import Iterable
from enum import StrEnum
from itertools import product

from countersign.kit.observability.metrics import counter
from verifier_svc.analysis import Fault


class Subject(StrEnum):
    """What a verdict is about."""

    TRACE = "trace"
    EPISODE = "episode"
    STUDY = "study"
    """An episode of a study that is analysed."""


VERIFICATIONS = counter(
    "countersign_verifier_verifications",
    "Recomputations that ended in a verdict: of an episode, a trace, or an episode of a study that is analysed.",
    "subject",
    "agrees",
    known=product(Subject, ("true", "false")),
)
DISAGREEMENTS = counter(
    "countersign_verifier_disagreements", "Differences that were found, by the kind of field.", "subject", "field"
)

KINDS = frozenset(
    {
        *("canonical_record", "study_id", "episode_id", "identity", "wording_digest", "manifest_digest"),
        *("environment", "world", "contract", "operator_prefix", "packet_digest", "prefix_count"),
        *("status", "termination", "reason", "prose_truth", "outcome", "where", "stop_category"),
        *("event", "sequence", "tool", "claim", "start_tick", "end_tick", "result", "origin"),
        *("ended", "call", "prefix_tool", "calls", "turn"),
        *(fault.value.lower() for fault in Fault),
    }
)
"""What a difference can be about; its turn, its index and the names below it are left out."""

OTHER = "other"
_HEAD = re.compile(r"[a-z]+(?:_[a-z]+)*")


def verified(subject: Subject, fields: Iterable[str]) -> None:
    """Count one verdict and the fields of its differences; of a study's episode, the faults in small letters."""
    kinds = [kind_of(field) for field in fields]
    VERIFICATIONS.add(1, subject.value, "false" if kinds else "true")
    for kind in kinds:
        DISAGREEMENTS.add(1, subject.value, kind)


def kind_of(field: str) -> str:
    """The kind of a difference's field; `turn_3/request` and `turn_4/state` are both `turn`."""
    head = _HEAD.match(field)
    return head[0] if head is not None and head[0] in KINDS else OTHER
