"""The form of arguments, checked once when a command is made (protos/countersign/ledger/v1/ledger.proto)."""

import re

from countersign.kit.money import Money
from ledger_svc import errors, limits
from ledger_svc.calls import Slot

_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")


def check_id(field: str, value: str) -> None:
    """An id or a name: 1 to 200 characters, no control character, not blank."""
    if 0 < len(value) <= limits.MAX_ID_CHARACTERS and value.isprintable() and not value.isspace():
        # What is printable has no control character: nearly every id ends here.
        return
    if not value.strip() or len(value) > limits.MAX_ID_CHARACTERS:
        raise errors.InvalidArgumentError(f"{field} must have 1 to {limits.MAX_ID_CHARACTERS} characters", field=field)
    if _CONTROL_CHARACTER.search(value) is not None:
        raise errors.InvalidArgumentError(f"{field} must have no control characters", field=field)


def check_slot(slot: Slot) -> None:
    """A slot: two ids and a turn from 1."""
    check_id("slot.study_id", slot.study_id)
    check_id("slot.episode_id", slot.episode_id)
    check_range("slot.turn", slot.turn, 1, limits.MAX_UINT32)


def check_text(field: str, value: str) -> None:
    """A reason or an evidence: not blank, at most 4,000 characters."""
    if not value.strip() or len(value) > limits.MAX_TEXT_CHARACTERS:
        raise errors.InvalidArgumentError(
            f"{field} must have 1 to {limits.MAX_TEXT_CHARACTERS} characters", field=field
        )


def check_currency(field: str, code: str) -> None:
    """An ISO 4217 code: three upper-case letters."""
    if len(code) != 3 or not (code.isascii() and code.isalpha() and code.isupper()):
        raise errors.InvalidArgumentError(f"{field} must be an ISO 4217 code such as USD", field=field)


def check_amount(field: str, amount: Money, least_nanos: int) -> None:
    """An amount of at least `least_nanos` in a well-formed currency."""
    check_currency(f"{field}.currency_code", amount.currency)
    if amount.nanos < least_nanos:
        raise errors.InvalidAmountError(f"{field} must be at least {least_nanos} nano-units", field=field)


def check_digest(field: str, value: bytes) -> None:
    """A SHA-256 digest or an id made of one: 32 bytes."""
    if len(value) != limits.DIGEST_BYTES:
        raise errors.InvalidArgumentError(f"{field} must have {limits.DIGEST_BYTES} bytes", field=field)


def check_token(field: str, value: bytes) -> None:
    """An attempt token: 16 to 64 bytes."""
    if not limits.MIN_TOKEN_BYTES <= len(value) <= limits.MAX_TOKEN_BYTES:
        raise errors.InvalidArgumentError(
            f"{field} must have {limits.MIN_TOKEN_BYTES} to {limits.MAX_TOKEN_BYTES} bytes", field=field
        )


def check_payload(field: str, value: bytes) -> None:
    """A request or a response: at most 8 MiB."""
    if len(value) > limits.MAX_PAYLOAD_BYTES:
        raise errors.SizeLimitError(
            f"{field} is over the size limit", field=field, limit_bytes=limits.MAX_PAYLOAD_BYTES
        )


def check_range(field: str, value: int, least: int, most: int) -> None:
    """A whole number from `least` to `most`."""
    if not least <= value <= most:
        raise errors.InvalidArgumentError(f"{field} must be from {least} to {most}", field=field)
