"""A frozen study is collected from its manifest alone (design/study.md)."""

import json
from pathlib import Path

import pytest

from countersign.kit.canonical import canonical_json, sha256
from countersign.study.built import build
from countersign.study.errors import BadManifest, PacketRefused
from countersign.study.frozen_plan import plan_of
from countersign.study.manifest import load
from countersign.study.preparation import prepare, prepare_frozen
from countersign.study.prices import call_bound_nanos
from countersign.study.routes import wire_route
from countersign.study.services import Services
from tests.countersign.study.fakes import Fakes
from tests.countersign.study.plans import NOW, make_plan, route_text

PRICE = "{ input_per_million = 0.5, output_per_million = 1.5, cached_input_per_million = 0.05 }"
ROUTED = """
[[routes]]
name = "routed"
profile = "openrouter"
provider_name = "P"
router = { only = ["p"] }
reasoning = { effort = "low" }
model = "v/m"
price = { input_per_million = 0.5, output_per_million = 1.5 }
output_cap = 100
request_options = { temperature = 0.5, stop = ["x"] }
"""
THINKING = """
[[routes]]
name = "thinking"
profile = "google"
streamed = true
reasoning = { budget_tokens = 512 }
model = "g"
price = "free"
output_cap = 100
request_options = { generationConfig = { temperature = 1 } }
"""
SCRIPTED = """
[[routes]]
name = "scripted"
agent = { kind = "scripted", policy = "mixed" }
price = "free"
output_cap = 5
arms = ["own"]
repetitions = 3
"""


async def test_a_plan_read_back_asks_for_the_same_episodes_and_sends_the_same_requests(
    services: Services, tmp_path: Path
) -> None:
    plan = make_plan(route_text(price=PRICE, more='aliases = ["m-1"]'), ROUTED, THINKING, SCRIPTED)
    prepared = await prepare(services, plan, tmp_path, NOW)
    read = plan_of(json.loads((tmp_path / "manifest.json").read_bytes()))
    for before, after in zip(plan.routes, read.routes, strict=True):
        assert wire_route(before, "http://a/v1") == wire_route(after, "http://a/v1")
        assert call_bound_nanos(before) == call_bound_nanos(after)
    again = await prepare_frozen(services, tmp_path, NOW)
    urls = {route.name: "http://a/v1" for route in plan.routes}
    assert again.orders(urls) == prepared.orders(urls)
    assert (again.bound, again.is_new) == (prepared.bound, False)
    assert again.manifest == prepared.manifest


async def test_building_freezes_the_same_bytes_as_collecting(services: Services, tmp_path: Path) -> None:
    built = await build(services, make_plan(), None)
    prepared = await prepare(services, make_plan(), tmp_path, NOW)
    assert built.manifest.original == (tmp_path / "manifest.json").read_bytes() == prepared.manifest.original


async def test_another_packet_than_the_frozen_one_is_refused_before_the_ledger_is_asked(
    fakes: Fakes, services: Services, tmp_path: Path
) -> None:
    await prepare(services, make_plan(), tmp_path, NOW)
    asked = dict(fakes.ledger.requests)
    document = json.loads((tmp_path / "manifest.json").read_bytes())
    document["episodes"][1]["packet_digest"] = "ab" * 32
    _keep(tmp_path, document)
    with pytest.raises(PacketRefused, match=r"r/window/calm/own/default/1 is not as frozen"):
        await prepare_frozen(services, tmp_path, NOW)
    assert fakes.ledger.requests == asked


async def test_a_missing_episode_is_refused(services: Services, tmp_path: Path) -> None:
    await prepare(services, make_plan(), tmp_path, NOW)
    document = json.loads((tmp_path / "manifest.json").read_bytes())
    document["episodes"].pop()
    _keep(tmp_path, document)
    with pytest.raises(PacketRefused, match="the manifest lists 3 episodes, its plan has 4"):
        await prepare_frozen(services, tmp_path, NOW)


async def test_a_manifest_that_is_no_plan_is_refused(services: Services, tmp_path: Path) -> None:
    await prepare(services, make_plan(), tmp_path, NOW)
    document = json.loads((tmp_path / "manifest.json").read_bytes())
    document["routes"][0]["output_cap"] = -1
    _keep(tmp_path, document)
    with pytest.raises(BadManifest, match="no plan can be read from it"):
        plan_of(load(tmp_path).document)


def _keep(folder: Path, document: dict[str, object]) -> None:
    """Write an altered manifest with a digest of its own."""
    body = {key: value for key, value in document.items() if key != "manifest_digest"}
    digest = sha256(canonical_json(body)).hex()
    (folder / "manifest.json").write_bytes(canonical_json({**body, "manifest_digest": digest}))
