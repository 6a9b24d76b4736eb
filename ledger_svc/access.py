"""Which roles may make which calls of the ledger (design/ledger.md, Access).

Receipts hold private text: auditors only. An adapter gets a slot's stored answer from `Reserve`, but only by naming the
very request that was answered. Each mutation inside `Transact` is checked as the unary call that it stands for.
"""

from countersign.kit.access import MethodRoles, Role

_OPERATOR = frozenset({Role.OPERATOR})
_ADAPTER = frozenset({Role.ADAPTER})
_AUDITOR = frozenset({Role.AUDITOR})
_CALLS = frozenset({Role.OPERATOR, Role.ADAPTER, Role.AUDITOR})
_BALANCES = frozenset({Role.OPERATOR, Role.AUDITOR, Role.READER})

METHOD_ROLES: MethodRoles = {
    "OpenAccount": _OPERATOR,
    "GrantBudget": _OPERATOR,
    "RecordPriorSpend": _OPERATOR,
    "OpenStudy": _OPERATOR,
    "Reserve": _ADAPTER,
    "RecordReceipt": _ADAPTER,
    "Hold": _ADAPTER,
    "ResolveHold": _OPERATOR,
    "GetCall": _CALLS,
    "ListCalls": _CALLS,
    "GetReceipt": _AUDITOR,
    "ListReceipts": _AUDITOR,
    "Summarize": _BALANCES,
    "ListAccounts": _BALANCES,
    "VerifyJournal": _AUDITOR,
    "ExportJournal": _AUDITOR,
    "Transact": _OPERATOR | _ADAPTER,
}
