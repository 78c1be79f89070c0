"""The configuration of every client: Kafka's keys, types, defaults and limits (3.9), as immutable values.

A field is the key with ``_`` for ``.``: ``batch.size`` is ``ProducerConfig.batch_size``. A key that Kafka has and
pkafka does not act on yet is accepted in silence, one that is unknown is warned about once, and a bad value is
refused with the key, the value and what is allowed. What a client does not use is not loaded.
"""

from typing import TYPE_CHECKING

from pkafka.clients.config.client import ClientConfig

if TYPE_CHECKING:
    from pkafka.clients.config.consumer import ConsumerConfig
    from pkafka.clients.config.producer import ProducerConfig
else:

    def __getattr__(name: str) -> type[ClientConfig]:
        if name == "ConsumerConfig":
            from pkafka.clients.config.consumer import ConsumerConfig

            return ConsumerConfig
        if name == "ProducerConfig":
            from pkafka.clients.config.producer import ProducerConfig

            return ProducerConfig
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["ClientConfig", "ConsumerConfig", "ProducerConfig"]
