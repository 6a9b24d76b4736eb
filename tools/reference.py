"""Write the reference pages of the site: the contracts from their comments, the errors from their enum and the code.

`python tools/reference.py --out build/reference`. Nothing here is written by hand, so nothing can fall behind: calls,
messages, fields and values come from protos/, and what an error carries comes from the code that raises it.
"""

import argparse
import re
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from error_sources import Declared, declared_errors
from generate import ROOT
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    EnumValueDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
    ServiceDescriptorProto,
)
from grpc_tools import protoc

PAGES = {
    "countersign/ledger/v1/ledger.proto": "ledger",
    "countersign/adapter/v1/adapter.proto": "adapter",
    "countersign/verifier/v1/verifier.proto": "verifier",
    "countersign/environment/v1/environment.proto": "environment",
    "google/type/money.proto": "types",
}
ERRORS = "countersign/errordetails/v1/error_reason.proto"
PREFIX = "ERROR_REASON_"

Field = FieldDescriptorProto
SCALARS = {number: name.removeprefix("TYPE_").lower() for name, number in Field.Type.items()}
# Numbers of members in descriptor.proto, as a source location's path has them.
MESSAGES, ENUMS, SERVICES, METHODS, FIELDS, ONEOFS, VALUES, PACKAGE = 4, 5, 6, 2, 2, 8, 2, 2


class Contract:
    """One .proto file with its comments; `where` finds the page and anchor of any type of the contracts."""

    def __init__(self, file: FileDescriptorProto, where: dict[str, str]) -> None:
        self.file = file
        self._where = where
        self._comments = {tuple(at.path): at.leading_comments for at in file.source_code_info.location}

    def comment(self, *path: int) -> str:
        """The comment before the element at `path`, as one paragraph a blank line."""
        paragraphs = re.split(r"\n\s*\n", self._comments.get(path, "").strip())
        return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)

    def link(self, full_name: str) -> str:
        """A type's name, linked where a page has it; `full_name` begins with a dot, as descriptors write it."""
        short = f"`{full_name.rpartition('.')[2]}`"
        place = self._where.get(full_name)
        if place is None:
            return short
        page, anchor = place.split("#")
        return f"[{short}]({'' if page == PAGES.get(self.file.name) else page + '.md'}#{anchor})"


def main() -> None:
    """Write every page into the folder that `--out` names."""
    parser = argparse.ArgumentParser(description="Write the reference pages of the site.")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the pages")
    folder: Path = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages(ROOT).items():
        (folder / name).write_text(text, "utf-8")


def pages(root: Path) -> dict[str, str]:
    """Every page's text by its file name; raises SystemExit where protoc refuses a contract."""
    files = {file.name: file for file in descriptors(root).file}
    where = dict(_anchors(files))
    made = {f"{page}.md": contract_page(Contract(files[name], where)) for name, page in PAGES.items()}
    made["errors.md"] = errors_page(Contract(files[ERRORS], where), declared_errors(root))
    return made


def descriptors(root: Path) -> FileDescriptorSet:
    """The contracts in protos/, compiled, with their comments."""
    protos = root / "protos"
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "contracts.binpb"
        well_known = resources.files("grpc_tools") / "_proto"
        arguments = ["protoc", f"--proto_path={protos}", f"--proto_path={well_known}", "--include_source_info"]
        arguments += [f"--descriptor_set_out={out}", *(str(path) for path in sorted(protos.glob("**/*.proto")))]
        if protoc.main(arguments) != 0:
            raise SystemExit("protoc refused the contracts in protos/")
        return FileDescriptorSet.FromString(out.read_bytes())


def _anchors(files: dict[str, FileDescriptorProto]) -> Iterator[tuple[str, str]]:
    for name, page in PAGES.items():
        file = files[name]
        names = [message.name for message in file.message_type] + [enum.name for enum in file.enum_type]
        for short in (*names, *(service.name for service in file.service)):
            yield f".{file.package}.{short}", f"{page}#{short}"


def contract_page(contract: Contract) -> str:
    """The page of one contract: its services, then its messages, then its enums."""
    file = contract.file
    package = contract.comment(PACKAGE).rpartition("\n\n")[2]
    parts = [f"# `{file.package}`", package, f"From `protos/{file.name}`. This page is generated from its comments."]
    for index, service in enumerate(file.service):
        parts.extend(_service(contract, service, (SERVICES, index)))
    if file.message_type:
        parts.append("## Messages")
    for index, message in enumerate(file.message_type):
        parts.extend(_message(contract, message, (MESSAGES, index)))
    if file.enum_type:
        parts.append("## Enums")
    for index, enum in enumerate(file.enum_type):
        parts.extend(_enum(contract, enum, (ENUMS, index)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _service(contract: Contract, service: ServiceDescriptorProto, path: tuple[int, ...]) -> Iterator[str]:
    yield f"## {service.name} {{#{service.name}}}"
    yield contract.comment(*path)
    for index, method in enumerate(service.method):
        yield f"### {method.name} {{#{service.name}.{method.name}}}"
        yield contract.comment(*path, METHODS, index)
        yield _signature(contract, method)


def _signature(contract: Contract, method: MethodDescriptorProto) -> str:
    asked, answered = contract.link(method.input_type), contract.link(method.output_type)
    asked = f"a stream of {asked}" if method.client_streaming else asked
    answered = f"a stream of {answered}" if method.server_streaming else answered
    return f"Takes {asked}, answers {answered}."


def _message(contract: Contract, message: DescriptorProto, path: tuple[int, ...]) -> Iterator[str]:
    yield f"### {message.name} {{#{message.name}}}"
    yield contract.comment(*path)
    if not message.field:
        yield "It has no fields."
        return
    rows = ["| field | type | meaning |", "|---|---|---|"]
    maps = {f".{contract.file.package}.{message.name}.{entry.name}": entry for entry in message.nested_type}
    announced: set[int] = set()
    for index, field in enumerate(message.field):
        choice = field.oneof_index if field.HasField("oneof_index") and not field.proto3_optional else None
        if choice is not None and choice not in announced:
            announced.add(choice)
            name, said = message.oneof_decl[choice].name, contract.comment(*path, ONEOFS, choice)
            rows.append(f"| *{name}* | one of the next | {_cell(said)} |")
        name = f"`{field.name}`" if choice is None else f"· `{field.name}`"
        said = _cell(contract.comment(*path, FIELDS, index))
        rows.append(f"| {name} | {_type(contract, field, maps)} | {said} |")
    yield "\n".join(rows)


def _type(contract: Contract, field: Field, maps: dict[str, DescriptorProto]) -> str:
    if field.type_name in maps:
        key, value = (_type(contract, part, {}) for part in maps[field.type_name].field)
        return f"map of {key} to {value}"
    plain = contract.link(field.type_name) if field.type_name else f"`{SCALARS[field.type]}`"
    if field.label == Field.LABEL_REPEATED:
        return f"repeated {plain}"
    return f"optional {plain}" if field.proto3_optional else plain


def _enum(contract: Contract, enum: EnumDescriptorProto, path: tuple[int, ...]) -> Iterator[str]:
    yield f"### {enum.name} {{#{enum.name}}}"
    yield contract.comment(*path)
    rows = ["| value | number | meaning |", "|---|---|---|"]
    for index, value in enumerate(enum.value):
        rows.append(f"| `{value.name}` | {value.number} | {_cell(contract.comment(*path, VALUES, index))} |")
    yield "\n".join(rows)


def _cell(text: str) -> str:
    """`text` as one cell of a table."""
    return text.replace("\n\n", "<br>").replace("|", "\\|")


def errors_page(contract: Contract, declared: dict[str, list[Declared]]) -> str:
    """The page of the reasons: what each means, its status and what its metadata holds."""
    (enum,) = contract.file.enum_type
    reasons = [(value, value.name.removeprefix(PREFIX)) for value in enum.value if value.number]
    parts = [ERRORS_HEAD, contract.comment(ENUMS, 0)]
    rows = ["| reason | status | metadata |", "|---|---|---|"]
    rows += [
        f"| [`{name}`](#{name}) | {_statuses(declared.get(name, []))} | {_keys(declared.get(name, []))} |"
        for _, name in reasons
    ]
    parts.append("\n".join(rows))
    for index, (value, name) in enumerate(reasons, start=1):
        parts.append(_reason(name, value, contract.comment(ENUMS, 0, VALUES, index), declared.get(name, [])))
    return "\n\n".join(parts) + "\n"


ERRORS_HEAD = """# Why a call fails

A refused call ends with a gRPC status, one line that says what to do, and a `google.rpc.ErrorInfo` in its details: the
reason, the domain and metadata. Programs go by the reason; the line's wording may change.
[Clients in other languages](../clients.md) shows how to read it. A technical unknown is no error: it is a value in a
successful answer.

This page is generated: the meanings and examples from the comments in
`protos/countersign/errordetails/v1/error_reason.proto`, the statuses and metadata keys from the code that raises each
error. Where several statuses or keys are named, not every such refusal has all of them."""


def _reason(name: str, value: EnumValueDescriptorProto, comment: str, declared: list[Declared]) -> str:
    meaning, _, example = comment.partition(" Example: ")
    lines = [f"## {name} {{#{name}}}", meaning]
    if example:
        lines.append(f"```text\n{example}\n```")
    if not declared:
        lines.append(f"Number {value.number}. This version never sends it.")
        return "\n\n".join(lines)
    facts = {
        "status": _statuses(declared),
        "metadata": _keys(declared),
        "from": _senders(declared),
        "number": value.number,
    }
    lines.append("\n".join(f"- {name}: {fact}" for name, fact in facts.items()))
    return "\n\n".join(lines)


def _senders(declared: list[Declared]) -> str:
    senders = sorted({sender for one in declared for sender in one.senders})
    return "every service" if "every service" in senders else "the " + ", the ".join(senders)


def _statuses(declared: list[Declared]) -> str:
    return ", ".join(f"`{status}`" for status in sorted({one.status for one in declared})) or "never sent"


def _keys(declared: list[Declared]) -> str:
    return ", ".join(f"`{key}`" for key in sorted({key for one in declared for key in one.keys})) or "none"


if __name__ == "__main__":
    main()
