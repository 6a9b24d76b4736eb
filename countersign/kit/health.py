"""`countersign-health`: whether a service says that it can do its work, for the probes of whatever runs it.

It asks by the gRPC health protocol, which needs no token. Behind mutual TLS it shows a certificate of its own, which is
why a prober that knows plaintext only (Kubernetes' `grpc` probe) is not enough.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from grpc_health.v1 import health_pb2, health_pb2_grpc

from countersign.kit.channel import call, open_channel
from countersign.kit.errors import CountersignError
from countersign.kit.identity import load_identity
from countersign.kit.process import fail, forbid_core_dumps
from countersign.kit.rpc_errors import ServiceError

NAME = "countersign-health"
ENVIRONMENT_PREFIX = "COUNTERSIGN_HEALTH_"
NOT_HEALTHY_STATUS = 1
DEFAULT_SECONDS = 3.0


def main(argv: Sequence[str] | None = None) -> int:
    """Ask once. Status 0: it serves, or with `--alive` answers; 1: it does not; 2: the question cannot be asked."""
    forbid_core_dumps()
    given = _parser(os.environ).parse_args(argv)
    if not given.address:
        fail(NAME, f"--address or {ENVIRONMENT_PREFIX}ADDRESS is missing: HOST:PORT, tls:HOST:PORT or unix:PATH")
    try:
        answer = asyncio.run(_ask(given))
    except ServiceError as error:
        return _say(f"{given.address} does not answer: {error.status.name}")
    except CountersignError as error:
        fail(NAME, error.message)
    if not given.alive and answer.status != health_pb2.HealthCheckResponse.SERVING:
        return _say(f"{given.address} is {health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)}")
    return 0


async def _ask(given: argparse.Namespace) -> health_pb2.HealthCheckResponse:
    identity = load_identity(ca=given.ca, certificate=given.certificate, key=given.key, insecure=given.insecure)
    async with open_channel(given.address, identity) as channel:
        request = health_pb2.HealthCheckRequest(service=given.service)
        answer: health_pb2.HealthCheckResponse = await call(
            health_pb2_grpc.HealthStub(channel).Check, request, given.seconds
        )
        return answer


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=NAME, description="Ask a service whether it can do its work.")

    def option(flag: str, meaning: str, **kind: object) -> None:
        variable = ENVIRONMENT_PREFIX + flag.removeprefix("--").upper()
        # A default that is text is read as the option's own type.
        otherwise = kind.pop("default", None)
        default = environment.get(variable) or otherwise
        parser.add_argument(flag, help=f"{meaning}; else {variable}", default=default, **kind)  # type: ignore[arg-type]

    option("--address", "HOST:PORT, tls:HOST:PORT or unix:PATH")
    option("--service", "the full name of the service to ask about; empty: the server as a whole", default="")
    option("--seconds", "how long it may take to answer", default=str(DEFAULT_SECONDS), type=float)
    option("--ca", "the authorities of the service's certificate, PEM", type=Path)
    option("--certificate", "the certificate to show, PEM", type=Path)
    option("--key", "that certificate's key, PEM, mode 600", type=Path)
    parser.add_argument("--alive", action="store_true", help="any answer will do: whether to restart it, not to use it")
    parser.add_argument("--insecure", action="store_true", help="allow plaintext beyond loopback")
    return parser


def _say(line: str) -> int:
    sys.stderr.write(f"{NAME}: {line}\n")
    return NOT_HEALTHY_STATUS


def run() -> None:
    """The console script: `main`, whose answer is the process's exit status."""
    sys.exit(main())


if __name__ == "__main__":
    run()
