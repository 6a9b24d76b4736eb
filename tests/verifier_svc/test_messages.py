"""Messages of the contract as the verifier's own facts."""

import pytest

from countersign.adapter.v1 import adapter_pb2 as adapter
from countersign.environment.v1 import environment_pb2 as env
from tests.verifier_svc.wire import DEFINITION, a_route
from verifier_svc import messages
from verifier_svc.packets.build import DEFAULT_LOSS_WEIGHTS
from verifier_svc.physics.trace import Difference
from verifier_svc.receipts.cost import Price
from verifier_svc.receipts.verdicts import Allowance
from verifier_svc.receipts.wire import WireFormat


def test_a_value_of_the_shown_length_is_not_cut() -> None:
    for length, cut in ((messages.SHOWN_CHARACTERS, False), (messages.SHOWN_CHARACTERS + 1, True)):
        written = messages.write_difference(Difference(1, "f", "e" * length, "a"))
        assert (written.expected != "e" * length) is cut


def test_a_case_has_the_designs_weights_and_one_spelling_of_zero() -> None:
    definition = env.CaseDefinition()
    definition.CopyFrom(DEFINITION)
    definition.loss_weights.operation_cost = -0.0
    definition.prior[:] = [-0.0, 1.0]
    case = messages.case_of(definition)
    assert str(case.loss_weights) == str({**DEFAULT_LOSS_WEIGHTS, "operation_cost": 0.0})
    assert str(case.prior) == "[0.0, 1.0]"


def test_a_bare_route_takes_the_contracts_defaults() -> None:
    facts = messages.route_of(a_route(free=adapter.FreePrice(), output_cap=5, request_options_json="", model="m"))
    assert (facts.request.output_cap_member, facts.request.options) == ("max_tokens", {})
    assert (facts.expectation.model, facts.expectation.provider_name) == ("m", None)
    assert (facts.input_limit_bytes, facts.price, facts.charges_reported_cost) == (20_000, None, False)


def test_every_field_of_a_route_is_read() -> None:
    facts = messages.route_of(
        a_route(
            identity=adapter.ExpectedIdentity(model="served", aliases=["a"], provider_name="P"),
            input_limit_bytes=7,
            charge_reported_cost=True,
            allowances=[adapter.DIALECT_ALLOWANCE_TOOL_CALLS_WITH_STOP],
            output_cap_member="max_completion_tokens",
        )
    )
    assert (facts.request.model, facts.request.output_cap) == ("m-1", 512)
    assert (facts.request.output_cap_member, facts.request.options) == ("max_completion_tokens", {"temperature": 0})
    assert (facts.expectation.model, facts.expectation.model_aliases) == ("served", frozenset({"a"}))
    assert (facts.expectation.provider_name, facts.expectation.output_cap) == ("P", 512)
    assert facts.expectation.allowances == frozenset({Allowance.TOOL_CALLS_WITH_STOP})
    assert (facts.input_limit_bytes, facts.price, facts.charges_reported_cost) == (7, Price("1", "2"), True)


@pytest.mark.parametrize("wire_format", list(WireFormat))
@pytest.mark.parametrize("streamed", [False, True])
def test_the_form_of_the_answers_is_the_routes(wire_format: WireFormat, streamed: bool) -> None:
    number = adapter.WireFormat.Value(f"WIRE_FORMAT_{wire_format.name}")
    plan = messages.route_of(a_route(wire_format=number, streamed=streamed)).request
    assert (plan.wire_format, plan.streamed) == (wire_format, streamed)


def test_prices_of_a_cache_are_read() -> None:
    prices = adapter.TokenPrices(
        input_per_million="1",
        output_per_million="2",
        cached_input_per_million="0.1",
        cache_write_per_million="1.25",
    )
    assert messages.route_of(a_route(tokens=prices)).price == Price("1", "2", "0.1", "1.25")
