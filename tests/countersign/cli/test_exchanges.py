"""`countersign adapt` and `countersign replay` against stand-ins."""

import gzip
import json
from pathlib import Path

from countersign.adapter.v1 import adapter_pb2 as adapter
from tests.countersign.cli.conftest import Command
from tests.countersign.study import test_adapting, test_replaying
from tests.countersign.study.fakes import Fakes

EXCHANGE, EPISODE = test_adapting.LINE, test_replaying.LINE


def test_each_exchange_is_answered_in_a_line(command: Command, fakes: Fakes, tmp_path: Path) -> None:
    fakes.adapter.adapt_answer = adapter.AdaptResponse(text_finish=adapter.AdmittedText(text="t"))
    path = tmp_path / "x.gz"
    lines = [EXCHANGE, {**EXCHANGE, "id": "x2", "format": "messages"}]
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    answer = command("adapt", path, "--adapter", fakes.addresses.adapter)
    assert answer.status == 0
    assert [(line["id"], line["verdict"]) for line in answer.lines()] == [("x1", "text_finish"), ("x2", "unsupported")]
    assert answer.err == "countersign: 0 action, 1 text_finish, 0 technical_unknown, 1 unsupported\n"


def test_a_route_file_is_used(command: Command, fakes: Fakes, tmp_path: Path) -> None:
    path, route = tmp_path / "x", tmp_path / "route.toml"
    path.write_text(json.dumps(EXCHANGE))
    route.write_text('name = "r"\nbase_url = "http://h/v1"\nmodel = "gpt"\nprice = "free"\noutput_cap = 7\n')
    command("adapt", path, "--adapter", fakes.addresses.adapter, "--route", route)
    assert (fakes.adapter.adapted[0].identity.model, fakes.adapter.adapted[0].output_cap) == ("gpt", 7)
    route.write_text("name = 1")
    answer = command("adapt", path, "--adapter", fakes.addresses.adapter, "--route", route)
    assert (answer.status, answer.out) == (2, "")


def test_a_bad_line_comes_after_the_answers_before_it(command: Command, fakes: Fakes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(json.dumps(EXCHANGE) + '\n{"id": "x2"}\n')
    answer = command("adapt", path, "--adapter", fakes.addresses.adapter)
    assert (answer.status, len(answer.lines())) == (2, 1)
    assert answer.err == f"countersign: {path} line 2: format: must be a text\n"


def test_episodes_are_replayed_and_compared(command: Command, fakes: Fakes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    probe = {**EPISODE, "id": "e2", "environment": "probe", "world": {"need": True}, "contract": {}}
    path.write_text("\n".join(map(json.dumps, [EPISODE, probe])))
    where = ("--adapter", fakes.addresses.adapter, "--verifier", fakes.addresses.verifier)
    answer = command("replay", path, *where)
    assert (answer.status, [line["agrees"] for line in answer.lines()]) == (0, [True, None])
    assert answer.err == "countersign: 1 agree, 0 differ, 1 of unsupported environments\n"
    path.write_text(json.dumps({**EPISODE, "outcome": {**EPISODE["outcome"], "decision_tick": 2}}))
    assert command("replay", path, *where).status == 1


def test_a_missing_file_or_adapter_is_said_so(command: Command, fakes: Fakes, tmp_path: Path) -> None:
    assert command("adapt", tmp_path / "none", "--adapter", fakes.addresses.adapter).status == 2
    path = tmp_path / "x"
    path.write_text(json.dumps(EXCHANGE))
    assert command("adapt", path, "--adapter", f"unix:{tmp_path}/none").status == 2
    assert command("adapt", path, "--adapter", "nowhere").status == 2
