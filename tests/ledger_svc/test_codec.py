"""Calls as text: what is written out by hand is what the rule of canonical JSON gives, and is read back whole."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from countersign.kit.canonical import canonical_json, sha256
from ledger_svc.calls import (
    AmountBasis,
    Call,
    CallState,
    Cost,
    CostBasis,
    HoldCategory,
    HoldFacts,
    ReceiptFacts,
    RequestProgress,
    Resolution,
    Slot,
)
from ledger_svc.codec import call_from_json, call_to_json, call_to_text
from ledger_svc.journal import chain_digest

# Every character that JSON writes in a way of its own, and some that it does not.
texts = st.text(st.sampled_from('aé"\\/\b\f\n\r\t\x00\x1f\x7f\u2028\U0001f600'), max_size=8)
digests = st.binary(min_size=32, max_size=32)
amounts = st.integers(0, 2**63 - 1)
times = st.integers(0, 2**60)
holds = st.builds(
    HoldFacts, st.sampled_from(HoldCategory), st.sampled_from(RequestProgress), st.none() | st.integers(100, 999)
)
receipts = st.builds(
    ReceiptFacts,
    st.integers(200, 299),
    digests,
    st.builds(Cost, st.sampled_from(CostBasis), texts),
    times,
    st.booleans(),
)
resolutions = st.builds(Resolution, st.none() | amounts, texts, texts, st.booleans())


@st.composite
def calls(draw: st.DrawFn) -> Call:
    state = draw(st.sampled_from(CallState))
    parts: dict[str, Any] = {
        CallState.RESERVED: {},
        CallState.CHARGED: {"hold": draw(st.none() | holds), "receipt": draw(receipts)},
        CallState.HELD: {"hold": draw(holds), "receipt": draw(st.none() | receipts)},
        CallState.RESOLVED: {"hold": draw(holds), "resolution": draw(resolutions)},
    }[state]
    return Call(
        account_id=draw(texts),
        slot=Slot(draw(texts), draw(texts), draw(st.integers(1, 2**32 - 1))),
        attempt=draw(st.integers(1, 9)),
        state=state,
        token_digest=draw(digests),
        basis=draw(st.sampled_from(AmountBasis)),
        price_table_digest=draw(digests | st.just(b"")),
        request_digest=draw(digests),
        reserved_nanos=draw(amounts),
        accounted_nanos=draw(amounts),
        reserved_at=draw(times),
        reserved_sequence=draw(times),
        lease_expires_at=draw(times),
        changed_at=draw(times),
        **parts,
    )


@given(calls())
def test_text_is_the_canonical_json(call: Call) -> None:
    text = call_to_text(call)
    assert text.encode() == canonical_json(call_to_json(call))
    assert call_from_json(json.loads(text)) == call


@given(texts, st.integers(1, 2**40), texts, digests, digests, times)
def test_chain_digest_is_of_the_canonical_json(
    account_id: str, sequence: int, kind: str, body_digest: bytes, previous: bytes, at: int
) -> None:
    value = {
        "account_id": account_id,
        "at_micros": at,
        "body_digest": body_digest.hex(),
        "kind": kind,
        "previous_chain": previous.hex(),
        "sequence": sequence,
    }
    assert chain_digest(account_id, sequence, kind, body_digest, previous, at) == sha256(canonical_json(value))
