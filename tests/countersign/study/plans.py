"""A small plan for tests, and variations of it."""

from datetime import UTC, datetime

from countersign.study.plan import parse_plan
from countersign.study.plan_model import PlanFile

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)

BASE = """
name = "small"
[account]
id = "lab"
currency = "USD"
grant = 1
[study]
cap = "0.5"
call_ceiling = "0.1"
max_in_flight = 1
stop = "never"
readiness = "waived"
[[templates]]
name = "window"
environment = "event"
contract = { deadline = 3 }
worlds = [{ name = "calm", need = false, effective = true }, { name = "need", need = true, effective = true }]
[[arms]]
name = "neutral"
wording = "neutral"
[[arms]]
name = "own"
instruction = "Do as you see fit."
"""
ROUTE = """
[[routes]]
name = "{name}"
base_url = "http://127.0.0.1:9/v1"
model = "m"
price = {price}
output_cap = 100
{more}
"""


def route_text(name: str = "r", price: str = '"free"', more: str = "") -> str:
    return ROUTE.format(name=name, price=price, more=more)


def plan_text(*routes: str, base: str = BASE) -> str:
    return base + "".join(routes or (route_text(),))


def make_plan(*routes: str, base: str = BASE) -> PlanFile:
    return parse_plan(plan_text(*routes, base=base), "plan.toml")
