"""The keys about TLS and SASL, which all clients share; :func:`check_security` looks at them together."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pkafka.clients.config.options import LONG_MAX, Options, option
from pkafka.errors import ConfigError

if TYPE_CHECKING:
    from pkafka.security.jaas import LoginModule

MODULES = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
}
"""The mechanisms that clients have, each with the login module of Kafka's that belongs to it."""


class SecurityOptions(Options):
    """Kafka's ``security.*``, ``ssl.*`` and ``sasl.*`` that have an effect in a client."""

    security_protocol: str = option("PLAINTEXT", choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))
    ssl_cipher_suites: tuple[str, ...] = option(())
    ssl_enabled_protocols: tuple[str, ...] = option(("TLSv1.2", "TLSv1.3"))
    ssl_endpoint_identification_algorithm: str = option("https")
    ssl_engine_factory_class: str | None = option(None)
    ssl_key_password: str | None = option(None, is_secret=True)
    ssl_keystore_certificate_chain: str | None = option(None, is_secret=True)
    ssl_keystore_key: str | None = option(None, is_secret=True)
    ssl_keystore_location: str | None = option(None)
    ssl_keystore_password: str | None = option(None, is_secret=True)
    ssl_keystore_type: str = option("JKS")
    ssl_truststore_certificates: str | None = option(None, is_secret=True)
    ssl_truststore_location: str | None = option(None)
    ssl_truststore_password: str | None = option(None, is_secret=True)
    ssl_truststore_type: str = option("JKS")
    sasl_client_callback_handler_class: str | None = option(None)
    sasl_jaas_config: str | None = option(None, is_secret=True)
    sasl_kerberos_service_name: str | None = option(None)
    sasl_login_callback_handler_class: object = option(None)
    sasl_login_class: str | None = option(None)
    sasl_login_connect_timeout_ms: int | None = option(None)
    sasl_login_read_timeout_ms: int | None = option(None)
    sasl_login_refresh_buffer_seconds: int = option(300, at_least=0, at_most=3_600)
    sasl_login_refresh_min_period_seconds: int = option(60, at_least=0, at_most=900)
    sasl_login_refresh_window_factor: float = option(0.8, at_least=0.5, at_most=1.0)
    sasl_login_refresh_window_jitter: float = option(0.05, at_least=0.0, at_most=0.25)
    sasl_login_retry_backoff_max_ms: int = option(10_000, at_most=LONG_MAX)
    sasl_login_retry_backoff_ms: int = option(100, at_most=LONG_MAX)
    sasl_mechanism: str = option("GSSAPI")
    sasl_oauthbearer_header_urlencode: bool = option(False)
    sasl_oauthbearer_scope_claim_name: str = option("scope")
    sasl_oauthbearer_sub_claim_name: str = option("sub")
    sasl_oauthbearer_token_endpoint_url: str | None = option(None)

    @property
    def is_encrypted(self) -> bool:
        """Whether connections speak TLS."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def logs_in(self) -> bool:
        """Whether connections log in by SASL."""
        return self.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")


def check_security(config: SecurityOptions) -> None:
    """Look at the keys together, and at no file.

    Raises:
        ConfigError: they contradict each other, or ask for what clients here do not have. Shows no secret.
    """
    java_only = ("ssl.engine.factory.class", "sasl.client.callback.handler.class", "sasl.login.class")
    for key in java_only:
        if getattr(config, key.replace(".", "_")):
            raise ConfigError(key, "names a class of Java, which cannot be loaded here")
    if config.is_encrypted:
        _check_stores(config)
    if config.logs_in:
        _check_login(config)


def _check_stores(config: SecurityOptions) -> None:
    algorithm = config.ssl_endpoint_identification_algorithm
    if algorithm.lower() not in ("https", "", "none"):  # none: as librdkafka says it
        raise ConfigError(
            "ssl.endpoint.identification.algorithm", "must be https, or empty for none", algorithm
        )
    texts = {
        "ssl.truststore": [config.ssl_truststore_certificates],
        "ssl.keystore": [config.ssl_keystore_certificate_chain, config.ssl_keystore_key],
    }
    for prefix, inline in texts.items():
        _check_store(config, prefix, inline)


def _check_store(config: SecurityOptions, prefix: str, inline: list[str | None]) -> None:
    name = prefix.replace(".", "_")
    kind = getattr(config, f"{name}_type").upper()
    location, password = getattr(config, f"{name}_location"), getattr(config, f"{name}_password")
    if any(inline):
        if kind != "PEM":
            raise ConfigError(
                f"{prefix}.type", "must be PEM where the text stands in the configuration", kind
            )
        if location:
            raise ConfigError(
                f"{prefix}.location", "cannot stand beside PEM text in the configuration", location
            )
        if not all(inline):
            raise ConfigError(f"{prefix}.certificate.chain", "and ssl.keystore.key need each other")
    if kind == "PEM" and password is not None:
        problem = "cannot be given with PEM"
        hint = ": the password of a PEM key is ssl.key.password" if prefix == "ssl.keystore" else ""
        raise ConfigError(f"{prefix}.password", problem + hint)
    if location and kind != "PEM" and prefix == "ssl.keystore" and password is None:
        raise ConfigError(f"{prefix}.password", f"is missing for the {kind} file {location}")


def _check_login(config: SecurityOptions) -> None:
    mechanism = config.sasl_mechanism
    known = ", ".join(MODULES)
    if mechanism not in MODULES:
        raise ConfigError("sasl.mechanism", f"must be one of {known}", mechanism)
    module = login_module(config)
    if module.simple_name != MODULES[mechanism]:
        problem = f"has {module.simple_name}, and sasl.mechanism={mechanism} needs {MODULES[mechanism]}"
        raise ConfigError("sasl.jaas.config", problem)
    if mechanism == "GSSAPI":
        _check_kerberos(config, module.options)
    elif mechanism != "OAUTHBEARER":
        for name in ("username", "password"):
            if not module.options.get(name):
                raise ConfigError("sasl.jaas.config", f"has no {name}")


def login_module(config: SecurityOptions) -> "LoginModule":
    """The login module of a client: of its configuration, else of the file that its environment names.

    Raises:
        ConfigError: there is none, or it is of no use. Shows no secret.
    """
    from pkafka.security.jaas import JaasError, parse_jaas
    from pkafka.security.jaas_files import CLIENT_SECTION, file_module

    mechanism = config.sasl_mechanism
    try:
        if config.sasl_jaas_config is not None:
            return parse_jaas(config.sasl_jaas_config)
        module = file_module((CLIENT_SECTION,), MODULES[mechanism])
    except JaasError as error:
        missing = "is missing, and " if config.sasl_jaas_config is None else ""
        raise ConfigError("sasl.jaas.config", f"{missing}{error}") from None
    if module is None:
        default = "" if config.is_set("sasl_mechanism") else ", the default of sasl.mechanism"
        problem = f"is missing; for {mechanism}{default}: {_example(mechanism)}"
        raise ConfigError("sasl.jaas.config", problem)
    return module


def _example(mechanism: str) -> str:
    if mechanism == "GSSAPI":
        return (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
            ' keyTab="/path/of.keytab" principal="user@REALM"; (or useTicketCache=true after kinit)'
        )
    return f'org.apache.kafka.common.security...{MODULES[mechanism]} required username="..." password="...";'


def _check_kerberos(config: SecurityOptions, options: Mapping[str, str]) -> None:
    from pkafka.security.kerberos import Krb5Options, check_package, service_name

    krb5 = Krb5Options.of(options)
    service_name(krb5, config.sasl_kerberos_service_name)
    if not krb5.uses_keytab and not krb5.uses_ticket_cache:
        raise ConfigError(
            "sasl.jaas.config", "says neither useKeyTab=true nor useTicketCache=true; nobody is asked here"
        )
    if krb5.uses_keytab and not krb5.principal:
        raise ConfigError("sasl.jaas.config", "has no principal, which useKeyTab=true needs")
    check_package("sasl.mechanism")
