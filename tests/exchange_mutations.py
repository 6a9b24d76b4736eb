"""Spoiling a recorded answer, a few changes at a time, from a seed: bytes, structure, and what the rules look at.

A body is held as a tree in which an object is a list of members and a number is its spelling, so that repeated keys,
orders and spellings can be made and survive.
"""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any


@dataclass
class Members:
    """An object as it is written."""

    pairs: list[tuple[str, Any]]


@dataclass
class Spelled:
    """A value by its exact text: a number, or something that is no JSON."""

    text: str


Pool = tuple[Any, ...]

ODD_NUMBERS = (
    *("0", "-0", "1", "-1", "1.0", "512", "512.0", "1e2", "0.1", "1e-7", "-0.5", "1E400", "-1e400", "1e-400"),
    *("1e-401", "1e0007", "1e-0007", "1e0000", "9223372036854775807"),
    *("9223372036854775808", "123456789.123456789123456789", "1e00000000000000000300", "0e99", "0.0000000001"),
    *("-0.0", "-0.0000000001"),
    *("1" + "0" * 308, "1" + "0" * 400, "9" * 5000, "0." + "1" * 70, "0." + "0" * 61 + "1", "9" * 5000 + ".5"),
)
NO_JSON = (
    *("NaN", "-Infinity", "01", "1.", ".5", "+1", "tru", "'a'", "{,}", "[1,]", "0x1", "-", "1e", ""),
    *('"\\ud800"', '"\\x"', '"\t"'),
)
ODD_TEXTS = ("", " ", "\u00a0", "\u2003\n", "stop", "error", "I can't.", "null", "\x1f", "\u2028", "\U0001f600", '\\"')
ARGUMENTS = (
    *("", " ", "{}", " {} ", "[]", "null", '"{}"', "{", "{}{}", "\ufeff{}", '{"claim":"saved"}', '{"claim":"won"}'),
    *('{"a":1,"a":2}', '{"claim":NaN}', '{"claim":1e999}', '{"x":"\\ud83d"}', '{"claim":"saved",}', '{"x":1}'),
    *('{"n":-0}', '{"n":1.0}', '{"n":1e2}', '{"n":10583536942961263000}', '{"\\u0063laim":"saved"}', '{"n":0.1e-7}'),
    '{"x":' + "[" * 64 + "]" * 64 + "}",
)
STOPS: Pool = (
    *("stop", "tool_calls", "length", "content_filter", "function_call", "error", "STOP", "end_turn", "eos"),
    *("failed", "cancelled", "completed", "queued"),
    *("in_progress", "incomplete", "tool_use", "max_tokens", "MAX_TOKENS", "SAFETY", "refusal", "pause_turn"),
    *("stop_sequence", "SPII"),
    *("model_context_window_exceeded", "max_output_tokens", "", None, 1, []),
)
CONTENTS: Pool = (
    *(None, "", " \n", "text", 0, False, {}, [], ["x"], [{"type": "text"}], [{"type": "text", "text": " "}]),
    *([{"type": "thinking"}], [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": 1}], [{"text": "x"}]),
    *([{"type": "image_url"}], [None], [{"type": "text", "text": None}], [{"type": "text", "text": "ok"}]),
)
LEGACY: Pool = (None, {}, [], "", "x", 0, False, {"name": ""}, {"name": "x"}, {"arguments": "{}"}, {"arguments": 0})
CITED = {"type": "url_citation"}
ANNOTATIONS: Pool = (None, [], {}, [CITED], [{"type": "file"}, CITED], [1], "x")
COUNTERS: Pool = (
    *(None, 0, 3, [], {}, True, {"tool_calls_executed": 0}, {"tool_calls_executed": 1}, {"web_search_requests": 2}),
    *({"tool_calls_requested": 1}, {"other": 1}, {"other": 0, "tool_calls_executed": None}, {"x": ""}, {"x": False}),
    *({"web_search_requests": "0"}, {"x": 1, "tool_calls_executed": 1}, {"web_search_requests": 0.0}),
)
LISTS_OF_TOOLS: Pool = (None, [], {}, "", 0, False, [{}], ["x"], "python")
FLAGS: Pool = (None, False, True, 0, 1, "", "false", [])
ANYTHING: Pool = (None, True, False, 0, 1, "", "x", [], {}, [None], [{}], {"a": 1}, [[]])

MESSAGE = ("choices", 0, "message")
CALL = (*MESSAGE, "tool_calls", 0)
PLACES: tuple[tuple[tuple[str | int, ...], Pool], ...] = (
    (("error",), ANYTHING),
    (("object",), ("error", "chat.completion", None, 1)),
    (("model",), ("m", "", None, 7, "m-2", [], {}, False)),
    (("provider",), ("P", "", None, "p", 0, [])),
    (("choices",), ANYTHING),
    (("choices", 0, "error"), ANYTHING),
    (("choices", 0, "finish_reason"), STOPS),
    (("choices", 0, "native_finish_reason"), STOPS),
    (MESSAGE, ANYTHING),
    ((*MESSAGE, "role"), ("assistant", "user", "", None, 1)),
    ((*MESSAGE, "content"), CONTENTS),
    ((*MESSAGE, "refusal"), (None, "", " ", "I can't.", False, {}, 0, [])),
    ((*MESSAGE, "tool_calls"), ANYTHING),
    ((*MESSAGE, "function_call"), LEGACY),
    ((*MESSAGE, "executed_tools"), LISTS_OF_TOOLS),
    ((*MESSAGE, "annotations"), ANNOTATIONS),
    (CALL, ANYTHING),
    ((*CALL, "type"), ("function", "", None, "custom", 1)),
    ((*CALL, "id"), ("call_1", "seen", "", None, 1, "\u00e9")),
    ((*CALL, "function"), ANYTHING),
    ((*CALL, "function", "name"), ("wait", "finish", "", None, 1, [], {}, "Wait")),
    ((*CALL, "function", "arguments"), (*ARGUMENTS, None, {}, 1)),
    (("usage",), ANYTHING),
    (("usage", "server_tool_use"), COUNTERS),
    (("usage", "server_tool_use_details"), COUNTERS),
    (("usage", "is_byok"), FLAGS),
    (("usage", "prompt_tokens"), (*FLAGS, 5, "5")),
    (("usage", "completion_tokens"), (*FLAGS, 5, "5")),
    (("usage", "total_tokens"), (*FLAGS, 5)),
    (("usage", "cost"), (*FLAGS, "0.1")),
)
NUMBERS = ("prompt_tokens", "completion_tokens", "total_tokens", "cost", "cached_tokens")


def read_tree(body: bytes) -> Any:
    """The tree of a JSON text."""
    return json.loads(body, object_pairs_hook=Members, parse_int=Spelled, parse_float=Spelled)


def write_tree(tree: Any, rng: Random) -> bytes:
    """The tree's text; now and then a key is written with an escape, or space stands around a value."""
    return _text(tree, rng).encode("utf-8", "surrogatepass")


def _text(tree: Any, rng: Random) -> str:
    if isinstance(tree, Spelled):
        return tree.text
    if isinstance(tree, Members):
        members = (f"{_key(key, rng)}:{_text(value, rng)}" for key, value in tree.pairs)
        return "{" + ",".join(members) + "}"
    if isinstance(tree, dict):
        return _text(Members(list(tree.items())), rng)
    if isinstance(tree, list):
        return "[" + ",".join(_text(item, rng) for item in tree) + "]"
    return json.dumps(tree, ensure_ascii=rng.random() < 0.5)


def _key(key: str, rng: Random) -> str:
    if key and rng.random() < 0.002:
        return f'"\\u{ord(key[0]) & 0xFFFF:04x}{key[1:]}"' if key.isalnum() else json.dumps(key)
    space = " \n" if rng.random() < 0.002 else ""
    return f"{space}{json.dumps(key, ensure_ascii=False)}{space}"


def spoil(body: bytes, rng: Random) -> bytes:
    """`body` with one to three changes."""
    if rng.random() < 0.15:
        return _spoil_bytes(body, rng)
    try:
        tree = read_tree(body)
    except ValueError:
        return _spoil_bytes(body, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        tree = rng.choice(_CHANGES)(tree, rng)
    spoilt = write_tree(tree, rng)
    return _spoil_bytes(spoilt, rng) if rng.random() < 0.02 else spoilt


def _spoil_bytes(body: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(body) + 1)
    end = min(len(body), at + rng.choice((1, 1, 2, 8, 64)))
    kind = rng.randrange(8)
    if kind == 0:
        return body[:at]
    if kind == 1:
        return body[:at] + body[end:]
    if kind == 2:
        return body[:at] + body[at:end] * 2 + body[end:]
    if kind == 3:
        return body[:at] + bytes([rng.randrange(256)]) + body[at + 1 :]
    if kind == 4:
        return body[:at] + bytes([rng.choice(b'"\\{}[],:\x00\xff ')]) + body[at:]
    if kind == 5:
        return rng.choice((b"\xef\xbb\xbf", b" ", b"\n", b"data: ", b"\xff\xfe", b"\x0c")) + body
    if kind == 6:
        deep = rng.choice((60, 63, 64, 65, 70, 199, 201, 1500))
        return body[:at] + b"[" * deep + (b"]" * deep if rng.random() < 0.7 else b"") + body[at:]
    return body + rng.choice((b" ", b"\r\n", b"x", b"{}", b"\x00", body))


def _pick(pool: Pool, rng: Random) -> Any:
    """One of a pool, as a copy: later changes may be made inside it."""
    return deepcopy(rng.choice(pool))


def _set_place(tree: Any, rng: Random) -> Any:
    place, values = rng.choice(PLACES)
    if len(place) == 1 and rng.random() < 0.7:
        place, values = rng.choice(PLACES[4:])
    return _put(tree, place, _odd(rng) if rng.random() < 0.1 else _pick(values, rng))


def _set_number(tree: Any, rng: Random) -> Any:
    return _put(tree, ("usage", rng.choice(NUMBERS)), Spelled(rng.choice(ODD_NUMBERS)))


def _put(tree: Any, place: tuple[str | int, ...], value: Any) -> Any:
    """The tree with `value` at `place`; members that are not there are made, other kinds of holder left alone."""
    if not place:
        return value
    step, rest = place[0], place[1:]
    if isinstance(step, int):
        if not isinstance(tree, list) or not tree:
            return [_put(Members([]), rest, value)] if tree is None or tree == [] else tree
        return [_put(item, rest, value) if index == step else item for index, item in enumerate(tree)]
    if isinstance(tree, dict):
        tree = Members(list(tree.items()))
    if not isinstance(tree, Members):
        return tree
    if step not in [key for key, _ in tree.pairs]:
        empty: Any = [] if rest and isinstance(rest[0], int) else Members([])
        return Members([*tree.pairs, (str(step), _put(empty, rest, value))])
    return Members([(key, _put(item, rest, value) if key == step else item) for key, item in tree.pairs])


def _odd(rng: Random) -> Any:
    kind = rng.randrange(4)
    if kind == 0:
        return Spelled(rng.choice(ODD_NUMBERS))
    if kind == 1:
        return Spelled(rng.choice(NO_JSON))
    if kind == 2:
        return rng.choice(ODD_TEXTS)
    return _pick(ANYTHING, rng)


def change_anywhere(tree: Any, rng: Random) -> Any:
    """Change one member or item somewhere: drop, repeat, rename, replace, nest, move."""
    inside = list(_holders(tree))
    if not inside:
        return _odd(rng)
    holder = rng.choice(inside)
    entries: list[Any] = holder.pairs if isinstance(holder, Members) else holder
    at = rng.randrange(len(entries))
    is_member = isinstance(holder, Members)
    key, value = entries[at] if is_member else ("", entries[at])

    def entry(new_key: str, new_value: Any) -> Any:
        return (new_key, new_value) if is_member else new_value

    kind = rng.randrange(7)
    if kind == 0:
        del entries[at]
    elif kind == 1:
        entries.insert(rng.randrange(len(entries) + 1), entry(key, value if rng.random() < 0.5 else _odd(rng)))
    elif kind == 2:
        entries[at] = entry(rng.choice((key + "x", key.upper(), "", "error", "name", key[:-1])), value)
    elif kind == 3:
        entries[at] = entry(key, _odd(rng))
    elif kind == 4:
        deep = rng.choice((1, 2, 30, 58, 62, 63, 64, 65, 130, 210))
        opening, closing = rng.choice((("[", "]"), ('{"a":', "}")))
        entries[at] = entry(key, Spelled(opening * deep + ("1" if "{" in opening else "") + closing * deep))
    elif kind == 5:
        rng.shuffle(entries)
    else:
        entries[at] = entry(key, [value] if rng.random() < 0.5 else Members([("a", value)]))
    return tree


def _holders(tree: Any) -> Any:
    if isinstance(tree, Members) and tree.pairs:
        yield tree
        for _, value in tree.pairs:
            yield from _holders(value)
    elif isinstance(tree, list) and tree:
        yield tree
        for value in tree:
            yield from _holders(value)


def _add_call(tree: Any, rng: Random) -> Any:
    """One more tool call, or one under another stop."""
    function = {"name": rng.choice(("wait", "finish", "fly")), "arguments": rng.choice(ARGUMENTS)}
    call = {"id": rng.choice(("call_1", "call_2", "seen", "")), "type": "function", "function": function}
    calls = [deepcopy(call) for _ in range(rng.choice((1, 1, 1, 2)))]
    tree = _put(tree, (*MESSAGE, "tool_calls"), calls)
    return _put(tree, ("choices", 0, "finish_reason"), rng.choice(("tool_calls", "tool_calls", "stop")))


def _make_text(tree: Any, rng: Random) -> Any:
    """Prose, or what is almost prose."""
    tree = _put(tree, (*MESSAGE, "tool_calls"), rng.choice((None, [])))
    tree = _put(tree, (*MESSAGE, "content"), _pick(CONTENTS, rng))
    if rng.random() < 0.3:
        tree = _put(tree, (*MESSAGE, "refusal"), rng.choice(ODD_TEXTS))
    return _put(tree, ("choices", 0, "finish_reason"), "stop")


_CHANGES: tuple[Callable[[Any, Random], Any], ...] = (
    *(_set_place, _set_place, _set_place, _set_place),
    *(_set_number, change_anywhere, change_anywhere, _add_call, _make_text),
)
