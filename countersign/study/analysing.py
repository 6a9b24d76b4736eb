"""A study's analysis, asked of the verifier and kept beside the records (design/study.md, Analysis)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
class VisibleText:
    """What the model wrote in one admitted answer: its beginning, and how many characters are left out."""

    text: str
    left_out: int


@dataclass(frozen=True, slots=True)
class ShownPacket:
    """What a model is told first, in one case of the study."""

    template: str
    arm: str
    message: str
    packet: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the verifier found: its analysis, and a line for each planned episode in frozen order.

    `packets` and `texts` are there where they were asked for, and are kept in no file; texts are by episode id and
    turn.
    """

    document: dict[str, Any]
    episodes: list[dict[str, Any]]
    raw: bytes
    raw_episodes: bytes
    texts: Mapping[str, Mapping[int, VisibleText]] = field(default_factory=dict)
    packets: Sequence[ShownPacket] = ()

    def keep(self, folder: Path) -> None:
        """Write both into `folder`. Raises BadInput."""
        write_atomically(folder / EPISODES_NAME, self.raw_episodes)
        write_atomically(folder / ANALYSIS_NAME, self.raw)


async def analyse(
    stub: verifier_pb2_grpc.VerifierServiceStub,
    manifest: Manifest,
    folder: Path,
    *,
    texts: bool = False,
    packets: bool = False,
) -> Analysis:
    """Have the study in `folder` analysed from its receipts and records.

    With `texts`, what the model wrote in admitted answers comes too; with `packets`, what it was told first. Raises
    ServiceFailed and ServiceRefused, and DoesNotAddUp where the answer is cut or is not what its digest says.
    """
    files = RecordStore(manifest.folder(folder) / RECORDS_FOLDER).files()
    wanted = pb.AnalyzeStudyRequest(study_id=manifest.study_id, include_texts=texts, include_packets=packets)
    gathered = _Gathered()
    try:
        async for message in stub.AnalyzeStudy(_parts(wanted, manifest, files), timeout=ANALYSE_SECONDS):
            gathered.take(message)
    except grpc.aio.AioRpcError as error:
        raise service_trouble("verifier", from_rpc_error(error)) from None
    return gathered.analysis()


class _Gathered:
    """The parts of an answer as they come."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._episodes: list[dict[str, Any]] = []
        self._texts: dict[str, dict[int, VisibleText]] = {}
        self._packets: list[ShownPacket] = []
        self._last: pb.AnalyzeStudyResponse | None = None

    def take(self, message: pb.AnalyzeStudyResponse) -> None:
        """Keep what one message has."""
        if message.episode:
            episode = json.loads(message.episode)
            self._lines.append(message.episode)
            self._episodes.append(episode)
            if message.texts:
                self._texts[episode["episode_id"]] = _visible(message)
        elif message.HasField("packet"):
            one = message.packet
            self._packets.append(ShownPacket(one.template, one.arm, one.message, json.loads(one.packet)))
        else:
            self._last = message

    def analysis(self) -> Analysis:
        """All of it. Raises ServiceFailed where the end is missing, DoesNotAddUp where its digest is another."""
        if self._last is None:
            raise ServiceFailed("the verifier ended its analysis early: ask again")
        raw = self._last.analysis
        if sha256(raw) != self._last.digest:
            raise DoesNotAddUp("the verifier's analysis is not what its digest says: ask again")
        lines = b"".join(line + b"\n" for line in self._lines)
        return Analysis(json.loads(raw), self._episodes, raw, lines, self._texts, self._packets)


def _visible(message: pb.AnalyzeStudyResponse) -> dict[int, VisibleText]:
    return {one.turn: VisibleText(one.text, one.characters_count - len(one.text)) for one in message.texts}


def _parts(
    wanted: pb.AnalyzeStudyRequest, manifest: Manifest, files: Sequence[Path]
) -> Iterator[pb.AnalyzeStudyRequest]:
    """The request's messages, none much above PART_BYTES unless one record is; `wanted` says what is asked for."""
    yield wanted
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
