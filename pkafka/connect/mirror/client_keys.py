"""The settings of TLS and SASL as Connect's definitions have them: ``withClientSslSupport``, ``withClientSaslSupport``.

Clients have their own, typed (:mod:`pkafka.clients.config`); these are what the REST API shows and checks.
"""

from typing import Final

from pkafka.clients.config.documentation import ALL_CLIENTS
from pkafka.connect.config_def import ConfigDef, ConfigType, Importance

_ROWS: Final[tuple[tuple[str, ConfigType, str | None, Importance], ...]] = (
    ("ssl.protocol", ConfigType.STRING, "TLSv1.3", Importance.MEDIUM),
    ("ssl.provider", ConfigType.STRING, None, Importance.MEDIUM),
    ("ssl.cipher.suites", ConfigType.LIST, None, Importance.LOW),
    ("ssl.enabled.protocols", ConfigType.LIST, "TLSv1.2,TLSv1.3", Importance.MEDIUM),
    ("ssl.keystore.type", ConfigType.STRING, "JKS", Importance.MEDIUM),
    ("ssl.keystore.location", ConfigType.STRING, None, Importance.HIGH),
    ("ssl.keystore.password", ConfigType.PASSWORD, None, Importance.HIGH),
    ("ssl.key.password", ConfigType.PASSWORD, None, Importance.HIGH),
    ("ssl.keystore.key", ConfigType.PASSWORD, None, Importance.HIGH),
    ("ssl.keystore.certificate.chain", ConfigType.PASSWORD, None, Importance.HIGH),
    ("ssl.truststore.certificates", ConfigType.PASSWORD, None, Importance.HIGH),
    ("ssl.truststore.type", ConfigType.STRING, "JKS", Importance.MEDIUM),
    ("ssl.truststore.location", ConfigType.STRING, None, Importance.HIGH),
    ("ssl.truststore.password", ConfigType.PASSWORD, None, Importance.HIGH),
    ("ssl.keymanager.algorithm", ConfigType.STRING, "SunX509", Importance.LOW),
    ("ssl.trustmanager.algorithm", ConfigType.STRING, "PKIX", Importance.LOW),
    ("ssl.endpoint.identification.algorithm", ConfigType.STRING, "https", Importance.LOW),
    ("ssl.secure.random.implementation", ConfigType.STRING, None, Importance.LOW),
    ("ssl.engine.factory.class", ConfigType.CLASS, None, Importance.LOW),
    ("sasl.kerberos.service.name", ConfigType.STRING, None, Importance.MEDIUM),
    ("sasl.kerberos.kinit.cmd", ConfigType.STRING, "/usr/bin/kinit", Importance.LOW),
    ("sasl.kerberos.ticket.renew.window.factor", ConfigType.DOUBLE, "0.8", Importance.LOW),
    ("sasl.kerberos.ticket.renew.jitter", ConfigType.DOUBLE, "0.05", Importance.LOW),
    ("sasl.kerberos.min.time.before.relogin", ConfigType.LONG, "60000", Importance.LOW),
    ("sasl.login.refresh.window.factor", ConfigType.DOUBLE, "0.8", Importance.LOW),
    ("sasl.login.refresh.window.jitter", ConfigType.DOUBLE, "0.05", Importance.LOW),
    ("sasl.login.refresh.min.period.seconds", ConfigType.SHORT, "60", Importance.LOW),
    ("sasl.login.refresh.buffer.seconds", ConfigType.SHORT, "300", Importance.LOW),
    ("sasl.mechanism", ConfigType.STRING, "GSSAPI", Importance.MEDIUM),
    ("sasl.jaas.config", ConfigType.PASSWORD, None, Importance.MEDIUM),
    ("sasl.client.callback.handler.class", ConfigType.CLASS, None, Importance.MEDIUM),
    ("sasl.login.callback.handler.class", ConfigType.CLASS, None, Importance.MEDIUM),
    ("sasl.login.class", ConfigType.CLASS, None, Importance.MEDIUM),
    ("sasl.login.connect.timeout.ms", ConfigType.INT, None, Importance.LOW),
    ("sasl.login.read.timeout.ms", ConfigType.INT, None, Importance.LOW),
    ("sasl.login.retry.backoff.max.ms", ConfigType.LONG, "10000", Importance.LOW),
    ("sasl.login.retry.backoff.ms", ConfigType.LONG, "100", Importance.LOW),
    ("sasl.oauthbearer.scope.claim.name", ConfigType.STRING, "scope", Importance.LOW),
    ("sasl.oauthbearer.sub.claim.name", ConfigType.STRING, "sub", Importance.LOW),
    ("sasl.oauthbearer.token.endpoint.url", ConfigType.STRING, None, Importance.MEDIUM),
    ("sasl.oauthbearer.jwks.endpoint.url", ConfigType.STRING, None, Importance.MEDIUM),
    ("sasl.oauthbearer.jwks.endpoint.refresh.ms", ConfigType.LONG, "3600000", Importance.LOW),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", ConfigType.LONG, "10000", Importance.LOW),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", ConfigType.LONG, "100", Importance.LOW),
    ("sasl.oauthbearer.clock.skew.seconds", ConfigType.INT, "30", Importance.LOW),
    ("sasl.oauthbearer.expected.audience", ConfigType.LIST, None, Importance.LOW),
    ("sasl.oauthbearer.expected.issuer", ConfigType.STRING, None, Importance.LOW),
    ("sasl.oauthbearer.header.urlencode", ConfigType.BOOLEAN, "false", Importance.LOW),
)  # fmt: skip
_OF_JAVA: Final = "A setting of Java's clients; those of pkafka do without it."

CLIENT_KEYS: Final = frozenset({"bootstrap.servers", "security.protocol", *(name for name, *_ in _ROWS)})
"""What MirrorMaker hands from ``source.cluster.`` and ``target.cluster.`` to clients: ``CLIENT_CONFIG_DEF``."""


def define_security(config: ConfigDef) -> ConfigDef:
    """The same definition with the settings of TLS and SASL."""
    for name, kind, default, importance in _ROWS:
        about = ALL_CLIENTS.get(name)
        config.define(name, kind, default, None, importance, _OF_JAVA if about is None else about.text)
    return config
