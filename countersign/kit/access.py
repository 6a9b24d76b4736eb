"""Who may call what: roles, callers, and the one decision that the interceptor and the handlers share.

A service gives a table from its method names to the roles that may call them; a method that the table lacks is denied
(design/ledger.md, Access).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import grpc

from countersign.kit.errors import CountersignError


class Role(StrEnum):
    """What a caller is to a service. One caller may be several."""

    OPERATOR = "operator"
    """Accounts, grants, prior spend, studies, decisions on holds; reads calls and balances."""
    ADAPTER = "adapter"
    """Reserves, records receipts and holds; reads calls."""
    AUDITOR = "auditor"
    """Reads everything, receipts and journals included."""
    READER = "reader"
    """Reads balances."""
    COLLECTOR = "collector"
    """Runs episodes at an adapter and has them verified by a verifier."""


MethodRoles = Mapping[str, frozenset[Role]]
"""A service's table: the short name of each method, and the roles that may call it."""


class Unauthenticated(CountersignError):
    """No token or certificate that the service knows came with the call; `method` names it."""

    reason = "UNAUTHENTICATED"
    status = grpc.StatusCode.UNAUTHENTICATED


class PermissionDenied(CountersignError):
    """The caller's roles do not include one that may make this call; `role` and `method` name them."""

    reason = "PERMISSION_DENIED"
    status = grpc.StatusCode.PERMISSION_DENIED


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody whom the access file names. `digest` is the SHA-256 of the token; empty for a certificate's name."""

    name: str
    roles: frozenset[Role]
    digest: bytes = b""


@dataclass(frozen=True, slots=True)
class Presented:
    """What came with a call: the bearer token, and the common name that a verified client certificate proves."""

    token: str | None = None
    common_name: str | None = None


class Callers(Protocol):
    """The callers that are known now; changes when the access file is read anew."""

    def find(self, presented: Presented) -> Caller | None:
        """Who presents this; None for nobody known."""

    def knows(self, caller: Caller) -> bool:
        """Whether `caller` is still named as it was, with the same roles and the same token."""


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """One service's table and its callers. `full_name` is the service's, as `countersign.ledger.v1.LedgerService`."""

    full_name: str
    roles: MethodRoles
    callers: Callers

    def admit(self, method_path: str, presented: Presented) -> Caller:
        """Who makes this call (`/package.Service/Method`). Raises Unauthenticated or PermissionDenied."""
        caller = self.callers.find(presented)
        if caller is None:
            raise Unauthenticated("no token or certificate that this service knows came with it", method=method_path)
        self.check(method_path, caller)
        return caller

    def check(self, method_path: str, caller: Caller) -> None:
        """Raise PermissionDenied unless the table gives the method to one of the caller's roles."""
        service, _, method = method_path.removeprefix("/").partition("/")
        allowed = self.roles.get(method, frozenset()) if service == self.full_name else frozenset()
        if caller.roles & allowed:
            return
        role = ",".join(sorted(caller.roles))
        wanted = " or ".join(sorted(allowed)) or "no role at all"
        raise PermissionDenied(f"this call is for {wanted}, not for {role}", role=role, method=method_path)


@dataclass(frozen=True, slots=True)
class _Standing:
    """What holds while a call runs; without a policy everybody may do everything."""

    policy: AccessPolicy | None
    caller: Caller | None


_standing: ContextVar[_Standing] = ContextVar("countersign_access")


@contextmanager
def standing(policy: AccessPolicy | None, caller: Caller | None) -> Iterator[None]:
    """Let `require` and `current_caller` answer for `caller` in this context, and in tasks begun in it."""
    token = _standing.set(_Standing(policy, caller))
    try:
        yield
    finally:
        _standing.reset(token)


def current_caller() -> str | None:
    """The name of whoever makes the call that runs now; None where the service asks nobody who they are."""
    known = _standing.get(None)
    return known.caller.name if known is not None and known.caller is not None else None


def require(method: str) -> None:
    """Check that the caller of the call that runs now may also call `method` (its short name) of the same service.

    For calls that carry others, such as `Transact`; asked for each, so that a caller who has been taken out of the
    access file can go on no longer. Raises PermissionDenied or Unauthenticated, and LookupError outside of a call:
    never to be asked where nobody has been let in.
    """
    known = _standing.get()
    if known.policy is None or known.caller is None:
        return
    path = f"/{known.policy.full_name}/{method}"
    if not known.policy.callers.knows(known.caller):
        raise Unauthenticated("the token or certificate is no longer known to this service", method=path)
    known.policy.check(path, known.caller)
