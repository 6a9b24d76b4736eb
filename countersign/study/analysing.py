"""A study's analysis, asked of the verifier and kept beside the records (design/study.md, Analysis)."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from countersign.kit.canonical import sha256
from countersign.kit.rpc_errors import from_rpc_error
from countersign.study.errors import DoesNotAddUp, ServiceFailed
from countersign.study.files import read_bytes, write_atomically
from countersign.study.manifest import Manifest
from countersign.study.records import RECORDS_FOLDER, RecordStore
from countersign.study.services import service_trouble
from countersign.verifier.v1 import verifier_pb2 as pb
from countersign.verifier.v1 import verifier_pb2_grpc

ANALYSIS_NAME = "analysis.json"
EPISODES_NAME = "episodes.jsonl"
ANALYSE_SECONDS = 3600.0
"""The deadline of a whole analysis, which reads every receipt of a study."""

PART_BYTES = 4 * 1024 * 1024
"""Where the client begins another message."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the verifier found: its analysis, and a line for each planned episode in frozen order."""

    document: dict[str, Any]
    episodes: list[dict[str, Any]]
    raw: bytes
    raw_episodes: bytes

    def keep(self, folder: Path) -> None:
        """Write both into `folder`. Raises BadInput."""
        write_atomically(folder / EPISODES_NAME, self.raw_episodes)
        write_atomically(folder / ANALYSIS_NAME, self.raw)


async def analyse(stub: verifier_pb2_grpc.VerifierServiceStub, manifest: Manifest, folder: Path) -> Analysis:
    """Have the study in `folder` analysed from its receipts and records.

    Raises ServiceFailed and ServiceRefused, and DoesNotAddUp where the answer is cut or is not what its digest says.
    """
    files = RecordStore(manifest.folder(folder) / RECORDS_FOLDER).files()
    lines: list[bytes] = []
    last: pb.AnalyzeStudyResponse | None = None
    try:
        async for message in stub.AnalyzeStudy(_parts(manifest, files), timeout=ANALYSE_SECONDS):
            if message.episode:
                lines.append(message.episode)
            else:
                last = message
    except grpc.aio.AioRpcError as error:
        raise service_trouble("verifier", from_rpc_error(error)) from None
    if last is None:
        raise ServiceFailed("the verifier ended its analysis early: ask again")
    if sha256(last.analysis) != last.digest:
        raise DoesNotAddUp("the verifier's analysis is not what its digest says: ask again")
    episodes = [json.loads(line) for line in lines]
    return Analysis(json.loads(last.analysis), episodes, last.analysis, b"".join(line + b"\n" for line in lines))


def _parts(manifest: Manifest, files: Sequence[Path]) -> Iterator[pb.AnalyzeStudyRequest]:
    """The request's messages, none much above PART_BYTES unless one record is."""
    frozen = manifest.original
    for start in range(0, len(frozen), PART_BYTES):
        yield pb.AnalyzeStudyRequest(study_id=manifest.study_id, manifest=frozen[start : start + PART_BYTES])
    for amendment in manifest.amendments:
        yield pb.AnalyzeStudyRequest(amendments=[amendment])
    records: list[bytes] = []
    size = 0
    for path in files:
        record = read_bytes(path)
        if records and size + len(record) > PART_BYTES:
            yield pb.AnalyzeStudyRequest(records=records)
            records, size = [], 0
        records.append(record)
        size += len(record)
    if records:
        yield pb.AnalyzeStudyRequest(records=records)
