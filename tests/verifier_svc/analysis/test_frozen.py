"""The verifier's reading of manifests and amendments (docs/formats.md, Manifest and amendments)."""

from typing import Any

import pytest

from countersign.kit.canonical import canonical_json, sha256
from tests.verifier_svc.analysis.studies import amendment, body, digest_of, digested, identity, planned, study
from verifier_svc.analysis import InvalidManifest, read_study
from verifier_svc.receipts.cost import Price


def test_a_manifest_gives_the_study_its_episodes_routes_and_cases() -> None:
    found = study()
    assert found.study_id == f"small-{digest_of(body())[:16]}"
    assert found.digest == digest_of(body())
    assert [dict(episode.identity) for episode in found.episodes][:2] == [identity(), identity(arm="verify")]
    assert found.routes["r"].price == Price("1", "2")
    case = found.case(found.episodes[0].identity)
    assert (case.environment, list(case.prior), case.support[1]) == (
        "event",
        [0.25, 0.75],
        {"need": True, "effective": True},
    )
    assert found.split(found.episodes[0]) == "development"


def test_amendments_replace_members_and_make_another_study() -> None:
    more = [planned(identity(repetition=2))]
    first = amendment(digest_of(body()), episodes=more)
    found = read_study(digested(body()), [first])
    assert [dict(episode.identity) for episode in found.episodes] == [identity(repetition=2)]
    parts = [digest_of(body()), *found.amendments]
    assert found.digest == sha256("".join(parts).encode()).hex()
    assert found.study_id != study().study_id
    second = amendment(found.amendments[0], study={"cap": "2"})
    assert read_study(digested(body()), [first, second]).document["study"] == {"cap": "2"}


@pytest.mark.parametrize(
    ("manifest", "amendments", "field"),
    [
        (b"{", [], "manifest"),
        (b"[]", [], "manifest"),
        (digested(body(schema="countersign.manifest/2")), [], "manifest"),
        (canonical_json({**body(), "manifest_digest": "00" * 32}), [], "manifest/manifest_digest"),
        (digested(body()).replace(b'"cap":"1"', b'"cap":"9"'), [], "manifest/manifest_digest"),
        (digested(body(episodes=[planned(identity())] * 2)), [], "manifest/episodes"),
        (digested(body(episodes=[{**planned(identity()), "episode_id": "00" * 32}])), [], "manifest/episodes/0"),
        (digested(body(episodes=[planned(identity(world="elsewhere"))])), [], "manifest"),
        (digested(body(episodes=[planned(identity(route="other"))])), [], "manifest"),
        (digested(body(routes=[{}])), [], "manifest"),
        (digested(body()), [amendment("00" * 32)], "amendments/0/parent"),
        (digested(body()), [amendment(digest_of(body())), amendment(digest_of(body()))], "amendments/1/parent"),
        (digested(body()), [digested(body())], "amendments/0"),
    ],
)
def test_what_is_not_intact_is_refused_with_its_place(manifest: bytes, amendments: list[Any], field: str) -> None:
    with pytest.raises(InvalidManifest) as caught:
        read_study(manifest, amendments)
    assert caught.value.metadata == {"field": field}
