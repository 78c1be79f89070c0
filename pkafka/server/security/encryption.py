"""The TLS of a broker's listeners, as one process has it.

The supervisor reads the stores before it forks, so a wrong one stops the start. Afterwards each process looks at the
files itself: a store that was exchanged counts for the next connection, as one that an administrator has named does.
"""

import logging
import ssl
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from pkafka.errors import ConfigError
from pkafka.security.certificates import Certificate, read_certificate, subject
from pkafka.security.principal import ANONYMOUS, USER, Principal
from pkafka.security.tls_context import client_context, disagreement, own_certificate, server_context
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.listener_tls import ListenerTls, listener_tls, named_as_written

log = logging.getLogger(__name__)


class _Made(NamedTuple):
    """What was made of the settings and the stores of a listener."""

    tls: ListenerTls
    read_ns: tuple[int, ...]
    """When the stores' files were changed before."""
    context: ssl.SSLContext
    certificate: Certificate


class Encryption:
    """Has OpenSSL's context of each listener whose connections are encrypted.

    Args:
        config: the settings in force.

    Raises:
        ConfigError: a store cannot be read, or keys contradict each other.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._made = {name: _make(config, name, tls) for name, tls in _encrypted(config)}

    def context(self, listener: str) -> ssl.SSLContext | None:
        """What a new connection of a listener is encrypted by; None: by nothing."""
        made = self._made.get(listener)
        if made is None:
            return None
        if made.tls.settings.modified_ns() != made.read_ns:
            made = self._renew(listener, made.tls)
        return made.context

    def principal(self, listener: str, certificate: bytes | None) -> Principal:
        """Whom a client acts for by the certificate that it has shown.

        Args:
            listener: that it is connected to.
            certificate: in DER; None: it has shown none.

        Raises:
            NoRuleError: ssl.principal.mapping.rules does not say who that is.
        """
        rules = self._made[listener].tls.rules
        if certificate is None or rules is None:
            return ANONYMOUS
        return Principal(USER, rules.user(subject(certificate)))

    def expiries(self) -> dict[str, datetime]:
        """When the certificates of the listeners end, by listener."""
        for listener in self._made:
            self.context(listener)
        return {listener: made.certificate.expires for listener, made in self._made.items()}

    def check(self, config: BrokerConfig) -> None:
        """Check that the stores of other settings can be used in place of those in use. Reads files.

        Raises:
            ConfigError: one cannot be read, or its certificate is for another name.
        """
        for listener, tls in _encrypted(config):
            made = self._made.get(listener)
            if made is not None and not _is_made_of(made, tls):
                _refuse_another(made, _make(config, listener, tls))

    def take(self, config: BrokerConfig) -> None:
        """Use other settings for new connections; those that cannot be used do not count, which the log says."""
        self._config = config
        for listener, tls in _encrypted(config):
            made = self._made.get(listener)
            if made is not None and not _is_made_of(made, tls):
                self._renew(listener, tls)

    def _renew(self, listener: str, tls: ListenerTls) -> _Made:
        old = self._made[listener]
        modified_ns = tls.settings.modified_ns()
        try:
            made = _make(self._config, listener, tls)
            _refuse_another(old, made)
        except ConfigError as error:
            # Maybe half of it is written: then its time changes again.
            log.warning("The listener %s goes on with the stores that it had: %s", listener, error)
            made = old._replace(tls=tls, read_ns=modified_ns)
        else:
            log.info("The listener %s uses the stores that have changed", listener)
        self._made[listener] = made
        return made


def _encrypted(config: BrokerConfig) -> Iterator[tuple[str, ListenerTls]]:
    for listener in config.listeners:
        tls = listener_tls(config, listener)
        if tls is not None:
            yield listener.name, tls


def _is_made_of(made: _Made, tls: ListenerTls) -> bool:
    return made.tls.settings == tls.settings and made.read_ns == tls.settings.modified_ns()


def _make(config: BrokerConfig, listener: str, tls: ListenerTls) -> _Made:
    try:
        modified_ns = tls.settings.modified_ns()
        context = server_context(tls.settings, tls.client_auth)
        if listener == config.inter_broker_listener_name:
            _check_own_trust(tls, context)
        return _Made(tls, modified_ns, context, read_certificate(own_certificate(tls.settings)))
    except ConfigError as error:
        raise named_as_written(error, config, listener) from None
    except ValueError:
        problem = "has a certificate that cannot be read"
        raise named_as_written(ConfigError("ssl.keystore.location", problem), config, listener) from None


def _check_own_trust(tls: ListenerTls, context: ssl.SSLContext) -> None:
    """Refuse stores with which this broker would not let itself in: brokers mostly have the same authorities."""
    problem = disagreement(context, client_context(tls.settings))
    if problem is not None:
        raise ConfigError(
            "ssl.truststore.location",
            f"brokers could not reach each other: a client with this listener's own stores is not let in: {problem}",
        )


def _refuse_another(in_use: _Made, made: _Made) -> None:
    """Refuse what could lock clients out: a certificate for another name, a truststore where there was none."""
    old, new = in_use.certificate, made.certificate
    if (in_use.tls.settings.truststore is None) != (made.tls.settings.truststore is None):
        problem = "cannot be added to a listener, or taken from one, while the broker runs"
        raise ConfigError("ssl.truststore.location", problem)
    if not made.tls.allows_other_subject and new.subject != old.subject:
        problem = f"Keystore DistinguishedName does not match:  existing={{DN={old.subject}}}, new={{DN={new.subject}}}"
        raise ConfigError("ssl.keystore.location", f"{problem} (ssl.allow.dn.changes)")
    if not made.tls.allows_fewer_names and not new.names >= old.names:
        existing, offered = (f"[{', '.join(sorted(names))}]" for names in (old.names, new.names))
        problem = (
            f"Keystore SubjectAltNames do not match:  existing={{SAN={existing}}}, new={{SAN={offered}}}"
        )
        raise ConfigError("ssl.keystore.location", f"{problem} (ssl.allow.san.changes)")
