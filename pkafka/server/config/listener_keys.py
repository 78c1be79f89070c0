"""Settings that a listener may have for itself: ``listener.name.<listener>.[<mechanism>.]<key>`` (KIP-103, KIP-226)."""

from collections.abc import Mapping
from typing import Final

from pkafka.errors import ConfigError
from pkafka.server.config.keys import broker_keys
from pkafka.server.config.keys.values import kafka_message, parse

_PREFIX: Final = "listener.name."
_CLASSES: Final = "org.apache.kafka."
"""What the classes begin with that Kafka has itself."""


def listener_texts(originals: Mapping[str, str], listener: str) -> dict[str, str]:
    """All settings as they count for one listener: its own in place of the broker's.

    Args:
        originals: what was set, by key.
        listener: the listener's name, in any case.

    Returns:
        Settings by their plain keys; those of a mechanism are named ``<mechanism in lower case>.<key>``.
    """
    prefix = f"{_PREFIX}{listener.lower()}."
    texts = {key: text for key, text in originals.items() if not key.startswith(_PREFIX)}
    texts.update({key[len(prefix) :]: text for key, text in originals.items() if key.startswith(prefix)})
    return texts


def mechanism_texts(originals: Mapping[str, str], listener: str, mechanism: str) -> dict[str, str]:
    """All settings as they count for the logins of one mechanism at one listener.

    Args:
        originals, listener: as :func:`listener_texts` takes them.
        mechanism: as ``SCRAM-SHA-256``.

    Returns:
        Settings by their plain keys.
    """
    texts = listener_texts(originals, listener)
    prefix = f"{mechanism.lower()}."
    own = {key[len(prefix) :]: text for key, text in texts.items() if key.startswith(prefix)}
    return {**texts, **own}


def is_of_logins(name: str) -> bool:
    """Whether a listener's own setting is one of SASL, which count for the next login while the broker runs.

    Apache Kafka stores them, and they count there after a restart alone.

    Args:
        name: without the listener's prefix, with or without that of a mechanism.
    """
    keys = (name, name.partition(".")[2])
    return any(key.startswith("sasl.") or key == "connections.max.reauth.ms" for key in keys)


def wrong_value(originals: Mapping[str, str], listener: str) -> str | None:
    """Kafka's sentence for the first of a listener's own settings whose value is not of the key's type.

    As Kafka does, this looks for a key behind the listener's prefix, then behind one part more, as a mechanism's.

    Args:
        originals: what was set, by key.
        listener: the listener's name, in any case.

    Returns:
        None where all are good, or of no known key.
    """
    prefix = f"{_PREFIX}{listener.lower()}."
    for name, text in originals.items():
        if name.startswith(prefix):
            own = name.removeprefix(prefix)
            key = broker_keys().get(own) or broker_keys().get(own.partition(".")[2])
            if key is None:
                continue
            if key.type == "class" and key.name.startswith("sasl.") and not text.startswith(_CLASSES):
                return f"Invalid value {text} for configuration {key.name}: Class {text} could not be found."
            try:
                parse(key, text)
            except ConfigError as error:
                return kafka_message(error)
    return None
