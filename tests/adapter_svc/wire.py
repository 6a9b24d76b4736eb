"""The stale checkpoint's case and a local route as messages of the contract."""

import json
from typing import Any

from countersign.adapter.v1 import adapter_pb2 as pb
from countersign.environment.v1 import environment_pb2 as env
from tests.adapter_svc.admission.helpers import CLAIM, WAIT
from tests.adapter_svc.cases.helpers import NEUTRAL
from tests.adapter_svc.environments.helpers import MESSAGE

TOOLS = [pb.Tool(name=tool.name, parameters_json=tool.schema.decode()) for tool in (CLAIM, WAIT)]


def an_event_world(changed_need: bool | None) -> env.World:
    """Need and efficacy true; from tick 2 on the need is `changed_need`, where that is given."""
    world = env.EventWorld(need=True, effective=True)
    if changed_need is not None:
        world.change_tick = 2
        world.changed_need = changed_need
    return env.World(event=world)


def a_definition(**changes: Any) -> env.CaseDefinition:
    """The stale checkpoint; absent fields take their defaults."""
    contract = env.EventContract(deadline=4, verification_delay=2, buffer_available=True)
    good: dict[str, Any] = {
        "contract": env.Contract(event=contract),
        "support": [an_event_world(False), an_event_world(True)],
        "prior": [0.5, 0.5],
        "operator_prefix": ["request_verification", "wait"],
        "procedure_instruction": NEUTRAL,
        "untrusted_message": MESSAGE,
    }
    return env.CaseDefinition(**{**good, **changes})


def a_wire_route(**changes: Any) -> pb.Route:
    """A free route to this machine, without a key."""
    good: dict[str, Any] = {
        "name": "local",
        "base_url": "http://127.0.0.1:1/v1",
        "wire_format": pb.WIRE_FORMAT_CHAT_COMPLETIONS,
        "model": "m",
        "free": pb.FreePrice(),
        "output_cap": 512,
        "input_limit_bytes": 100_000,
        "request_options_json": json.dumps({"temperature": 0}),
    }
    if "tokens" in changes:
        del good["free"]
    return pb.Route(**{**good, **changes})
