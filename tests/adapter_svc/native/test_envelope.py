"""The terminal envelope: recovered from the last line alone, or not at all."""

import hashlib
import json
from typing import Any

import pytest

from adapter_svc.native import Code, Completion, Failure, Harness, Opening, OutputContract, ProcessEnd
from countersign.images import shipped_image
from countersign.kit.canonical import canonical_json
from tests.adapter_svc.native.helpers import Verdict, code_of, judge, lines
from tests.countersign.kit.image_bundles import resealed

ARGV = ("prose", "run", "p.md")
GOOD = {"schema": "countersign.echo-envelope/1", "semanticStatus": "semantic-succeeded", "task": {"argv": list(ARGV)}}
ECHO = shipped_image("echo")


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def judged(*texts: str, image: dict[str, bytes] = ECHO, end: ProcessEnd = ProcessEnd(0), ok: bool = True) -> Verdict:  # noqa: B008
    final = {"type": "final", "status": "success" if ok else "error"}
    records = [{"type": "start"}, *({"type": "text", "text": text} for text in texts), final]
    opening = Opening(Harness.MOCK, OutputContract.IMAGE_ENVELOPE, argv=ARGV, image=image)
    return judge(opening, lines(records), end)


@pytest.mark.parametrize(
    ("texts", "rest"),
    [
        ((compact(GOOD),), ""),
        (("hello", compact(GOOD)), "hello"),
        ((f"a\n\n{compact(GOOD)}",), "a\n"),
        ((f"a\n{compact(GOOD)}\n \n\t\n",), "a"),
        ((compact(GOOD), compact(GOOD)), compact(GOOD)),
    ],
)
def test_the_last_line_is_the_envelope_and_is_not_printed(texts: tuple[str, ...], rest: str) -> None:
    found = judged(*texts)
    assert isinstance(found, Completion)
    canonical = canonical_json(GOOD)
    assert (found.assistant_text, found.semantic_status) == (rest, "semantic-succeeded")
    assert (found.envelope, found.envelope_digest) == (canonical, hashlib.sha256(canonical).digest())


@pytest.mark.parametrize(
    "last",
    [
        "",
        "done",
        "```",
        f"```json\n{compact(GOOD)}\n```",
        f" {compact(GOOD)}",
        f"{compact(GOOD)} ",
        f"{compact(GOOD)}\r",
        f"{compact(GOOD)}\nbye",
        json.dumps(GOOD),
        compact([GOOD]),
        compact(GOOD).replace("/1", "\\/1"),
        compact(GOOD).replace("echo", "\\u0065cho"),
        compact(GOOD)[:-1] + ',"note":1.0}',
        compact(GOOD)[:-1] + ',"note":1e2}',
        compact(GOOD)[:-1] + ',"note":-0}',
        compact(GOOD)[:-1] + ',"schema":"countersign.echo-envelope/1"}',
        compact({**GOOD, "more": 1}),
        compact({**GOOD, "semanticStatus": "great"}),
        compact({**GOOD, "schema": "countersign.echo-envelope/2"}),
        compact({**GOOD, "task": {"argv": ["prose", "run"]}}),
        compact({**GOOD, "task": {"argv": []}}),
        compact({**GOOD, "task": {}}),
        compact({key: value for key, value in GOOD.items() if key != "task"}),
    ],
)
def test_anything_else_is_malformed(last: str) -> None:
    found = judged("text", last)
    assert isinstance(found, Failure)
    assert found.code is Code.PROTOCOL_MALFORMED
    assert found.facts.terminal_record == 4


def test_a_number_in_its_one_spelling_is_fine() -> None:
    assert code_of(judged(compact({**GOOD, "note": 1}))) == "complete"
    assert code_of(judged(compact({**GOOD, "note": 0.5}))) == "complete"


def test_what_the_envelope_says_is_told() -> None:
    failed = judged(compact({**GOOD, "semanticStatus": "semantic-failed"}))
    assert isinstance(failed, Completion)
    assert failed.semantic_status == "semantic-failed"
    assert code_of(judged(compact({**GOOD, "semanticStatus": "unknown"}))) == "SEMANTIC_STATUS_UNKNOWN"


def test_the_harness_comes_first() -> None:
    assert code_of(judged(compact(GOOD), ok=False)) == "HARNESS_FAILED"
    assert code_of(judged("no envelope", end=ProcessEnd(1))) == "HARNESS_FAILED"
    assert code_of(judged("no envelope", end=ProcessEnd(0, survivors=1))) == "PROCESS_CLEANUP_FAILED"


def test_under_the_native_contract_nothing_is_stripped() -> None:
    records = [{"type": "start"}, {"type": "text", "text": compact(GOOD)}, {"type": "final", "status": "success"}]
    for image in ({}, ECHO):
        found = judge(Opening(Harness.MOCK, image=image), lines(records))
        assert isinstance(found, Completion)
        assert (found.assistant_text, found.semantic_status) == (compact(GOOD), "not-applicable")
        assert (found.envelope, found.envelope_digest) == (b"", b"")
        assert len(found.facts.image_digest) == (32 if image else 0)


def with_schema(schema: bytes) -> dict[str, bytes]:
    return resealed({**ECHO, "contracts/terminal.schema.json": schema})


@pytest.mark.parametrize(
    "schema",
    [
        b"{",
        b"[]",
        b"7",
        b'{"type":"nothing"}',
        b'{"$ref":"https://example.org/x"}',
        b'{"$ref":"#/$defs/absent"}',
        b'{"properties":{"task":{"$ref":"#/$defs/absent"}}}',
        b'{"properties":{"schema":{"pattern":"("}}}',
    ],
)
def test_an_unusable_schema_is_the_image_s_fault(schema: bytes) -> None:
    assert code_of(judged(compact(GOOD), image=with_schema(schema))) == "IMAGE_INVALID"


@pytest.mark.parametrize(
    ("schema", "required"),
    [
        ({"required": ["task"], "properties": {"task": {"required": ["argv"]}}}, True),
        (
            {
                "required": ["task"],
                "properties": {"task": {"$ref": "#/$defs/t"}},
                "$defs": {"t": {"$ref": "#/$defs/u"}, "u": {"required": ["argv"]}},
            },
            True,
        ),
        ({"required": ["task"], "properties": {"task": {"$ref": "#/properties/task"}}}, None),
        ({"required": ["task"], "properties": {"task": {}}}, False),
        ({"properties": {"task": {"required": ["argv"]}}}, False),
        ({}, False),
    ],
)
def test_the_argv_is_compared_where_the_schema_requires_it(schema: dict[str, Any], required: bool | None) -> None:
    other = compact({**GOOD, "task": {"argv": ["other"]}})
    expected = "IMAGE_INVALID" if required is None else "PROTOCOL_MALFORMED" if required else "complete"
    assert code_of(judged(other, image=with_schema(canonical_json(schema)))) == expected


def test_an_image_is_needed_and_must_be_good() -> None:
    assert code_of(judged(compact(GOOD), image={})) == "IMAGE_INVALID"
    assert code_of(judged(compact(GOOD), image={**ECHO, "more.md": b""})) == "IMAGE_INVALID"
    assert code_of(judged(compact(GOOD), image={**ECHO, "x": bytes(5 * 1024 * 1024)})) == "IMAGE_TOO_LARGE"
