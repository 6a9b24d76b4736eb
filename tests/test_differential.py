"""Two readers that share no code, one answer: the adapter's admission against the verifier's decoder.

Every recorded answer of every wire format, unary or streamed, and spoilt ones from seeds, get the same verdict, the
same evidence and the same price, and every request is the one that the verifier expects (design/admission.md;
design/architecture.md, I7).

The readers name the same place too, with one exception: of several contradictions in one stream of chat_completions the
verifier names the first event that contradicts an earlier one, and the adapter the earliest that it finds member by
member, which inside a tool call can be a later one.
"""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adapter_svc import admission as adapter
from adapter_svc.admission.strict_json import read_strict
from adapter_svc.admission.verdict import Inadmissible
from adapter_svc.routes import Cost, FreePrice, Route, TokenPrices, Turn, build_request, cost_of_answer
from countersign.kit.canonical import canonical_json, sha256
from countersign.kit.money import MoneyError, text_to_nanos_rounded_up
from countersign.kit.wording import load_wording
from tests.exchange_mutations import spoil
from tests.readers import (
    ANY,
    ENVIRONMENT_TOOLS,
    Exchange,
    Expected,
    admitted,
    both,
    by_verifier,
    decoded,
    disagreements,
    recorded_exchanges,
)
from tests.stream_mutations import change_member, spoil_stream
from verifier_svc.physics.environments import offered_tools
from verifier_svc.receipts import cost, strict
from verifier_svc.receipts import verdicts as verifier
from verifier_svc.receipts.conversations import Exchange as EarlierTurn
from verifier_svc.receipts.conversations import conversation
from verifier_svc.receipts.requests import RequestPlan, request_differences
from verifier_svc.receipts.wire import WireFormat

SEEDS = range(3)
MUTATIONS_PER_SEED = 160
LARGEST_SPOILT = 60_000
"""Bytes: longer recorded answers are compared whole, and not spoilt over and over."""
RECORDED = {
    ("chat_completions", False): 236,
    ("chat_completions", True): 29,
    ("generate_content", False): 218,
    ("generate_content", True): 11,
    ("messages", False): 166,
    ("messages", True): 7,
    ("responses", False): 156,
    ("responses", True): 18,
}
FORMS = sorted(RECORDED)
PRICED: tuple[tuple[tuple[str, ...], bool], ...] = (
    (("0.15", "2.5"), True),
    (("0.15", "2.5", "0.01", "0.2"), False),
)
"""Prices, with a cache's and without, and whether the route charges a cost that is reported."""


def route(wire: str, streamed: bool, price: FreePrice | TokenPrices, *, reported: bool = False) -> Route:
    return Route(
        name="r",
        base_url="https://example.test/v1",
        wire_format=adapter.WireFormat(wire),
        streamed=streamed,
        model="m",
        identity=adapter.ExpectedIdentity(),
        price=price,
        output_cap=512,
        charge_reported_cost=reported,
    )


def nanos(charged: Cost) -> int | None:
    """What the ledger can charge; it holds a call whose cost is no amount of money."""
    try:
        return text_to_nanos_rounded_up(charged.amount_text) if charged.is_known else None
    except MoneyError:
        return None


def charges(exchange: Exchange, body: bytes) -> list[tuple[str, int | None, int | None]]:
    """For each kind of route: the basis and the charge, and the verifier's own sum on the same basis."""
    reading = decoded(exchange, body)
    found: list[tuple[str, int | None, int | None]] = []
    for prices, reported in PRICED:
        priced = route(exchange.wire, exchange.streamed, TokenPrices(*prices), reported=reported)
        charged = cost_of_answer(priced, body)
        basis = cost.CostBasis(charged.basis or _basis(reading, reported))
        found.append((basis, nanos(charged), cost.recomputed_nanos(basis, reading, cost.Price(*prices))))
    free = cost_of_answer(route(exchange.wire, exchange.streamed, FreePrice()), body)
    if nanos(free) is not None:
        basis = cost.CostBasis(free.basis)
        found.append((basis, nanos(free), cost.recomputed_nanos(basis, reading, None)))
    return found


def _basis(reading: verifier.Decoded, reported: bool) -> str:
    """By what a charge that is not known would have been found: where a cost is reported and believed, by that."""
    return "PROVIDER_REPORTED" if reported and _is_billed(reading) else "PRICED_USAGE"


def _is_billed(reading: verifier.Decoded) -> bool:
    return reading.reported_cost is not None


def is_unreadable_bill(exchange: Exchange, body: bytes) -> bool:
    """Whether a cost is there that cannot be read: the adapter charges nothing then where the route charges it."""
    return "cost" in admitted(exchange, body).usage.invalid


def differing_charges(exchange: Exchange, body: bytes) -> list[tuple[str, int | None, int | None]]:
    differing = [charge for charge in charges(exchange, body) if charge[1] != charge[2]]
    if is_unreadable_bill(exchange, body):
        differing = [charge for charge in differing if charge[1] is not None]
    return differing


def agreed(exchange: Exchange, body: bytes, expected: Expected) -> list[Any]:
    """In what the two differ but for the one listed exception."""
    found = disagreements(exchange, body, expected)
    if exchange.streamed and exchange.wire == "chat_completions":
        both_contradict = both(exchange, body, expected)[0].get("reason") == "STREAM_CONTRADICTION"
        found = [one for one in found if not (both_contradict and one[0] == "where")]
    return [*found, *differing_charges(exchange, body)]


def expectation_from(rng: Random, exchange: Exchange) -> Expected:
    return Expected(
        model=rng.choice((*[None] * 9, "m")),
        aliases=frozenset(rng.choice(((), ("m-2",)))),
        provider=rng.choice((*[None] * 9, "P")),
        output_cap=rng.choice((None, None, None, 5, 512)),
        lenient=rng.random() < 0.2,
        seen=rng.choice((frozenset(), frozenset({"seen"}), exchange.seen)),
    )


@pytest.fixture(scope="module")
def exchanges(shared_data: Path) -> tuple[Exchange, ...]:
    return recorded_exchanges(shared_data)


def test_every_recorded_answer_is_read_alike(exchanges: tuple[Exchange, ...]) -> None:
    assert Counter((exchange.wire, exchange.streamed) for exchange in exchanges) == RECORDED
    for exchange in exchanges:
        for expected in (
            ANY,
            Expected(output_cap=exchange.output_cap, seen=exchange.seen),
            Expected(output_cap=100, lenient=True),
            Expected(output_cap=1, provider="P"),
        ):
            assert (exchange.id, disagreements(exchange, exchange.body, expected)) == (exchange.id, [])


def test_every_recorded_answer_costs_the_same_on_every_kind_of_route(exchanges: tuple[Exchange, ...]) -> None:
    bases: Counter[tuple[str, bool]] = Counter()
    for exchange in exchanges:
        assert (exchange.id, differing_charges(exchange, exchange.body)) == (exchange.id, [])
        bases.update((basis, charge is None) for basis, charge, _ in charges(exchange, exchange.body))
    assert {basis for basis, is_unknown in bases if not is_unknown} == {basis.value for basis in cost.CostBasis}
    assert bases["PRICED_USAGE", False] > 1_000


@pytest.mark.parametrize("seed", SEEDS)
def test_spoilt_answers_are_read_alike(exchanges: tuple[Exchange, ...], seed: int) -> None:
    rng = Random(seed)
    found: Counter[tuple[bool, str]] = Counter()
    by_form = {form: [one for one in exchanges if is_spoilt_from(one, form)] for form in FORMS}
    for number in range(MUTATIONS_PER_SEED):
        exchange = rng.choice(by_form[FORMS[number % len(FORMS)]])
        exchange = with_own_tools(exchange)
        expected = expectation_from(rng, exchange)
        body = spoilt(exchange, rng)
        assert (number, exchange.id, agreed(exchange, body, expected)) == (number, exchange.id, [])
        reading = by_verifier(decoded(exchange, body, expected))
        found[exchange.streamed, reading.get("reason", reading["kind"])] += 1
    assert {(False, "Action"), (False, "TextFinish"), (True, "Action"), (True, "TextFinish")} < found.keys()
    assert {(True, "STREAM_INCOMPLETE"), (True, "STREAM_CONTRADICTION"), (True, "PROVIDER_ERROR")} < found.keys()
    assert len({reason for _, reason in found}) > 12, "the changes must reach most of the rules"


def is_spoilt_from(exchange: Exchange, form: tuple[str, bool]) -> bool:
    return (exchange.wire, exchange.streamed) == form and len(exchange.body) <= LARGEST_SPOILT


def with_own_tools(exchange: Exchange) -> Exchange:
    """The exchange with the environments' tools offered too: the changes name them."""
    return replace(exchange, tools={**exchange.tools, **ENVIRONMENT_TOOLS})


def spoilt(exchange: Exchange, rng: Random) -> bytes:
    return spoil_stream(exchange.body, rng, change_member) if exchange.streamed else spoil(exchange.body, rng)


PACKET = canonical_json({"observation": {"tick": 0}, "operator_prefix": []})
CONTINUATIONS = {
    "chat_completions": b'{"role":"assistant", "content":null,"x":[ 1.0 ]}',
    "messages": b'[{"type":"thinking", "signature":"\\u0041"},{"type":"tool_use"}]',
    "responses": b'[{"type":"reasoning","n":1.0, "x":[ ]},{"type":"function_call"}]',
    "generate_content": b'{"parts":[ {"thoughtSignature":"\\u0041"}],"role":"model"}',
}
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"temperature": 0.0, "metadata": {"b": 1, "a": "\u00e9"}},
    {"generationConfig": {"temperature": 1.5}},
)


@pytest.mark.parametrize(("wire", "streamed"), FORMS)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("turns", [0, 1, 2])
@pytest.mark.parametrize("call_id", ["", "call_1"])
def test_the_request_that_is_built_is_the_one_that_is_expected(
    wire: str, streamed: bool, options: dict[str, Any], turns: int, call_id: str
) -> None:
    wording, result = load_wording().document, canonical_json({"observation": {"tick": 1}, "executed": True})
    asked = replace(route(wire, streamed, FreePrice()), request_options=canonical_json(options))
    opaque = CONTINUATIONS[wire]
    went = [Turn(continuation_of(opaque), call_id, result.decode(), "wait")] * turns
    tools = offered_tools("event", wording)
    sent = build_request(asked, wording["system_message"], PACKET, tools, went)
    plan = RequestPlan("m", 512, options=options, wire_format=WireFormat(wire), streamed=streamed)
    earlier = [EarlierTurn(opaque, "wait", call_id, result)] * turns
    said = conversation(WireFormat(wire), wording, "event", PACKET, earlier)
    assert request_differences(sent, plan, said) == []
    assert json.loads(sent) is not None


def continuation_of(opaque: bytes) -> adapter.Continuation:
    return adapter.Continuation(opaque, sha256(opaque))


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


@st.composite
def long_numbers(draw: st.DrawFn) -> str:
    """More digits than a parser takes on, of a number that an exponent may bring back into a double's range."""
    count = draw(st.sampled_from([399, 400, 401, 4299, 4300, 4301, 4302, 9000]))
    digits = draw(st.sampled_from(["9" * count, "1" + "0" * (count - 1), "0" * count]))
    fraction = draw(st.sampled_from(["", ".", ".5", "." + "0" * 4301 + "1", "." + "9" * 4301]))
    exponent = draw(st.sampled_from(["", "e", "e5", "e-5", f"E-{count}", f"e-{count - 308}", f"e-{count + 330}"]))
    before, after = draw(st.sampled_from([("", ""), ("-", ""), ("0", ""), ("--", ""), ("1-", ""), ("[1,", ",2]")]))
    return before + digits + fraction + exponent + after


@given(long_numbers())
@example("9" * 4301 + "e-400")
@example('{"a":[1' + "0" * 4301 + '.5e-4301],"a":1}')
def test_the_two_strict_readers_read_long_numbers_alike(text: str) -> None:
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
    exchange = Exchange("number", "chat_completions", False, 200, body, {}, frozenset(), None)
    assert differing_charges(exchange, body) == []
