"""The record's calls beside the ledger's: ids, digests, states, and costs recomputed (design/study.md, Analysis)."""

from collections.abc import Mapping, Sequence
from typing import Any

from countersign.kit.canonical import sha256
from countersign.kit.money import nanos_to_text
from verifier_svc.episode.facts import CHARGED, EpisodeFacts, RouteFacts, StoredCall, call_id
from verifier_svc.episode.record import RecordedCall
from verifier_svc.physics.trace import WHOLE_TRACE, Difference
from verifier_svc.receipts.cost import CostBasis, bound_nanos, exact_amount, recomputed_nanos, rounded_up_nanos
from verifier_svc.receipts.verdicts import Decoded

_DECIDED_LATER = ("HELD", "RESOLVED")
"""A hold that an operator resolved after the export changes neither what the model did nor the record's truth then."""


def call_differences(
    stated: Sequence[RecordedCall],
    facts: EpisodeFacts,
    stored: Sequence[StoredCall],
    decoded: Mapping[int, Decoded],
) -> list[Difference]:
    """What in the record's calls, the stored call ids, the reservations and the charges is not as recomputed."""
    by_slot = {(call.turn, call.attempt): call for call in stored}
    found = [*_compare_ids(facts, stored), *_compare_missing(stated, stored)]
    for listed in stated:
        found.extend(_compare_listed(listed, by_slot.get((listed.turn, listed.attempt)), facts))
    for call in stored:
        found.extend(_compare_reservation(call, facts.route))
    last = {call.turn: call for call in sorted(stored, key=lambda call: call.attempt)}
    for turn, reading in decoded.items():
        found.extend(_compare_charge(last[turn], reading, facts.route))
    return found


def _compare_ids(facts: EpisodeFacts, stored: Sequence[StoredCall]) -> list[Difference]:
    found = []
    for call in stored:
        expected = call_id(facts.study_id, facts.episode_id, call.turn)
        found.extend(_differing(call.turn, [("stored_call_id", expected.hex(), call.call_id.hex())]))
    if len({(call.turn, call.attempt) for call in stored}) != len(stored):
        found.append(Difference(WHOLE_TRACE, "calls", "one stored call for each attempt", "a duplicate"))
    return found


def _compare_missing(stated: Sequence[RecordedCall], stored: Sequence[StoredCall]) -> list[Difference]:
    """A record may leave out an attempt that a later one replaced, and nothing else; it lists none twice."""
    listed = [(call.turn, call.attempt) for call in stated]
    latest = {call.turn: call.attempt for call in sorted(stored, key=lambda call: call.attempt)}
    found = [
        Difference(WHOLE_TRACE, f"calls/turn_{turn}", f"attempt {attempt}", "absent")
        for turn, attempt in latest.items()
        if (turn, attempt) not in listed
    ]
    if len(set(listed)) != len(listed):
        found.append(Difference(WHOLE_TRACE, "calls", "each attempt once", "a duplicate"))
    return found


def _compare_listed(listed: RecordedCall, call: StoredCall | None, facts: EpisodeFacts) -> list[Difference]:
    expected_id = call_id(facts.study_id, facts.episode_id, listed.turn).hex()
    if listed.attempt == 0:
        unreserved = [("call_id", expected_id, listed.call_id), ("state", "", listed.state)]
        return _differing(listed.turn, [*unreserved, ("response_digest", "", listed.response_digest)])
    if call is None:
        return [Difference(WHOLE_TRACE, f"calls/turn_{listed.turn}", "absent", f"attempt {listed.attempt}")]
    pairs = [("call_id", expected_id, listed.call_id), ("request_digest", _digest(call.request), listed.request_digest)]
    if (listed.state, call.state) != _DECIDED_LATER:
        pairs += [
            ("state", call.state, listed.state),
            ("response_digest", _digest(call.response), listed.response_digest),
            ("accounted", nanos_to_text(call.accounted_nanos), listed.accounted),
        ]
    return _differing(listed.turn, pairs)


def _digest(data: bytes | None) -> str:
    return "" if data is None else sha256(data).hex()


def _compare_reservation(call: StoredCall, route: RouteFacts) -> list[Difference]:
    """What was reserved must follow from the request's length and the frozen route (design/ledger.md, Reserve)."""
    if call.reserved_nanos is None:
        return []
    bound = bound_nanos(len(call.request), route.request.output_cap, route.price)
    expected = "unresolved" if bound is None else nanos_to_text(bound)
    return _differing(call.turn, [("reserved", expected, nanos_to_text(call.reserved_nanos))])


def _compare_charge(call: StoredCall, decoded: Decoded, route: RouteFacts) -> list[Difference]:
    """A charged call's amount must follow from its receipt and the frozen route."""
    if call.state != CHARGED:
        return []
    basis = _basis(decoded, route)
    nanos = recomputed_nanos(basis, decoded, route.price)
    pairs = [
        ("cost_basis", str(basis), str(call.cost_basis)),
        ("cost", "unresolved" if nanos is None else nanos_to_text(nanos), nanos_to_text(call.accounted_nanos)),
    ]
    if basis is CostBasis.PROVIDER_REPORTED:
        pairs.append(("cost_text", str(decoded.reported_cost), str(call.cost_text)))
    elif call.cost_text is not None and nanos is not None:
        amount = exact_amount(call.cost_text)
        stated = "no amount" if amount is None else nanos_to_text(rounded_up_nanos(amount))
        pairs.append(("cost_text", nanos_to_text(nanos), stated))
    return _differing(call.turn, pairs)


def _basis(decoded: Decoded, route: RouteFacts) -> CostBasis:
    if route.price is None:
        return CostBasis.FREE_ROUTE
    if route.charges_reported_cost and decoded.reported_cost is not None:
        return CostBasis.PROVIDER_REPORTED
    return CostBasis.PRICED_USAGE


def _differing(turn: int, pairs: Sequence[tuple[str, Any, Any]]) -> list[Difference]:
    return [
        Difference(WHOLE_TRACE, f"calls/turn_{turn}/{name}", str(want), str(got))
        for name, want, got in pairs
        if want != got
    ]
