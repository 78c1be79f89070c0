"""The TLS of connections to ZooKeeper, of brokers and of tools: what ``zookeeper.ssl.*`` say (KIP-515)."""

import os
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from pkafka.errors import ConfigError
from pkafka.java.text import split_list
from pkafka.security.tls_context import Store, TlsSettings, client_context

_ENABLE: Final = "zookeeper.ssl.client.enable"
_TYPES: Final = {".pem": "PEM", ".p12": "PKCS12", ".pfx": "PKCS12"}
"""ZooKeeper tells the type of a store by the ending of its file where no key says it."""


def zookeeper_tls(texts: Mapping[str, str]) -> Callable[[], ssl.SSLContext] | None:
    """What makes OpenSSL's context of a connection to ZooKeeper, of the stores as they are then.

    Args:
        texts: settings by key; others are not looked at.

    Returns:
        None where connections are plain.

    Raises:
        ConfigError: a store cannot be read, or keys contradict each other.
    """
    if texts.get(_ENABLE, "false").strip().lower() != "true":
        return None
    make = partial(_context, _settings(texts))
    make()
    return make


def _context(settings: TlsSettings) -> ssl.SSLContext:
    try:
        return client_context(settings)
    except ConfigError as error:
        key = "ssl.keystore.password" if error.key == "ssl.key.password" else error.key
        raise ConfigError(f"zookeeper.{key}", error.problem, error.value) from None


def _settings(texts: Mapping[str, str]) -> TlsSettings:
    key = "zookeeper.ssl.endpoint.identification.algorithm"
    algorithm = texts.get(key, "HTTPS").strip().upper()
    if algorithm not in ("HTTPS", ""):
        raise ConfigError(key, "must be HTTPS, or empty for none", algorithm)
    return TlsSettings(
        _versions(texts),
        tuple(split_list(_text(texts, "cipher.suites"))) if _text(texts, "cipher.suites") else (),
        algorithm == "HTTPS",
        _store(texts, "truststore"),
        _store(texts, "keystore"),
    )


def _versions(texts: Mapping[str, str]) -> tuple[str, ...]:
    """Both versions where no key names one: servers of ZooKeeper 3.8 have the older, those of 3.9 the newer."""
    named = _text(texts, "enabled.protocols") or _text(texts, "protocol")
    return tuple(split_list(named)) if named else TlsSettings().enabled_protocols


def _store(texts: Mapping[str, str], kind: str) -> Store | None:
    location, password = _text(texts, f"{kind}.location"), _text(texts, f"{kind}.password") or None
    if not location:
        if password is not None:
            problem = f"is set, and zookeeper.ssl.{kind}.location is not"
            raise ConfigError(f"zookeeper.ssl.{kind}.password", problem)
        return None
    store_type = _text(texts, f"{kind}.type").upper()
    store_type = store_type or _TYPES.get(os.path.splitext(location)[1].lower(), "JKS")
    if store_type == "PEM":
        return Store(kind, store_type, location, key_password=password)
    return Store(kind, store_type, location, password=password)


def _text(texts: Mapping[str, str], name: str) -> str:
    return texts.get(f"zookeeper.ssl.{name}", "").strip()
