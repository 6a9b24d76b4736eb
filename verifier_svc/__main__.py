"""The verifier's entry: `python -m verifier_svc`, or `countersign-verifier`."""

from collections.abc import Sequence

from countersign.kit.channel import open_channel
from countersign.kit.identity import ledger_identity
from countersign.kit.process import run_service
from countersign.kit.security import load_security
from countersign.kit.server import serve_until_stopped, start_server
from countersign.kit.wording import load_wording
from verifier_svc.access import METHOD_ROLES
from verifier_svc.evidence import LedgerEvidence
from verifier_svc.service import FULL_NAME, VerifierServicer, service_spec
from verifier_svc.settings import VerifierSettings


async def serve(settings: VerifierSettings) -> None:
    """Serve until told to stop."""
    security = load_security(settings, FULL_NAME, METHOD_ROLES)
    channel = open_channel(settings.ledger, ledger_identity(settings)) if settings.ledger else None
    evidence = LedgerEvidence(channel) if channel is not None else None
    spec = service_spec(VerifierServicer(load_wording(), evidence))
    running = await start_server(spec, settings.listen, security=security)
    await serve_until_stopped(running, spec.name, settings.drain_seconds, exit_with_stdin=settings.exit_with_stdin)
    if channel is not None:
        await channel.close()


def main(argv: Sequence[str] | None = None) -> None:
    """Run the verifier; exits with status 2 and one line on standard error where it cannot start."""
    run_service("verifier", VerifierSettings, serve, argv)


if __name__ == "__main__":
    main()
