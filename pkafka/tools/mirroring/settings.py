"""The settings of a mirror's clients: what kafka-mirror-maker.sh 3.9.1 gives them where the user does not. Pure."""

import logging
from collections.abc import Mapping
from typing import Final

log = logging.getLogger("kafka.tools.MirrorMaker$")

_WAIT_MS_MAX: Final = 2**31 - 1
_LOSSLESS: Final = {
    "delivery.timeout.ms": _WAIT_MS_MAX,
    "max.block.ms": _WAIT_MS_MAX,
    "retries": _WAIT_MS_MAX,
    "acks": "all",
}
_BYTES_ONLY: Final = ("key.serializer", "value.serializer", "key.deserializer", "value.deserializer")


def producer_settings(given: Mapping[str, object]) -> dict[str, object]:
    """A producer that waits rather than loses, and keeps the order of what it sends.

    Kafka's has one request in flight for that; an idempotent producer keeps the order with five.

    Args:
        given: by the user; these count, with a warning where they allow a loss.
    """
    values = {**_LOSSLESS, **_without_classes(given)}
    if str(given.get("enable.idempotence", "true")).strip().lower() == "false":
        values.setdefault("max.in.flight.requests.per.connection", 1)
    _warn({**_LOSSLESS, "max.in.flight.requests.per.connection": 1}, given)
    return values


def consumer_settings(given: Mapping[str, object], stream: int) -> dict[str, object]:
    """A consumer that commits nothing by itself.

    Args:
        given: by the user; these count.
        stream: the number of the stream, which Kafka puts into the client's id.
    """
    values = {"enable.auto.commit": "false", **_without_classes(given)}
    values["client.id"] = f"{given.get('group.id', '')}-{stream}"
    _warn({"enable.auto.commit": "false"}, given)
    return values


def _without_classes(given: Mapping[str, object]) -> dict[str, object]:
    """Without serializers: a mirror copies bytes, and Kafka's overrides these too."""
    return {key: value for key, value in given.items() if key not in _BYTES_ONLY}


def _warn(defaults: Mapping[str, object], given: Mapping[str, object]) -> None:
    for key, default in defaults.items():
        value = given.get(key)
        if value is not None and str(value).strip().lower() not in (str(default), "-1"):
            log.warning(
                "Property %s is overridden to %s - data loss or message reordering is possible.", key, value
            )
