"""Every mutation of the ledger as a command: checked when it is made, decided on a workspace, without I/O or clock.

| module | commands |
|---|---|
| `accounts` | OpenAccount, GrantBudget, RecordPriorSpend |
| `studies` | OpenStudy |
| `reservations` | Reserve |
| `outcomes` | RecordReceipt, Hold |
| `resolutions` | ResolveHold |
| `leases` | ExpireOverdue |
"""
