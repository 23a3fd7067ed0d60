"""How a cluster lets us in: user, password, certificates. Only some of our clusters ask for a user and password.

The password of our clusters is drawn for each environment (`Environment.access`). The rest is about clusters of others.

Secrets come from environment variables, never from the command line, which is stored with the results. They travel to
the workers over a pipe. A text that may repeat a secret (that of an error) goes through `Access.masked` before it is
written anywhere. Standard library only: workers load this beside any library under test.
"""

import functools
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

FIELDS: Final = ("user", "password", "ca", "cert", "key")
"""What environment variables may give, each as FENCEPOST_<BACKEND>_<FIELD>."""
TLS: Final = "tls://"
"""The prefix of the first host of a cluster that speaks TLS."""

MASK: Final = "***"


class BadAccess(ValueError):
    """Environment variables do not fit together, or name a file that cannot be used. The text names the variable."""


def variable(backend: str, what: str) -> str:
    """Name of the variable that gives `what`, one of `FIELDS`."""
    return f"FENCEPOST_{backend}_{what}".upper()


@dataclass(frozen=True, slots=True)
class Access:
    """How clients get into a cluster. If all fields are empty, there is no login and no encryption.

    ca, cert, key  paths of PEM files: whom to trust (the machine's own list if empty), and who we are.
    names          `host:port` as it is dialled -> the server's own name, where a proxy answers there. The proxies pass
                   TLS on as it is, so the certificate names the server behind them.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    tls: bool = False
    ca: str = ""
    cert: str = ""
    key: str = ""
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, backend: str, environ: Mapping[str, str], *, tls: bool, password_alone: bool = True) -> Self:
        """Read the variables of `backend`. password_alone: whether a password needs no user. Raises BadAccess."""
        given: dict[str, Any] = {what: value for what in FIELDS if (value := environ.get(variable(backend, what), ""))}
        if not tls and (of_tls := [what for what in ("ca", "cert", "key") if what in given]):
            raise BadAccess(
                f"{variable(backend, of_tls[0])} is set, but --target {backend}=... does not begin with {TLS}"
            )
        for wanting, other in (("cert", "key"), ("key", "cert"), ("user", "password")):
            if wanting in given and other not in given:
                raise BadAccess(f"{variable(backend, wanting)} is set, but {variable(backend, other)} is not")
        if "password" in given and "user" not in given and not password_alone:
            raise BadAccess(f"{variable(backend, 'password')} is set, but {variable(backend, 'user')} is not")
        access = cls(tls=tls, **given)
        access.check(backend)
        return access

    @property
    def open(self) -> bool:
        """Whether everybody is let in, unencrypted."""
        return not (self.user or self.password or self.tls)

    def name_of(self, endpoint: str) -> str:
        """The name that is in the certificate of the server at `host:port`."""
        return self.names.get(endpoint) or endpoint.rpartition(":")[0].strip("[]")

    def check(self, backend: str) -> None:
        """Check that the files can be used. Raises BadAccess."""
        for what in ("ca", "cert", "key"):
            path = getattr(self, what)
            try:
                if path:
                    Path(path).read_bytes()
            except OSError as error:
                raise BadAccess(f"{variable(backend, what)}: {path}: {error.strerror}") from error
        if self.tls:
            try:
                self.context()
            except (ssl.SSLError, OSError, ValueError) as error:
                files = ", ".join(variable(backend, what) for what in ("ca", "cert", "key") if getattr(self, what))
                raise BadAccess(f"{files}: no usable PEM files: {self.masked(str(error))}") from error
            if not self.trusted():
                raise BadAccess(f"{variable(backend, 'ca')} is needed: this machine has no list of authorities")

    def trusted(self) -> str:
        """The file of the authorities to trust, "" where there is none."""
        return self.ca or ssl.get_default_verify_paths().cafile or ""

    def context(self) -> ssl.SSLContext:
        """A TLS context that verifies the server's certificate and name. Raises SSLError, OSError or ValueError."""
        return _context(self.ca, self.cert, self.key)

    def connect(self, endpoint: str, timeout: float) -> socket.socket:
        """A connection to `host:port`, encrypted if `tls` is set. Raises OSError, of which SSLError is a subclass."""
        host, _, port = endpoint.rpartition(":")
        plain = socket.create_connection((host.strip("[]"), int(port)), timeout=timeout)
        if not self.tls:
            return plain
        try:
            return self.context().wrap_socket(plain, server_hostname=self.name_of(endpoint))
        except BaseException:
            plain.close()
            raise

    def masked(self, text: str) -> str:
        """The text without the password, in whichever of its usual spellings: as it is, in an address, quoted."""
        if self.password:
            doubled = self.password.replace("\\", r"\\")
            escaped = (doubled, doubled.replace("'", r"\'"), doubled.replace('"', r"\""))
            for secret in (self.password, quote(self.password, safe=""), quote(self.password), *escaped):
                text = text.replace(secret, MASK)
        return text


@functools.cache
def _context(ca: str, cert: str, key: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca or None)
    if cert:
        context.load_cert_chain(cert, key, password=lambda: b"")  # else it would ask on the terminal
    return context


OPEN: Final = Access()  # everybody is let in, and nothing is encrypted
