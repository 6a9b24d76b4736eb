"""One run from its preparation to its outcome."""

import asyncio
import hashlib
import json
import secrets
from collections.abc import Awaitable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, TypeVar

from countersign.adapter.v1 import adapter_pb2 as pb
from countersign.adapter.v1 import adapter_pb2_grpc
from countersign.ledger.v1 import ledger_pb2_grpc
from countersign.prose import money
from countersign.prose.codes import Code, ProseError
from countersign.prose.native_log import NativeLog, open_native_log
from countersign.prose.preparing import Planned, Prepared, digest, plan, prepare, write_files
from countersign.prose.pricing import PriceTable
from countersign.prose.process_table import is_supported
from countersign.prose.profiles import INVOCATION_VARIABLE
from countersign.prose.reading import Reading
from countersign.prose.recipes import RECIPES
from countersign.prose.redaction import Redactor
from countersign.prose.rendering import Reporter
from countersign.prose.result import Outcome
from countersign.prose.services import cache_folder, private_folder, reach_adapter, reach_ledger
from countersign.prose.settings import Contract, HarnessName, Settings
from countersign.prose.supervision import Cause, Ended, Stopper, supervise

T = TypeVar("T")

HARNESSES: Final = {
    HarnessName.CLAUDE: pb.HARNESS_CLAUDE,
    HarnessName.CODEX: pb.HARNESS_CODEX,
    HarnessName.OMP: pb.HARNESS_OMP,
    HarnessName.PI: pb.HARNESS_PI,
    HarnessName.GEMINI: pb.HARNESS_GEMINI,
    HarnessName.AGENTS_SDK: pb.HARNESS_AGENTS_SDK,
    HarnessName.MOCK: pb.HARNESS_MOCK,
}
CONTRACTS: Final = {
    Contract.NATIVE: pb.OUTPUT_CONTRACT_NATIVE,
    Contract.IMAGE_ENVELOPE: pb.OUTPUT_CONTRACT_IMAGE_ENVELOPE,
}
CAUSES: Final = {
    Cause.CANCELLED: (Code.CANCELLED, "the caller ended the run"),
    Cause.TIMEOUT: (Code.CANCELLED, "the run's --timeout passed"),
    Cause.STARTUP: (Code.STARTUP_TIMEOUT, "no record came before the deadline"),
    Cause.OUTPUT_LIMIT: (Code.PROTOCOL_MALFORMED, "standard output is over --native-output-bytes"),
    Cause.BROKEN: (Code.INTERNAL_ERROR, "the run could not be followed to its end"),
}
"""What a stop from here comes to. REJECTED is not here: the adapter says why."""


class Run:
    """One run. `outcome` is filled in as it goes, whatever happens."""

    def __init__(self, settings: Settings, language: tuple[str, ...], outcome: Outcome, reporter: Reporter) -> None:
        self._settings = settings
        self._language = language
        self._outcome = outcome
        self._reporter = reporter
        self._stopper = Stopper()
        self._pieces: list[str] = []
        self._broken: ProseError | None = None
        self._log: NativeLog | None = None
        self._digest = hashlib.sha256()

    def cancel(self) -> None:
        """The caller's signal, or nobody reads the output any more."""
        self._stopper.stop(Cause.CANCELLED)

    async def execute(self, environ: Mapping[str, str]) -> None:
        """Run to the end. Raises ProseError, which is the outcome's error then."""
        if environ.get(INVOCATION_VARIABLE):
            raise ProseError(Code.RECURSIVE_INVOCATION, f"{INVOCATION_VARIABLE} is set")
        if not is_supported():
            raise ProseError(Code.TRANSPORT_UNSUPPORTED, "supervision needs /proc and process descriptors")
        planned = plan(self._settings, self._language, environ)
        self._reporter.redactor = Redactor(planned.credentials.secrets)
        self._note_plan(planned)
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(private_folder(self._parent(planned, environ))))
            prepared = await self._or_cancelled(prepare(planned, self._outcome.invocation, folder, environ))
            self._note_prepared(prepared)
            if self._settings.dry_run:
                return
            write_files(prepared.launch, folder)
            await self._launch(prepared, stack)

    def _parent(self, planned: Planned, environ: Mapping[str, str]) -> Path | None:
        """Where the run's folder has to be; None among temporary files. With a login of the user's it is not used."""
        outside = RECIPES[self._settings.harness].outside_temporary and planned.credentials.profile.required
        return cache_folder(environ) if outside else None

    def _note_plan(self, planned: Planned) -> None:
        bundle = planned.task.bundle
        self._outcome.image = {
            "version": bundle.version,
            "digest": bundle.digest.hex(),
            "manifest_digest": bundle.manifest_digest.hex(),
        }
        self._outcome.task_digest = digest(planned.task.text.encode())

    def _note_prepared(self, prepared: Prepared) -> None:
        self._outcome.harness_version = prepared.found.version
        self._outcome.executable = prepared.found.program[0]
        self._outcome.invocation_digest = digest(prepared.invocation)
        if self._settings.dry_run:
            self._reporter.show(json.loads(prepared.invocation))

    async def _launch(self, prepared: Prepared, stack: AsyncExitStack) -> None:
        adapter = await self._or_cancelled(stack.enter_async_context(reach_adapter(self._settings.adapter)))
        if self._settings.native_log is not None:
            self._log = open_native_log(self._settings.native_log, self._reporter.redactor)
        try:
            if self._settings.study is None:
                await self._supervise(prepared, adapter)
            else:
                await self._supervise_paid(prepared, adapter, stack)
        finally:
            self._close_log()

    async def _supervise_paid(
        self, prepared: Prepared, adapter: adapter_pb2_grpc.AdapterServiceStub, stack: AsyncExitStack
    ) -> None:
        settings = self._settings
        assert settings.ledger is not None
        assert settings.study is not None
        assert settings.max_cost is not None
        ledger = await self._or_cancelled(stack.enter_async_context(reach_ledger(settings.ledger)))
        reservation = await money.reserve(
            ledger,
            settings.study,
            self._outcome.invocation,
            settings.max_cost,
            prepared.invocation,
            settings.timeout_seconds,
            secrets.token_bytes(money.TOKEN_BYTES),
        )
        error: ProseError | None = None
        try:
            await self._supervise(prepared, adapter)
        except ProseError as raised:
            error = raised
            raise
        finally:
            # The money is settled whatever became of the run.
            self._outcome.ledger = await self._settle(ledger, reservation, error, prepared.planned.prices)

    async def _settle(
        self,
        ledger: ledger_pb2_grpc.LedgerServiceStub,
        reservation: money.Reservation,
        error: ProseError | None,
        prices: PriceTable | None,
    ) -> dict[str, Any]:
        judged = self._outcome.judged
        if judged is None:
            return await money.hold(ledger, reservation, launched=self._outcome.launched)
        facts = judged.facts
        cost = money.cost_of(facts, prices, self._settings.model, stopped=self._stopper.cause is not None, error=error)
        receipt = {
            "invocation_id": self._outcome.invocation,
            "output_digest": judged.output_digest.hex(),
            "records": facts.records_count,
            "terminal_record": facts.terminal_record if facts.HasField("terminal_record") else None,
            "usage": {field.name: value for field, value in facts.usage.ListFields()},
            "cost_usd": facts.reported_cost_text if facts.HasField("reported_cost_text") else None,
            "prices": prices.source if prices is not None else None,
            "code": error.code.value if error is not None else None,
        }
        return await money.settle(ledger, reservation, receipt, cost)

    async def _supervise(self, prepared: Prepared, adapter: adapter_pb2_grpc.AdapterServiceStub) -> None:
        if self._stopper.cause is Cause.CANCELLED:
            raise ProseError(*CAUSES[Cause.CANCELLED])
        reading = Reading(
            adapter,
            self._opening(prepared),
            self._on_event,
            lambda: self._stopper.stop(Cause.REJECTED),
            lambda: self._stopper.stop(Cause.BROKEN),
        )
        try:
            ended = await self._run_child(prepared, reading)
            self._outcome.ended = ended
            self._outcome.verdict = await reading.finish(_process_end(ended))
        finally:
            self._outcome.text = self._text()
            await reading.close()
        self._judge(ended)

    async def _run_child(self, prepared: Prepared, reading: Reading) -> Ended:
        self._outcome.launched = True
        try:
            return await supervise(prepared.child, self._stopper, lambda data: self._take(reading, data))
        except ProseError:
            # The one that it raises: nothing was started.
            self._outcome.launched = False
            raise

    def _opening(self, prepared: Prepared) -> pb.NativeStreamOpening:
        task = prepared.planned.task
        return pb.NativeStreamOpening(
            harness=HARNESSES[self._settings.harness],
            harness_version=prepared.found.version,
            output_contract=CONTRACTS[self._settings.contract],
            argv=task.argv,
            image_files=[
                pb.NativeImageFile(path=path, content=content) for path, content in sorted(task.files.items())
            ],
        )

    async def _take(self, reading: Reading, data: bytes) -> None:
        """Each record is in the log before it is judged."""
        if self._broken is not None:
            return
        self._digest.update(data)
        if self._log is not None:
            try:
                self._log.feed(data)
            except OSError as error:
                self._break(f"the native log cannot be written: {error.strerror}")
                return
        await reading.feed(data)

    def _break(self, detail: str) -> None:
        self._broken = ProseError(Code.INTERNAL_ERROR, detail)
        self._stopper.stop(Cause.BROKEN)

    def _on_event(self, event: pb.NativeEvent) -> None:
        body = json.loads(event.body)
        if event.kind == "assistant.message":
            if self._pieces and not body.get("continues"):
                self._pieces.append("\n")
            self._pieces.append(body["text"])
        self._reporter.event(event.kind, body)

    def _text(self) -> str | None:
        """All assistant texts; without the envelope's line where one was recovered."""
        text = "".join(self._pieces)
        completion = self._outcome.completion
        if completion is not None and completion.envelope:
            text = text.rstrip().rpartition("\n")[0] if not completion.assistant_text else completion.assistant_text
        return text if self._pieces else None

    def _judge(self, ended: Ended) -> None:
        """Raises ProseError where the run is no success; what is left behind comes first (section 6)."""
        judged = self._outcome.judged
        assert judged is not None
        if ended.survivors:
            detail = f"{ended.survivors} left after its end, {ended.killed} killed, {ended.remaining} still there"
            raise ProseError(Code.PROCESS_CLEANUP_FAILED, detail)
        if self._broken is not None:
            raise self._broken
        if self._stopper.cause is not None and self._stopper.cause in CAUSES:
            raise ProseError(*CAUSES[self._stopper.cause])
        if self._outcome.completion is None:
            failure = judged
            assert isinstance(failure, pb.NativeFailure)
            raise ProseError(_code(failure.code), failure.detail)
        if judged.output_digest != self._digest.digest():
            raise ProseError(Code.INTERNAL_ERROR, "the adapter read other bytes than the harness wrote")
        self._reporter.event("harness.completed", _completed(self._outcome.completion))

    def _close_log(self) -> None:
        if self._log is not None:
            try:
                self._log.close()
            except OSError as error:
                self._outcome.notes.append(f"the native log could not be closed: {error.strerror}")

    async def _or_cancelled(self, work: Awaitable[T]) -> T:
        """What comes before the launch ends as soon as the caller cancels. Raises ProseError."""
        task = asyncio.ensure_future(work)
        asked = asyncio.ensure_future(self._stopper.asked.wait())
        try:
            await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
            if self._stopper.asked.is_set():
                raise ProseError(*CAUSES[Cause.CANCELLED])
            return task.result()
        finally:
            asked.cancel()
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


def _code(name: str) -> Code:
    return Code(name) if name in Code.__members__ else Code.INTERNAL_ERROR


def _completed(completion: pb.NativeCompletion) -> dict[str, Any]:
    return {
        "semantic_status": completion.semantic_status,
        "observations": {one.name: one.count for one in completion.observations},
        "terminal_record": completion.facts.terminal_record,
    }


def _process_end(ended: Ended) -> pb.NativeProcessEnd:
    end = pb.NativeProcessEnd(drained=ended.drained, survivors_count=ended.survivors)
    if ended.exit_status is not None:
        end.exit_status = ended.exit_status
    else:
        end.signal = ended.signal or 0
    if ended.signal_sent is not None:
        # A signal is sent before the child's end, and for a cause that no terminal event undoes.
        end.signalled_by_supervisor = True
        end.supervisor_signal = ended.signal_sent
    return end
