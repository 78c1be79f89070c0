"""What is needed to read a guarded page of metrics: a properties file with Kafka's ``ssl.*`` keys and a login."""

import ssl
from typing import NamedTuple

from pkafka.clients.config.options import option
from pkafka.clients.config.security import SecurityOptions, check_security
from pkafka.clients.security import tls_settings
from pkafka.errors import ConfigError
from pkafka.java.properties import load_properties
from pkafka.security.tls_context import client_context

_LOGIN_KEY = "basic.auth.user.info"


class _PageOptions(SecurityOptions):
    """The keys of such a file; those of a client beside them have no meaning here."""

    basic_auth_user_info: str | None = option(None, is_secret=True)


class PageReader(NamedTuple):
    """The login at a page, and the certificates that are trusted.

    Args:
        context: of pages over HTTPS; None: the authorities of the system are trusted.
        login: name and password; None: none is sent.
    """

    context: ssl.SSLContext | None = None
    login: tuple[str, str] | None = None

    @classmethod
    def of_file(cls, path: str) -> "PageReader":
        """Read ``ssl.truststore.*``, ``ssl.keystore.*`` and ``basic.auth.user.info=NAME:PASSWORD``.

        Raises:
            ConfigError: the file or a store cannot be read, or a key has a wrong value; shows no secret.
        """
        try:
            values: dict[str, object] = {**load_properties(path), "security.protocol": "SSL"}
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError("metrics-config", f"cannot be read: {reason}", path) from None
        options = _PageOptions(**_PageOptions.parsed(values, lambda _: None))
        check_security(options)
        login = options.basic_auth_user_info
        if login is None:
            return cls(client_context(tls_settings(options)))
        name, colon, password = login.partition(":")
        if not colon or not name:
            raise ConfigError(_LOGIN_KEY, "must be NAME:PASSWORD")
        return cls(client_context(tls_settings(options)), (name, password))


UNGUARDED = PageReader()
"""What reads a page that asks for no login, by HTTP or with a certificate that this system trusts."""
