"""Which processes a command needs, and how each is started."""

from collections.abc import Iterable
from pathlib import Path

from countersign.study.plan_model import LocalAgentPlan, RoutePlan, ScriptedAgentPlan
from countersign.study.processes import Child, ChildSpec, Household

ANY_PORT = "127.0.0.1:0"
API_PATH = "/v1"
"""What an agent's base URL ends with."""


def ledger_spec(store: Path, listen: str = ANY_PORT) -> ChildSpec:
    """The ledger on the store at `store`."""
    arguments = ("--listen", listen, "--database", str(store), "--exit-with-stdin")
    return ChildSpec("ledger", "ledger_svc", arguments, ("ledger",))


def adapter_spec(ledger: str, listen: str = ANY_PORT) -> ChildSpec:
    """The adapter; `ledger` is the ledger's address, empty for one that runs no episodes.

    What it learns of a call under way it can only tell a ledger that is still there.
    """
    known = ("--ledger", ledger) if ledger else ()
    arguments = ("--listen", listen, *known, "--exit-with-stdin")
    return ChildSpec("adapter", "adapter_svc", arguments, ("adapter",), leans_on=("ledger",))


def verifier_spec(ledger: str, listen: str = ANY_PORT) -> ChildSpec:
    """The verifier; `ledger` is the ledger's address, empty for one that verifies no episodes."""
    known = ("--ledger", ledger) if ledger else ()
    return ChildSpec("verifier", "verifier_svc", ("--listen", listen, *known, "--exit-with-stdin"), ("verifier",))


def local_model_spec(log_folder: Path, *, front: bool, listen: str = ANY_PORT) -> ChildSpec:
    """The local model, with the tool front before it where asked for."""
    options = ("--front",) if front else ()
    awaited = ("local_model", "tool_front") if front else ("local_model",)
    log = ("--native-log", str(log_folder / "llama.log"))
    return ChildSpec("local-model", "countersign.agents.local_model", ("--listen", listen, *log, *options), awaited)


def scripted_spec(policy: str) -> ChildSpec:
    """A scripted agent that answers by `policy`."""
    arguments = ("--listen", ANY_PORT, "--policy", policy)
    return ChildSpec(f"scripted-{policy}", "countersign.agents.scripted", arguments, ("scripted_agent",))


async def start_agents(household: Household, routes: Iterable[RoutePlan], log_folder: Path) -> dict[str, str]:
    """Start the agents that `routes` ask for, one for each kind and policy; every route's base URL by its name.

    Raises ProcessFailed.
    """
    routes = list(routes)
    local = [route.agent for route in routes if isinstance(route.agent, LocalAgentPlan)]
    model: Child | None = None
    if local:
        spec = local_model_spec(log_folder, front=any(agent.front for agent in local))
        model = await household.start(spec)
    scripted: dict[str, Child] = {}
    urls = {}
    for route in routes:
        match route.agent:
            case ScriptedAgentPlan(policy=policy):
                if policy not in scripted:
                    scripted[policy] = await household.start(scripted_spec(policy))
                urls[route.name] = base_url(scripted[policy].address)
            case LocalAgentPlan(front=front):
                assert model is not None
                urls[route.name] = base_url(model.addresses["tool_front" if front else "local_model"])
            case None:
                urls[route.name] = route.base_url or ""
    return urls


def base_url(address: str) -> str:
    """The base URL of an agent that listens at `address`."""
    return f"http://{address}{API_PATH}"
