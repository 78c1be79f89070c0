"""Lets those read the page of metrics who may: by a certificate of theirs, by a login of HTTP's basic scheme, or both.

The files are read before the start, and again when they have changed; what cannot be used then does not count.
"""

import hashlib
import hmac
import logging
import os
import secrets
import ssl
import stat
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pkafka.errors import ConfigError
from pkafka.security.tls_context import ClientAuth, TlsSettings, modified_ns, server_context
from pkafka.server.config.metrics_access import PREFIX, USERS_KEY, MetricsAccess

log = logging.getLogger(__name__)

_SCHEME: Final = "basic "
_NO_DIGEST: Final = bytes(hashlib.sha256().digest_size)
_HASHES: Final = ("$apr1$", "$2y$", "$2b$", "$5$", "$6$", "{SHA}")
"""What htpasswd and openssl make of passwords."""


class PageAccess:
    """What a connection to the page needs to be served.

    Args:
        settings: of the broker.

    Raises:
        ConfigError: a file cannot be read, or has something else in it; shows no secret.
    """

    def __init__(self, settings: MetricsAccess) -> None:
        self.is_encrypted = settings.keystore is not None
        self._settings = settings
        self._salt = secrets.token_bytes(16)
        self._stores_ns: tuple[int, ...] = ()
        self._users_ns = 0
        self._context: ssl.SSLContext | None = None
        self._users: Mapping[bytes, bytes] | None = None
        if settings.keystore is not None:
            self._tls = TlsSettings(keystore=settings.keystore, truststore=settings.truststore)
            self._stores_ns = self._tls.modified_ns()
            self._context = _context(self._tls, settings.client_auth)
        if settings.users_file:
            self._users_ns = modified_ns(settings.users_file)
            self._users = self._digests()

    def context(self) -> ssl.SSLContext | None:
        """What a new connection is encrypted by; None: by nothing."""
        if self.is_encrypted and (changed_ns := self._tls.modified_ns()) != self._stores_ns:
            self._stores_ns = changed_ns
            try:
                self._context = _context(self._tls, self._settings.client_auth)
            except ConfigError as error:
                log.warning("The page of metrics goes on with the certificate that it had: %s", error)
        return self._context

    def admits(self, authorization: str | None) -> bool:
        """Whether a request may have the page. The time that this takes tells nothing of the passwords.

        Args:
            authorization: the header of that name; None without one.
        """
        users = self._known()
        if users is None:
            return True
        name, password = _given(authorization or "")
        # An unknown name takes the same work, so that the time does not tell which names there are.
        wanted = users.get(self._digest(name), _NO_DIGEST)
        return hmac.compare_digest(self._digest(password), wanted)

    def _known(self) -> Mapping[bytes, bytes] | None:
        path = self._settings.users_file
        if path and (changed_ns := modified_ns(path)) != self._users_ns:
            self._users_ns = changed_ns
            try:
                self._users = self._digests()
            except ConfigError as error:
                log.warning("The page of metrics goes on with the users that it had: %s", error)
        return self._users

    def _digests(self) -> Mapping[bytes, bytes]:
        users = read_users(self._settings.users_file)
        return {
            self._digest(name.encode()): self._digest(password.encode()) for name, password in users.items()
        }

    def _digest(self, text: bytes) -> bytes:
        """Of one length, whatever the text is; passwords do not stay in memory."""
        return hmac.digest(self._salt, text, hashlib.sha256)


def read_users(path: str) -> dict[str, str]:
    """Passwords by the names of users.

    Args:
        path: of a file with lines ``NAME:PASSWORD``. Empty lines and those that begin with ``#`` say nothing.

    Raises:
        ConfigError: it cannot be read, others can read it, or a line has another form.
    """
    try:
        mode = os.stat(path).st_mode
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(USERS_KEY, f"cannot be read: {error.strerror or error}", path) from None
    except UnicodeDecodeError:
        raise ConfigError(USERS_KEY, "is no text in UTF-8", path) from None
    if mode & stat.S_IRWXO:
        raise ConfigError(USERS_KEY, "can be read by every user of this machine; chmod 600 it", path)
    users: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, password = line.partition(":")
        if not colon or not name or not password:
            raise ConfigError(USERS_KEY, f"line {number} is not NAME:PASSWORD", path)
        if password.startswith(_HASHES):
            problem = f"line {number} has a hash of htpasswd's, and a password is wanted"
            raise ConfigError(USERS_KEY, problem, path)
        if name in users:
            raise ConfigError(USERS_KEY, f"line {number} names {name} again", path)
        users[name] = password
    if not users:
        raise ConfigError(USERS_KEY, "has no user", path)
    return users


def _given(authorization: str) -> tuple[bytes, bytes]:
    """Name and password in a header; both empty where it has none."""
    if authorization[: len(_SCHEME)].lower() != _SCHEME:
        return b"", b""
    try:
        name, _, password = b64decode(authorization[len(_SCHEME) :].strip(), validate=True).partition(b":")
    except ValueError:
        return b"", b""
    return name, password


def _context(tls: TlsSettings, client_auth: ClientAuth) -> ssl.SSLContext:
    try:
        return server_context(tls, client_auth)
    except ConfigError as error:
        raise ConfigError(PREFIX + error.key, error.problem, error.value) from None
