"""How a client's connections are secured: what its keys ask for, made ready once for all of them.

Imported only where ``security.protocol`` asks for something.
"""

import logging
import secrets
import socket
import ssl
from typing import TYPE_CHECKING

from pkafka.clients.config.security import login_module
from pkafka.clients.connect_failures import no_exchange, no_ticket
from pkafka.clients.tokens import token_source
from pkafka.clock import Clock
from pkafka.errors import ConfigError
from pkafka.net.scram import ScramMechanism
from pkafka.net.tls import TlsStream
from pkafka.security.bearer_tokens import TokenSource
from pkafka.security.jaas import LoginModule
from pkafka.security.sasl import ClientExchange, SaslError
from pkafka.security.sasl.gssapi import GssapiExchange, GssError
from pkafka.security.sasl.oauthbearer import OAuthBearerExchange
from pkafka.security.sasl.plain import PlainExchange
from pkafka.security.sasl.scram import SaltedPasswords, ScramExchange
from pkafka.security.tls_context import Store, TlsSettings, client_context
from pkafka.security.token_settings import extensions

if TYPE_CHECKING:
    from pkafka.clients.config.security import SecurityOptions


class Security:
    """What every connection of a client needs to be let in.

    Args:
        config: the client's keys.
        clock: for tokens that expire.

    Raises:
        ConfigError: a store cannot be read, or the keys contradict each other.
    """

    def __init__(self, config: "SecurityOptions", clock: Clock) -> None:
        self.is_encrypted = config.is_encrypted
        self.logs_in = config.logs_in
        self.mechanism = config.sasl_mechanism
        self._tls = tls_settings(config)
        self._read_ns = self._tls.modified_ns()
        self._context = client_context(self._tls) if self.is_encrypted else None
        self._module = LoginModule("", {})
        self._tokens: TokenSource | None = None
        self._salted: SaltedPasswords = {}
        if self.logs_in:
            self._module = login_module(config)
            self._service = config.sasl_kerberos_service_name
            if self.mechanism == "OAUTHBEARER":
                self._tokens = token_source(config, self._module, clock)

    def stream(self, connection: socket.socket, host: str) -> TlsStream:
        """TLS over a connection; reads stores again whose files have changed.

        Args:
            connection: connected, not blocking.
            host: the name that the certificate has to have.

        Raises:
            ValueError: no certificate can have such a name.
        """
        return TlsStream(connection, self.context(), host)

    def context(self) -> ssl.SSLContext:
        """OpenSSL's context by the stores as they are now, or were when they could be read last."""
        assert self._context is not None
        modified_ns = self._tls.modified_ns()
        if modified_ns != self._read_ns:
            try:
                self._context = client_context(self._tls)
                self._read_ns = modified_ns
            except ConfigError as error:
                # Maybe half of it is written: the next connection looks again.
                logging.getLogger(__name__).warning("a changed store is not used: %s", error)
        return self._context

    def exchange(self, host: str, address: str) -> ClientExchange:
        """The client's half of a login, to be used once.

        Args:
            host: of the broker, by which Kerberos knows it.
            address: of the broker, for errors.

        Raises:
            AuthenticationError: the token server refuses, the name or the password cannot be sent, or the KDC gives
                no ticket.
            ConnectError: the token server cannot be reached.
        """
        options = self._module.options
        try:
            if self._tokens is not None:
                return OAuthBearerExchange(self._tokens.token().text, extensions(self._module))
            if self.mechanism == "GSSAPI":
                return self._kerberos(host, address)
            if self.mechanism == "PLAIN":
                return PlainExchange(options["username"], options["password"])
            mechanism = ScramMechanism.of_name(self.mechanism)
            assert mechanism is not None
            return ScramExchange(
                mechanism,
                options["username"],
                options["password"],
                secrets.token_urlsafe(24),
                is_token=options.get("tokenauth", "").lower() == "true",
                known=self._salted,
            )
        except SaslError as error:
            raise no_exchange(address, error) from None

    def _kerberos(self, host: str, address: str) -> ClientExchange:
        from pkafka.security.kerberos import Krb5Options, client_context, service_name

        options = Krb5Options.of(self._module.options)
        service = service_name(options, self._service)
        try:
            return GssapiExchange(*client_context(options, service, host))
        except (GssError, SaslError) as error:
            raise no_ticket(address, f"{service}@{host}", error) from None


def tls_settings(config: "SecurityOptions") -> TlsSettings:
    """What the ``ssl.*`` keys say."""
    truststore = keystore = None
    if config.ssl_truststore_location or config.ssl_truststore_certificates:
        truststore = Store(
            "truststore",
            config.ssl_truststore_type.upper(),
            config.ssl_truststore_location or "",
            config.ssl_truststore_certificates or "",
            config.ssl_truststore_password,
        )
    if config.ssl_keystore_location or config.ssl_keystore_key:
        keystore = Store(
            "keystore",
            config.ssl_keystore_type.upper(),
            config.ssl_keystore_location or "",
            f"{config.ssl_keystore_key or ''}\n{config.ssl_keystore_certificate_chain or ''}",
            config.ssl_keystore_password,
            config.ssl_key_password,
        )
    return TlsSettings(
        config.ssl_enabled_protocols,
        config.ssl_cipher_suites,
        config.ssl_endpoint_identification_algorithm.lower() == "https",
        truststore,
        keystore,
    )
