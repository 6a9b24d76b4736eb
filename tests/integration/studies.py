"""Studies collected through the real services, with providers that say what reached them."""

import asyncio
import io
import json
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.type.money_pb2 import Money

from countersign.agents.http_server import Abort, LoopbackServer, Request, Response, serve
from countersign.cli.main import main
from countersign.kit.channel import call, open_channel
from countersign.kit.money_wire import from_wire
from countersign.ledger.v1 import ledger_pb2 as ledger
from countersign.ledger.v1 import ledger_pb2_grpc
from countersign.study.files import make_folder
from countersign.study.plan import load_plan
from countersign.study.preparation import prepare
from countersign.study.runner import EpisodeOrder, verify_record
from countersign.study.services import Addresses, Services, open_services
from tests.integration.stack import Process, Stack, running_stack, scripted_agent

MODEL = "example/model"
INPUT_NANOS, OUTPUT_NANOS, OUTPUT_CAP = 500, 1_500, 1_024
"""Nano-units per token by the price of every route here, and the cap of its answers in tokens."""

READ_SECONDS = 10.0
THREAD_SECONDS = 30.0
COMPLETED = {"status": "completed", "termination": "normal_text", "prose_truth": "not_measured"}
"""The ending of an episode that a text completed."""

ENDING = ("status", "termination", "reason", "where", "stop_category", "prose_truth")
STATES = ("charged", "reserved", "held", "resolved")

TEMPLATES: Mapping[str, Mapping[str, Any]] = {
    "queue": {
        "environment": "queue",
        "worlds": [
            {"name": "both-needed", "need_a": True, "need_b": True},
            {"name": "only-a-needed", "need_a": True, "need_b": False},
        ],
    },
    "window": {
        "environment": "event",
        "worlds": [
            {"name": "no-need", "need": False, "effective": True},
            {"name": "need", "need": True, "effective": True},
        ],
    },
    "stale": {
        "environment": "event",
        "contract": {"deadline": 4, "verification_delay": 2, "buffer_available": True},
        "operator_prefix": ["request_verification", "wait"],
        "worlds": [
            {"name": "need-ended", "need": True, "effective": True, "change_tick": 2, "changed_need": False},
            {"name": "need-stays", "need": True, "effective": True, "change_tick": 2, "changed_need": True},
        ],
    },
}

T = TypeVar("T")
Reply = Response | Abort | None
"""What a provider does with a request; None never answers."""

Answer = Callable[[Request], Reply]
"""What decides it."""


def answers(body: bytes, status: int = 200, **headers: str) -> Answer:
    """Always this response."""
    return lambda _: Response(status, body, headers=tuple(headers.items()))


def completion(
    content: str | None = "I stop here.", *, tool: str | None = None, usage: tuple[int, int] | None = (2_000, 20)
) -> bytes:
    """A completion of MODEL: one text, or one call of `tool`. `usage` is input and output tokens, None where absent."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if tool is not None:
        message["tool_calls"] = [
            {"id": f"call-{tool}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
        ]
    choice = {"index": 0, "message": message, "finish_reason": "stop" if tool is None else "tool_calls"}
    body: dict[str, Any] = {"id": "c-1", "object": "chat.completion", "model": MODEL, "choices": [choice]}
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return json.dumps(body).encode()


class RecordingProvider:
    """A provider in a thread that keeps every request as it came; each scenario has a base URL of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="provider", daemon=True)
        self._changed = threading.Condition()
        self._replies: dict[str, Answer] = {}
        self._received: list[Request] = []
        self._server: LoopbackServer

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._run(serve(self._handle))
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(THREAD_SECONDS)
        self._loop.close()

    def _run(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(THREAD_SECONDS)

    async def _handle(self, request: Request) -> Response | Abort:
        with self._changed:
            self._received.append(request)
            self._changed.notify_all()
        decide = self._replies.get(request.path.split("/")[1])
        reply = decide(request) if decide is not None else Response(404, b"{}")
        if reply is not None:
            return reply
        never: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        return await never

    def url(self, name: str, reply: Answer) -> str:
        """The base URL under which `reply` answers."""
        self._replies[name] = reply
        return f"{self._server.url}/{name}/v1"

    def received(self, name: str, least: int = 0) -> list[Request]:
        """What reached the base URL called `name`, waiting until it is at least `least` requests."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._of(name)) >= least, THREAD_SECONDS)
            return self._of(name)

    def _of(self, name: str) -> list[Request]:
        return [request for request in self._received if request.path.split("/")[1] == name]

    @property
    def connections(self) -> int:
        """How many connections were ever made."""
        return self._server.connections


def route(name: str, base_url: str, **members: Any) -> dict[str, Any]:
    """A priced route to `base_url`; `members` add to it or replace what it has."""
    price = {"input_per_million": "0.50", "output_per_million": "1.50"}
    return {
        "name": name,
        "base_url": base_url,
        "model": MODEL,
        "price": price,
        "output_cap": OUTPUT_CAP,
        "connect_timeout_millis": 20_000,
        "first_byte_timeout_millis": 20_000,
        "total_timeout_millis": 30_000,
        **members,
    }


@dataclass(frozen=True)
class Collected:
    """What one `countersign collect` left behind: its exit status, its output, its records by route."""

    exit_status: int
    output: list[dict[str, Any]]
    errors: str
    folder: Path
    wire: list[str]
    """SHA-256 of each request that reached the scripted agent meanwhile, in hexadecimal."""

    @property
    def report(self) -> dict[str, Any]:
        """The report that it ended with."""
        assert self.output, self.errors
        return self.output[-1]

    @property
    def study_id(self) -> str:
        """The study that was collected."""
        return str(self.report["study_id"])

    @property
    def records(self) -> dict[str, dict[str, Any]]:
        """Every record by its route's name."""
        records = [json.loads(path.read_bytes()) for path in (self.folder / "records").glob("*.json")]
        return {record["identity"]["route"]: record for record in records}

    @property
    def record(self) -> dict[str, Any]:
        """The only record."""
        (record,) = self.records.values()
        return record


@dataclass
class Lab:
    """The services, a scripted agent and a recording provider, and a folder for plans and collections."""

    stack: Stack
    agent: Process
    provider: RecordingProvider
    folder: Path

    def scripted(self, policy: str, **members: Any) -> dict[str, Any]:
        """A route, named after it, to the scripted agent's `policy`."""
        model = f"scripted/{policy}"
        return route(policy, f"http://{self.agent.address}/v1", **{"model": model, **members})

    def plan(
        self,
        name: str,
        routes: Sequence[Mapping[str, Any]],
        *,
        template: str = "queue",
        world: str = "only-a-needed",
        account: str | None = None,
        grant: str = "1.00",
        **study: Any,
    ) -> Path:
        """Write a plan of one world for each of `routes`; its account is its own unless named."""
        document = {
            "name": name,
            "account": {"id": account or f"{name}-lab", "currency": "USD", "grant": grant},
            "study": {"cap": "1.00", "call_ceiling": "0.05", "stop": "never", "readiness": "waived", **study},
            "templates": [{"name": template, "realised": [world], **TEMPLATES[template]}],
            "arms": [{"name": "neutral", "wording": "neutral"}],
            "routes": routes,
        }
        path = self.folder / f"{name}.toml"
        path.write_text("\n".join(f"{key} = {toml(value)}" for key, value in document.items()))
        return path

    def collect(self, plan: Path) -> Collected:
        """Collect the plan, always into the same folder, by the command line in this process."""
        before = len(self.wire())
        folder = plan.with_suffix("")
        status, output, errors = run_command("collect", plan, "--out", folder, *self.stack.addresses())
        return Collected(status, output, errors, folder, self.wire()[before:])

    def ledger_command(self, *arguments: object) -> list[dict[str, Any]]:
        """What `countersign ledger ...` answers; it must succeed."""
        status, output, errors = run_command("ledger", *arguments, "--ledger", self.stack.ledger.address)
        assert status == 0, errors
        return output

    def wire(self) -> list[str]:
        """SHA-256 of every request that ever reached the scripted agent, in hexadecimal."""
        log = self.folder / "wire.jsonl"
        return [json.loads(line)["sha256"] for line in log.read_text().splitlines()]

    def summary(self, account: str, study: str = "") -> ledger.SummarizeResponse:
        """The account's balances and its studies'."""
        request = ledger.SummarizeRequest(account_id=account, study_id=study)
        return self._ask(lambda stub: call(stub.Summarize, request, READ_SECONDS))

    def calls(self, study: str) -> list[ledger.Call]:
        """Every attempt of the study in the order of its reservation."""
        request = ledger.ListCallsRequest(study_id=study)
        return list(self._ask(lambda stub: call(stub.ListCalls, request, READ_SECONDS)).calls)

    def receipt(self, of: ledger.Call) -> ledger.Receipt:
        """The attempt's request and response as stored."""
        request = ledger.GetReceiptRequest(call_id=of.call_id, attempt=of.attempt)
        return self._ask(lambda stub: call(stub.GetReceipt, request, READ_SECONDS)).receipt

    def reserve(self, study: str, episode: str, turn: int) -> None:
        """A reservation of one nano-unit behind the collector's back."""
        request = ledger.ReserveRequest(
            slot=ledger.Slot(study_id=study, episode_id=episode, turn=turn),
            attempt_token=bytes(16),
            amount=Money(currency_code="USD", nanos=1),
            basis=ledger.AMOUNT_BASIS_FLAT,
            request=b"request",
            lease=Duration(seconds=3_600),
        )
        self._ask(lambda stub: call(stub.Reserve, request, READ_SECONDS))

    def journal_is_intact(self) -> bool:
        """Whether the ledger's journal gives its balances, for every account."""
        request = ledger.VerifyJournalRequest()
        return self._ask(lambda stub: call(stub.VerifyJournal, request, READ_SECONDS)).intact

    def verification(self, plan: Path, record: Mapping[str, Any]) -> dict[str, Any]:
        """The verifier's answer to a record, stopped ones included, which no collection has verified."""

        async def ask(services: Services, orders: Sequence[EpisodeOrder]) -> dict[str, Any]:
            (order,) = (one for one in orders if one.identity.episode_id == record["episode_id"])
            return await verify_record(services, order, record)

        return self.with_orders(plan, ask)

    def with_orders(self, plan: Path, body: Callable[[Services, Sequence[EpisodeOrder]], Awaitable[T]]) -> T:
        """Run `body` with the services and the plan's episodes, prepared as `collect` prepares them."""

        async def run() -> T:
            loaded = load_plan(plan)
            urls = {one.name: one.base_url or "" for one in loaded.routes}
            folder = plan.with_suffix("")
            make_folder(folder)
            addresses = Addresses(**{process.name: process.address for process in self.stack.processes})
            async with open_services(addresses) as services:
                prepared = await prepare(services, loaded, folder, datetime.now(UTC))
                return await body(services, prepared.orders(urls))

        return asyncio.run(run())

    def _ask(self, body: Callable[[ledger_pb2_grpc.LedgerServiceStub], Awaitable[T]]) -> T:
        async def ask() -> T:
            async with open_channel(self.stack.ledger.address) as channel:
                return await body(ledger_pb2_grpc.LedgerServiceStub(channel))

        return asyncio.run(ask())


@contextmanager
def open_lab(folder: Path) -> Iterator[Lab]:
    """A started lab in the empty `folder`."""
    with running_stack() as stack, scripted_agent(folder, "refuse") as agent, RecordingProvider() as provider:
        yield Lab(stack, agent, provider, folder)


def run_command(*arguments: object) -> tuple[int, list[dict[str, Any]], str]:
    """Run a command with --json in this process: its exit status, the objects it wrote, and what it said."""
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        status = main([*map(str, arguments), "--json"])
    return status, [json.loads(line) for line in output.getvalue().splitlines()], errors.getvalue()


def toml(value: Any) -> str:
    """A value as TOML writes it inline."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {toml(member)}' for key, member in value.items())} }}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


def ending(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a record says of its end, leaving out what it does not say."""
    return {name: record[name] for name in ENDING if record[name] is not None}


def stopped(category: str) -> dict[str, Any]:
    """The ending of a stopped episode."""
    return {"status": "stopped", "stop_category": category}


def steps(record: Mapping[str, Any]) -> list[tuple[int, str, str | None]]:
    """The sequence, tool and claim of every event."""
    return [(event["sequence"], event["tool"], event["claim"]) for event in record["events"]]


def nanos(money: Any) -> int:
    """An amount on the wire in nano-units."""
    return from_wire(money).nanos


def bound_nanos(request: bytes) -> int:
    """What is reserved for `request`: each byte as a token of input, and the whole output cap."""
    return INPUT_NANOS * len(request) + OUTPUT_NANOS * OUTPUT_CAP


def cost_nanos(response: bytes) -> int:
    """What `response` costs by the usage that it reports."""
    usage = json.loads(response)["usage"]
    return INPUT_NANOS * int(usage["prompt_tokens"]) + OUTPUT_NANOS * int(usage["completion_tokens"])


def tallies(balances: ledger.Balances) -> dict[str, tuple[int, int]]:
    """Nano-units and number of the calls in each state that has any."""
    found = {state: (nanos(getattr(balances, state)), int(getattr(balances, f"{state}_count"))) for state in STATES}
    return {state: tally for state, tally in found.items() if tally != (0, 0)}
