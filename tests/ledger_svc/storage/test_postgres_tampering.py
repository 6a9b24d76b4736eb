"""Whatever is changed behind the ledger's back in PostgreSQL, verification names it, as it does in a file."""

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from countersign.kit.canonical import sha256
from ledger_svc.audit import Difference
from tests.ledger_svc import support
from tests.ledger_svc.postgres_cluster import Cluster
from tests.ledger_svc.postgres_support import replicas
from tests.ledger_svc.support import OTHER_TOKEN, Clock, furnish

CALL_ID = support.slot().call_id()
RESPONSE = f"'\\x{sha256(b'response').hex()}'"


@pytest.fixture
async def filled(cluster: Cluster) -> str:
    """Eight entries: a hold, its resolution and a charged second attempt, closed."""
    dsn = cluster.new_schema()
    async with replicas(dsn, 1, clock=Clock()) as (ledger,):
        await furnish(ledger)
        await ledger.reserve(support.reserve(10))
        await ledger.submit(support.hold())
        await ledger.submit(support.resolve(3, again=True))
        await ledger.reserve(support.reserve(10, token=OTHER_TOKEN))
        await ledger.submit(support.receipt(token=OTHER_TOKEN))
    return dsn


async def differences(dsn: str) -> list[Difference]:
    """What two fresh ledgers find, which must be the same."""
    async with replicas(dsn, clock=Clock()) as (one, other):
        found = list((await one.verify(None)).differences)
        assert list((await other.verify(None)).differences) == found
    return found


async def test_untouched_tables_are_intact(filled: str) -> None:
    assert await differences(filled) == []


@pytest.mark.parametrize(
    ("change", "sequence", "what", "subject"),
    [
        ("UPDATE journal SET body = replace(body, '100', '999') WHERE sequence = 2", 2, "body_digest", ""),
        ("UPDATE journal SET at = at + 1 WHERE sequence = 7", 7, "chain", ""),
        ("DELETE FROM journal WHERE sequence = 5", 5, "sequence", ""),
        ("DELETE FROM journal WHERE sequence = 8", 8, "sequence", "head_sequence"),
        ("UPDATE accounts SET head_chain = sha256('x')", 8, "chain", "head_chain"),
        ("UPDATE accounts SET charged_nanos = 6", 0, "balance", "totals"),
        ("DELETE FROM accounts", 0, "balance", "account"),
        ("UPDATE studies SET resolved_nanos = 0", 0, "balance", "study"),
        (
            "UPDATE calls SET body = replace(body, 'nanos\":7', 'nanos\":1')",
            0,
            "call",
            CALL_ID.hex(),
        ),
        ("DELETE FROM calls WHERE attempt = 2", 0, "call", CALL_ID.hex()),
        (f"UPDATE payloads SET body = 'x' WHERE digest = {RESPONSE}", 0, "receipt", CALL_ID.hex()),
        ("DELETE FROM payloads", 0, "request", CALL_ID.hex()),
    ],
)
async def test_change_is_found(filled: str, change: str, sequence: int, what: str, subject: str) -> None:
    # A superuser's session in which neither triggers nor foreign keys are looked at.
    unwatched = f"{conninfo_to_dict(filled)['options']} -c session_replication_role=replica"
    with psycopg.connect(make_conninfo(filled, options=unwatched)) as db:
        assert db.execute(change).rowcount > 0
    assert await differences(filled) == [Difference("lab", sequence, what, subject)]
