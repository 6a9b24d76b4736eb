"""Calls as JSON and back: the one form in which the journal and every store keep them. Digests are lower-case hex."""

from json.encoder import encode_basestring
from typing import Any

from countersign.kit.canonical import canonical_json
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


def call_to_json(call: Call) -> dict[str, Any]:
    """All that is known of a call, but for the payloads' bytes."""
    return {
        "account_id": call.account_id,
        "accounted_nanos": call.accounted_nanos,
        "attempt": call.attempt,
        "basis": call.basis,
        "call_id": call.call_id.hex(),
        "changed_at": call.changed_at,
        "episode_id": call.slot.episode_id,
        "hold": None if call.hold is None else _hold_to_json(call.hold),
        "lease_expires_at": call.lease_expires_at,
        "price_table_digest": call.price_table_digest.hex(),
        "receipt": None if call.receipt is None else _receipt_to_json(call.receipt),
        "request_digest": call.request_digest.hex(),
        "reserved_at": call.reserved_at,
        "reserved_nanos": call.reserved_nanos,
        "reserved_sequence": call.reserved_sequence,
        "resolution": None if call.resolution is None else _resolution_to_json(call.resolution),
        "state": call.state,
        "study_id": call.slot.study_id,
        "token_digest": call.token_digest.hex(),
        "turn": call.slot.turn,
    }


def call_to_text(call: Call) -> str:
    """The canonical JSON of `call_to_json`, written out in its order: each mutation needs it once."""
    hold = "null" if call.hold is None else canonical_json(_hold_to_json(call.hold)).decode()
    receipt = "null" if call.receipt is None else _receipt_to_text(call.receipt)
    resolution = "null" if call.resolution is None else canonical_json(_resolution_to_json(call.resolution)).decode()
    slot = call.slot
    return (
        f'{{"account_id":{encode_basestring(call.account_id)},"accounted_nanos":{call.accounted_nanos},'
        f'"attempt":{call.attempt},"basis":"{call.basis}","call_id":"{call.call_id.hex()}",'
        f'"changed_at":{call.changed_at},"episode_id":{encode_basestring(slot.episode_id)},"hold":{hold},'
        f'"lease_expires_at":{call.lease_expires_at},"price_table_digest":"{call.price_table_digest.hex()}",'
        f'"receipt":{receipt},"request_digest":"{call.request_digest.hex()}","reserved_at":{call.reserved_at},'
        f'"reserved_nanos":{call.reserved_nanos},"reserved_sequence":{call.reserved_sequence},'
        f'"resolution":{resolution},"state":"{call.state}","study_id":{encode_basestring(slot.study_id)},'
        f'"token_digest":"{call.token_digest.hex()}","turn":{slot.turn}}}'
    )


def _receipt_to_text(receipt: ReceiptFacts) -> str:
    return (
        f'{{"amount_text":{encode_basestring(receipt.cost.amount_text)},"cost_basis":"{receipt.cost.basis}",'
        f'"http_status":{receipt.http_status},"late":{"true" if receipt.late else "false"},'
        f'"received_at":{receipt.received_at},"response_digest":"{receipt.response_digest.hex()}"}}'
    )


def _hold_to_json(hold: HoldFacts) -> dict[str, Any]:
    return {"category": hold.category, "http_status": hold.http_status, "progress": hold.progress}


def _receipt_to_json(receipt: ReceiptFacts) -> dict[str, Any]:
    return {
        "amount_text": receipt.cost.amount_text,
        "cost_basis": receipt.cost.basis,
        "http_status": receipt.http_status,
        "late": receipt.late,
        "received_at": receipt.received_at,
        "response_digest": receipt.response_digest.hex(),
    }


def _resolution_to_json(resolution: Resolution) -> dict[str, Any]:
    return {
        "charged_nanos": resolution.charged_nanos,
        "evidence": resolution.evidence,
        "opened_new_attempt": resolution.opened_new_attempt,
        "resolved_by": resolution.resolved_by,
    }


def call_from_json(value: dict[str, Any]) -> Call:
    """Read what `call_to_json` wrote; raises KeyError, TypeError or ValueError for anything else."""
    call = Call(
        account_id=value["account_id"],
        slot=Slot(value["study_id"], value["episode_id"], value["turn"]),
        attempt=value["attempt"],
        state=CallState(value["state"]),
        token_digest=bytes.fromhex(value["token_digest"]),
        basis=AmountBasis(value["basis"]),
        price_table_digest=bytes.fromhex(value["price_table_digest"]),
        request_digest=bytes.fromhex(value["request_digest"]),
        reserved_nanos=value["reserved_nanos"],
        accounted_nanos=value["accounted_nanos"],
        reserved_at=value["reserved_at"],
        reserved_sequence=value["reserved_sequence"],
        lease_expires_at=value["lease_expires_at"],
        changed_at=value["changed_at"],
        hold=None if value["hold"] is None else _hold_from_json(value["hold"]),
        receipt=None if value["receipt"] is None else _receipt_from_json(value["receipt"]),
        resolution=None if value["resolution"] is None else Resolution(**value["resolution"]),
    )
    if call.call_id.hex() != value["call_id"]:
        raise ValueError("the call's id is not its slot's")
    return call


def _hold_from_json(value: dict[str, Any]) -> HoldFacts:
    return HoldFacts(HoldCategory(value["category"]), RequestProgress(value["progress"]), value["http_status"])


def _receipt_from_json(value: dict[str, Any]) -> ReceiptFacts:
    return ReceiptFacts(
        http_status=value["http_status"],
        response_digest=bytes.fromhex(value["response_digest"]),
        cost=Cost(CostBasis(value["cost_basis"]), value["amount_text"]),
        received_at=value["received_at"],
        late=value["late"],
    )
