"""The verifier's own reading of a frozen manifest and its amendments (docs/formats.md, Manifest)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format

from countersign.adapter.v1 import adapter_pb2
from countersign.kit.canonical import canonical_json, sha256
from countersign.kit.errors import InvalidArgument
from verifier_svc import messages
from verifier_svc.analysis.errors import InvalidManifest
from verifier_svc.analysis.held_out import audit_held_out
from verifier_svc.episode import EpisodeFacts, RouteFacts
from verifier_svc.packets import DeclaredCase
from verifier_svc.packets.build import DEFAULT_LOSS_WEIGHTS
from verifier_svc.receipts.strict import Limits, read
from verifier_svc.receipts.verdicts import Inadmissible

MANIFEST_SCHEMA = "countersign.manifest/1"
AMENDMENT_SCHEMA = "countersign.amendment/1"
DEVELOPMENT = "development"
IDENTITY_KEYS = ("route", "template", "world", "arm", "message", "repetition")
_LARGE = Limits(max_bytes=256 * 1024 * 1024)


@dataclass(frozen=True, slots=True)
class PlannedEpisode:
    """One planned episode: its id and the plan's own names for it."""

    episode_id: str
    identity: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FrozenStudy:
    """A manifest with its amendments applied. `digest` names the whole chain, in hexadecimal."""

    document: Mapping[str, Any]
    digest: str
    amendments: tuple[str, ...]
    episodes: tuple[PlannedEpisode, ...]
    templates: Mapping[str, Mapping[str, Any]]
    routes: Mapping[str, RouteFacts]

    @property
    def study_id(self) -> str:
        """The plan's name and the start of the chain's digest (design/study.md)."""
        return f"{self.document['name']}-{self.digest[:16]}"

    @property
    def account_id(self) -> str:
        """Who pays."""
        return str(self.document["account"]["id"])

    @property
    def currency(self) -> str:
        """The account's currency."""
        return str(self.document["account"]["currency"])

    def split(self, episode: PlannedEpisode) -> str:
        """`development` or `held-out`: where the episode's template belongs."""
        return str(self.templates[episode.identity["template"]].get("split", DEVELOPMENT))

    def case(self, identity: Mapping[str, Any]) -> DeclaredCase:
        """The case that an episode plays."""
        template = self.templates[identity["template"]]
        return DeclaredCase(
            environment=template["environment"],
            contract=template["contract"],
            support=[_fields(world) for world in template["worlds"]],
            prior=template["prior"],
            procedure_instruction=_named(self.document["arms"], identity["arm"])["instruction"],
            untrusted_message=_named(self.document["messages"], identity["message"])["body"],
            operator_prefix=template["operator_prefix"],
            loss_weights={**DEFAULT_LOSS_WEIGHTS, **template["loss_weights"]},
        )

    def facts(self, episode: PlannedEpisode, wording: Mapping[str, Any], wording_digest: str) -> EpisodeFacts:
        """What the plan fixed of an episode."""
        identity = episode.identity
        worlds = self.templates[identity["template"]]["worlds"]
        return EpisodeFacts(
            study_id=self.study_id,
            episode_id=episode.episode_id,
            case=self.case(identity),
            world=_fields(_named(worlds, identity["world"])),
            route=self.routes[identity["route"]],
            wording=wording,
            wording_digest=wording_digest,
            manifest_digest=self.digest,
        )


def read_study(manifest: bytes, amendments: Sequence[bytes]) -> FrozenStudy:
    """The frozen study. Raises InvalidManifest where a digest, a parent or the form is not as documented, or a held-out
    template is not what was committed to.
    """
    document, digest = _digested(manifest, "manifest", MANIFEST_SCHEMA, "manifest_digest")
    frozen, chain, parent = document, [digest], digest
    for number, raw in enumerate(amendments):
        amendment, digest = _digested(raw, f"amendments/{number}", AMENDMENT_SCHEMA, "amendment_digest")
        if amendment.get("parent") != parent or not isinstance(amendment.get("replace"), dict):
            raise InvalidManifest("an amendment does not follow the one before", field=f"amendments/{number}/parent")
        document = {**document, **amendment["replace"]}
        chain.append(digest)
        parent = digest
    whole = chain[0] if len(chain) == 1 else sha256("".join(chain).encode("ascii")).hex()
    try:
        audit_held_out(frozen, document)
        return _study(document, whole, tuple(chain[1:]))
    except (KeyError, TypeError, AttributeError, ValueError, json_format.ParseError):
        raise InvalidManifest("the manifest is not of the documented form", field="manifest") from None


def _digested(raw: bytes, field: str, schema: str, member: str) -> tuple[dict[str, Any], str]:
    try:
        value = read(raw, _LARGE)
    except Inadmissible:
        raise InvalidManifest("not strict JSON", field=field) from None
    if not isinstance(value, dict) or value.get("schema") != schema:
        raise InvalidManifest(f"the schema is not {schema}", field=field)
    body = {name: part for name, part in value.items() if name != member}
    digest = sha256(canonical_json(body)).hex()
    if value.get(member) != digest:
        raise InvalidManifest("it does not have the digest that it states", field=f"{field}/{member}")
    return body, digest


def _study(document: Mapping[str, Any], digest: str, amendments: tuple[str, ...]) -> FrozenStudy:
    episodes = tuple(_planned(one, number) for number, one in enumerate(document["episodes"]))
    if len({episode.episode_id for episode in episodes}) != len(episodes):
        raise InvalidManifest("an episode is planned twice", field="manifest/episodes")
    study = FrozenStudy(
        document=document,
        digest=digest,
        amendments=amendments,
        episodes=episodes,
        templates={one["name"]: one for one in document["templates"]},
        routes={one["name"]: _route(one) for one in document["routes"]},
    )
    for identity in {tuple(episode.identity.values()): episode.identity for episode in episodes}.values():
        study.case(identity)
        study.routes[identity["route"]]
        _named(study.templates[identity["template"]]["worlds"], identity["world"])
    return study


def _planned(one: Mapping[str, Any], number: int) -> PlannedEpisode:
    identity = one["identity"]
    if set(identity) != set(IDENTITY_KEYS) or sha256(canonical_json(identity)).hex() != one["episode_id"]:
        raise InvalidManifest("an episode's id is not its identity's digest", field=f"manifest/episodes/{number}")
    return PlannedEpisode(one["episode_id"], identity)


def _route(frozen: Mapping[str, Any]) -> RouteFacts:
    """The route as the contract's message has it, then as the verifier takes every route."""
    route = adapter_pb2.Route(
        name=frozen["name"],
        base_url=frozen.get("base_url") or "",
        wire_format=adapter_pb2.WireFormat.Value(f"WIRE_FORMAT_{frozen['wire_format'].upper()}"),
        streamed=frozen.get("streamed", False),
        model=frozen["model"],
        identity=adapter_pb2.ExpectedIdentity(
            model=frozen["model"], aliases=frozen["aliases"], provider_name=frozen["provider_name"]
        ),
        charge_reported_cost=frozen["charge_reported_cost"],
        output_cap=frozen["output_cap"],
        output_cap_member=frozen["output_cap_member"],
        input_limit_bytes=frozen["input_limit_bytes"],
        allowances=[
            adapter_pb2.DialectAllowance.Value(f"DIALECT_ALLOWANCE_{name.upper()}") for name in frozen["allowances"]
        ],
        request_options_json=canonical_json(frozen["request_options"]).decode("utf-8"),
    )
    if frozen["price"] == "free":
        route.free.SetInParent()
    else:
        known = {field.name for field in route.tokens.DESCRIPTOR.fields}
        for name, text in frozen["price"].items():
            if name in known and text is not None:
                setattr(route.tokens, name, text)
    try:
        return messages.route_of(route)
    except InvalidArgument:
        raise ValueError("route") from None


def _named(members: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    for one in members:
        if one["name"] == name:
            return one
    raise KeyError(name)


def _fields(world: Mapping[str, Any]) -> dict[str, Any]:
    """A world's own fields; null is absent."""
    return {name: value for name, value in world.items() if name != "name" and value is not None}
