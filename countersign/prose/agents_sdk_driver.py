"""A small driver over the OpenAI Agents SDK: runs one agent, and writes what the library streams as JSON lines.

`start`, then the library's own events, last `final`, whatever happens (design/native-harness.md, section 5). It has no
tools: what the program asks for is answered in text. It runs by itself: `python agents_sdk_driver.py --instructions
FILE [--model NAME]`, the task on standard input.
"""

import argparse
import asyncio
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any


def say(record: dict[str, Any]) -> None:
    """Write one record."""
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def plain(value: Any) -> Any:
    """What the library has as objects, as JSON has it."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return value if isinstance(value, dict | list | str | int | float | bool | None) else str(value)


def record_of(event: Any) -> dict[str, Any]:
    """One of the library's events."""
    match event.type:
        case "agent_updated_stream_event":
            return {"type": event.type, "agent": event.new_agent.name}
        case "raw_response_event":
            return {"type": event.type, "subtype": event.data.type, "data": plain(event.data)}
        case _:
            item = event.item
            output = plain(getattr(item, "output", None))
            return {"type": event.type, "subtype": event.name, "raw_item": plain(item.raw_item), "output": output}


def usage_of(usage: Any) -> dict[str, Any]:
    """The tokens of the whole run."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "input_tokens_details": {"cached_tokens": usage.input_tokens_details.cached_tokens},
        "output_tokens_details": {"reasoning_tokens": usage.output_tokens_details.reasoning_tokens},
    }


async def drive(instructions: str, model: str | None, task: str) -> bool:
    """Run the agent; whether it ended without an exception."""
    from agents import Agent, Runner

    agent = Agent(name="prose", instructions=instructions, model=model)
    running = Runner.run_streamed(agent, task)
    exception: str | None = None
    try:
        async for event in running.stream_events():
            say(record_of(event))
    except Exception as error:  # noqa: BLE001 - it is reported, by its kind, and decides the run
        exception = type(error).__name__
    output = plain(running.final_output) if exception is None else None
    usage = usage_of(running.context_wrapper.usage)
    say({"type": "final", "final_output": output, "exception": exception, "usage": usage})
    return exception is None


def main() -> int:
    """Run the driver; its exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--instructions", type=Path, required=True)
    parser.add_argument("--model")
    given = parser.parse_args()
    say({"type": "start", "library_version": version("openai-agents"), "model": given.model or ""})
    instructions = given.instructions.read_text("utf-8")
    return 0 if asyncio.run(drive(instructions, given.model, sys.stdin.read())) else 1


if __name__ == "__main__":
    sys.exit(main())
