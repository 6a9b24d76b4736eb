"""`countersign adapt` against a stand-in."""

import gzip
import json
from pathlib import Path

import pytest

from countersign.adapter.v1 import adapter_pb2 as adapter
from tests.countersign.cli.conftest import Command
from tests.countersign.study import test_adapting
from tests.countersign.study.fakes import Fakes

EXCHANGE = test_adapting.LINE
ROUTE = 'name = "r"\nbase_url = "http://h/v1"\nmodel = "gpt"\nprice = "free"\noutput_cap = 7\n'


def test_each_exchange_is_answered_in_a_line(command: Command, fakes: Fakes, tmp_path: Path) -> None:
    fakes.adapter.adapt_answer = adapter.AdaptResponse(text_finish=adapter.AdmittedText(text="t"))
    path = tmp_path / "x.gz"
    lines = [EXCHANGE, {**EXCHANGE, "id": "x2", "format": "messages"}]
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    answer = command("adapt", path, "--adapter", fakes.addresses.adapter, "--json")
    assert answer.status == 0
    assert [(line["id"], line["verdict"]) for line in answer.lines()] == [("x1", "text_finish"), ("x2", "unsupported")]
    assert answer.err == "countersign: 0 action, 1 text_finish, 0 technical_unknown, 1 unsupported\n"


def test_a_table_says_what_came_of_them(command: Command, fakes: Fakes, tmp_path: Path) -> None:
    unknown = adapter.TechnicalUnknown(reason=adapter.UNKNOWN_REASON_TRUNCATED, where="/x")
    fakes.adapter.adapt_answer = adapter.AdaptResponse(technical_unknown=unknown)
    lines = [EXCHANGE, EXCHANGE, {**EXCHANGE, "stream": True}, {**EXCHANGE, "format": "responses"}]
    path = tmp_path / "x"
    path.write_text("\n".join(map(json.dumps, lines)))
    answer = command("adapt", path, "--adapter", fakes.addresses.adapter)
    assert len(answer.lines()) == 4
    rows = [line.split() for line in answer.err.splitlines() if line.strip()]
    assert rows[0] == ["format", "form", "verdict", "reason", "exchanges"]
    assert rows[2:] == [
        ["chat_completions", "stream", "unsupported", "UNSUPPORTED_WIRE_FORMAT", "1"],
        ["chat_completions", "unary", "technical_unknown", "TRUNCATED", "2"],
        ["responses", "unary", "unsupported", "UNSUPPORTED_WIRE_FORMAT", "1"],
        ["countersign:", "0", "action,", "0", "text_finish,", "2", "technical_unknown,", "2", "unsupported"],
    ]


def test_many_are_asked_at_once_and_answered_in_the_files_order(command: Command, fakes: Fakes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("".join(json.dumps({**EXCHANGE, "id": f"x{number}"}) + "\n" for number in range(200)))
    answer = command("adapt", path, "--adapter", fakes.addresses.adapter, "--json")
    assert [line["id"] for line in answer.lines()] == [f"x{number}" for number in range(200)]
    assert len(fakes.adapter.adapted) == 200


def test_a_route_file_is_used(command: Command, fakes: Fakes, tmp_path: Path) -> None:
    path, route = tmp_path / "x", tmp_path / "route.toml"
    path.write_text(json.dumps(EXCHANGE))
    route.write_text(ROUTE + 'aliases = ["gpt-2"]\nprovider_name = "P"\nallowances = ["tool_calls_with_stop"]\n')
    assert command("adapt", path, "--adapter", fakes.addresses.adapter, "--route", route).status == 0
    (asked,) = fakes.adapter.adapted
    assert asked.identity == adapter.ExpectedIdentity(model="gpt", aliases=["gpt-2"], provider_name="P")
    assert (asked.output_cap, list(asked.allowances)) == (7, [adapter.DIALECT_ALLOWANCE_TOOL_CALLS_WITH_STOP])
    route.write_text("name = 1")
    answer = command("adapt", path, "--adapter", fakes.addresses.adapter, "--route", route)
    assert (answer.status, answer.out) == (2, "")


@pytest.mark.parametrize(("options", "expected"), [((), ""), (("--requested-model",), "m")])
def test_any_model_is_expected_or_the_one_asked_for(
    command: Command, fakes: Fakes, tmp_path: Path, options: tuple[str, ...], expected: str
) -> None:
    path, route = tmp_path / "x", tmp_path / "route.toml"
    path.write_text(json.dumps(EXCHANGE))
    route.write_text(ROUTE)
    assert command("adapt", path, "--adapter", fakes.addresses.adapter, *options).status == 0
    assert fakes.adapter.adapted[0].identity.model == expected
    both = command("adapt", path, "--adapter", fakes.addresses.adapter, "--requested-model", "--route", route)
    assert (both.status, both.out) == (2, "")
    assert "--route or --requested-model" in both.err


@pytest.mark.parametrize("before", [1, 100])
def test_a_bad_line_comes_after_the_answers_before_it(
    command: Command, fakes: Fakes, tmp_path: Path, before: int
) -> None:
    path = tmp_path / "x"
    path.write_text((json.dumps(EXCHANGE) + "\n") * before + '{"id": "x2"}\n' + (json.dumps(EXCHANGE) + "\n") * 9)
    answer = command("adapt", path, "--adapter", fakes.addresses.adapter)
    assert (answer.status, len(answer.lines())) == (2, before)
    assert answer.err == f"countersign: {path} line {before + 1}: format: must be a text\n"


def test_a_missing_file_or_adapter_is_said_so(command: Command, fakes: Fakes, tmp_path: Path) -> None:
    assert command("adapt", tmp_path / "none", "--adapter", fakes.addresses.adapter).status == 2
    path = tmp_path / "x"
    path.write_text(json.dumps(EXCHANGE))
    assert command("adapt", path, "--adapter", f"unix:{tmp_path}/none").status == 2
    assert command("adapt", path, "--adapter", "nowhere").status == 2
