"""The shape of a plan file (TOML): what may be written, with its units and defaults (design/study.md)."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from countersign.study.amounts import Amount, Number, PricePerMillion
from countersign.study.profiles import fill_in

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Text = Annotated[str, Field(min_length=1)]
Millis = Annotated[int, Field(ge=1, le=86_400_000)]
Environment = Literal["event", "queue", "pending", "probe"]
Allowance = Literal["tool_calls_with_stop"]
WireFormatName = Literal["chat_completions", "messages", "responses", "generate_content"]
UNION_TAGS = frozenset({"free", "tokens", "snapshot", "scripted", "local"})
"""Which form of a price or an agent was meant: part of an error's place, but no key of the plan."""

StopRule = Literal["never", "route", "study"]


class Strict(BaseModel):
    """A table of the plan: unknown keys and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class AccountPlan(Strict):
    """`[account]`: who pays. `grant` is the budget that the plan asks for, granted once, in units of `currency`."""

    id: Name
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
    grant: Amount


class StudyPlan(Strict):
    """`[study]`: the study's own limits and its stop rule.

    `readiness` says whether a paid collection needs it, `comparators` whether each template's must be solved for it.
    """

    cap: Amount
    call_ceiling: Amount
    max_in_flight: Annotated[int, Field(ge=1, le=1_000)] = 1
    stop: StopRule = "study"
    repetitions: Annotated[int, Field(ge=1, le=10_000)] = 1
    readiness: Literal["required", "waived"] = "required"
    comparators: Literal["solved", "unsolved"] = "solved"


class WorldPlan(BaseModel):
    """One world of a template: its name, and beside it the environment's own fields."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    name: Name

    @property
    def fields(self) -> dict[str, Any]:
        """The environment's fields, unchecked."""
        return dict(self.model_extra or {})


class TemplatePlan(Strict):
    """`[[templates]]`: an environment, its rules in numbers and its possible worlds.

    `prior` is uniform where absent; `realised` names the worlds that are played, all where absent.
    """

    name: Name
    environment: Environment
    contract: dict[str, Any] = {}
    operator_prefix: list[Text] = []
    worlds: Annotated[list[WorldPlan], Field(min_length=1)]
    prior: list[Number] | None = None
    realised: Annotated[list[Name], Field(min_length=1)] | None = None
    loss_weights: dict[str, Number] = {}


class HeldOutTemplate(TemplatePlan):
    """A member of a family, once it is revealed. A plan cannot write one: it would not have been drawn."""

    split: Literal["held-out"] = "held-out"
    family: Name


class RangePlan(Strict):
    """Whole numbers from `min` to `max`, both included."""

    min: Annotated[int, Field(ge=1, le=100)]
    max: Annotated[int, Field(ge=1, le=100)]

    @model_validator(mode="after")
    def _ordered(self) -> "RangePlan":
        if self.min > self.max:
            raise ValueError("min must not be above max")
        return self


Choice = RangePlan | bool | int | Annotated[list[bool | int], Field(min_length=1)]
"""What a contract's field may be in a family: a range, one value, or one of several."""


class FamilyPlan(Strict):
    """`[[families]]`: `held_out` templates that are drawn with a secret seed and opened after the freeze.

    `contract` says for every field of the environment's contract what it may be; the rest is every member's.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,58}$")]
    environment: Environment
    contract: dict[str, Choice]
    operator_prefix: list[Text] = []
    worlds: Annotated[list[WorldPlan], Field(min_length=1)]
    prior: list[Number] | None = None
    loss_weights: dict[str, Number] = {}
    held_out: Annotated[int, Field(ge=1, le=1_000)]

    def choices(self, field: str) -> list[bool | int]:
        """Every value that the contract's `field` may have, in order."""
        match self.contract[field]:
            case RangePlan(min=least, max=most):
                return list(range(least, most + 1))
            case list(several):
                return several
            case one:
                assert isinstance(one, bool | int)
                return [one]

    def member(self, number: int, contract: dict[str, Any]) -> HeldOutTemplate:
        """The member of this number, counted from 1, with this contract."""
        return HeldOutTemplate(
            name=f"{self.name}-{number}",
            environment=self.environment,
            contract=contract,
            operator_prefix=self.operator_prefix,
            worlds=self.worlds,
            prior=self.prior,
            loss_weights=self.loss_weights,
            family=self.name,
        )


class ArmPlan(Strict):
    """`[[arms]]`: a procedure instruction, as text or by its name in the wording resource."""

    name: Name
    instruction: Text | None = None
    wording: Text | None = None

    @model_validator(mode="after")
    def _one(self) -> "ArmPlan":
        if (self.instruction is None) == (self.wording is None):
            raise ValueError("give either instruction or wording")
        return self


class MessagePlan(Strict):
    """`[[messages]]`: an untrusted message's body, as text or by its name in the wording resource."""

    name: Name
    body: Text | None = None
    wording: Text | None = None

    @model_validator(mode="after")
    def _one(self) -> "MessagePlan":
        if (self.body is None) == (self.wording is None):
            raise ValueError("give either body or wording")
        return self


class ScriptedAgentPlan(Strict):
    """A scripted agent, started for the collection, that answers by a named policy."""

    kind: Literal["scripted"]
    policy: Name


class LocalAgentPlan(Strict):
    """The local model, started for the collection; `front` puts the tool front before it."""

    kind: Literal["local"]
    front: bool = False


class TokenPricesPlan(Strict):
    """Prices in the account's currency per million tokens; a cache's are those of other input where absent.

    `source` says where they come from: empty for prices written by hand.
    """

    input_per_million: PricePerMillion
    output_per_million: PricePerMillion
    cached_input_per_million: PricePerMillion | None = None
    cache_write_per_million: PricePerMillion | None = None
    source: str = ""


class SnapshotPricePlan(Strict):
    """A price by its name in the plan's `price_snapshot`; `model` is the route's where absent."""

    provider: Text
    model: Text | None = None


def _price_kind(value: Any) -> str:
    if isinstance(value, SnapshotPricePlan) or (isinstance(value, dict) and "provider" in value):
        return "snapshot"
    return "tokens" if isinstance(value, dict | TokenPricesPlan) else "free"


PricePlan = Annotated[
    Annotated[Literal["free"], Tag("free")]
    | Annotated[TokenPricesPlan, Tag("tokens")]
    | Annotated[SnapshotPricePlan, Tag("snapshot")],
    Discriminator(_price_kind),
]


class ReasoningPlan(Strict):
    """How much a model may think: an effort or a number of tokens, whichever the format takes."""

    effort: Literal["none", "minimal", "low", "medium", "high"] | None = None
    budget_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None

    @model_validator(mode="after")
    def _one(self) -> "ReasoningPlan":
        if (self.effort is None) == (self.budget_tokens is None):
            raise ValueError("give either effort or budget_tokens")
        return self


class RouterPlan(Strict):
    """A router's settings: `only` are the tags of the providers that may answer."""

    only: Annotated[list[Text], Field(min_length=1)]


AgentPlan = Annotated[ScriptedAgentPlan | LocalAgentPlan, Field(discriminator="kind")]


class RoutePlan(Strict):
    """`[[routes]]`: a frozen way to one model, at a fixed address or at an agent started for the collection.

    `profile` fills in what is known of a provider. `templates` and `arms` restrict the route to some, `repetitions`
    replaces the study's number.
    """

    name: Name
    profile: Literal["openai", "openai-responses", "anthropic", "google", "openrouter", "compatible"] = "compatible"
    wire_format: WireFormatName = "chat_completions"
    streamed: bool = False
    base_url: Annotated[str, Field(pattern=r"^https?://[^\s]+$")] | None = None
    agent: AgentPlan | None = None
    model: Text | None = None
    aliases: list[Text] = []
    provider_name: str = ""
    price: PricePlan
    charge_reported_cost: bool = False
    output_cap: Annotated[int, Field(ge=1, le=1_000_000)]
    output_cap_member: str = ""
    input_limit_bytes: Annotated[int, Field(ge=1, le=8_388_608)] = 20_000
    connect_timeout_millis: Millis = 10_000
    first_byte_timeout_millis: Millis = 120_000
    total_timeout_millis: Millis = 300_000
    api_key_variable: Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")] = ""
    request_options: dict[str, Any] = {}
    reasoning: ReasoningPlan | None = None
    router: RouterPlan | None = None
    allowances: list[Allowance] = []
    templates: Annotated[list[Name], Field(min_length=1)] | None = None
    arms: Annotated[list[Name], Field(min_length=1)] | None = None
    repetitions: Annotated[int, Field(ge=1, le=10_000)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _profiled(cls, route: Any) -> Any:
        return fill_in(route)

    @model_validator(mode="after")
    def _reachable(self) -> "RoutePlan":
        if (self.base_url is None) == (self.agent is None):
            raise ValueError("give either base_url or agent")
        if self.model is None and not isinstance(self.agent, ScriptedAgentPlan):
            raise ValueError("give model")
        if self.profile == "openrouter" and self.agent is None and (self.router is None or not self.provider_name):
            raise ValueError("give router.only, the tag of one provider, and provider_name, as it names itself")
        return self

    @property
    def model_name(self) -> str:
        """The model to ask for; a scripted agent's policy names its own."""
        if self.model is not None:
            return self.model
        assert isinstance(self.agent, ScriptedAgentPlan)
        return f"scripted/{self.agent.policy}"


class PlanFile(Strict):
    """A whole plan. `price_snapshot` is a file of `countersign prices`, beside the plan."""

    name: Name
    price_snapshot: Text | None = None
    account: AccountPlan
    study: StudyPlan
    templates: Annotated[list[TemplatePlan], Field(min_length=1)]
    families: list[FamilyPlan] = []
    arms: Annotated[list[ArmPlan], Field(min_length=1)]
    messages: Annotated[list[MessagePlan], Field(min_length=1)] = [MessagePlan(name="default", wording="default")]
    routes: Annotated[list[RoutePlan], Field(min_length=1)]
