"""`countersign ledger`: balances, calls, the journal, and an operator's decisions (design/ledger.md)."""

import typer

from countersign.cli import ledger_balances, ledger_budgets, ledger_export, ledger_holds, ledger_journal
from countersign.cli.token import token

app = typer.Typer(help="Balances, calls, the journal, and an operator's decisions.")

app.command("summary")(ledger_balances.summary)
app.command("account")(ledger_balances.account)
app.command("study")(ledger_balances.study)
app.command("calls")(ledger_holds.calls)
app.command("holds")(ledger_holds.holds)
app.command("resolve")(ledger_holds.resolve)
app.command("open-account")(ledger_budgets.open_account)
app.command("open-study")(ledger_budgets.open_study)
app.command("grant")(ledger_budgets.grant)
app.command("prior-spend")(ledger_budgets.prior_spend)
app.command("verify")(ledger_journal.verify)
app.command("checkpoint-key")(ledger_journal.checkpoint_key)
app.command("checkpoint")(ledger_journal.checkpoint)
app.command("export")(ledger_export.export)
app.command("check-export")(ledger_export.check_export)
app.command("token")(token)
