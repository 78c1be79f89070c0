"""``interceptor.classes``: objects of the user's that see records go and outcomes come.

What one of them raises is logged and goes no further: a send never fails by it.
"""

import logging
from collections.abc import Mapping
from typing import Final, Protocol

from pkafka.clients import plugins
from pkafka.clients.producer.callbacks import Callback
from pkafka.clients.producer.record import ProducerRecord
from pkafka.clients.producer.record_metadata import RecordMetadata

_METHODS: Final = ("on_send", "on_acknowledgement")
_log = logging.getLogger(__name__)


class ProducerInterceptor(Protocol):
    """What ``interceptor.classes`` names; ``configure`` and ``close`` are called where it has them."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Called before the serializers, on the thread that sends.

        Returns:
            The record to send.
        """

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """Called with every outcome, before the callback; on the sender thread, so it must be short."""


class Interceptors:
    """Those of one producer, in the order of the configuration.

    Args:
        named: the value of ``interceptor.classes``.
        configs: the client's keys, handed to each.
    """

    def __init__(self, named: object, configs: Mapping[str, object]) -> None:
        self._all: list[ProducerInterceptor] = plugins.load_all(
            "interceptor.classes", named, configs, methods=_METHODS
        )
        self.is_needed = bool(self._all)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """What all of them make of a record; one that fails is passed over."""
        for each in self._all:
            try:
                record = each.on_send(record)
            except Exception:  # noqa: BLE001 - never breaks a send
                _log.warning("Error executing interceptor onSend callback", exc_info=True)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """Tell all of them an outcome."""
        for each in self._all:
            try:
                each.on_acknowledgement(metadata, error)
            except Exception:  # noqa: BLE001 - never breaks a send
                _log.warning("Error executing interceptor onAcknowledgement callback", exc_info=True)

    def around(self, callback: Callback | None) -> Callback:
        """A callback that tells all of them first."""

        def outcome(metadata: RecordMetadata, error: Exception | None) -> None:
            self.on_acknowledgement(metadata, error)
            if callback is not None:
                callback(metadata, error)

        return outcome

    def close(self) -> None:
        """Close all of them."""
        for each in self._all:
            plugins.close_quietly(each)
