"""`python -m ledger_svc` on PostgreSQL: several processes on one database, and what one says that cannot start."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from google.type import money_pb2

from countersign.kit.channel import call, open_channel
from countersign.kit.rpc_errors import ServiceError
from countersign.kit.settings import BadSettings, load_settings
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub
from ledger_svc.settings import LedgerSettings, refuse_password_in_arguments
from tests.ledger_svc import support
from tests.ledger_svc.postgres_cluster import PASSWORD, Cluster
from tests.ledger_svc.postgres_support import replicas

PROJECT_ROOT = Path(__file__).resolve().parents[2]


@asynccontextmanager
async def process(dsn_file: Path) -> AsyncIterator[LedgerServiceStub]:
    """A ledger's process; it is ended by SIGTERM."""
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ledger_svc", "--postgres-file", str(dsn_file)),
        cwd=PROJECT_ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert running.stdout is not None
    try:
        async with open_channel(json.loads(await running.stdout.readline())["address"]) as channel:
            yield LedgerServiceStub(channel)
    finally:
        running.send_signal(signal.SIGTERM)
        assert await running.wait() == 0


def secret(path: Path, text: str) -> Path:
    """A file that its owner alone can read."""
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def reservation(turn: int) -> pb.ReserveRequest:
    """Sixty of the study's hundred nano-dollars."""
    return pb.ReserveRequest(
        slot=pb.Slot(study_id="study", episode_id="episode", turn=turn),
        attempt_token=b"a token of turn %d" % turn,
        amount=money_pb2.Money(currency_code="USD", nanos=60),
        basis=pb.AMOUNT_BASIS_FLAT,
        request=b"request",
        lease=Duration(seconds=60),
    )


async def test_two_processes_on_one_database_admit_one_of_two(cluster: Cluster, tmp_path: Path) -> None:
    dsn = cluster.new_schema()
    dsn_file = secret(tmp_path / "dsn", dsn + "\n")
    async with replicas(dsn, 1) as (ledger,):
        await support.furnish(ledger, 100, 1_000, max_in_flight=9)
    async with process(dsn_file) as one, process(dsn_file) as other:
        answers = await asyncio.gather(
            call(one.Reserve, reservation(1), 10), call(other.Reserve, reservation(2), 10), return_exceptions=True
        )
        (admitted,) = [answer for answer in answers if isinstance(answer, pb.ReserveResponse)]
        (refused,) = [answer for answer in answers if isinstance(answer, ServiceError)]
        assert admitted.WhichOneof("answer") == "admission"
        assert refused.reason == "BUDGET_EXHAUSTED"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"password": "another"}, "the database refuses the role's password"),
        ({"host": "/nowhere"}, "the database cannot be reached, or refuses the connection"),
        ({"dbname": "nowhere"}, "the server has no such database, or does not let the role in"),
    ],
)
def test_ledger_that_cannot_connect_says_why_in_one_line(
    cluster: Cluster, tmp_path: Path, changes: dict[str, str], complaint: str
) -> None:
    secret(tmp_path / "dsn", cluster.dsn(**changes))
    assert complain("--postgres-file", str(tmp_path / "dsn")) == f"ledger: {complaint}"


async def test_ledger_that_finds_a_newer_schema_says_so_in_one_line(cluster: Cluster, tmp_path: Path) -> None:
    dsn = cluster.new_schema()
    async with replicas(dsn, 1):
        cluster.execute(dsn, "UPDATE ledger_schema SET version = 9")
    secret(tmp_path / "dsn", dsn)
    complaint = complain("--postgres-file", str(tmp_path / "dsn"))
    assert complaint == "ledger: the ledger's database was brought to a newer version; use that one"


def test_password_among_the_arguments_ends_the_ledger_at_once() -> None:
    complaint = complain("--postgres", "host=/nowhere password=secret")
    assert complaint.startswith("ledger: setting postgres: no password among the arguments")
    assert "secret" not in complaint


def complain(*arguments: str) -> str:
    """The one line of a ledger that ends with status 2."""
    run = subprocess.run(
        [sys.executable, "-m", "ledger_svc", *arguments], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (2, "")
    (line,) = run.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    "dsn", [f"host=db password='{PASSWORD}'", "postgresql://me:secret@db/ledger", "host=db sslpassword=x", "password"]
)
@pytest.mark.parametrize("form", ["apart", "joined"])
def test_dsn_with_a_password_is_no_argument(dsn: str, form: str) -> None:
    arguments = ["--postgres", dsn] if form == "apart" else [f"--postgres={dsn}"]
    with pytest.raises(BadSettings, match="no password among the arguments"):
        refuse_password_in_arguments(["--sweep-seconds", "1", *arguments])


def test_dsn_without_a_password_is_an_argument() -> None:
    refuse_password_in_arguments(["--postgres", "postgresql://me@db/ledger", "--database", "password=x"])


def test_dsn_comes_from_a_flag_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings(LedgerSettings, []).postgres_dsn() is None
    assert load_settings(LedgerSettings, ["--database", "x.db"]).postgres_dsn() is None
    assert load_settings(LedgerSettings, ["--postgres", "host=a"]).postgres_dsn() == "host=a"
    secret(tmp_path / "dsn", "host=b password=c\n")
    assert (
        load_settings(LedgerSettings, ["--postgres-file", str(tmp_path / "dsn")]).postgres_dsn() == "host=b password=c"
    )
    monkeypatch.setenv("COUNTERSIGN_LEDGER_POSTGRES", "host=d password=e")
    settings = load_settings(LedgerSettings, [])
    assert settings.postgres_dsn() == "host=d password=e"
    assert "password=e" not in repr(settings)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--database", "x.db", "--postgres", "host=a"],
        ["--database", "x.db", "--postgres-file", "dsn"],
        ["--postgres", "host=a", "--postgres-file", "dsn"],
    ],
)
def test_two_stores_are_one_too_many(arguments: list[str]) -> None:
    with pytest.raises(BadSettings, match="give one of the settings database, postgres and postgres_file"):
        load_settings(LedgerSettings, arguments).postgres_dsn()


def test_file_of_a_dsn_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "binary").chmod(0o600)
    for path in (tmp_path / "missing", tmp_path / "binary", tmp_path):
        with pytest.raises(BadSettings, match="postgres_file"):
            load_settings(LedgerSettings, ["--postgres-file", str(path)]).postgres_dsn()


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620])
def test_file_of_a_dsn_that_strangers_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = secret(tmp_path / "dsn", "host=/nowhere password=of-the-tests")
    path.chmod(mode)
    assert complain("--postgres-file", str(path)) == (
        f"ledger: setting postgres_file: the file {path} can be read or changed by others: chmod 600 it"
    )
