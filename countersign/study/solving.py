"""Configurations of exact comparators as files have them, and what the verifier makes of each (docs/comparators.md)."""

import gzip
import json
import math
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from countersign.environment.v1 import environment_pb2 as env
from countersign.kit.channel import call
from countersign.kit.rpc_errors import ServiceError
from countersign.study.errors import BadFields, BadInput
from countersign.study.fields import read_contract, read_weights, read_world
from countersign.study.files import read_bytes
from countersign.study.lines import GZIP_MAGIC, member
from countersign.study.services import is_failure, service_trouble
from countersign.verifier.v1 import verifier_pb2 as verifier
from countersign.verifier.v1 import verifier_pb2_grpc

SOLVE_SECONDS = 3600.0
"""The deadline of one solution; the state limit ends what is hopeless long before."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """One case to solve; `where` names its place in the file."""

    id: str
    where: str
    definition: env.CaseDefinition


@dataclass(frozen=True, slots=True)
class Solved:
    """One answer: the line to show, and the policy's and the certificate's canonical JSON."""

    line: dict[str, Any]
    policy: bytes
    certificate: bytes


def read_configurations(path: Path) -> list[Configuration | BadInput]:
    """Every configuration of a JSON list or a JSONL file, plain or gzip; what cannot be read stands in its place.

    Raises BadInput where the file itself cannot be read.
    """
    content = read_bytes(path)
    if content.startswith(GZIP_MAGIC):
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error):
            raise BadInput(f"{path}: the gzip data is damaged") from None
    return [_configuration(item, where) for where, item in _items(path, content)]


async def solve_configuration(
    stub: verifier_pb2_grpc.VerifierServiceStub, one: Configuration, state_limit: int, raw_histories: bool
) -> Solved | BadInput:
    """Have one configuration solved; a refusal is returned, naming its place. Raises ServiceFailed."""
    request = verifier.SolveComparatorRequest(
        definition=one.definition, state_limit=state_limit, raw_histories=raw_histories
    )
    began = time.perf_counter()
    try:
        answer = await call(stub.SolveComparator, request, SOLVE_SECONDS)
    except ServiceError as error:
        if error.status is grpc.StatusCode.DEADLINE_EXCEEDED:
            return BadInput(f"{one.where}: not solved within {SOLVE_SECONDS:.0f} s")
        if is_failure(error):
            raise service_trouble("verifier", error) from None
        return BadInput(f"{one.where}: {service_trouble('verifier', error).message}")
    line = {
        "id": one.id,
        "expected_loss": answer.expected_loss,
        "first_action": answer.first_action,
        "states": answer.states_count,
        "seconds": round(time.perf_counter() - began, 6),
        "certificate_digest": answer.certificate_digest.hex(),
    }
    return Solved(line, answer.policy, answer.certificate)


def _items(path: Path, content: bytes) -> Iterator[tuple[str, Any]]:
    """Each configuration with its place; BadInput in place of one that is not JSON."""
    if content.lstrip().startswith(b"["):
        whole = _json(content, str(path))
        if isinstance(whole, BadInput):
            raise whole
        for number, item in enumerate(whole, start=1):
            yield f"{path} item {number}", item
        return
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            where = f"{path} line {number}"
            yield where, _json(line, where)


def _json(content: bytes, where: str) -> Any:
    try:
        return json.loads(content, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return BadInput(f"{where}: is not JSON")


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _configuration(item: Any, where: str) -> Configuration | BadInput:
    if isinstance(item, BadInput):
        return item
    if not isinstance(item, dict):
        return BadInput(f"{where}: is not a JSON object")
    try:
        return Configuration(member(item, "id", str, where), where, _definition(item, where))
    except BadFields as error:
        return BadInput(f"{where}: {error.message}")
    except BadInput as error:
        return error


def _definition(item: Mapping[str, Any], where: str) -> env.CaseDefinition:
    environment = member(item, "environment", str, where)
    worlds = member(item, "worlds", list, where)
    return env.CaseDefinition(
        contract=read_contract(environment, member(item, "contract", dict, where)),
        support=[read_world(environment, _object(world, f"{where}: worlds")) for world in worlds],
        prior=[_share(share, where) for share in member(item, "prior", list, where)],
        loss_weights=read_weights(_object(item.get("weights", {}), f"{where}: weights")),
        operator_prefix=[_text(tool, where) for tool in _list(item.get("operator_prefix", []), where)],
    )


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(f"{where}: must be an object")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadInput(f"{where}: operator_prefix: must be a list of tool names")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise BadInput(f"{where}: operator_prefix: must be a list of tool names")
    return value


def _share(value: Any, where: str) -> float:
    if type(value) not in (int, float) or not 0 <= value <= 1 or math.isnan(value):
        raise BadInput(f"{where}: prior: each share must be a number from 0 to 1")
    return float(value)
