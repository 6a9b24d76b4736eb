"""What a soak comes to: one JSON file, a summary to read, an exit status."""

import json
import platform
import subprocess
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tests.conftest import PROJECT_ROOT
from tests.soak.growth import MIB, Series, thinned
from tests.soak.soak import Soak

SCHEMA = "countersign.soak/1"
RESULT_NAME = "result.json"
PLAN_NAME = "faults.json"
SAMPLES_NAME = "memory.json"


def command_of(soak: Soak) -> str:
    """How the same soak is run again."""
    settings = soak.settings
    stores = ",".join(settings.stores)
    return f"make soak SOAK_SEED={settings.seed} SOAK_SECONDS={settings.seconds:g} SOAK_STORES={stores}"


def result_of(soak: Soak) -> dict[str, Any]:
    """Everything that is worth keeping."""
    inspector, settings = soak.inspector, soak.settings
    planned = Counter(fault.kind.value for fault in soak.faults)
    return {
        "schema": SCHEMA,
        "verdict": verdict_of(soak),
        "violations": [one.to_json() for one in inspector.found],
        "error": soak.error,
        "seed": settings.seed,
        "command": command_of(soak),
        "version": _version(),
        "commit": _commit(),
        "python": platform.python_version(),
        "stores": [store.value for store in settings.stores],
        "seconds": settings.seconds,
        "ran_seconds": round(soak.ran_seconds, 1),
        "faults": {
            "planned": dict(sorted(planned.items())),
            "applied": dict(sorted(soak.applied.items())),
            "skipped": dict(sorted(soak.skipped.items())),
        },
        "studies": {"begun": soak.tally.studies, "settled": soak.tally.settled, "left": soak.tally.left},
        "collections": dict(sorted(soak.tally.collections.items())),
        "episodes": dict(sorted(soak.tally.episodes.items())),
        "requests": {"sent": inspector.door.count, "answered": inspector.door.answered},
        "calls": dict(sorted(soak.calls.items())),
        "money_nanos": _money(soak),
        "operator": {"decided": soak.operator.decided, "left": soak.operator.left},
        "checks": {**dict(sorted(inspector.checks.items())), "bytes_scanned": inspector.scan.bytes_count},
        "secrets_in_receipts": soak.secrets_stored,
        "unanswered": dict(sorted(soak.unanswered.items())),
        "memory": soak.judged(),
    }


def verdict_of(soak: Soak) -> str:
    """`holds`, `broken`, or `incomplete` where it did not come to its end."""
    if soak.inspector.found:
        return "broken"
    return "incomplete" if soak.error else "holds"


def write(soak: Soak) -> dict[str, Any]:
    """Write the result into the soak's folder."""
    result = result_of(soak)
    path = soak.settings.folder / RESULT_NAME
    path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    lines = ",\n".join(json.dumps(_samples(one)) for one in soak.series)
    (soak.settings.folder / SAMPLES_NAME).write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    return result


def _samples(one: Series) -> dict[str, Any]:
    """Where a process's memory was when."""
    points = [(round(at), round(rss / MIB, 1), round(count)) for at, rss, count in thinned(one.points)]
    return {"service": one.service, "store": one.store, "points": points}


def write_plan(soak: Soak, path: Path) -> None:
    """Write the plan of faults, before any is begun."""
    lines = ",\n".join(json.dumps(fault.to_json()) for fault in soak.faults)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def summary_of(result: dict[str, Any]) -> str:
    """The result in a screenful."""
    applied = ", ".join(f"{kind} {count}" for kind, count in result["faults"]["applied"].items())
    episodes = dict(result["episodes"])
    groups = {name: sum(n for key, n in episodes.items() if key.partition(".")[0] == name) for name in _GROUPS}
    lines = [
        f"soak, seed {result['seed']}: {result['verdict'].upper()} after {result['ran_seconds']:.0f} s "
        f"on {' and '.join(result['stores'])}",
        f"  faults      {sum(result['faults']['applied'].values())}: {applied or 'none'}",
        f"  studies     {result['studies']['begun']} begun, {result['studies']['settled']} settled; collections: "
        + ", ".join(f"{name} {count}" for name, count in result["collections"].items()),
        "  episodes    " + ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in groups.items()),
        f"  requests    {result['requests']['sent']} sent, {result['requests']['answered']} answered; calls: "
        + ", ".join(f"{state.lower()} {count}" for state, count in result["calls"].items()),
        f"  operator    {result['operator']['decided']} holds decided, {result['operator']['left']} left",
        "  checks      " + ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in result["checks"].items()),
        "  memory      (processes that lived long enough to be judged)",
        *(_memory_line(one) for one in result["memory"] if one["grows"] is not None),
    ]
    if result["error"]:
        lines.append(f"  ended early: {result['error']}")
    for one in result["violations"]:
        lines.append(f"  BROKEN {one['invariant']}: {one['what']}")
    if result["violations"]:
        lines.append(f"  everything is kept; to repeat it: {result['command']}")
    return "\n".join(lines)


_GROUPS = ("planned", "completed", "technical_unknown", "stopped", "not_attempted")


def _memory_line(one: dict[str, Any]) -> str:
    says = "GROWS" if one["grows"] else "flat"
    first, last = one["rss_mib"]
    return (
        f"    {one['service']:<10} {one['store']:<8} {one['judged_seconds']:>6.0f} s  {first:>6.1f} -> {last:>5.1f} MiB"
        f" ({one['grown_mib']:+.1f} of {one['allowed_mib']:.0f} allowed), descriptors {one['descriptors'][1]}  {says}"
    )


def _money(soak: Soak) -> dict[str, int]:
    names = ("granted", "prior_spend", "charged", "reserved", "held", "resolved")
    return {name: sum(one[n] for one in soak.accounts.values()) for n, name in enumerate(names)}


def _commit() -> str:
    """What is checked out, where git can say it."""
    try:
        run = subprocess.run(["git", "rev-parse", "HEAD"], cwd=PROJECT_ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return run.stdout.strip()


def _version() -> str:
    try:
        return version("countersign")
    except PackageNotFoundError:
        return "not installed"
