"""The TLS of connections that this broker opens to others, by the ``ssl.*`` keys of the listener that brokers use."""

import logging
import ssl
from typing import Final

from pkafka.errors import ConfigError
from pkafka.security.tls_context import TlsSettings, client_context
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.listener_tls import listener_tls, named_as_written

log = logging.getLogger(__name__)

_made: Final[dict[TlsSettings, tuple[tuple[int, ...], ssl.SSLContext]]] = {}
"""What was made of settings, and when the stores' files were changed before. A process has few listeners."""


def link_context(config: BrokerConfig, listener: str) -> ssl.SSLContext | None:
    """OpenSSL's context of connections to a listener of another broker; None where they are plain.

    Stores are read again when their files have changed. If they then cannot be read, what was read before counts.

    Args:
        config: of this broker; those of all brokers name the same protocol.
        listener: its name.

    Raises:
        ConfigError: a store cannot be read.
    """
    own = next((one for one in config.listeners if one.name == listener), None)
    tls = None if own is None else listener_tls(config, own)
    if tls is None:
        return None
    modified_ns = tls.settings.modified_ns()
    known = _made.get(tls.settings)
    if known is not None and known[0] == modified_ns:
        return known[1]
    try:
        context = client_context(tls.settings)
    except ConfigError as error:
        if known is None:
            raise named_as_written(error, config, listener) from None
        log.warning("A changed store is not used for connections to other brokers: %s", error)
        context = known[1]
    _made[tls.settings] = modified_ns, context
    return context
