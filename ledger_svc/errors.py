"""What the ledger refuses, one class per reason (`countersign.errordetails.v1.ErrorReason`).

A status says what may change the answer: FAILED_PRECONDITION an operator or another call, RESOURCE_EXHAUSTED more room,
INVALID_ARGUMENT another request, UNAVAILABLE the store's recovery, DATA_LOSS nothing but a backup.
"""

from typing import ClassVar

import grpc

from countersign.kit.errors import CountersignError


class LedgerError(CountersignError):
    """Any refusal of the ledger."""


class InvalidArgumentError(LedgerError):
    """An argument is missing or of the wrong form; `field` names it."""

    reason: ClassVar[str] = "INVALID_ARGUMENT"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INVALID_ARGUMENT


class SizeLimitError(LedgerError):
    """A request or a response is over `limit_bytes`."""

    reason: ClassVar[str] = "SIZE_LIMIT_EXCEEDED"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.RESOURCE_EXHAUSTED


class InvalidAmountError(LedgerError):
    """The amount is negative, inexact, out of range or not what its basis allows; `field` names it."""

    reason: ClassVar[str] = "INVALID_AMOUNT"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INVALID_ARGUMENT


class CurrencyMismatchError(LedgerError):
    """The amount is in another currency than the account."""

    reason: ClassVar[str] = "CURRENCY_MISMATCH"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.FAILED_PRECONDITION


class UnknownAccountError(LedgerError):
    """No account of that id."""

    reason: ClassVar[str] = "UNKNOWN_ACCOUNT"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.NOT_FOUND


class UnknownStudyError(LedgerError):
    """No study of that id."""

    reason: ClassVar[str] = "UNKNOWN_STUDY"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.NOT_FOUND


class UnknownCallError(LedgerError):
    """No call of that id or slot, or no such attempt."""

    reason: ClassVar[str] = "UNKNOWN_CALL"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.NOT_FOUND


class UnknownReceiptError(LedgerError):
    """The call has no stored receipt."""

    reason: ClassVar[str] = "UNKNOWN_RECEIPT"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.NOT_FOUND


class AlreadyExistsError(LedgerError):
    """The account or study exists with other properties."""

    reason: ClassVar[str] = "ALREADY_EXISTS"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.ALREADY_EXISTS


class RequestIdConflictError(LedgerError):
    """The request id, or the attempt token that stands for one, was used before with other inputs."""

    reason: ClassVar[str] = "REQUEST_ID_CONFLICT"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.ALREADY_EXISTS


class ReplayDeniedError(LedgerError):
    """The slot is reserved under another token, held, or resolved without a new attempt. Nothing may be sent."""

    reason: ClassVar[str] = "REPLAY_DENIED"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.FAILED_PRECONDITION


class StudyBlockedError(LedgerError):
    """The study has a hold; an operator must resolve it first."""

    reason: ClassVar[str] = "STUDY_BLOCKED"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.FAILED_PRECONDITION


class BudgetExhaustedError(LedgerError):
    """The account has less available than the reservation asks for."""

    reason: ClassVar[str] = "BUDGET_EXHAUSTED"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.RESOURCE_EXHAUSTED


class StudyCapExceededError(LedgerError):
    """The study's own cap has less left than the reservation asks for."""

    reason: ClassVar[str] = "STUDY_CAP_EXCEEDED"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.RESOURCE_EXHAUSTED


class CallCeilingExceededError(LedgerError):
    """The reservation is above the study's ceiling for one call."""

    reason: ClassVar[str] = "CALL_CEILING_EXCEEDED"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.FAILED_PRECONDITION


class TooManyInFlightError(LedgerError):
    """The study has as many calls in flight as it may."""

    reason: ClassVar[str] = "TOO_MANY_IN_FLIGHT"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.RESOURCE_EXHAUSTED


class PayloadMismatchError(LedgerError):
    """The slot is known with another request."""

    reason: ClassVar[str] = "PAYLOAD_MISMATCH"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.FAILED_PRECONDITION


class AlreadyChargedError(LedgerError):
    """The call is charged already, with another receipt."""

    reason: ClassVar[str] = "ALREADY_CHARGED"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.FAILED_PRECONDITION


class AlreadyHeldError(LedgerError):
    """The call is held already."""

    reason: ClassVar[str] = "ALREADY_HELD"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.FAILED_PRECONDITION


class AlreadyResolvedError(LedgerError):
    """An operator has resolved the call; nothing changes it any more."""

    reason: ClassVar[str] = "ALREADY_RESOLVED"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.FAILED_PRECONDITION


class NotHeldError(LedgerError):
    """Only a held call can be resolved."""

    reason: ClassVar[str] = "NOT_HELD"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.FAILED_PRECONDITION


class TokenMismatchError(LedgerError):
    """The attempt token is not one that reserved the call."""

    reason: ClassVar[str] = "TOKEN_MISMATCH"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.FAILED_PRECONDITION


class ReceiptConflictError(LedgerError):
    """The call has a stored receipt that contradicts what is asked."""

    reason: ClassVar[str] = "RECEIPT_CONFLICT"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.FAILED_PRECONDITION


class StoreUnavailableError(LedgerError):
    """The store cannot be read or written now; `problem` says why in one word.

    Whether a mutation landed is not known: ask for it by its id.
    """

    reason: ClassVar[str] = "STORE_UNAVAILABLE"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.UNAVAILABLE


class StoreCorruptError(LedgerError):
    """The store's content is damaged; `problem` says how in one word."""

    reason: ClassVar[str] = "STORE_CORRUPT"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.DATA_LOSS


class SchemaTooNewError(LedgerError):
    """The store was written by a newer version; nothing of it is touched."""

    reason: ClassVar[str] = "SCHEMA_TOO_NEW"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.FAILED_PRECONDITION
