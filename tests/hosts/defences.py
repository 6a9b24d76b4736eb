"""What makes each fault between hosts harmless: the lines, what they become without it, and the test that sees it.

`test_defences.py` keeps the list true; with COUNTERSIGN_DEFENCES=1 it takes each defence out of a copy of the project.
"""

from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """What may happen to a host, a process or the network between them."""

    BEFORE_RESERVATION = "an adapter is cut from the ledger before its reservation"
    AFTER_RESERVATION = "an adapter is cut from the ledger after its reservation"
    MID_ANSWER = "an adapter is cut from the provider in the middle of an answer"
    VERIFIER = "the verifier is cut off"
    DATABASE = "the ledger is cut from its database"
    FAILOVER = "the primary is killed and its standby promoted"
    PAUSED = "a paused process comes back"
    LOST_HOST = "an adapter's host disappears"


@dataclass(frozen=True, slots=True)
class Defence:
    """`old` occurs once in `file`; with `new` in its place, `test` fails. `why` is what it does against the fault."""

    fault: Fault
    why: str
    file: str
    old: str
    new: str
    test: str

    @property
    def name(self) -> str:
        """How a test run names it: the fault, and the defence in words."""
        return f"{self.fault.name.lower()}: {self.why}"


_CUTS = "tests/hosts/test_cuts.py"
_LOSSES = "tests/hosts/test_losses.py"
_BEFORE = f"{_CUTS}::test_an_adapter_cut_off_before_its_reservation_sends_nothing"
_AFTER = f"{_CUTS}::test_an_adapter_cut_off_after_its_reservation_hands_its_answer_in_later"
_MIDDLE = f"{_CUTS}::test_an_answer_cut_in_its_middle_is_held_until_an_operator_decides"
_VERIFIER = f"{_CUTS}::test_a_verifier_cut_off_leaves_records_that_say_so"
_DATABASE = f"{_CUTS}::test_a_ledger_cut_off_from_its_database_admits_nothing_and_forgets_nothing"
_PRIMARY = f"{_LOSSES}::test_a_lost_primary_takes_no_answer_with_it"
_STANDBY = f"{_LOSSES}::test_a_primary_without_its_standby_acknowledges_nothing"
_ADAPTER = f"{_LOSSES}::test_a_frozen_adapter_that_comes_back_hands_in_what_it_had"
_LEDGER = f"{_LOSSES}::test_a_frozen_ledger_delays_everything_and_changes_nothing"
_HOST = f"{_LOSSES}::test_a_collection_goes_on_without_an_adapter_whose_host_disappears"

DEFENCES = (
    Defence(
        Fault.BEFORE_RESERVATION,
        "only the ledger's own answer admits a request",
        "adapter_svc/ledger_client.py",
        "        answer = await self._insist(lambda: self._mutations.reserve(request, CALL_TIMEOUT_SECONDS))\n",
        "        try:\n"
        "            answer = await self._mutations.reserve(request, CALL_TIMEOUT_SECONDS)\n"
        "        except ServiceError:\n"
        "            return Admitted(bytes(32), 1, self._clock.now() + order.lease_seconds)\n",
        _BEFORE,
    ),
    Defence(
        Fault.BEFORE_RESERVATION,
        "a reservation is asked for again while the ledger cannot be reached",
        "adapter_svc/ledger_client.py",
        "        answer = await self._insist(lambda: self._mutations.reserve(request, CALL_TIMEOUT_SECONDS))\n",
        "        answer = await self._mutations.reserve(request, CALL_TIMEOUT_SECONDS)\n",
        _BEFORE,
    ),
    Defence(
        Fault.AFTER_RESERVATION,
        "an answer is offered again while the ledger cannot be reached",
        "adapter_svc/ledger_client.py",
        "        answer = await self._insist(\n"
        "            lambda: self._mutations.record_receipt(request, CALL_TIMEOUT_SECONDS), admitted.lease_ends_at\n"
        "        )\n",
        "        answer = await self._mutations.record_receipt(request, CALL_TIMEOUT_SECONDS)\n",
        _AFTER,
    ),
    Defence(
        Fault.MID_ANSWER,
        "a request whose answer broke off is not sent again",
        "adapter_svc/attempts.py",
        "            return await self._failed(paid, failure.progress.value)\n",
        "            return await self._record(await self._provider.send(paid.route, paid.order.request), paid)\n",
        _MIDDLE,
    ),
    Defence(
        Fault.MID_ANSWER,
        "what the slot owes is held, not given up",
        "adapter_svc/attempts.py",
        "            call = await self._ledger.hold(paid.admitted, paid.token, cause, progress, http_status)\n",
        "            call = await self._ledger.latest_call(paid.order.slot)\n",
        _MIDDLE,
    ),
    Defence(
        Fault.MID_ANSWER,
        "an answer that broke off is no answer",
        "adapter_svc/routes/transport_http.py",
        "        while isinstance(event := await self._next_event(), h11.Data):\n            body.feed(event.data)\n",
        "        try:\n"
        "            while isinstance(event := await self._next_event(), h11.Data):\n"
        "                body.feed(event.data)\n"
        "        except AttemptRefused:\n"
        "            pass\n",
        _MIDDLE,
    ),
    Defence(
        Fault.MID_ANSWER,
        "a hold blocks its study",
        "ledger_svc/budgets.py",
        "    if study.blocked:\n",
        "    if study.blocked and study.account_id is None:\n",
        _MIDDLE,
    ),
    Defence(
        Fault.VERIFIER,
        "a record is kept though it could not be verified",
        "countersign/study/collection.py",
        "        finally:\n            # Once, verified or not",
        "        except ValueError:\n            raise\n        else:\n            # Once, verified or not",
        _VERIFIER,
    ),
    Defence(
        Fault.VERIFIER,
        "what is not verified yet is verified later",
        "countersign/study/collection.py",
        '    return Need.NOTHING if verification is not None and verification["agrees"] else Need.VERIFY\n',
        '    return Need.NOTHING if verification is None or verification["agrees"] else Need.VERIFY\n',
        _VERIFIER,
    ),
    Defence(
        Fault.VERIFIER,
        "a ledger that cannot be read is not taken for one without calls",
        "verifier_svc/evidence.py",
        "            raise from_rpc_error(error) from None\n",
        "            if not from_rpc_error(error).is_unreachable:\n"
        "                raise from_rpc_error(error) from None\n",
        _VERIFIER,
    ),
    Defence(
        Fault.DATABASE,
        "a ledger that cannot store is asked again",
        "adapter_svc/ledger_client.py",
        '    return error.is_unreachable or error.reason == "STORE_UNAVAILABLE"\n',
        "    return error.is_unreachable\n",
        _DATABASE,
    ),
    Defence(
        Fault.FAILOVER,
        "of the DSN's hosts, the one that can be written is the ledger's",
        "ledger_svc/storage/postgres_connection.py",
        '    "target_session_attrs": "read-write",\n',
        "",
        _PRIMARY,
    ),
    Defence(
        Fault.FAILOVER,
        "commits wait for the standby, whatever the server's own setting",
        "ledger_svc/storage/postgres_connection.py",
        '        await db.execute("SET synchronous_commit = on")\n',
        "        pass\n",
        _STANDBY,
    ),
    Defence(
        Fault.FAILOVER,
        "a commit that was not heard of is not answered as done",
        "ledger_svc/storage/postgres.py",
        "        await db.close()\n        raise postgres_errors.commit_unknown() from None\n",
        "        await db.close()\n        return\n",
        _STANDBY,
    ),
    Defence(
        Fault.PAUSED,
        "a slot under way is its own token's",
        "ledger_svc/calls.py",
        "    if last.state is CallState.RESERVED and _same_token(last, token_digest):\n",
        "    if last.state is CallState.RESERVED:\n",
        _ADAPTER,
    ),
    Defence(
        Fault.PAUSED,
        "a slot that was answered gives its stored answer",
        "ledger_svc/calls.py",
        "    if last.receipt is not None and last.state in (CallState.CHARGED, CallState.RESOLVED):\n",
        "    if last.receipt is not None and last.state is CallState.RESOLVED:\n",
        _ADAPTER,
    ),
    Defence(
        Fault.PAUSED,
        "the same receipt again is answered as before",
        "ledger_svc/calls.py",
        "    if call.receipt is not None and call.receipt.same_inputs(receipt):\n        return call\n",
        "",
        _LEDGER,
    ),
    Defence(
        Fault.LOST_HOST,
        "the other adapters go on",
        "countersign/study/collection.py",
        "        if self._adapters.drop(replica):\n",
        "        if False:\n",
        _HOST,
    ),
    Defence(
        Fault.LOST_HOST,
        "an episode that has sent something is not begun anew elsewhere",
        "countersign/study/collection.py",
        '            return record if record["calls"] else None\n',
        "            return None\n",
        _HOST,
    ),
)
