"""JSON as ECMAScript writes it."""

import json
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter_svc.native.ecma_json import stringify

NUMBERS = [
    (0, "0"),
    (-0.0, "0"),
    (1, "1"),
    (1.0, "1"),
    (-1.5, "-1.5"),
    (100, "100"),
    (0.1, "0.1"),
    (123456.789, "123456.789"),
    (1e20, "100000000000000000000"),
    (1e21, "1e+21"),
    (1.5e21, "1.5e+21"),
    (123456789012345680000.0, "123456789012345680000"),
    (1e-6, "0.000001"),
    (1e-7, "1e-7"),
    (-1.25e-9, "-1.25e-9"),
    (5e-324, "5e-324"),
    (1.7976931348623157e308, "1.7976931348623157e+308"),
    (9007199254740993, "9007199254740992"),
]


@pytest.mark.parametrize(("value", "spelled"), NUMBERS)
def test_numbers_have_one_spelling(value: float, spelled: str) -> None:
    assert stringify(value) == spelled


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_reads_back_to_itself(value: float) -> None:
    assert float(json.loads(stringify(value))) == value


def test_texts_and_shapes() -> None:
    value = {"b": [None, True, False, {}], "a": '"\\/\b\f\n\r\t\x01\x7f\u2028é😀'}
    assert stringify(value) == '{"b":[null,true,false,{}],"a":"\\"\\\\/\\b\\f\\n\\r\\t\\u0001\x7f\u2028é😀"}'


def test_the_table_is_what_node_writes() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    values = json.dumps([value for value, _ in NUMBERS])
    program = f"process.stdout.write(JSON.stringify({values}.map((value) => JSON.stringify(value))))"
    answer = subprocess.run([node, "-e", program], capture_output=True, check=True, timeout=60)
    assert json.loads(answer.stdout) == [spelled for _, spelled in NUMBERS]
