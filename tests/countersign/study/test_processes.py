"""Child processes: announced, watched, stopped, never left behind."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from countersign.study.children import base_url, scripted_spec, start_agents
from countersign.study.errors import ProcessFailed
from countersign.study.processes import ChildSpec, Household
from tests.countersign.study.plans import make_plan, route_text

AGENT = """
[[routes]]
name = "{name}"
agent = {{ kind = "scripted", policy = "{policy}" }}
price = "free"
output_cap = 5
"""


def refuse(line: str) -> None:
    raise AssertionError(line)


async def test_agents_are_started_once_for_each_policy_and_stopped(tmp_path: Path) -> None:
    routes = [
        AGENT.format(name=name, policy=policy) for name, policy in (("a", "mixed"), ("b", "mixed"), ("c", "refuse"))
    ]
    plan = make_plan(route_text("fixed"), *routes)
    async with Household(tmp_path / "logs", refuse) as household:
        urls = await start_agents(household, plan.routes, tmp_path / "logs")
        host, port = urls["a"].removeprefix("http://").removesuffix("/v1").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.close()
        assert urls["a"] == urls["b"] != urls["c"]
        assert urls["fixed"] == "http://127.0.0.1:9/v1"
    with pytest.raises(OSError, match=r"."):
        await asyncio.open_connection(host, int(port))
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["scripted-mixed.log", "scripted-refuse.log"]


async def test_a_child_that_does_not_start_is_named_with_its_last_words(tmp_path: Path) -> None:
    async with Household(tmp_path, refuse) as household:
        with pytest.raises(ProcessFailed, match="the scripted-nobody did not start: error: no policy 'nobody'"):
            await household.start(scripted_spec("nobody"))
        with pytest.raises(ProcessFailed, match=r"the ghost did not start: .*No module named"):
            await household.start(ChildSpec("ghost", "countersign.ghost", (), ("ghost",)))


async def test_a_child_that_dies_is_reported(tmp_path: Path) -> None:
    died: asyncio.Queue[str] = asyncio.Queue()
    async with Household(tmp_path, died.put_nowait) as household:
        child = await household.start(scripted_spec("mixed"))
        os.kill(child.process.pid, signal.SIGKILL)
        assert await died.get() == f"the scripted-mixed ended with status -9: see {tmp_path}/scripted-mixed.log"
    assert died.empty()


def test_an_agents_base_url_is_its_address() -> None:
    assert base_url("127.0.0.1:80") == "http://127.0.0.1:80/v1"
