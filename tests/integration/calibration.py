"""The calibration study: its plan, what must come of each episode, and a collection with faults at known places.

What must come is played here by the policies themselves against the adapter's simulators, or is known by the name of
the fault; nothing of it is read from a service.
"""

import json
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adapter_svc.environments import Simulator, start
from adapter_svc.environments.registry import contract_from_json, world_from_json
from countersign.agents import act_badly
from countersign.agents.act_well import next_move
from countersign.agents.moves import WAIT, Move, finish
from countersign.agents.situation import Situation, Step, World
from countersign.study.plan_model import PlanFile, TemplatePlan
from tests.conftest import PROJECT_ROOT
from tests.integration.stack import Process, Stack
from tests.integration.studies import run_command, toml

STUDIES = PROJECT_ROOT / "studies"
WORDING = json.loads((PROJECT_ROOT / "protos/wording/v1.json").read_text(encoding="utf-8"))
ACCOUNT = "calibration-lab"
WORKERS = 8
COLLECT_SECONDS = 600
POLL_SECONDS = 0.01
CHARGE = "0.0025"
"""What the operator finds that each call in doubt has cost."""

REASONS = {
    "blank-text": "EMPTY_TEXT",
    "claim-on-transfer": "INVALID_ARGUMENTS",
    "duplicate-claim-key": "MALFORMED_ARGUMENTS",
    "duplicate-id": "DUPLICATE_TOOL_CALL_ID",
    "error-reason": "UNRECOGNIZED_STOP_REASON",
    "filter": "FILTERED",
    "foreign-tool": "UNKNOWN_TOOL",
    "null-reason": "MISSING_STOP_REASON",
    "stop-with-tools": "AMBIGUOUS_TERMINATION",
    "truncate": "TRUNCATED",
    "two-tools": "MULTIPLE_TOOL_CALLS",
    "wrong-model": "IDENTITY_MISMATCH",
    "wrong-provider": "IDENTITY_MISMATCH",
}
"""The technical unknown of each answer that must not be executed."""

LOST = ("drop", "drop-mid-body", "http-500", "redirect")
"""Faults after which nobody knows what the provider did."""

IN_DOUBT = {"status": "stopped", "stop_category": "unresolved_prior_request"}
"""An episode whose call was under way when the adapter was killed."""

_ACTS = {World.EVENT: "transfer", World.QUEUE: "transfer_a", World.PENDING: WAIT, World.PROBE: "rescue"}
_CAREFUL = {
    World.EVENT: ("check_alternative", "use_alternative"),
    World.QUEUE: ("check_alternative_a", "use_alternative_a"),
    World.PENDING: ("request_verification", "cancel_transfer"),
    World.PROBE: ("read_certificate", WAIT),
}
_TEXT = None
"""A text ends the episode."""

Decide = Callable[[Situation, int], Move | None]


def _by_situation(decide: Callable[[Situation], Move]) -> Decide:
    return lambda situation, _: decide(situation)


WAYS: Mapping[str, Decide] = {
    "acknowledgement": _by_situation(act_badly.trust_acknowledgement),
    "act-well": _by_situation(next_move),
    "alternative": lambda situation, turn: Move(_CAREFUL[situation.world][turn]) if turn < 2 else _TEXT,
    "always-transfer": _by_situation(act_badly.always_transfer),
    "claim-success": lambda _situation, _turn: _TEXT,
    "deadline-refresh": _by_situation(act_badly.refresh_at_the_deadline),
    "do-nothing": _by_situation(act_badly.do_nothing),
    "false-claim": _by_situation(act_badly.claim_the_opposite),
    "keep-verifying": _by_situation(act_badly.keep_verifying),
    "no-usage": _by_situation(next_move),
    "refuse": lambda _situation, _turn: _TEXT,
    "stale-compliance": _by_situation(act_badly.comply_with_stale_evidence),
    "unsafe-transfer": lambda situation, turn: finish("saved") if turn else Move(_ACTS[situation.world]),
}
"""How each policy plays; `no-usage` plays well, and is judged once an operator has said what its answers cost."""


def write_plan(path: Path, agent: Process, repetitions: int, arms: int) -> PlanFile:
    """Both shipped plans as one, every route at the one `agent`; `arms` is how many of the plan's are played."""
    plan = tomllib.loads((STUDIES / "calibration.toml").read_text(encoding="utf-8"))
    doubtful = tomllib.loads((STUDIES / "calibration-doubt.toml").read_text(encoding="utf-8"))
    # At an address of its own, the agent's play money would count as money.
    plan["study"] |= {"repetitions": repetitions, "max_in_flight": 2 * WORKERS, "readiness": "waived"}
    plan["arms"] = plan["arms"][:arms]
    only = {"templates": ["queue"], "arms": ["neutral"], "repetitions": 1}
    middle = len(WAYS) - 1
    plan["routes"][middle:middle] = [{**route, **only} for route in doubtful["routes"]]
    for route in plan["routes"]:
        route |= {"base_url": f"http://{agent.address}/v1", "model": f"scripted/{route.pop('agent')['policy']}"}
    path.write_text("\n".join(f"{key} = {toml(value)}" for key, value in plan.items()), encoding="utf-8")
    return PlanFile.model_validate(plan)


def expected(plan: PlanFile, identity: Mapping[str, Any]) -> dict[str, Any]:
    """What must come of an episode that nothing but its own route disturbs: members of its line in the analysis."""
    policy = identity["route"]
    if policy in REASONS:
        return {"status": "technical_unknown", "reason": REASONS[policy]}
    if policy in LOST:
        return {"status": "stopped", "stop_category": "transport_unknown"}
    template = next(one for one in plan.templates if one.name == identity["template"])
    return _completed(*_play(template, identity["world"], WAYS[policy]))


def _play(template: TemplatePlan, world: str, decide: Decide) -> tuple[Simulator, str]:
    environment = template.environment
    worlds = {one.name: world_from_json(environment, one.fields) for one in template.worlds}
    support = tuple(one.to_json() for one in worlds.values())
    terms = contract_from_json(environment, template.contract)
    simulator = start(environment, worlds[world], terms, "a message", WORDING)
    for tool in template.operator_prefix:
        simulator.call(tool)
    turn = 0
    while not simulator.done:
        steps = tuple(Step(event.tool, event.result_object()) for event in simulator.events)
        move = decide(Situation(World(environment), simulator.observation(), steps, support), turn)
        if move is _TEXT:
            simulator.call("finish", "unknown")
            return simulator, "normal_text"
        simulator.call(move.tool, move.claim)
        turn += 1
    return simulator, "max_calls" if simulator.claim is None else "explicit_finish"


def _completed(simulator: Simulator, termination: str) -> dict[str, Any]:
    claimed = termination == "explicit_finish" and simulator.claim is not None
    return {
        "status": "completed",
        "termination": termination,
        "claim": simulator.claim.value if claimed else None,
        "outcome": simulator.settle().to_json(),
    }


@dataclass(slots=True)
class Run:
    """A collection of the study by processes, resumed until nothing is left that a resumption could change."""

    stack: Stack
    plan: Path
    statuses: list[int] = field(default_factory=list)
    resolved: int = 0

    @property
    def folder(self) -> Path:
        """The collector's folder."""
        return self.plan.parent / "collected"

    def records(self) -> int:
        """How many records there are."""
        return len(list((self.folder / "records").glob("*.json")))

    def collect(self, victim: Process | None = None, count: int = 0) -> int:
        """Run one collector to its end; `victim` is killed at `count` records and comes back at its address."""
        options = ["--out", str(self.folder), "--max-in-flight", str(WORKERS), *self.stack.addresses(), "--json"]
        with (self.plan.parent / "collect.log").open("ab") as log:
            command = [sys.executable, "-m", "countersign.cli", "collect", str(self.plan), *options]
            running = subprocess.Popen(command, stdout=log, stderr=log, cwd=PROJECT_ROOT)
            try:
                if victim is not None:
                    while self.records() < count:
                        assert running.poll() is None, f"the collector ended before {victim.name} was killed"
                        time.sleep(POLL_SECONDS)
                    victim.kill()
                    victim.start()
                self.statuses.append(running.wait(COLLECT_SECONDS))
            finally:
                running.kill()
                running.wait()
        return self.statuses[-1]

    def resolve_holds(self) -> None:
        """What an operator does: decide on every call in doubt, with evidence."""
        ledger = ("--ledger", self.stack.ledger.address)
        status, held, errors = run_command("ledger", "holds", ACCOUNT, *ledger)
        assert status == 0, errors
        decision = ("--charged", CHARGE, "--by", "operator", "--evidence", "the provider's log")
        for call in held:
            status, _, errors = run_command("ledger", "resolve", call["call_id"], *decision, *ledger)
            assert status == 0, errors
        self.resolved += len(held)

    def settle(self, most: int = 40) -> None:
        """Collect and resolve until a collection ends by itself with no call in doubt."""
        for _ in range(most):
            status = self.collect()
            assert status in (0, 1, 3), self.statuses
            if status == 0:
                return
            if status == 3:
                self.resolve_holds()
        raise AssertionError(f"not settled after {self.statuses}")
