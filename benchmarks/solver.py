"""What exact comparators cost: sufficient statistics against raw histories, both in one run, as ratios.

    python -m benchmarks.solver FILE [--raw-limit N]

FILE has configurations as `countersign solve` reads them. Each is solved by both methods; raw histories stop at the
limit. Times are processor seconds of one process (other processes on the machine count little), the statistics' the
best of several runs. The case is read and the policy executed and certified in both.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from verifier_svc.comparator import Budget, Case, Comparator, StateLimitExceeded, read_case, solve
from verifier_svc.packets import DeclaredCase

RAW_LIMIT = 200_000
RUNS = 5


def main() -> None:
    """Solve every configuration of the file by both methods and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--raw-limit", type=int, default=RAW_LIMIT, help="the most belief states of raw histories")
    options = parser.parse_args()
    print(f"{'configuration':<34}{'loss':>8} {'first action':<22}{'states':>8}{'seconds':>10}", end="")
    print(f"{'raw states':>12}{'raw seconds':>12}{'states x':>10}{'time x':>9}")
    for one in json.loads(options.file.read_text("utf-8")):
        print(line(one, options.raw_limit), flush=True)


def line(one: dict[str, Any], raw_limit: int) -> str:
    """One configuration by both methods; the raw part says "over" where the limit came first."""
    declared = DeclaredCase(
        environment=one["environment"],
        contract=one["contract"],
        support=one["worlds"],
        prior=one["prior"],
        procedure_instruction="",
        untrusted_message="",
        operator_prefix=one.get("operator_prefix", ()),
        loss_weights=one.get("weights"),
    )
    timed = [measure(read_case(declared)) for _ in range(RUNS)]
    comparator, seconds = timed[0][0], min(spent for _, spent in timed)
    begun = f"{one['id']:<34}{comparator.expected_loss:>8.4f} {comparator.first_action:<22}"
    begun += f"{comparator.states_count:>8}{seconds:>10.5f}"
    before = time.process_time()
    try:
        raw = solve(read_case(declared), Budget(raw_limit), raw_histories=True)
    except StateLimitExceeded:
        raw_seconds = time.process_time() - before
        over = f"{'> ' + str(raw_limit):>12}{'> ' + format(raw_seconds, '.2f'):>12}"
        return f"{begun}{over}{'> ' + format(raw_limit / comparator.states_count, '.0f'):>10}"
    raw_seconds = time.process_time() - before
    assert raw.certificate.policy == comparator.certificate.policy, one["id"]
    ratios = f"{raw.states_count / comparator.states_count:>10.0f}{raw_seconds / seconds:>9.0f}"
    return f"{begun}{raw.states_count:>12}{raw_seconds:>12.3f}{ratios}"


def measure(case: Case) -> tuple[Comparator, float]:
    """The comparator over sufficient statistics, and the processor seconds that it took."""
    before = time.process_time()
    comparator = solve(case)
    return comparator, time.process_time() - before


if __name__ == "__main__":
    main()
