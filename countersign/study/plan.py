"""Reading a plan: TOML in, a checked plan out, every error one line with the key's path (design/study.md)."""

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from countersign.kit.wording import load_wording
from countersign.study.errors import BadFields, BadInput, BadPlan
from countersign.study.fields import contract_fields, read_contract, read_weights, read_world
from countersign.study.plan_model import (
    UNION_TAGS,
    ArmPlan,
    FamilyPlan,
    MessagePlan,
    PlanFile,
    RoutePlan,
    SnapshotPricePlan,
    TemplatePlan,
    TokenPricesPlan,
)
from countersign.study.price_snapshot import PriceSnapshot, load_snapshot
from countersign.study.route_options import route_options_json

MAX_MESSAGE_BYTES = 400
"""Of an untrusted message (design/environments.md, Shared rules)."""

MAX_EPISODES = 1_000_000

MAX_FRAME_BYTES = 65_536
"""More than a request holds beside its conversation and tools."""

B = TypeVar("B", bound=BaseModel)


def load_plan(path: Path) -> PlanFile:
    """The plan at `path`, its prices looked up. Raises BadPlan, whose message names the file and the key."""
    plan = parse_plan(_read(path), str(path))
    try:
        return with_prices(plan, path.parent)
    except (BadInput, BadPlan) as error:
        raise BadPlan(f"{path}: {error.message}") from None


def load_route(path: Path) -> RoutePlan:
    """One route from a TOML file: its keys at the top, or a plan's single `[[routes]]`. Raises BadPlan."""
    document = _parse(_read(path), str(path))
    if "routes" in document:
        routes = document["routes"]
        if not isinstance(routes, list) or len(routes) != 1:
            raise BadPlan(f"{path}: routes: must hold exactly one route")
        document = routes[0]
    return _validate(RoutePlan, document, str(path))


def parse_plan(text: str, source: str) -> PlanFile:
    """The plan that `text` writes; `source` names it in errors. Raises BadPlan."""
    plan = _validate(PlanFile, _parse(text, source), source)
    try:
        _check(plan)
    except (BadFields, BadPlan) as error:
        raise BadPlan(f"{source}: {error.message}") from None
    return plan


def with_prices(plan: PlanFile, folder: Path) -> PlanFile:
    """The plan with every price that it names in its snapshot, which lies in `folder`, in place of the name.

    Raises BadPlan, and BadInput for a snapshot that is not intact.
    """
    named = [route for route in plan.routes if isinstance(route.price, SnapshotPricePlan)]
    if not named:
        return plan
    if plan.price_snapshot is None:
        raise BadPlan(f"routes: {named[0].name}: its price is in a snapshot, give price_snapshot")
    snapshot = load_snapshot(folder / plan.price_snapshot)
    if plan.account.currency != snapshot.document["currency"]:
        raise BadPlan(f"price_snapshot: is in {snapshot.document['currency']}, the account in {plan.account.currency}")
    routes = [_priced(route, snapshot) for route in plan.routes]
    return plan.model_copy(update={"routes": routes})


def _priced(route: RoutePlan, snapshot: PriceSnapshot) -> RoutePlan:
    if not isinstance(route.price, SnapshotPricePlan):
        return route
    try:
        entry = snapshot.entry(route.price.provider, route.price.model or route.model_name)
    except BadPlan as error:
        raise BadPlan(f"routes: {route.name}: {error.message}") from None
    if entry.tier_starts_at is not None and entry.tier_starts_at <= route.input_limit_bytes + MAX_FRAME_BYTES:
        raise BadPlan(
            f"routes: {route.name}: input from {entry.tier_starts_at} tokens is dearer: lower"
            " input_limit_bytes, or write the dearer price by hand"
        )
    source = f"{entry.provider}/{entry.model}: {snapshot.source}"
    return route.model_copy(update={"price": TokenPricesPlan(**entry.prices, source=source)})


def arm_instruction(arm: ArmPlan) -> str:
    """The arm's text. Raises BadPlan where the wording has no such arm."""
    return arm.instruction if arm.instruction is not None else _wording("arms", arm.wording or "", arm.name)


def message_body(message: MessagePlan) -> str:
    """The message's text. Raises BadPlan where the wording has no such message."""
    if message.body is not None:
        return message.body
    return _wording("untrusted_messages", message.wording or "", message.name)


def realised_worlds(template: TemplatePlan) -> list[str]:
    """The names of the worlds that are played, in the plan's order."""
    names = [world.name for world in template.worlds]
    return names if template.realised is None else [name for name in names if name in template.realised]


def prior_of(template: TemplatePlan) -> list[float]:
    """The probability of each world, in the plan's order."""
    return template.prior if template.prior is not None else [1 / len(template.worlds)] * len(template.worlds)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise BadPlan(f"{path}: cannot be read ({error.strerror}): name an existing TOML file") from None
    except ValueError:
        raise BadPlan(f"{path}: is not UTF-8 text: name a TOML file") from None


def _parse(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except (tomllib.TOMLDecodeError, ArithmeticError) as error:
        raise BadPlan(f"{source}: is not TOML: {error}") from None


def _validate(model: type[B], document: Mapping[str, Any], source: str) -> B:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = _path(first["loc"])
        what = "unknown key" if first["type"] == "extra_forbidden" else first["msg"].removeprefix("Value error, ")
        raise BadPlan(f"{source}: {where}: {what}" if where else f"{source}: {what}") from None


def _path(parts: Sequence[str | int]) -> str:
    text = ""
    for before, part in zip(("", *parts), parts, strict=False):
        if before in ("price", "agent") and part in UNION_TAGS:
            continue
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def _check(plan: PlanFile) -> None:
    for kind in ("templates", "arms", "messages", "routes"):
        _require_distinct(kind, (member.name for member in getattr(plan, kind)))
    for number, template in enumerate(plan.templates):
        _check_template(template, f"templates[{number}]")
    members = [f"{family.name}-{one + 1}" for family in plan.families for one in range(family.held_out)]
    families = [family.name for family in plan.families]
    _require_distinct("families", [*(template.name for template in plan.templates), *families, *members])
    for number, family in enumerate(plan.families):
        _check_family(family, f"families[{number}]")
    for number, arm in enumerate(plan.arms):
        if not arm_instruction(arm).strip():
            raise BadPlan(f"arms[{number}]: the instruction is blank")
    for number, message in enumerate(plan.messages):
        _check_message(message_body(message), f"messages[{number}].body")
    for number, route in enumerate(plan.routes):
        _check_route(plan, route, f"routes[{number}]")


def _check_template(template: TemplatePlan, where: str) -> None:
    names = [world.name for world in template.worlds]
    _require_distinct(f"{where}.worlds", names)
    _require_known(f"{where}.realised", template.realised, names)
    try:
        read_contract(template.environment, template.contract)
        read_weights(template.loss_weights)
        for world in template.worlds:
            read_world(template.environment, world.fields)
    except BadFields as error:
        raise BadPlan(f"{where}.{error.message}") from None
    prior = prior_of(template)
    if len(prior) != len(names):
        raise BadPlan(f"{where}.prior: has {len(prior)} probabilities for {len(names)} worlds")
    if not all(0 <= value <= 1 for value in prior) or not math.isclose(math.fsum(prior), 1.0, abs_tol=1e-9):
        raise BadPlan(f"{where}.prior: must be probabilities that sum to 1")


def _check_family(family: FamilyPlan, where: str) -> None:
    fields = contract_fields(family.environment)
    missing = [name for name in fields if name not in family.contract]
    if missing:
        raise BadPlan(f"{where}.contract: must say what every field may be: {', '.join(missing)} missing")
    for name in family.contract:
        for value in family.choices(name):
            _check_template(family.member(1, {name: value}), where)
    possible = math.prod(len(set(family.choices(name))) for name in family.contract)
    if possible < family.held_out:
        raise BadPlan(f"{where}.held_out: {family.held_out} different members are asked for, {possible} are possible")


def _check_message(body: str, where: str) -> None:
    if not body.strip() or len(body.encode()) > MAX_MESSAGE_BYTES:
        raise BadPlan(f"{where}: must not be blank and at most {MAX_MESSAGE_BYTES} bytes of UTF-8")


def _check_route(plan: PlanFile, route: RoutePlan, where: str) -> None:
    known = [*(template.name for template in plan.templates), *(family.name for family in plan.families)]
    _require_known(f"{where}.templates", route.templates, known)
    _require_known(f"{where}.arms", route.arms, [arm.name for arm in plan.arms])
    try:
        route_options_json(route)
    except (TypeError, ValueError):
        raise BadPlan(f"{where}.request_options: must hold what JSON has, no dates or infinities") from None
    except BadPlan as error:
        raise BadPlan(f"{where}.{error.message}") from None


def _wording(kind: str, key: str, name: str) -> str:
    texts: Mapping[str, str] = load_wording().document[kind]
    if key not in texts:
        raise BadPlan(f"{kind.removeprefix('untrusted_')}: {name}: the wording has no {key!r}, only {', '.join(texts)}")
    return texts[key]


def _require_distinct(where: str, names: Iterable[str]) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise BadPlan(f"{where}: the name {name!r} stands twice")
        seen.add(name)


def _require_known(where: str, given: Sequence[str] | None, known: Sequence[str]) -> None:
    _require_distinct(where, given or ())
    for name in given or ():
        if name not in known:
            raise BadPlan(f"{where}: {name!r} is not one of {', '.join(known)}")
