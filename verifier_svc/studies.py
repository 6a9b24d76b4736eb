"""`AnalyzeStudy` from its first message to its last: reads the parts, fetches the evidence, streams the answer."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from countersign.kit.canonical import canonical_json, sha256
from countersign.kit.errors import InvalidArgument
from countersign.kit.wording import Wording
from countersign.verifier.v1 import verifier_pb2 as pb
from verifier_svc import metrics
from verifier_svc.analysis import (
    AnalysedEpisode,
    FrozenStudy,
    PlannedEpisode,
    analyse,
    analyse_episode,
    read_study,
    sort_records,
    stray_calls,
)
from verifier_svc.evidence import Evidence
from verifier_svc.metrics import Subject
from verifier_svc.packets import DeclaredCase, build_packet

EPISODES_AT_ONCE = 32
"""How many episodes' receipts are fetched at the same time."""

Comparator = Callable[[DeclaredCase], Awaitable[float | None]]
"""The exact comparator's expected loss of a case; None where it was not solved."""


MAX_TEXT_CHARACTERS = 16_384
"""Of what a model wrote in one answer; how long the whole is, is told."""


class PackedRecords:
    """Records by their numbers, kept small: an analysis reads each of them twice, and needs all of them to its end."""

    def __init__(self) -> None:
        self._packed: list[bytes] = []

    def extend(self, records: Iterable[bytes]) -> None:
        """Keep some more."""
        self._packed += (zlib.compress(record, level=1) for record in records)

    def __iter__(self) -> Iterator[bytes]:
        """Each record, in the order in which it came."""
        return map(zlib.decompress, self._packed)

    def __getitem__(self, number: int) -> bytes:
        """The record of that number, from 0."""
        return zlib.decompress(self._packed[number])


@dataclass(frozen=True, slots=True)
class StudyParts:
    """What the request's messages hold together."""

    study_id: str
    manifest: bytes
    amendments: list[bytes]
    records: PackedRecords
    include_texts: bool = False
    include_packets: bool = False


async def read_parts(requests: AsyncIterator[pb.AnalyzeStudyRequest]) -> StudyParts:
    """Every part of the request; a manifest may come in pieces. Raises InvalidArgument where one is missing."""
    study_id, manifest = "", bytearray()
    amendments: list[bytes] = []
    records = PackedRecords()
    include_texts = include_packets = False
    async for request in requests:
        include_texts |= request.include_texts
        include_packets |= request.include_packets
        study_id = study_id or request.study_id
        manifest += request.manifest
        amendments.extend(request.amendments)
        await asyncio.to_thread(records.extend, request.records)
    if not study_id:
        raise InvalidArgument("study_id is missing", field="study_id")
    if not manifest:
        raise InvalidArgument("manifest is missing", field="manifest")
    return StudyParts(study_id, bytes(manifest), amendments, records, include_texts, include_packets)


async def analyse_study(
    parts: StudyParts, evidence: Evidence, wording: Wording, comparator: Comparator
) -> AsyncIterator[pb.AnalyzeStudyResponse]:
    """The answer's messages: each planned episode in frozen order, packets if asked for, then the analysis.

    Raises InvalidManifest, InvalidArgument where the study is another one, and ServiceError of the ledger.
    """
    # What takes as long as the study is large is done in threads: the service answers others meanwhile.
    study = await asyncio.to_thread(read_study, parts.manifest, parts.amendments)
    if study.study_id != parts.study_id:
        raise InvalidArgument("the manifest and its amendments are another study's", field="study_id")
    records = await asyncio.to_thread(sort_records, study, parts.records)
    known = await evidence.count_calls(study.study_id)
    balances = await evidence.balances(study.account_id, study.study_id)
    done: list[AnalysedEpisode] = []
    comparators = await _by_template(study, comparator)

    async def one(planned: PlannedEpisode) -> AnalysedEpisode:
        episode_id = planned.episode_id
        stored = await evidence.of_episode(study.study_id, episode_id) if episode_id in known else []
        facts = study.facts(planned, wording.document, wording.digest.hex())
        mine = [parts.records[number] for number in records.by_episode.get(planned.episode_id, ())]
        best = comparators[planned.identity["template"]]
        work = partial(analyse_episode, study, planned, mine, stored, facts, best, with_texts=parts.include_texts)
        return await asyncio.to_thread(work)

    async for episode in _in_order(study, one):
        # The texts go out with the episode: all of them together are never held.
        done.append(replace(episode, said=()))
        metrics.verified(Subject.STUDY, (error.fault.value.lower() for error in episode.errors))
        yield pb.AnalyzeStudyResponse(episode=canonical_json(episode.to_json()), texts=_texts(episode))
    if parts.include_packets:
        for packet in _packets(study, wording):
            yield pb.AnalyzeStudyResponse(packet=packet)
    analysis = await asyncio.to_thread(
        lambda: canonical_json(analyse(study, done, balances, [*records.errors, *stray_calls(known, done)]))
    )
    yield pb.AnalyzeStudyResponse(analysis=analysis, digest=sha256(analysis))


def _texts(episode: AnalysedEpisode) -> list[pb.VisibleText]:
    return [
        pb.VisibleText(turn=turn, text=text[:MAX_TEXT_CHARACTERS], characters_count=len(text))
        for turn, text in episode.said
    ]


def _packets(study: FrozenStudy, wording: Wording) -> Iterator[pb.ShownPacket]:
    """Every case's packet once, in frozen order."""
    shown = set()
    for episode in study.episodes:
        key = tuple(str(episode.identity[name]) for name in ("template", "arm", "message"))
        if key not in shown:
            shown.add(key)
            template, arm, message = key
            packet = build_packet(study.case(episode.identity), wording.document)
            yield pb.ShownPacket(template=template, arm=arm, message=message, packet=packet)


async def _by_template(study: FrozenStudy, comparator: Comparator) -> dict[str, float | None]:
    """One case of each template solved: what arms and messages say changes no world and no loss."""
    solved: dict[str, float | None] = {}
    for episode in study.episodes:
        name = episode.identity["template"]
        if name not in solved:
            solved[name] = await comparator(study.case(episode.identity))
    return solved


async def _in_order(
    study: FrozenStudy, one: Callable[[PlannedEpisode], Coroutine[None, None, AnalysedEpisode]]
) -> AsyncIterator[AnalysedEpisode]:
    """Each planned episode's answer in frozen order, some at once; the first failure ends it all."""
    waiting: list[asyncio.Task[AnalysedEpisode]] = []
    planned = iter(study.episodes)
    try:
        while True:
            while len(waiting) < EPISODES_AT_ONCE and (episode := next(planned, None)) is not None:
                waiting.append(asyncio.create_task(one(episode)))
            if not waiting:
                return
            yield await waiting.pop(0)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
