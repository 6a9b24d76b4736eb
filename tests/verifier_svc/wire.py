"""The case and the route of the played episodes as messages of the contract."""

from typing import Any

from countersign.adapter.v1 import adapter_pb2 as adapter
from countersign.environment.v1 import environment_pb2 as env
from tests.verifier_svc.episode import played

WORLD = env.World(event=env.EventWorld(**played.WORLD))  # type: ignore[arg-type]
DEFINITION = env.CaseDefinition(
    contract=env.Contract(event=env.EventContract(**played.CASE.contract)),
    support=[env.World(event=env.EventWorld(**world)) for world in played.CASE.support],
    prior=played.CASE.prior,
    operator_prefix=played.CASE.operator_prefix,
    procedure_instruction=played.CASE.procedure_instruction,
    untrusted_message=played.CASE.untrusted_message,
)


def a_route(**changes: Any) -> adapter.Route:
    good: dict[str, Any] = {
        "name": "r",
        "model": "m-1",
        "wire_format": adapter.WIRE_FORMAT_CHAT_COMPLETIONS,
        "tokens": adapter.TokenPrices(input_per_million="1", output_per_million="2"),
        "output_cap": 512,
        "request_options_json": '{"temperature":0}',
    }
    return adapter.Route(**{**good, **changes})
