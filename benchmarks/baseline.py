"""What a reservation costs without this ledger: PostgreSQL in the usual two ways, behind the same kind of gRPC server.

`lock`: one transaction, the budget's row locked first. `update`: one conditional statement. Neither keeps a journal.
"""

import argparse
import asyncio
from typing import Any

import grpc
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from benchmarks.load import ACCOUNT, call_id_of
from countersign.kit.logs import configure_logs
from countersign.kit.server import ServiceSpec, serve_until_stopped, start_server
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1 import ledger_pb2_grpc

SCHEMA = """
    CREATE TABLE budgets (account_id text PRIMARY KEY, granted bigint, reserved bigint, charged bigint);
    CREATE TABLE reservations (call_id bytea PRIMARY KEY, account_id text, token bytea, amount bigint, state text,
        request bytea, response bytea);
    INSERT INTO budgets VALUES ('bench', 9000000000000000, 0, 0);
"""
UPDATE = """
    WITH moved AS (UPDATE budgets SET reserved = reserved + %(amount)s
        WHERE account_id = %(account)s AND granted - reserved - charged >= %(amount)s RETURNING account_id)
    INSERT INTO reservations SELECT %(id)s, account_id, %(token)s, %(amount)s, 'RESERVED', %(request)s FROM moved
    RETURNING call_id
"""
CHARGE = """
    WITH charged AS (UPDATE reservations SET state = 'CHARGED', response = %(response)s
        WHERE call_id = %(id)s AND state = 'RESERVED' RETURNING account_id, amount)
    UPDATE budgets SET reserved = reserved - amount, charged = charged + %(cost)s FROM charged
    WHERE budgets.account_id = charged.account_id RETURNING amount
"""
POOL_SIZES = {"lock": 16, "update": 4}


class Baseline(ledger_pb2_grpc.LedgerServiceServicer):
    """Reserve and RecordReceipt, one transaction each."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection[Any]], way: str) -> None:
        self._pool = pool
        self._reserve = {"lock": reserve_locking, "update": reserve_updating}[way]

    async def Reserve(self, request: pb.ReserveRequest, context: Any) -> pb.ReserveResponse:
        """Set money aside in one transaction."""
        values = {
            "account": ACCOUNT,
            "id": call_id_of(request.slot),
            "token": request.attempt_token,
            "amount": request.amount.units * 10**9 + request.amount.nanos,
            "request": request.request,
        }
        async with self._pool.connection() as db:
            if not await self._reserve(db, values):
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no budget")
        return pb.ReserveResponse(admission=pb.Admission(call_id=values["id"], attempt=1))

    async def RecordReceipt(self, request: pb.RecordReceiptRequest, context: Any) -> pb.RecordReceiptResponse:
        """Charge in one transaction."""
        values = {"id": request.call_id, "response": request.response, "cost": 500}
        async with self._pool.connection() as db:
            if await (await db.execute(CHARGE, values)).fetchone() is None:
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not reserved")
        answer = pb.RecordReceiptResponse(call=pb.Call(call_id=request.call_id, state=pb.CALL_STATE_CHARGED))
        answer.call.accounted.nanos = 500
        return answer


async def reserve_locking(db: AsyncConnection[Any], values: dict[str, Any]) -> bool:
    """Lock the budget's row, look, insert, update; the pool's connection commits at its end."""
    budget = "SELECT granted - reserved - charged FROM budgets WHERE account_id = %(account)s FOR UPDATE"
    row = await (await db.execute(budget, values)).fetchone()
    if row is None or row[0] < values["amount"]:
        return False
    insert = "INSERT INTO reservations VALUES (%(id)s, %(account)s, %(token)s, %(amount)s, 'RESERVED', %(request)s)"
    await db.execute(insert, values)
    await db.execute("UPDATE budgets SET reserved = reserved + %(amount)s WHERE account_id = %(account)s", values)
    return True


async def reserve_updating(db: AsyncConnection[Any], values: dict[str, Any]) -> bool:
    """One statement that changes the budget only where it suffices."""
    return await (await db.execute(UPDATE, values)).fetchone() is not None


async def serve(dsn: str, way: str, listen: str) -> None:
    """Serve until told to stop."""
    size = POOL_SIZES[way]
    async with AsyncConnectionPool(dsn, min_size=size, max_size=size, timeout=60, open=False) as pool:
        servicer = Baseline(pool, way)  # type: ignore[abstract]
        name = pb.DESCRIPTOR.services_by_name["LedgerService"].full_name
        spec = ServiceSpec(
            "baseline", name, lambda server: ledger_pb2_grpc.add_LedgerServiceServicer_to_server(servicer, server)
        )
        await serve_until_stopped(await start_server(spec, listen), spec.name, 5, exit_with_stdin=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--way", choices=sorted(POOL_SIZES), required=True)
    parser.add_argument("--listen", required=True)
    given = parser.parse_args()
    configure_logs("baseline")
    asyncio.run(serve(given.dsn, given.way, given.listen))
