"""Settings of a service: flags, environment, a TOML file, defaults, in this order; unknown keys are refused."""

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import grpc
from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from countersign.kit.errors import CountersignError
from countersign.kit.observability.running import ENDPOINT_VARIABLE

S = TypeVar("S", bound="ServiceSettings")


class BadSettings(CountersignError):
    """Settings that cannot be used; the message names the setting and never its value."""

    reason = "INVALID_ARGUMENT"
    status = grpc.StatusCode.INVALID_ARGUMENT


class ServiceSettings(BaseSettings):
    """What every service can be told. Subclass with an `env_prefix` and further fields."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    listen: str = "127.0.0.1:0"
    """Where to listen: HOST:PORT, or unix:PATH. Port 0 takes any. Beyond loopback only with TLS and an access file."""
    access_file: Path | None = None
    """The TOML file that says who may call. Without one everybody who can connect may; read anew on SIGHUP."""
    tls_certificate: Path | None = None
    """The service's certificate and what leads to its authority, PEM; with it every connection is TLS."""
    tls_key: Path | None = None
    """The certificate's private key, PEM, readable by its owner alone."""
    tls_client_ca: Path | None = None
    """The authorities of clients' certificates, PEM; with it every client must show one."""
    insecure: bool = False
    """Whether plaintext beyond loopback, and listening there without an access file, are allowed."""
    otlp_endpoint: str = ""
    """Where to send traces, over OTLP/gRPC: HOST:PORT on loopback, tls:HOST:PORT or unix:PATH. Nowhere if not given,
    here or by the environment variable COUNTERSIGN_OTLP_ENDPOINT."""
    metrics_listen: str = ""
    """Where to serve metrics for Prometheus over HTTP: HOST:PORT on loopback. Nowhere if not given."""
    metrics_anywhere: bool = False
    """Whether metrics may be served beyond loopback, to whoever connects."""
    drain_seconds: float = Field(default=20.0, ge=0, le=3600)
    """How long calls under way may take to finish once the service is told to stop."""
    exit_with_stdin: bool = False
    """Whether the end of standard input stops the service: a process that started it has gone."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, the service's environment, what the environment says to every service, the file named by `config`."""
        given = dict(init_settings.init_kwargs) if isinstance(init_settings, InitSettingsSource) else {}
        config = given.pop("config", None)
        endpoint = os.environ.get(ENDPOINT_VARIABLE)
        shared = InitSettingsSource(cls, {"otlp_endpoint": endpoint} if endpoint else {})
        sources: tuple[PydanticBaseSettingsSource, ...] = (InitSettingsSource(cls, given), env_settings, shared)
        return (*sources, TomlConfigSettingsSource(cls, Path(config))) if config is not None else sources


class LedgerClientSettings(ServiceSettings):
    """What a service that calls the ledger can be told besides: what it shows to the ledger."""

    ledger_token_file: Path | None = None
    """A file with the one token to present to the ledger, readable by its owner alone."""
    ledger_ca: Path | None = None
    """The authorities of the ledger's certificate, PEM, for an address tls:HOST:PORT; public ones if not given."""
    ledger_certificate: Path | None = None
    """The certificate to show to a ledger that asks for one, PEM."""
    ledger_key: Path | None = None
    """That certificate's private key, PEM, readable by its owner alone."""


def load_settings(cls: type[S], argv: Sequence[str], environment: Mapping[str, str] = os.environ) -> S:
    """Read the settings of a process from its arguments, its environment and the file that `--config` names.

    Raises BadSettings for an unknown key, a missing or malformed file, or a value of the wrong form.
    """
    flags = vars(_parser(cls).parse_args(list(argv)))
    given = {key: value for key, value in flags.items() if value is not None}
    _refuse_unknown_environment(cls, environment)
    config = given.get("config")
    if config is not None and not Path(config).is_file():
        raise BadSettings(f"the settings file {config} does not exist")
    try:
        return cls(**given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise BadSettings(f"setting {name}: {first['msg']}") from None
    except ValueError:
        raise BadSettings(f"the settings file {config} is not TOML") from None


def _parser(cls: type[ServiceSettings]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=cls.__doc__)
    parser.add_argument("--config", help="a TOML file with settings")
    for name, field in cls.model_fields.items():
        flag = "--" + name.replace("_", "-")
        options: dict[str, Any] = {"help": field.description, "dest": name, "default": None}
        if field.annotation is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, **options)
        else:
            parser.add_argument(flag, **options)
    return parser


def _refuse_unknown_environment(cls: type[ServiceSettings], environment: Mapping[str, str]) -> None:
    prefix = str(cls.model_config.get("env_prefix", ""))
    known = {prefix + name.upper() for name in cls.model_fields}
    for name in environment:
        if prefix and name.startswith(prefix) and name not in known:
            raise BadSettings(f"the environment variable {name} is not a setting")
