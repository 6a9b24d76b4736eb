"""The command line and a ledger that is newer, or older, than it: a stand-in that answers bytes."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from google.type.money_pb2 import Money
from grpc_health.v1 import health_pb2

from countersign.cli.main import main
from countersign.kit.enums import name_of
from countersign.ledger.v1 import ledger_pb2 as pb

HEALTHY = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING).SerializeToString()
FIELD_OF_TOMORROW = b"\xba\x3e\x03new"
"""Field 999 of any message: three bytes."""


class StandIn(grpc.GenericRpcHandler):
    """Answers the methods that it knows with bytes, and leaves the others to gRPC."""

    def __init__(self, answers: Mapping[str, bytes]) -> None:
        self._answers = answers

    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        answer = self._answers.get(details.method.rpartition("/")[2])
        return None if answer is None else grpc.unary_unary_rpc_method_handler(lambda _request, _context: answer)


@contextmanager
def standing_in(**answers: bytes) -> Iterator[str]:
    """The address of a ledger that knows no methods but these."""
    server = grpc.server(ThreadPoolExecutor(2), handlers=[StandIn({"Check": HEALTHY, **answers})])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


def call_of_tomorrow() -> bytes:
    """A page with a call in a state, with a hold and with fields that today's contracts do not have."""
    nothing = Money(currency_code="USD")
    call = pb.Call(
        call_id=bytes(32),
        slot=pb.Slot(study_id="s", episode_id="e", turn=1),
        attempt=1,
        reserved=nothing,
        accounted=nothing,
        reserved_at=Timestamp(seconds=1),
        lease_expires_at=Timestamp(seconds=2),
        changed_at=Timestamp(seconds=1),
    )
    call.state = 77  # type: ignore[assignment]
    call.hold_category = 78  # type: ignore[assignment]
    call.progress = 79  # type: ignore[assignment]
    call.MergeFromString(FIELD_OF_TOMORROW)
    return pb.ListCallsResponse(calls=[call]).SerializeToString() + FIELD_OF_TOMORROW


def test_what_a_newer_ledger_says_is_shown_as_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    with standing_in(ListCalls=call_of_tomorrow()) as address:
        assert main(["ledger", "calls", "s", "--json", "--ledger", address]) == 0
        (line,) = map(json.loads, capsys.readouterr().out.splitlines())
        assert main(["ledger", "calls", "s", "--ledger", address]) == 0
        assert "UNKNOWN_77" in capsys.readouterr().out
        assert main(["ledger", "holds", "lab", "--ledger", address]) == 0
        assert "UNKNOWN_78; UNKNOWN_79\n" in capsys.readouterr().out
    assert (line["state"], line["hold"], line["why"], line["turn"]) == (
        "UNKNOWN_77",
        "UNKNOWN_78",
        "UNKNOWN_78 UNKNOWN_79",
        1,
    )


@pytest.mark.parametrize(
    "words",
    [
        ("verify",),
        ("account", "lab"),
        ("holds", "lab"),
        ("calls", "s"),
        ("grant", "lab", "1", "--by", "ann", "--reason", "pilot"),
        ("export", "lab", "--out", "lab.jsonl"),
    ],
    ids=lambda words: words[0],
)
def test_a_call_that_an_older_ledger_does_not_know_is_one_clear_line(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(str(tmp_path))
    with standing_in() as address:
        status = main(["ledger", *words, "--ledger", address])
    said = capsys.readouterr()
    assert (status, said.out) == (2, "")
    (line,) = said.err.splitlines()
    assert line.endswith("the ledger is older than this client and does not know this call: upgrade it")


def test_a_value_that_is_known_has_its_name() -> None:

    named = [name_of(pb.CallState, value, "CALL_STATE_") for value in (3, 99)]
    assert named == ["HELD", "UNKNOWN_99"]
