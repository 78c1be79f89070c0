"""Kerberos tickets as a listener reads them: by the key of its keytab, with the rules that give users for principals.

Reading a ticket asks no KDC: it costs the worker's loop less than a millisecond.
"""

from pkafka.errors import ConfigError
from pkafka.security.kerberos import Acceptor, default_realm
from pkafka.security.kerberos_rules import LocalNameRules, NoLocalNameError
from pkafka.security.sasl import SaslError
from pkafka.security.sasl.gssapi import GssapiServerExchange, GssError
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.sasl import SASL_PROTOCOLS, KerberosService, sasl_listener


class Tickets:
    """Makes the broker's half of GSSAPI for one listener.

    Args:
        service: the listener's settings.
    """

    def __init__(self, service: KerberosService) -> None:
        self._rules = LocalNameRules(default_realm(), service.rules)
        self._acceptor = Acceptor(service.options)

    def exchange(self) -> GssapiServerExchange:
        """The broker's half, for one login."""
        return GssapiServerExchange(self._acceptor.context(), self._user_of)

    def _user_of(self, principal: str) -> str:
        try:
            return self._rules.user(principal)
        except NoLocalNameError as error:
            raise SaslError(str(error)) from None


def check_keytabs(config: BrokerConfig, in_use: BrokerConfig | None = None) -> None:
    """Read the keytab of every listener with GSSAPI once, before the broker starts or takes other settings over.

    Args:
        config: the settings that are to be used.
        in_use: those of the running broker, whose keytabs are not looked at again.

    Raises:
        ConfigError: one of them is of no use.
    """
    for listener in config.listeners:
        if listener.security_protocol in SASL_PROTOCOLS:
            kerberos = sasl_listener(config, listener.name).kerberos
            known = sasl_listener(in_use, listener.name).kerberos if in_use is not None else None
            if kerberos is not None and kerberos != known:
                _check_keytab(listener.name, kerberos)


def _check_keytab(listener: str, kerberos: KerberosService) -> None:
    try:
        Acceptor(kerberos.options).check()
    except GssError as error:
        key = f"listener.name.{listener.lower()}.gssapi.sasl.jaas.config"
        raise ConfigError(key, f"names a keytab or a principal that is of no use: {error}") from None
