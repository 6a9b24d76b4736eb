"""Reading configurations of comparators: every one has its place, and what is wrong with it its line."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from countersign.environment.v1 import environment_pb2 as env
from countersign.study.errors import BadInput
from countersign.study.solving import Configuration, read_configurations

GOOD: dict[str, Any] = {
    "id": "one",
    "environment": "probe",
    "contract": {"deadline": 2},
    "worlds": [{"need": False}, {"need": True}],
    "prior": [0.5, 0.5],
}


def written(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "file"
    path.write_bytes(content)
    return path


def lines(*items: Any) -> bytes:
    return "\n".join(map(json.dumps, items)).encode()


def test_a_configuration_is_read_whole(tmp_path: Path) -> None:
    whole = {**GOOD, "weights": {"primary_loss": 2}, "operator_prefix": ["wait"], "expected_loss": 1}
    (one,) = read_configurations(written(tmp_path, lines(whole)))
    assert isinstance(one, Configuration)
    assert (one.id, one.where) == ("one", f"{tmp_path}/file line 1")
    assert one.definition == env.CaseDefinition(
        contract=env.Contract(probe=env.ProbeContract(deadline=2)),
        support=[env.World(probe=env.ProbeWorld(need=need)) for need in (False, True)],
        prior=[0.5, 0.5],
        loss_weights=env.LossWeights(primary_loss=2.0),
        operator_prefix=["wait"],
    )


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("listed", [False, True])
def test_a_list_and_lines_plain_and_gzip_are_the_same(tmp_path: Path, listed: bool, zipped: bool) -> None:
    items = [GOOD, {**GOOD, "id": "two"}]
    content = b"\n " + json.dumps(items, indent=1).encode() if listed else lines(*items) + b"\n\n"
    found = read_configurations(written(tmp_path, gzip.compress(content) if zipped else content))
    assert [one.id for one in found if isinstance(one, Configuration)] == ["one", "two"]
    plain = read_configurations(written(tmp_path, lines(*items)))
    assert [getattr(one, "definition", None) for one in found] == [getattr(one, "definition", None) for one in plain]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": 7}, "id: must be a text"),
        ({"environment": "chess"}, "environment: must be one of event, queue, pending, probe"),
        ({"contract": {"deadline": 0}}, "contract.deadline: must be 1 to 100"),
        ({"worlds": {}}, "worlds: must be a list"),
        ({"worlds": [1]}, "worlds: must be an object"),
        ({"worlds": [{}]}, "world.need: missing"),
        ({"prior": 1}, "prior: must be a list"),
        ({"prior": ["1", 0]}, "prior: each share must be a number from 0 to 1"),
        ({"prior": [True, False]}, "prior: each share must be a number from 0 to 1"),
        ({"prior": [1.5, -0.5]}, "prior: each share must be a number from 0 to 1"),
        ({"weights": []}, "weights: must be an object"),
        ({"weights": {"style": 1}}, "loss_weights.style: no such field"),
        ({"operator_prefix": "wait"}, "operator_prefix: must be a list of tool names"),
        ({"operator_prefix": [1]}, "operator_prefix: must be a list of tool names"),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_the_others_are_read(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    bad, good = read_configurations(written(tmp_path, lines({**GOOD, **changes}, GOOD)))
    assert isinstance(bad, BadInput)
    assert bad.message.startswith(f"{tmp_path}/file line 1: {message}")
    assert isinstance(good, Configuration)


def test_lines_that_are_no_json_or_no_object_have_their_place(tmp_path: Path) -> None:
    found = read_configurations(written(tmp_path, b'{"id":\n3\n{"id": NaN}\n\n' + lines(GOOD)))
    assert [str(one) for one in found if isinstance(one, BadInput)] == [
        f"{tmp_path}/file line 1: is not JSON",
        f"{tmp_path}/file line 2: is not a JSON object",
        f"{tmp_path}/file line 3: is not JSON",
    ]
    assert isinstance(found[3], Configuration)
    (item,) = read_configurations(written(tmp_path, b"[3]"))
    assert str(item) == f"{tmp_path}/file item 1: is not a JSON object"


@pytest.mark.parametrize("content", [b"[1,", gzip.compress(b"{}")[:-4], gzip.compress(b"{}" * 50)[:20]])
def test_a_file_that_cannot_be_read_is_refused_whole(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(BadInput):
        read_configurations(written(tmp_path, content))
