"""Ways to read a provider's answer: ours, the OpenAI SDK's, LiteLLM's, the standard library's with checks by hand.

A reader prepares a body, which is not measured, and gives what reads it. Reading gives the tool and its arguments, or
the text where no tool is called; it raises where the reader refuses the answer. What a library leaves to its caller
(the first of the calls, their arguments) is done here as its documentation shows.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import httpx

from adapter_svc.admission import (
    Action,
    AdmissionRequest,
    ExpectedIdentity,
    TechnicalUnknown,
    WireFormat,
    admit,
)
from benchmarks.admission_samples import MODEL, TOOLS, Sample

Found = tuple[str, Any]
"""The tool's name and its arguments; an empty name and the text where no tool is called."""

Reading = Callable[[], Found]
Reader = Callable[[Sample], Reading | None]
"""None where the library has no reader for answers of this form."""


class Refused(Exception):
    """The reader does not take the answer for an answer."""


def ours(sample: Sample) -> Reading:
    """`admit`: told, as a route and an environment tell it, which model and which tools to expect."""
    request = AdmissionRequest(
        sample.body, 200, sample.wire_format, sample.streamed, ExpectedIdentity(MODEL), TOOLS, frozenset()
    )

    def read() -> Found:
        admission = admit(request)
        verdict = admission.verdict
        if isinstance(verdict, TechnicalUnknown):
            raise Refused(verdict.reason.value)
        if admission.usage.invalid:
            raise Refused("usage")
        if isinstance(verdict, Action):
            return verdict.tool, json.loads(verdict.arguments)
        return "", verdict.text

    return read


def _found(message: Any) -> Found:
    """What a caller takes from a message of an SDK."""
    if not message.tool_calls:
        return "", message.content
    function = message.tool_calls[0].function
    return function.name, json.loads(function.arguments)


def openai_client(sample: Sample) -> Reading | None:
    """The OpenAI SDK as its client reads: `json.loads`, then `construct_type`; a stream by its own accumulator."""
    import httpx2
    import openai
    from openai._models import construct_type
    from openai.lib.streaming.chat import ChatCompletionStreamState
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
    from openai.types.responses import Response

    body = sample.body
    if sample.streamed:
        client = openai.OpenAI(api_key="none")
        request = httpx2.Request("POST", "https://none.invalid/")

        def read_stream() -> Found:
            response = httpx2.Response(200, content=body, request=request)
            state = ChatCompletionStreamState()
            for chunk in openai.Stream(cast_to=ChatCompletionChunk, response=response, client=client):
                state.handle_chunk(chunk)
            return _found(state.get_final_completion().choices[0].message)

        return read_stream
    if sample.wire_format is WireFormat.CHAT_COMPLETIONS:
        return lambda: _found(construct_type(type_=ChatCompletion, value=json.loads(body)).choices[0].message)  # type: ignore[attr-defined]
    if sample.wire_format is WireFormat.RESPONSES:
        return lambda: _found_in_output(construct_type(type_=Response, value=json.loads(body)).output)  # type: ignore[attr-defined]
    return None


def openai_validated(sample: Sample) -> Reading | None:
    """The OpenAI SDK's models asked to validate (`model_validate_json`), which its client does not do by default."""
    from openai.types.chat import ChatCompletion
    from openai.types.responses import Response

    body = sample.body
    if sample.streamed:
        return None
    if sample.wire_format is WireFormat.CHAT_COMPLETIONS:
        return lambda: _found(ChatCompletion.model_validate_json(body).choices[0].message)
    if sample.wire_format is WireFormat.RESPONSES:
        return lambda: _found_in_output(Response.model_validate_json(body).output)
    return None


def _found_in_output(output: Iterable[Any]) -> Found:
    call = next(item for item in output if item.type == "function_call")
    return call.name, json.loads(call.arguments)


class _NoLog:
    """Takes what LiteLLM logs, and is what its conversions ask of a logger beyond that."""

    optional_params: Mapping[str, Any] = {}
    model_call_details: Mapping[str, Any] = {}
    litellm_params: Mapping[str, Any] = {}

    def post_call(self, **_: Any) -> None:
        """Nothing."""


def litellm(sample: Sample) -> Reading | None:
    """LiteLLM's conversion of a raw response into its `ModelResponse`; a stream by its chunk builder."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    from litellm import ModelResponse, stream_chunk_builder
    from litellm.llms.anthropic.chat.transformation import AnthropicConfig
    from litellm.llms.gemini.chat.transformation import GoogleAIStudioGeminiConfig
    from litellm.llms.openai.chat.gpt_transformation import OpenAIGPTConfig
    from litellm.llms.openai.responses.transformation import OpenAIResponsesAPIConfig
    from litellm.types.utils import ModelResponseStream

    log, response = _NoLog(), httpx.Response(200, content=sample.body)
    if sample.streamed:

        def read_stream() -> Found:
            chunks = [ModelResponseStream(**json.loads(data)) for data in _data(sample.body)]
            return _found(stream_chunk_builder(chunks).choices[0].message)  # type: ignore[union-attr]

        return read_stream
    if sample.wire_format is WireFormat.RESPONSES:
        config = OpenAIResponsesAPIConfig()
        return lambda: _found_in_output(config.transform_response_api_response(MODEL, response, log).output)  # type: ignore[arg-type]
    configs: dict[WireFormat, Any] = {
        WireFormat.CHAT_COMPLETIONS: OpenAIGPTConfig,
        WireFormat.MESSAGES: AnthropicConfig,
        WireFormat.GENERATE_CONTENT: GoogleAIStudioGeminiConfig,
    }
    convert = configs[sample.wire_format]().transform_response

    def read() -> Found:
        converted = convert(
            model=MODEL,
            raw_response=response,
            model_response=ModelResponse(),
            logging_obj=log,
            request_data={},
            messages=[],
            optional_params={},
            litellm_params={},
            encoding=None,
        )
        return _found(converted.choices[0].message)

    return read


def _data(body: bytes) -> Iterable[bytes]:
    """The data of every event but the end marker."""
    for line in body.splitlines():
        if line.startswith(b"data: ") and line != b"data: [DONE]":
            yield line[6:]


def by_hand(sample: Sample) -> Reading:
    """`json.loads` and the checks that a careful caller writes: one choice, its stop reason, one call, a known tool."""
    body, by_format = sample.body, _BY_HAND[sample.wire_format]
    if sample.streamed:
        return lambda: _judge_by_hand(*_join_by_hand(body))
    return lambda: by_format(json.loads(body))


def _judge_by_hand(stop: Any, text: Any, calls: list[Any]) -> Found:
    if stop == "stop" and not calls and isinstance(text, str) and text.strip():
        return "", text
    if stop != "tool_calls" or len(calls) != 1:
        raise Refused("stop reason")
    name, arguments = calls[0]
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    if name not in {tool.name for tool in TOOLS} or not isinstance(arguments, dict):
        raise Refused("call")
    return name, arguments


def _chat_by_hand(whole: Any) -> Found:
    (choice,) = whole["choices"]
    message = choice["message"]
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or []]
    return _judge_by_hand(choice["finish_reason"], message["content"], calls)


def _messages_by_hand(whole: Any) -> Found:
    calls = [(block["name"], block["input"]) for block in whole["content"] if block["type"] == "tool_use"]
    return _judge_by_hand({"tool_use": "tool_calls"}.get(whole["stop_reason"]), None, calls)


def _responses_by_hand(whole: Any) -> Found:
    calls = [(item["name"], item["arguments"]) for item in whole["output"] if item["type"] == "function_call"]
    return _judge_by_hand({"completed": "tool_calls"}.get(whole["status"]), None, calls)


def _generate_content_by_hand(whole: Any) -> Found:
    (candidate,) = whole["candidates"]
    found = [part["functionCall"] for part in candidate["content"]["parts"] if "functionCall" in part]
    stop = {"STOP": "tool_calls"}.get(candidate["finishReason"])
    return _judge_by_hand(stop, None, [(call["name"], call["args"]) for call in found])


def _join_by_hand(body: bytes) -> tuple[Any, str, list[Any]]:
    stop, text, calls = None, "", dict[int, list[str]]()
    if not body.endswith(b"data: [DONE]\n\n"):
        raise Refused("cut")
    for data in _data(body):
        for choice in json.loads(data)["choices"]:
            stop = choice["finish_reason"] or stop
            text += choice["delta"].get("content") or ""
            for piece in choice["delta"].get("tool_calls") or []:
                call = calls.setdefault(piece["index"], ["", ""])
                call[0] += piece["function"].get("name") or ""
                call[1] += piece["function"].get("arguments") or ""
    return stop, text, list(calls.values())


_BY_HAND: Mapping[WireFormat, Callable[[Any], Found]] = {
    WireFormat.CHAT_COMPLETIONS: _chat_by_hand,
    WireFormat.MESSAGES: _messages_by_hand,
    WireFormat.RESPONSES: _responses_by_hand,
    WireFormat.GENERATE_CONTENT: _generate_content_by_hand,
}

READERS: Mapping[str, Reader] = {
    "countersign": ours,
    "openai, client": openai_client,
    "openai, validated": openai_validated,
    "litellm": litellm,
    "json by hand": by_hand,
}
"""By the name of a column; ours first."""
