"""`countersign replay` against stand-ins."""

import json
from pathlib import Path

from tests.countersign.cli.conftest import Command
from tests.countersign.study import test_replaying
from tests.countersign.study.fakes import Fakes

EPISODE = test_replaying.LINE


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
