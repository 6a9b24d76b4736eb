"""Two readers that share no code, one answer: the adapter's admission against the verifier's decoder.

Every recorded answer, and spoilt ones from seeds, get the same verdict, the same evidence and the same price
(design/admission.md; design/architecture.md, I7).
"""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adapter_svc import admission as adapter
from adapter_svc.admission.strict_json import read_strict
from adapter_svc.admission.verdict import Inadmissible
from adapter_svc.routes import Cost, FreePrice, Route, TokenPrices, cost_of_answer
from countersign.kit.canonical import canonical_json
from countersign.kit.money import MoneyError, text_to_nanos_rounded_up
from tests.exchange_mutations import spoil
from verifier_svc.receipts import cost, strict
from verifier_svc.receipts import verdicts as verifier
from verifier_svc.receipts.decode import decode
from verifier_svc.receipts.wire import Answer, Expectation, WireFormat

SEEDS = range(6)
MUTATIONS_PER_SEED = 500
READING = ("MALFORMED_JSON", "DUPLICATE_KEY", "LIMIT_EXCEEDED")
"""Faults of check 2: the verifier says where in the text, the adapter says nothing that the provider wrote."""
CLAIM = {"type": "string", "enum": ["saved", "not_saved", "unknown"]}
ENVIRONMENT_TOOLS: dict[str, Any] = {
    "wait": {"type": "object", "properties": {}, "additionalProperties": False},
    "finish": {"type": "object", "properties": {"claim": CLAIM}, "required": ["claim"], "additionalProperties": False},
}
PRICES = ("0.15", "2.5")


@dataclass(frozen=True)
class Expected:
    """What a route says of its answers, for both readers."""

    model: str | None = None
    aliases: frozenset[str] = frozenset()
    provider: str | None = None
    output_cap: int | None = None
    lenient: bool = False
    seen: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Exchange:
    """A recorded answer and the tools that its request offered."""

    id: str
    status: int
    body: bytes
    tools: dict[str, Any]


ANY = Expected()


def admitted(body: bytes, tools: dict[str, Any], expected: Expected, status: int) -> adapter.Admission:
    return adapter.admit(
        adapter.AdmissionRequest(
            body=body,
            http_status=status,
            wire_format=adapter.WireFormat.CHAT_COMPLETIONS,
            streamed=False,
            expected=adapter.ExpectedIdentity(expected.model, expected.aliases, expected.provider),
            tools=tuple(adapter.OfferedTool.of(name, schema) for name, schema in tools.items()),
            seen_tool_call_ids=expected.seen,
            output_cap=expected.output_cap,
            allowances=frozenset({adapter.Allowance.TOOL_CALLS_WITH_STOP} if expected.lenient else ()),
        )
    )


def decoded(body: bytes, tools: dict[str, Any], expected: Expected, status: int) -> verifier.Decoded:
    expectation = Expectation(
        model=expected.model,
        model_aliases=expected.aliases,
        provider_name=expected.provider,
        output_cap=expected.output_cap,
        allowances=frozenset({verifier.Allowance.TOOL_CALLS_WITH_STOP} if expected.lenient else ()),
    )
    answer = Answer(WireFormat.CHAT_COMPLETIONS, body, status)
    return decode(answer, tools, expected.seen, expectation)


def by_adapter(admission: adapter.Admission) -> dict[str, Any]:
    """What the adapter found, in words that both readers have."""
    verdict, usage = admission.verdict, admission.usage
    whole = None if None in (usage.input_tokens, usage.output_tokens) else (usage.input_tokens, usage.output_tokens)
    found: dict[str, Any] = {
        "kind": type(verdict).__name__,
        "model": admission.served.model,
        "provider": admission.served.provider_name,
        "usage": whole,
        "cost": admission.reported_cost,
    }
    if isinstance(verdict, adapter.Action):
        assert admission.continuation is not None
        called = (verdict.tool, verdict.tool_call_id, verdict.arguments)
        return {**found, "called": called, "message": admission.continuation.message}
    if isinstance(verdict, adapter.TextFinish):
        return {**found, "text": verdict.text}
    return {**found, **placed(verdict.reason.value, verdict.where)}


def by_verifier(reading: verifier.Decoded) -> dict[str, Any]:
    """What the verifier found, in the same words."""
    verdict, usage = reading.verdict, reading.usage
    whole = None if usage is None or None in (usage.input_tokens, usage.output_tokens) else usage
    found: dict[str, Any] = {
        "kind": type(verdict).__name__,
        "model": reading.model,
        "provider": reading.provider,
        "usage": None if whole is None else (whole.input_tokens, whole.output_tokens),
        "cost": reading.reported_cost,
    }
    if isinstance(verdict, verifier.Action):
        called = (verdict.tool, verdict.call_id, canonical_json(dict(verdict.arguments)))
        return {**found, "called": called, "message": reading.continuation}
    if isinstance(verdict, verifier.TextFinish):
        return {**found, "text": verdict.text}
    return {**found, **placed(verdict.reason.value, verdict.where)}


def placed(reason: str, where: str) -> dict[str, str]:
    return {"reason": reason, "where": "" if reason in READING else where}


def both(body: bytes, tools: dict[str, Any], expected: Expected = ANY, status: int = 200) -> tuple[Any, Any]:
    return (
        by_adapter(admitted(body, tools, expected, status)),
        by_verifier(decoded(body, tools, expected, status)),
    )


def route(price: FreePrice | TokenPrices, *, reported: bool) -> Route:
    return Route(
        name="r",
        base_url="https://example.test/v1",
        wire_format=adapter.WireFormat.CHAT_COMPLETIONS,
        model="m",
        identity=adapter.ExpectedIdentity(),
        price=price,
        output_cap=512,
        charge_reported_cost=reported,
    )


ROUTES = (
    route(FreePrice(), reported=False),
    route(TokenPrices(*PRICES), reported=False),
    route(TokenPrices(*PRICES), reported=True),
)


def is_chargeable(charged: Cost) -> bool:
    """Whether the ledger can charge it; it holds a call whose cost is no amount of money."""
    try:
        return charged.is_known and text_to_nanos_rounded_up(charged.amount_text) >= 0
    except MoneyError:
        return False


def charges(body: bytes) -> list[tuple[Cost, int, int | None]]:
    """For each kind of route that charges this answer: the charge, and the verifier's own sum on the same basis."""
    found = []
    for each in ROUTES:
        charged = cost_of_answer(each, body)
        if is_chargeable(charged):
            basis = cost.CostBasis(charged.basis)
            price = None if isinstance(each.price, FreePrice) else cost.Price(*PRICES)
            again = cost.recomputed_nanos(basis, decoded(body, {}, ANY, 200), price)
            found.append((charged, text_to_nanos_rounded_up(charged.amount_text), again))
    return found


def disagreements(body: bytes, tools: dict[str, Any], expected: Expected) -> list[Any]:
    mine, theirs = both(body, tools, expected)
    found = [(key, mine.get(key), theirs.get(key)) for key in {*mine, *theirs} if mine.get(key) != theirs.get(key)]
    return found + [charge for charge in charges(body) if charge[1] != charge[2]]


def expectation_from(rng: Random) -> Expected:
    return Expected(
        model=rng.choice((*[None] * 9, "m")),
        aliases=frozenset(rng.choice(((), ("m-2",)))),
        provider=rng.choice((*[None] * 9, "P")),
        output_cap=rng.choice((None, None, None, 5, 512)),
        lenient=rng.random() < 0.2,
        seen=frozenset(rng.choice(((), ("seen",)))),
    )


@pytest.fixture(scope="module")
def exchanges(shared_data: Path) -> list[Exchange]:
    with gzip.open(shared_data / "exchanges" / "exchanges.jsonl.gz", "rt", encoding="utf-8") as lines:
        every = [json.loads(line) for line in lines]
    return [recorded(one) for one in every if one["format"] == "chat_completions" and not one["stream"]]


def recorded(line: dict[str, Any]) -> Exchange:
    functions = [tool["function"] for tool in line["request"].get("tools") or [] if "function" in tool]
    tools = {function["name"]: function["parameters"] for function in functions}
    return Exchange(line["id"], line["status"], line["response_body"].encode(), tools)


def test_every_recorded_answer_is_read_alike(exchanges: list[Exchange]) -> None:
    assert len(exchanges) == 236
    for exchange in exchanges:
        mine, theirs = both(exchange.body, exchange.tools, ANY, exchange.status)
        assert (exchange.id, mine) == (exchange.id, theirs)
        assert disagreements(exchange.body, exchange.tools, Expected(output_cap=100, lenient=True)) == []


def test_every_recorded_answer_costs_the_same_on_every_kind_of_route(exchanges: list[Exchange]) -> None:
    bases = set()
    for exchange in exchanges:
        for charged, mine, theirs in charges(exchange.body):
            assert (exchange.id, mine) == (exchange.id, theirs)
            bases.add(charged.basis)
    assert bases == {basis.value for basis in cost.CostBasis}


@pytest.mark.parametrize("seed", SEEDS)
def test_spoilt_answers_are_read_alike(exchanges: list[Exchange], seed: int) -> None:
    rng = Random(seed)
    found = set()
    for number in range(MUTATIONS_PER_SEED):
        exchange, expected = rng.choice(exchanges), expectation_from(rng)
        tools = {**exchange.tools, **ENVIRONMENT_TOOLS}
        body = spoil(exchange.body, rng)
        assert (number, exchange.id, disagreements(body, tools, expected)) == (number, exchange.id, [])
        reading = by_verifier(decoded(body, tools, expected, 200))
        found.add(reading.get("reason", reading["kind"]))
    assert {"Action", "TextFinish"} < found
    assert len(found) > 17, "the changes must reach most of the rules"


def by_adapters_reader(data: bytes) -> tuple[str, Any]:
    try:
        return "read", read_strict(data, adapter.DEFAULT_LIMITS)
    except Inadmissible as fault:
        return fault.reason.value, None


def by_verifiers_reader(data: bytes) -> tuple[str, Any]:
    try:
        return "read", strict.read(data, strict.Limits())
    except verifier.Inadmissible as fault:
        return fault.unknown.reason.value, None


PIECES = st.sampled_from(
    [
        *(
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            '"',
            "\\",
            '\\"',
            '"a":',
            '"a"',
            '"\\u0061":',
            '"\\ud800"',
            '"\\ud83d\\ude00"',
            "null",
        ),
        *(
            "true",
            "0",
            "-",
            "1.5",
            "1e400",
            "1e-400",
            "9" * 4301,
            "NaN",
            " ",
            "\n",
            "\x00",
            "\u00e9",
            "\ufeff",
            "[" * 64,
            "]" * 64,
        ),
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join))
@example('{"a":1,"a":[' + "[" * 63 + "]" * 64 + "}")
@example('["\\\\",' + '{"a":' * 64)
@example('\\"' + "[" * 65)
def test_the_two_strict_readers_read_or_refuse_alike(text: str) -> None:
    data = text.encode()
    assert by_adapters_reader(data) == by_verifiers_reader(data)


NUMBERS = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,3})?", fullmatch=True),
)


@given(NUMBERS)
def test_a_number_has_one_value_and_one_spelling_for_both(text: str) -> None:
    mine, theirs = by_adapters_reader(text.encode()), by_verifiers_reader(text.encode())
    assert (mine[0], repr(mine[1])) == (theirs[0], repr(theirs[1]))
    body = b'{"usage":{"prompt_tokens":7,"completion_tokens":9,"cost":' + text.encode() + b"}}"
    assert [charge for charge in charges(body) if charge[1] != charge[2]] == []
