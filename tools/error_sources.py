"""What the code says of its errors: the reason, the status and the metadata keys of each, read from its source."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

KIT = "countersign/kit"
SERVICES = {"adapter_svc": "adapter", "ledger_svc": "ledger", "verifier_svc": "verifier"}
ROOT_CLASS = "CountersignError"


@dataclass(slots=True)
class Declared:
    """One class of errors: its reason and gRPC status, the metadata keys that it is ever raised with, and by whom."""

    name: str
    reason: str
    status: str
    keys: set[str] = field(default_factory=set)
    senders: set[str] = field(default_factory=set)


def declared_errors(root: Path) -> dict[str, list[Declared]]:
    """Every error of the services and the kit, by its reason."""
    kit, shared_sender = _read(root / KIT), "every service"
    shared = _classes(kit, {}, shared_sender)
    _add_keys(kit, shared)
    every = [*shared.values(), *_spelled_out(kit, shared_sender)]
    for folder, sender in SERVICES.items():
        trees = _read(root / folder)
        own = _classes(trees, shared, sender)
        _add_keys(trees, shared | own)
        every.extend(own.values())
    found: dict[str, list[Declared]] = {}
    for one in every:
        found.setdefault(one.reason, []).append(one)
    return found


def _read(folder: Path) -> list[ast.Module]:
    return [ast.parse(path.read_text("utf-8")) for path in sorted(folder.rglob("*.py"))]


def _classes(trees: list[ast.Module], known: dict[str, Declared], sender: str) -> dict[str, Declared]:
    """The error classes that `trees` define, by name; one without a reason or status of its own has its base's."""
    found: dict[str, Declared] = {}
    waiting = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    while True:
        ready = [node for node in waiting if node.name == ROOT_CLASS or _base(node, known | found) is not None]
        if not ready:
            return found
        for node in ready:
            waiting.remove(node)
            base = _base(node, known | found)
            own = dict(_attributes(node))
            reason, status = own.get("reason"), own.get("status")
            if base is not None:
                reason, status = reason or base.reason, status or base.status
            assert reason is not None
            assert status is not None
            found[node.name] = Declared(node.name, reason, status, senders={sender})


def _base(node: ast.ClassDef, known: dict[str, Declared]) -> Declared | None:
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in known:
            return known[base.id]
    return None


def _attributes(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """The class's `reason` and `status`, as far as it sets them."""
    for statement in node.body:
        match statement:
            case (
                ast.AnnAssign(target=ast.Name(id=name), value=value)
                | ast.Assign(targets=[ast.Name(id=name)], value=value)
            ):
                match value:
                    case ast.Constant(value=str(text)):
                        yield name, text
                    case ast.Attribute(attr=text):
                        yield name, text


def _add_keys(trees: list[ast.Module], known: dict[str, Declared]) -> None:
    """Add the keyword names with which each class is called, here or by its own `__init__`."""
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name in known:
                for call in ast.walk(node):
                    if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__":
                        known[node.name].keys.update(keyword.arg for keyword in call.keywords if keyword.arg)
            if isinstance(node, ast.Call) and (name := _called(node)) in known:
                known[name].keys.update(keyword.arg for keyword in node.keywords if keyword.arg)


def _called(call: ast.Call) -> str:
    """The name that is called, whether or not its module stands before it."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _spelled_out(trees: list[ast.Module], sender: str) -> Iterator[Declared]:
    """Errors without a class: a status and a reason that are handed to `_status` as they stand."""
    for tree in trees:
        for node in ast.walk(tree):
            match node:
                case ast.Call(
                    func=ast.Name(id="_status"), args=[ast.Attribute(attr=status), ast.Constant(value=str(reason)), *_]
                ):
                    yield Declared("", reason, status, senders={sender})
