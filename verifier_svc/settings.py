"""What the verifier can be told."""

from pydantic_settings import SettingsConfigDict

from countersign.kit.settings import LedgerClientSettings


class VerifierSettings(LedgerClientSettings):
    """Settings of the verifier; environment variables begin with COUNTERSIGN_VERIFIER_."""

    model_config = SettingsConfigDict(env_prefix="COUNTERSIGN_VERIFIER_")

    ledger: str = ""
    """The ledger's address. Without one no episode is verified; traces and packets still are."""
