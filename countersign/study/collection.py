"""Collecting: episodes in frozen order, at most so many at once, resumable at any point (design/study.md, Running)."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from countersign.adapter.v1.adapter_pb2_grpc import AdapterServiceStub
from countersign.kit.observability import tracing
from countersign.study.errors import BadRecord, ServiceFailed, StudyError
from countersign.study.ledger_objects import study_standing
from countersign.study.plan_model import StopRule
from countersign.study.records import COMPLETED, STOPPED, TECHNICAL_UNKNOWN, RecordStore, counted
from countersign.study.replicas import Replicas
from countersign.study.runner import SETTLE_SECONDS, EpisodeOrder, run_episode, verify_record
from countersign.study.services import Services
from countersign.verifier.v1.verifier_pb2_grpc import VerifierServiceStub

CAUSES_OF_DOUBT = frozenset({"billing_unresolved", "billing_above_reservation", "transport_unknown"})
"""Stop categories that say why a call is held."""

DOUBTFUL = CAUSES_OF_DOUBT | {"unresolved_prior_request", "study_blocked"}
"""Stop categories after which the ledger may have blocked the study."""


SERVICE_UNAVAILABLE = "service_unavailable"


class Halt(StrEnum):
    """Why no further episode is begun."""

    HOLD = "hold"
    IN_DOUBT = "in_doubt"
    STOP_RULE = "stop_rule"
    SERVICE = "service"
    INTERRUPTED = "interrupted"
    REFUSED = "refused"


class Need(StrEnum):
    """What a planned episode still needs."""

    RUN = "run"
    VERIFY = "verify"
    NOTHING = "nothing"


class View(Protocol):
    """What a collection tells whoever watches it."""

    def begin(self, planned: int, kept: Sequence[Mapping[str, Any]], cap_nanos: int = 0) -> None:
        """The collection begins; `kept` is what counts of the records that stay, `cap_nanos` the study's cap."""

    def note(self, text: str) -> None:
        """One line about something out of the ordinary."""

    def finished(self, order: EpisodeOrder, record: Mapping[str, Any]) -> None:
        """An episode's record was written."""


@dataclass(frozen=True, slots=True)
class CollectionEnd:
    """How a collection ended; `halt` is None where everything planned was run."""

    halt: Halt | None
    differing_count: int


@dataclass(slots=True)
class Collection:
    """One collection of one study. `account_id` pays; `max_in_flight` episodes run at once; `cap_nanos` is shown."""

    services: Services
    orders: Sequence[EpisodeOrder]
    store: RecordStore
    account_id: str
    stop: StopRule
    max_in_flight: int
    interrupted: asyncio.Event
    view: View
    settle_seconds: float = SETTLE_SECONDS
    cap_nanos: int = 0
    _adapters: Replicas[AdapterServiceStub] = field(default_factory=Replicas)
    _verifiers: Replicas[VerifierServiceStub] = field(default_factory=Replicas)
    _queue: list[tuple[EpisodeOrder, Need]] = field(default_factory=list)
    _stopped_routes: set[str] = field(default_factory=set)
    _last_adapter_failed: bool = False
    _halt: Halt | None = None
    _error: StudyError | None = None
    _differing: int = 0

    async def run(self) -> CollectionEnd:
        """Run what is left. Raises StudyError where a service refuses an episode; what was run is kept."""
        self.store.prepare()
        self._adapters = Replicas.of([self.services.adapter, *self.services.more_adapters])
        self._verifiers = Replicas.of([self.services.verifier, *self.services.more_verifiers])
        self._plan_rest()
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self.max_in_flight, len(self._queue)) or 1):
                group.create_task(self._work())
        if self._error is not None:
            raise self._error
        return CollectionEnd(self._halt, self._differing)

    def _plan_rest(self) -> None:
        kept = []
        for order in self.orders:
            record = self._kept_record(order)
            need = need_of(record)
            if record is not None and need is not Need.RUN:
                self._apply_stop_rule(order, record)
            if record is not None and need is Need.NOTHING:
                kept.append(counted(record))
            if need is not Need.NOTHING:
                self._queue.append((order, need))
        self._queue.reverse()
        self.view.begin(len(self.orders), kept, self.cap_nanos)
        if self._halt is Halt.STOP_RULE:
            self.view.note("the study's stop rule ended it at its first technical unknown: no further episode is run")

    def _kept_record(self, order: EpisodeOrder) -> dict[str, Any] | None:
        try:
            record = self.store.read(order.identity.episode_id)
        except BadRecord as error:
            self.view.note(f"{error.message}: the episode is run again, answered calls are not sent again")
            return None
        if record is not None and not belongs(record, order):
            path = self.store.path(order.identity.episode_id)
            raise BadRecord(f"{path} belongs to another study or episode: move it away")
        return record

    async def _work(self) -> None:
        while self._error is None and (item := self._next()) is not None:
            try:
                with tracing.span("episode", attributes=_named(item[0]), parent=""):
                    await self._do(*item)
            except ServiceFailed as error:
                self._stop_for_service(error)
            except StudyError as error:
                self._halt, self._error = self._halt or Halt.REFUSED, error

    def _next(self) -> tuple[EpisodeOrder, Need] | None:
        """The next episode that may begin. Records that only lack their verification are completed in any case."""
        while self._queue:
            order, need = self._queue.pop()
            if self.interrupted.is_set():
                self._halt = self._halt or Halt.INTERRUPTED
            barred = self._halt is not None or order.identity.route in self._stopped_routes
            if not barred or (need is Need.VERIFY and self._halt in (None, Halt.STOP_RULE, Halt.HOLD, Halt.IN_DOUBT)):
                return order, need
        return None

    async def _do(self, order: EpisodeOrder, need: Need) -> None:
        record = self._kept_record(order)
        if record is None or need is Need.RUN:
            after = await self._run(order)
            if after is None:
                self._queue.append((order, need))
                return
            record = keep_cause(record, after)
        tracing.annotate(_ended(record))
        try:
            if record["status"] != STOPPED:
                record["verification"] = await self._verify(order, record)
        finally:
            # Once, verified or not: a record that a crash takes is made again from the ledger's receipts.
            record = await asyncio.to_thread(self.store.keep, record)
            self.view.finished(order, record)
        self._count_difference(record)
        self._apply_stop_rule(order, record)
        await self._apply_stop(record)

    async def _run(self, order: EpisodeOrder) -> dict[str, Any] | None:
        """The episode's record from the least busy adapter; None where that one was gone before it began."""
        with self._adapters.least_busy() as replica:
            services = replace(self.services, adapter=replica.stub)
            record = await run_episode(services, order, self.interrupted, self.settle_seconds)
        if record["stop_category"] != SERVICE_UNAVAILABLE:
            return record
        if self._adapters.drop(replica):
            self.view.note(f"an adapter went away during {order.identity}: the others go on")
            return record if record["calls"] else None
        self._last_adapter_failed = True
        return record

    async def _verify(self, order: EpisodeOrder, record: Mapping[str, Any]) -> dict[str, Any]:
        """The record's verification from the least busy verifier; it changes nothing, so another may be asked."""
        while True:
            with self._verifiers.least_busy() as replica:
                try:
                    return await verify_record(replace(self.services, verifier=replica.stub), order, record)
                except ServiceFailed:
                    if not self._verifiers.drop(replica):
                        raise
            self.view.note("a verifier went away: the others go on")

    def _count_difference(self, record: Mapping[str, Any]) -> None:
        if record["verification"] is not None and not record["verification"]["agrees"]:
            self._differing += 1

    def _apply_stop_rule(self, order: EpisodeOrder, record: Mapping[str, Any]) -> None:
        if record["status"] != TECHNICAL_UNKNOWN:
            return
        if self.stop == "study":
            self._halt = self._halt or Halt.STOP_RULE
        elif self.stop == "route":
            self._stopped_routes.add(order.identity.route)

    async def _apply_stop(self, record: Mapping[str, Any]) -> None:
        category = record["stop_category"]
        if category == "interrupted":
            self._halt = self._halt or (Halt.INTERRUPTED if self.interrupted.is_set() else Halt.SERVICE)
        if category == SERVICE_UNAVAILABLE and self._last_adapter_failed:
            self._stop_for_service(
                ServiceFailed("a service went away during an episode: start it, then run this again")
            )
        if category in DOUBTFUL:
            self._halt = self._halt or await self._barrier(record["study_id"])

    async def _barrier(self, study_id: str) -> Halt | None:
        """Whether the ledger lets no further call of the study through: a hold, or calls that nobody here waits for."""
        standing = await study_standing(self.services.ledger, self.account_id, study_id)
        if standing.blocked:
            return Halt.HOLD
        return Halt.IN_DOUBT if standing.reserved_count >= standing.max_in_flight else None

    def _stop_for_service(self, error: ServiceFailed) -> None:
        if self._halt is None:
            self.view.note(error.message)
            self._halt = Halt.SERVICE


def _named(order: EpisodeOrder) -> dict[str, str]:
    """What an episode's trace says of it: the ids by which its record and its calls are found."""
    return {
        "countersign.study.id": order.study_id,
        "countersign.episode.id": order.identity.episode_id,
        "countersign.route": order.identity.route,
        "countersign.environment": order.environment,
    }


def _ended(record: Mapping[str, Any]) -> dict[str, str]:
    """How the episode ended, in words of the record's closed lists."""
    found = {name: record[name] for name in ("status", "termination", "reason", "stop_category")}
    return {f"countersign.episode.{name}": value for name, value in found.items() if value is not None}


def need_of(record: Mapping[str, Any] | None) -> Need:
    """What an episode with this record still needs: a stop is tried again, an end that was verified never."""
    if record is None or record["status"] not in (COMPLETED, TECHNICAL_UNKNOWN):
        return Need.RUN
    verification = record["verification"]
    return Need.NOTHING if verification is not None and verification["agrees"] else Need.VERIFY


def keep_cause(before: Mapping[str, Any] | None, after: dict[str, Any]) -> dict[str, Any]:
    """The record `after` a run; where it only met its own earlier doubt again, with that doubt's category."""
    met_again = after["stop_category"] == "unresolved_prior_request"
    if before is not None and met_again and before["stop_category"] in CAUSES_OF_DOUBT:
        return {**after, "stop_category": before["stop_category"]}
    return after


def belongs(record: Mapping[str, Any], order: EpisodeOrder) -> bool:
    """Whether the record is of this study and episode."""
    planned = order.planned_members()
    return all(record[key] == planned[key] for key in planned if key != "verification")
