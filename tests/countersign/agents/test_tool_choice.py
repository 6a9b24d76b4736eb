"""The front's translation: what the model is asked, and how its choice is written down."""

import json
from typing import Any

import jsonschema
import pytest

from countersign.agents.chat import call_id, read_chat_request
from countersign.agents.errors import BadChatRequestError, ChoiceNotHonouredError
from countersign.agents.tool_choice import answer_body, choice_schema, constrained_body, offered_tools
from tests.countersign.agents.conversations import EVENT_TOOLS, chat, played, tool

USAGE = {"prompt_tokens": 100, "completion_tokens": 9, "total_tokens": 109}


def upstream(content: str, reason: str = "stop") -> dict[str, Any]:
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {"id": "chatcmpl-7", "model": "small", "choices": [choice], "usage": USAGE, "timings": {"n": 1.5}}


def schema(may_answer: bool = True) -> dict[str, Any]:
    return choice_schema([tool(name)["function"] for name in EVENT_TOOLS], may_answer=may_answer)


def valid(choice: Any, may_answer: bool = True) -> bool:
    return jsonschema.Draft202012Validator(schema(may_answer)).is_valid(choice)


def test_the_schema_admits_exactly_the_choices() -> None:
    for name in EVENT_TOOLS[:-1]:
        assert valid({"tool": name})
        assert not valid({"tool": name, "arguments": {}})
    for claim in ("saved", "not_saved", "unknown"):
        assert valid({"tool": "finish", "arguments": {"claim": claim}})
    assert not valid({"tool": "finish"})
    assert not valid({"tool": "finish", "arguments": {"claim": "lost"}})
    assert not valid({"tool": "verify_a"})
    assert valid({"answer": "I stop."})
    assert not valid({"answer": ""})
    assert not valid({"answer": "I stop.", "tool": "wait"})
    assert not valid({"answer": "I stop."}, may_answer=False)


def test_the_request_loses_its_tools_and_keeps_its_options() -> None:
    body = constrained_body(chat("small", temperature=0.5, seed=7, parallel_tool_calls=False))
    assert set(body) == {"model", "max_tokens", "temperature", "seed", "messages", "response_format", "cache_prompt"}
    assert (body["model"], body["max_tokens"], body["temperature"], body["seed"]) == ("small", 256, 0.5, 7)
    assert body["cache_prompt"] is True
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "choice", "strict": True, "schema": schema()},
    }


def test_tools_are_explained_in_the_system_message() -> None:
    system, packet = constrained_body(chat())["messages"]
    assert system["role"] == "system"
    assert system["content"].startswith(
        "You decide whether an intervention is justified.\n\nReply with one JSON object"
    )
    assert '\n{"tool": "wait"} - What wait does.\n' in system["content"]
    claims = '{"tool": "finish", "arguments": {"claim": "saved" or "not_saved" or "unknown"}} - What finish does.'
    assert claims in system["content"]
    assert system["content"].endswith('{"answer": TEXT}')
    assert packet == {"role": "user", "content": chat().messages[1]["content"]}


def test_without_a_system_message_the_explanation_is_one() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": [tool("wait")]}
    messages = constrained_body(read_chat_request(json.dumps(body).encode()))["messages"]
    assert [message["role"] for message in messages] == ["system", "user"]


def test_earlier_turns_become_choices_and_user_messages() -> None:
    finish = {"id": "call_2", "type": "function", "function": {"name": "finish", "arguments": '{"claim":"saved"}'}}
    later = (
        *played("wait", "call_1", {"tick": 1}),
        {"role": "assistant", "content": None, "tool_calls": [finish]},
        {"role": "tool", "tool_call_id": "call_2", "content": "{}"},
        {"role": "assistant", "content": "Done."},
    )
    assert constrained_body(chat(later=later))["messages"][2:] == [
        {"role": "assistant", "content": '{"tool": "wait"}'},
        {"role": "user", "content": 'Result of wait: {"tick": 1}'},
        {"role": "assistant", "content": '{"tool": "finish", "arguments": {"claim": "saved"}}'},
        {"role": "user", "content": "Result of finish: {}"},
        {"role": "assistant", "content": "Done."},
    ]


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("auto", list(EVENT_TOOLS)),
        ("required", list(EVENT_TOOLS)),
        ("none", []),
        ({"type": "function", "function": {"name": "wait"}}, ["wait"]),
    ],
)
def test_tool_choice_narrows_what_is_offered(choice: object, names: list[str]) -> None:
    assert [function["name"] for function in offered_tools(chat(tool_choice=choice))] == names


def test_without_tools_the_request_keeps_its_own_output_format() -> None:
    body = constrained_body(chat(tool_choice="none", response_format={"type": "text"}))
    assert body["response_format"] == {"type": "text"}
    assert body["messages"][0]["content"] == "You decide whether an intervention is justified."
    assert "response_format" not in constrained_body(chat(tool_choice="none"))


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [{"type": "text", "text": "parts"}]},
        {"role": "function", "content": "old"},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "x"}]},
        {"role": "assistant", "content": None, "tool_calls": [*[tool("wait")] * 2]},
    ],
)
def test_a_message_that_has_no_form_upstream_is_refused(message: dict[str, Any]) -> None:
    with pytest.raises(BadChatRequestError):
        constrained_body(chat(later=(message,)))


def test_a_tool_choice_of_nothing_offered_is_refused() -> None:
    with pytest.raises(BadChatRequestError):
        offered_tools(chat(tool_choice={"type": "function", "function": {"name": "verify_a"}}))


def test_a_choice_becomes_a_tool_call_in_the_servers_own_envelope() -> None:
    request = chat("small")
    body = answer_body(request, upstream('{\n  "tool": "finish",\n  "arguments": {"claim": "not_saved"}\n}'))
    call = {
        "id": call_id(request.raw),
        "type": "function",
        "function": {"name": "finish", "arguments": '{"claim":"not_saved"}'},
    }
    assert body == {
        **upstream(""),
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": None, "tool_calls": [call]},
                "finish_reason": "tool_calls",
            }
        ],
    }


def test_equal_choices_in_later_turns_have_other_ids() -> None:
    first = answer_body(chat(), upstream('{"tool":"wait"}'))
    second = answer_body(chat(later=played("wait", "call_1", {})), upstream('{"tool":"wait"}'))
    ids = {body["choices"][0]["message"]["tool_calls"][0]["id"] for body in (first, second)}
    assert len(ids) == 2


def test_an_answer_becomes_a_text_stop() -> None:
    (choice,) = answer_body(chat(), upstream('{"answer": "I stop here."}'))["choices"]
    assert choice == {
        "index": 0,
        "message": {"role": "assistant", "content": "I stop here."},
        "finish_reason": "stop",
    }


@pytest.mark.parametrize("text", ['{"tool": "wa', '{"tool": "wait"}'])
def test_a_truncated_answer_stays_truncated_even_where_it_could_be_read(text: str) -> None:
    (choice,) = answer_body(chat(), upstream(text, "length"))["choices"]
    assert choice == {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "length"}


@pytest.mark.parametrize(
    "text", ["I would wait.", '{"tool": "verify_a"}', '{"tool": "wait", "arguments": 1}', "[]", '"wait"', "{}", ""]
)
def test_a_normal_end_outside_the_choices_is_an_error_and_never_read_otherwise(text: str) -> None:
    with pytest.raises(ChoiceNotHonouredError):
        answer_body(chat(), upstream(text))


def test_a_text_answer_was_no_choice_where_a_tool_was_required() -> None:
    with pytest.raises(ChoiceNotHonouredError):
        answer_body(chat(tool_choice="required"), upstream('{"answer": "No."}'))


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": [{}]}, {"choices": None}])
def test_what_is_no_completion_is_an_error(body: dict[str, Any]) -> None:
    with pytest.raises(ChoiceNotHonouredError):
        answer_body(chat(), body)
