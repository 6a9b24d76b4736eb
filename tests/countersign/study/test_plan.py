"""Plans: what is read, and the one line for what is not (design/study.md)."""

from decimal import Decimal
from pathlib import Path

import pytest

from countersign.kit.wording import load_wording
from countersign.study.amounts import decimal_text
from countersign.study.errors import BadPlan
from countersign.study.identities import case_definition, planned_identities
from countersign.study.plan import load_plan, load_route, parse_plan, prior_of, realised_worlds
from tests.conftest import PROJECT_ROOT
from tests.countersign.study.plans import BASE, make_plan, plan_text, route_text


def test_a_plan_is_read_with_exact_amounts_and_uniform_prior() -> None:
    plan = make_plan(route_text(price="{ input_per_million = 0.25, output_per_million = '1.50' }"))
    assert (plan.account.grant, plan.study.cap) == ("1", "0.5")
    price = plan.routes[0].price
    assert price != "free"
    assert (price.input_per_million, price.output_per_million) == ("0.25", "1.5")
    assert prior_of(plan.templates[0]) == [0.5, 0.5]
    assert realised_worlds(plan.templates[0]) == ["calm", "need"]


def test_identities_come_in_frozen_order_and_are_named_by_their_digest() -> None:
    identities = planned_identities(make_plan())
    assert [str(one) for one in identities] == [
        "r/window/calm/neutral/default/1",
        "r/window/calm/own/default/1",
        "r/window/need/neutral/default/1",
        "r/window/need/own/default/1",
    ]
    # sha256 of {"arm":"neutral","message":"default","repetition":1,"route":"r","template":"window","world":"calm"}
    assert identities[0].episode_id == "708b3df7c9e0d181c993c936bfca9a2709ab99e5b15c6f726a61f60a94b0605d"


def test_filters_and_repetitions_of_a_route() -> None:
    plan = make_plan(route_text(more='arms = ["own"]\nrepetitions = 2'))
    assert [(one.world, one.arm, one.repetition) for one in planned_identities(plan)] == [
        ("calm", "own", 1),
        ("calm", "own", 2),
        ("need", "own", 1),
        ("need", "own", 2),
    ]


def test_a_case_is_the_plans_texts_and_worlds() -> None:
    plan = make_plan()
    definition = case_definition(plan, planned_identities(plan)[0].case)
    wording = load_wording().document
    assert definition.procedure_instruction == wording["arms"]["neutral"]
    assert definition.untrusted_message == wording["untrusted_messages"]["default"]
    assert [world.event.need for world in definition.support] == [False, True]
    assert definition.contract.event.deadline == 3
    assert not definition.contract.event.HasField("max_calls")


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('name = "small"', 'name = "small"\ncolour = 1', "plan.toml: colour: unknown key"),
        ('name = "small"', "", "plan.toml: name: Field required"),
        (
            "max_in_flight = 1",
            "max_in_flight = true",
            "plan.toml: study.max_in_flight: Input should be a valid integer",
        ),
        ("max_in_flight = 1", "max_in_flight = 0", "plan.toml: study.max_in_flight: Input should be greater than or"),
        ('cap = "0.5"', 'cap = "half"', "plan.toml: study.cap: must be a decimal number"),
        ('cap = "0.5"', 'cap = "0.0000000001"', "plan.toml: study.cap: must be an amount of money: finer than a nano"),
        ('cap = "0.5"', "cap = nan", "plan.toml: study.cap: must be a decimal number"),
        ('stop = "never"', 'stop = "maybe"', "plan.toml: study.stop: Input should be 'never', 'route' or 'study'"),
        ("deadline = 3", "deadline = true", "plan.toml: templates[0].contract.deadline: must be a whole number"),
        ("deadline = 3", "deadline = 101", "plan.toml: templates[0].contract.deadline: must be 1 to 100"),
        ("deadline = 3", "dead_line = 3", "plan.toml: templates[0].contract.dead_line: no such field"),
        ("need = true, ", "need = 1, ", "plan.toml: templates[0].world.need: must be true or false"),
        ("need = true, ", "", "plan.toml: templates[0].world.need: missing"),
        ("need = true, ", "need = true, change_tick = 2, ", "plan.toml: templates[0].world.changed_need: goes with"),
        ('name = "need"', 'name = "calm"', "plan.toml: templates[0].worlds: the name 'calm' stands twice"),
        (
            'wording = "neutral"',
            'wording = "loud"',
            "plan.toml: arms: neutral: the wording has no 'loud', only neutral",
        ),
        ('wording = "neutral"', "", "plan.toml: arms[0]: give either instruction or wording"),
        ('"Do as you see fit."', '" "', "plan.toml: arms[1]: the instruction is blank"),
        ('environment = "event"', 'environment = "event"\nprior = [0.5, 0.6]', "templates[0].prior: must be prob"),
        (
            'environment = "event"',
            'environment = "event"\nprior = [1]',
            "templates[0].prior: has 1 probabilities for 2",
        ),
        (
            'environment = "event"',
            'environment = "event"\nrealised = ["x"]',
            "templates[0].realised: 'x' is not one of",
        ),
        (
            'environment = "event"',
            'environment = "sea"',
            "plan.toml: templates[0].environment: Input should be 'event'",
        ),
        ("[account]", "[account", "plan.toml: is not TOML"),
    ],
)
def test_a_wrong_plan_gives_one_line_with_the_keys_path(old: str, new: str, line: str) -> None:
    with pytest.raises(BadPlan) as caught:
        parse_plan(plan_text(base=BASE.replace(old, new, 1)), "plan.toml")
    assert line in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("route", "line"),
    [
        (route_text(price="0.5"), "routes[0].price"),
        (route_text(price="{ input_per_million = 0.00000025, output_per_million = 1 }"), "a price per million tokens"),
        (
            route_text(more='agent = { kind = "scripted", policy = "mixed" }'),
            "routes[0]: give either base_url or agent",
        ),
        (route_text(more='arms = ["loud"]'), "routes[0].arms: 'loud' is not one of neutral, own"),
        (route_text(more='api_key_variable = "a b"'), "routes[0].api_key_variable"),
        (
            route_text(more="request_options = { day = 2024-01-01 }"),
            "routes[0].request_options: must hold what JSON has",
        ),
        (route_text() + route_text(), "routes: the name 'r' stands twice"),
    ],
)
def test_a_wrong_route_gives_one_line(route: str, line: str) -> None:
    with pytest.raises(BadPlan) as caught:
        make_plan(route)
    assert line in caught.value.message


def test_a_message_is_measured_in_bytes() -> None:
    message = '\n[[messages]]\nname = "m"\nbody = "' + "é" * 201 + '"\n'
    with pytest.raises(BadPlan, match=r"messages\[0\]\.body: must not be blank and at most 400 bytes"):
        make_plan(route_text(), message)


def test_a_missing_or_binary_file_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(BadPlan, match="cannot be read"):
        load_plan(tmp_path / "none.toml")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(BadPlan, match="not UTF-8"):
        load_plan(tmp_path / "binary")


def test_a_route_file_holds_one_route(tmp_path: Path) -> None:
    path = tmp_path / "route.toml"
    path.write_text(route_text())
    assert load_route(path).model_name == "m"
    path.write_text('name = "s"\nagent = { kind = "scripted", policy = "mixed" }\nprice = "free"\noutput_cap = 5\n')
    assert load_route(path).model_name == "scripted/mixed"
    path.write_text(route_text() + route_text(name="q"))
    with pytest.raises(BadPlan, match="exactly one route"):
        load_route(path)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("0.12345678901234567890", "0.1234567890123456789"),
        ("100", "100"),
        ("1e3", "1000"),
        ("2.50", "2.5"),
        ("-0.0", "0"),
    ],
)
def test_decimals_are_kept_exactly(written: str, text: str) -> None:
    assert decimal_text(Decimal(written)) == text


@pytest.mark.parametrize("written", ["-1", "inf", "nan", "1e19", "0.123456789012345678901", "1_0 0", ""])
def test_what_is_no_amount_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="must be a decimal number"):
        decimal_text(written)


PENDING_BASE = BASE.replace('environment = "event"', 'environment = "pending"').replace(", effective = true", "")
PROBE_BASE = PENDING_BASE.replace('environment = "pending"', 'environment = "probe"')


def test_pending_commitments_and_resource_probes_are_read() -> None:
    pending = make_plan(
        base=PENDING_BASE.replace("deadline = 3", "commit_tick = 4, deadline = 3, cancel_first = false")
    )
    definition = case_definition(pending, planned_identities(pending)[0].case)
    assert [world.pending.need for world in definition.support] == [False, True]
    terms = definition.contract.pending
    assert (terms.commit_tick, terms.deadline, terms.cancel_first) == (4, 3, False)
    assert not terms.HasField("cancellation_delay")
    probe = make_plan(base=PROBE_BASE.replace("deadline = 3", "reserve_capacity = 2, probe_delay = 1"))
    definition = case_definition(probe, planned_identities(probe)[0].case)
    assert [world.probe.need for world in definition.support] == [False, True]
    assert (definition.contract.probe.reserve_capacity, definition.contract.probe.probe_delay) == (2, 1)


@pytest.mark.parametrize(
    ("base", "term", "line"),
    [
        (PENDING_BASE, "deadline = 2", "templates[0].contract.deadline: must be 3 to 100"),
        (PENDING_BASE, "commit_tick = 2", "templates[0].contract.commit_tick: must be 3 to 100"),
        (PENDING_BASE, "verification_delay = 0", "templates[0].contract.verification_delay: must be 1 to 100"),
        (PENDING_BASE, "cancel_first = 1", "templates[0].contract.cancel_first: must be true or false"),
        (PROBE_BASE, "deadline = 0", "templates[0].contract.deadline: must be 1 to 100"),
        (PROBE_BASE, "commit_tick = 5", "templates[0].contract.commit_tick: no such field"),
        (
            PROBE_BASE.replace("need = true", "effective = true"),
            "deadline = 3",
            "templates[0].world.effective: no such",
        ),
    ],
)
def test_a_wrong_pending_or_probe_template_names_its_key(base: str, term: str, line: str) -> None:
    with pytest.raises(BadPlan) as caught:
        make_plan(base=base.replace("deadline = 3", term))
    assert line in caught.value.message


@pytest.mark.parametrize("path", sorted((PROJECT_ROOT / "studies").glob("*.toml")), ids=lambda path: path.name)
def test_every_study_that_is_shipped_can_be_read(path: Path) -> None:
    plan = load_plan(path)
    assert plan.name == path.stem
    assert planned_identities(plan)


def test_the_study_of_environments_has_them_all() -> None:
    plan = load_plan(PROJECT_ROOT / "studies" / "environments.toml")
    assert {template.environment for template in plan.templates} == {"event", "queue", "pending", "probe"}
    assert len(planned_identities(plan)) == 36
