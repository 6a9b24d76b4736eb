"""What the adapter can be told."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from countersign.kit.settings import LedgerClientSettings


class AdapterSettings(LedgerClientSettings):
    """Settings of the adapter; environment variables begin with COUNTERSIGN_ADAPTER_."""

    model_config = SettingsConfigDict(env_prefix="COUNTERSIGN_ADAPTER_")

    ledger: str = ""
    """The ledger's address. Without one no episode runs; responses can still be adapted and cases built."""
    ledger_patience_seconds: float = Field(default=30.0, ge=0, le=3600)
    """How long a ledger that cannot be reached is asked again. A receipt or a hold is offered until its lease is over,
    if that is later; once the adapter is to stop and has drained, only so long."""
