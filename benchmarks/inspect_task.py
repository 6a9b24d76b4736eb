"""The same number of turns in Inspect AI with its mock model: prints the seconds of the evaluation and its memory.

Each sample calls three tools, one a turn, and ends in a fourth turn; its answer is scored and the log is written.
"""

import argparse
import json
import resource
import tempfile
import time
from typing import Any

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import Tool, tool

from benchmarks.canned import ROUNDS

RESULT = "x" * 2_000
"""As long as an observation is."""


def _named(name: str) -> Tool:
    @tool(name=name)
    def made() -> Tool:
        async def execute() -> str:
            """Play one call.

            Returns:
                The result.
            """
            return RESULT

        return execute

    return made()


def _reply(messages: list[Any], *_: Any) -> ModelOutput:
    turn = sum(message.role == "assistant" for message in messages)
    if turn < len(ROUNDS) - 1:
        output = ModelOutput.for_tool_call("mockllm/model", ROUNDS[turn], {})
    else:
        output = ModelOutput.from_content("mockllm/model", "saved")
    # With a usage of its own, the mock model need not count tokens: that is in Inspect's favour.
    output.usage = ModelUsage(input_tokens=1000, output_tokens=20, total_tokens=1020)
    return output


def run(samples: int, in_flight: int) -> dict[str, Any]:
    """Evaluate so many samples; raises AssertionError unless every one has all its turns and its score."""
    dataset = MemoryDataset([Sample(id=n, input="x" * 6_000, target="saved") for n in range(1, samples + 1)])
    task = Task(
        dataset=dataset, solver=[use_tools([_named(name) for name in ROUNDS[:-1]]), generate()], scorer=includes()
    )
    model = get_model("mockllm/model", custom_outputs=_reply)
    with tempfile.TemporaryDirectory() as folder:
        begun, cpu_begun = time.perf_counter(), time.process_time()
        (log,) = eval(
            task,
            model=model,
            max_samples=in_flight,
            max_connections=in_flight,
            log_dir=folder,
            display="none",
            log_level="error",
        )
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu_begun
        assert log.status == "success", log.error
        assert log.samples is not None
        turns = {sum(message.role == "assistant" for message in sample.messages) for sample in log.samples}
        assert (len(log.samples), turns) == (samples, {len(ROUNDS)})
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": seconds, "cpu_seconds": cpu, "peak_kib": peak_kib}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--in-flight", type=int, required=True)
    given = parser.parse_args()
    print(json.dumps(run(given.samples, given.in_flight)), flush=True)
