"""What the ledger can be told."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from countersign.kit.secret_files import BadSecretFile, read_secret_file
from countersign.kit.settings import BadSettings, ServiceSettings


class LedgerSettings(ServiceSettings):
    """Settings of the ledger; environment variables begin with COUNTERSIGN_LEDGER_."""

    model_config = SettingsConfigDict(env_prefix="COUNTERSIGN_LEDGER_")

    database: Path = Path("countersign-ledger.db")
    """The SQLite file that holds the ledger; made where it is absent. One ledger process a file."""
    postgres: SecretStr | None = None
    """The PostgreSQL database that holds the ledger in place of a file: a DSN; as a flag, without a password."""
    postgres_file: Path | None = None
    """A file that holds the DSN of the PostgreSQL database."""
    postgres_connections: int = Field(default=8, ge=2, le=100)
    """How many connections to PostgreSQL this process may have at once, verification aside."""
    postgres_statement_seconds: float = Field(default=10.0, ge=0.1, le=30)
    """How long PostgreSQL may work on one statement."""
    postgres_lock_seconds: float = Field(default=5.0, ge=0.1, le=30)
    """How long a statement may wait for another ledger's transaction."""
    sweep_seconds: float = Field(default=1.0, gt=0, le=3600)
    """How often leases that have ended are turned into holds, and a failed store is tried again."""

    def postgres_dsn(self) -> str | None:
        """The DSN of the PostgreSQL database, None where a file holds the ledger.

        Raises BadSettings where more than one store is named, or the DSN's file cannot be read or can be by strangers.
        """
        if len({"database", "postgres", "postgres_file"} & self.model_fields_set) > 1:
            raise BadSettings("give one of the settings database, postgres and postgres_file")
        if self.postgres is not None:
            return self.postgres.get_secret_value()
        return None if self.postgres_file is None else _read(self.postgres_file)


def _read(path: Path) -> str:
    try:
        return read_secret_file(path, "the file").decode().strip()
    except UnicodeDecodeError:
        raise BadSettings("setting postgres_file: the file cannot be read as text") from None
    except BadSecretFile as error:
        raise BadSettings(f"setting postgres_file: {error.message}") from None


def refuse_password_in_arguments(arguments: Sequence[str]) -> None:
    """Raises BadSettings for a DSN with a password among a process's arguments, which every user may list."""
    dsns = [argument.removeprefix("--postgres=") for argument in arguments if argument.startswith("--postgres=")]
    dsns += [value for flag, value in pairwise(arguments) if flag == "--postgres"]
    if any(_has_password(dsn) for dsn in dsns):
        raise BadSettings(
            "setting postgres: no password among the arguments; use --postgres-file or COUNTERSIGN_LEDGER_POSTGRES"
        )


def _has_password(dsn: str) -> bool:
    try:
        return bool({"password", "sslpassword"} & conninfo_to_dict(dsn).keys())
    except psycopg.ProgrammingError:
        # What libpq cannot read will be refused when it is used, and meanwhile may hold anything.
        return "password" in dsn
