"""Access files, tokens and certificates for tests, in one folder."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from countersign.kit.access import MethodRoles, Role
from countersign.kit.access_file import mint_token
from countersign.kit.identity import Identity, load_identity
from countersign.kit.security import Security, load_security
from countersign.kit.settings import ServiceSettings
from tools.make_ca import Authority

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
SOON = timedelta(hours=1)


class Keyring:
    """An access file, an authority's files and a server's, made as they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.access_file = folder / "access.toml"
        self.authority = Authority()
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(self.authority.certificate)
        self.server = self.authority.server(["127.0.0.1", "localhost"]).write(folder, "server")
        self.tokens: list[str] = []

    def mint(self, *roles: Role, name: str = "") -> Path:
        """A token's file; the access file knows its bearer as `name`, or by its roles."""
        bearer = name or "-".join(roles)
        token = mint_token(self.access_file, bearer, roles, NOW)
        self.tokens.append(token)
        return self.write_token(token, f"{bearer}.token")

    def write_token(self, token: str, name: str) -> Path:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(token + "\n")
        return path

    def bearing(self, *roles: Role, name: str = "") -> Identity:
        """A client with a token."""
        return load_identity(token_file=self.mint(*roles, name=name))

    def certify(self, common_name: str, *roles: Role) -> None:
        """Let the access file know a certificate's name."""
        listed = ", ".join(f'"{role}"' for role in roles)
        self.access_file.touch(mode=0o600)
        with self.access_file.open("a") as file:
            file.write(f'\n[[certificate]]\nname = "{common_name}"\nroles = [{listed}]\n')

    def showing(self, common_name: str, until: datetime | None = None, authority: Authority | None = None) -> Identity:
        """A client with a certificate."""
        pair = (authority or self.authority).client(common_name, until)
        certificate, key = pair.write(self.folder, common_name)
        return load_identity(ca=self.ca, certificate=certificate, key=key)

    def settings(self, *, tls: bool = False, mutual: bool = False, access: bool = True) -> ServiceSettings:
        """A service's settings with what is asked for."""
        certificate, key = self.server if tls or mutual else (None, None)
        return ServiceSettings(
            access_file=self.access_file if access else None,
            tls_certificate=certificate,
            tls_key=key,
            tls_client_ca=self.ca if mutual else None,
        )

    def security(
        self, full_name: str, roles: MethodRoles, *, tls: bool = False, mutual: bool = False, access: bool = True
    ) -> Security:
        """What a service makes of these settings."""
        return load_security(self.settings(tls=tls, mutual=mutual, access=access), full_name, roles)
