"""The configuration of every client: Kafka's keys, types, defaults and limits (3.9), as immutable values.

A field is the key with ``_`` for ``.``: ``batch.size`` is ``ProducerConfig.batch_size``. A key that Kafka has and
pkafka does not act on yet is accepted in silence, one that nobody knows is warned about once, and a bad value is
refused with the key, the value and what is allowed.
"""

from pkafka.clients.config.client import ClientConfig
from pkafka.clients.config.consumer import ConsumerConfig
from pkafka.clients.config.producer import ProducerConfig

__all__ = ["ClientConfig", "ConsumerConfig", "ProducerConfig"]
