"""A study's analysis as a whole: its parts as they come, and what the service does meanwhile."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from countersign.kit.errors import InvalidArgument
from countersign.kit.wording import load_wording
from countersign.verifier.v1 import verifier_pb2 as pb
from tests.verifier_svc.analysis.studies import body, digested, study
from verifier_svc import studies
from verifier_svc.episode import StoredCall
from verifier_svc.packets import DeclaredCase
from verifier_svc.studies import StudyParts, analyse_study, read_parts


class NothingSpent:
    """A ledger that knows no call of the study."""

    async def of_episode(self, study_id: str, episode_id: str) -> list[StoredCall]:
        raise AssertionError("nobody asks for what is not there")

    async def count_calls(self, study_id: str) -> Mapping[str, int]:
        return {}

    async def balances(self, account_id: str, study_id: str) -> Mapping[str, int]:
        return dict.fromkeys(("CHARGED", "RESERVED", "HELD", "RESOLVED"), 0)


async def unsolved(case: DeclaredCase) -> float | None:
    return None


async def sent(*requests: pb.AnalyzeStudyRequest) -> AsyncIterator[pb.AnalyzeStudyRequest]:
    for request in requests:
        yield request


async def test_parts_may_come_in_any_number_of_messages() -> None:
    parts = await read_parts(
        sent(
            pb.AnalyzeStudyRequest(study_id="s", manifest=b"{", records=[b"first", b"second"]),
            pb.AnalyzeStudyRequest(manifest=b"}", amendments=[b"amendment"], include_texts=True),
            pb.AnalyzeStudyRequest(records=[b"", b"last" * 1_000]),
        )
    )
    assert (parts.study_id, parts.manifest, parts.amendments) == ("s", b"{}", [b"amendment"])
    assert (parts.include_texts, parts.include_packets) == (True, False)
    records = [b"first", b"second", b"", b"last" * 1_000]
    assert list(parts.records) == [parts.records[number] for number in range(4)] == records


@pytest.mark.parametrize(
    ("request_", "field"),
    [(pb.AnalyzeStudyRequest(manifest=b"{}"), "study_id"), (pb.AnalyzeStudyRequest(study_id="s"), "manifest")],
)
async def test_a_part_that_is_missing_is_named(request_: pb.AnalyzeStudyRequest, field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await read_parts(sent(request_))
    assert refused.value.metadata["field"] == field


@pytest.mark.parametrize("step", ["read_study", "sort_records", "stray_calls", "analyse"])
async def test_the_service_answers_others_while_a_large_study_is_worked_on(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    working, answered = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    known: Callable[..., Any] = getattr(studies, step)

    def slowly(*arguments: Any) -> Any:
        loop.call_soon_threadsafe(working.set)
        assert answered.wait(10), "nothing else ran meanwhile"
        return known(*arguments)

    async def others() -> None:
        await working.wait()
        answered.set()

    monkeypatch.setattr(studies, step, slowly)
    parts = StudyParts(study().study_id, digested(body()), [], studies.PackedRecords())
    asked = asyncio.create_task(others())
    messages = [one async for one in analyse_study(parts, NothingSpent(), load_wording(), unsolved)]
    await asked
    assert len(messages) == len(body()["episodes"]) + 1
