"""What the ledger can be told."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from countersign.kit.settings import ServiceSettings


class LedgerSettings(ServiceSettings):
    """Settings of the ledger; environment variables begin with COUNTERSIGN_LEDGER_."""

    model_config = SettingsConfigDict(env_prefix="COUNTERSIGN_LEDGER_")

    database: Path = Path("countersign-ledger.db")
    """The SQLite file that holds the ledger; made where it is absent. One ledger process a file."""
    sweep_seconds: float = Field(default=1.0, gt=0, le=3600)
    """How often leases that have ended are turned into holds, and a failed store is tried again."""
