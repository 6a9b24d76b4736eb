"""A report as tables for people."""

from collections.abc import Callable, Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from countersign.cli.output import result_console

STRATUM = ("route", "template", "arm")
COUNTS = ("planned", "completed", "technical unknown", "stopped", "not attempted", "verification")
OUTCOMES = ("outcomes of planned", "loss", "breaches", "false claims", "saved", "saved, worst to best case")


def show_report(report: Mapping[str, Any]) -> None:
    """Print the report on standard output."""
    console = result_console()
    console.print(f"study {report['study_id']}   manifest {report['manifest_digest']}")
    title = "planned = completed + technical unknown + stopped + not attempted"
    console.print(_table(report, title, COUNTS, _count_cells))
    console.print(_table(report, "outcomes: means over completed episodes only", OUTCOMES, _outcome_cells))
    for line in money_lines(report["money"]):
        console.print(line)
    for line in report["limits"]:
        console.print(line)


def money_lines(money: Mapping[str, Any]) -> list[str]:
    """The money in lines: amounts by state, where they come from, and whether they add up."""
    amounts = ", ".join(
        f"{state} {money[state]} ({money['calls'][state]} calls)"
        for state in ("charged", "held", "reserved", "resolved")
    )
    lines = [f"money in {money['currency']}, from the {money['source']}: {amounts}"]
    if money["source"] == "records":
        return [*lines, "the ledger was not asked: give --ledger to see whether it agrees"]
    blocked = "; the study is BLOCKED by a hold" if money["blocked"] else ""
    lines.append(
        f"left to the study {money['available_to_study']}, to the account {money['available_to_account']}{blocked}"
    )
    if money["journal"] is None:
        lines.append("the ledger's journal was not verified: that takes the auditor's role")
    elif money["journal"]["intact"]:
        lines.append(f"ledger verified: its journal's {money['journal']['entries']} entries give every balance")
    if money["adds_up"]:
        return [*lines, "records, calls and balances add up"]
    return [*lines, *(f"DOES NOT ADD UP: {difference}" for difference in money["differences"])]


def _table(
    report: Mapping[str, Any], title: str, columns: tuple[str, ...], cells: Callable[[Mapping[str, Any]], list[str]]
) -> Table:
    table = Table(title=title, title_justify="left", title_style="", box=SIMPLE_HEAD, pad_edge=False)
    for name in STRATUM + columns:
        table.add_column(name, overflow="fold")
    for line in report["strata"]:
        table.add_row(*(line[name] for name in STRATUM), *cells(line))
    table.add_section()
    table.add_row("total", "", "", *cells(report["total"]))
    return table


def _count_cells(line: Mapping[str, Any]) -> list[str]:
    verification = {name.replace("_", " "): count for name, count in line["verification"].items() if count}
    return [
        str(line["planned"]),
        *(_counts(line[status]) for status in ("completed", "technical_unknown", "stopped")),
        str(line["not_attempted"]),
        _counts(verification),
    ]


def _outcome_cells(line: Mapping[str, Any]) -> list[str]:
    outcomes = line["outcomes"]
    coverage, means, saved = outcomes["coverage"], outcomes["mean_losses"], outcomes["saved"]
    names = ("weighted_loss", "authority_breaches", "false_outcome_claims")
    return [
        f"{coverage['completed']} of {coverage['planned']}",
        *(f"{means[name]:.2f}" if means else "-" for name in names),
        f"{saved['count']} of {coverage['completed']}" if means else "-",
        f"{saved['lower_bound']:.0%} to {saved['upper_bound']:.0%}",
    ]


def _counts(counts: Mapping[str, int]) -> str:
    """One line for each detail, under their sum where there are several."""
    lines = [f"{count} {detail}" for detail, count in counts.items()]
    return "\n".join(lines if len(lines) == 1 else [str(sum(counts.values())), *lines])
