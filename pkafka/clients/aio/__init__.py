"""The producer and the consumer for programs of asyncio: other front ends of the same clients.

:class:`AsyncProducer` and :class:`AsyncConsumer` let a coroutine wait where the others let a thread wait. They send
nothing themselves: what is decided and sent is decided and sent by ``pkafka.clients.producer`` and ``.consumer``.
"""

from pkafka.clients.aio.consumer import AsyncConsumer
from pkafka.clients.aio.producer import AsyncProducer
from pkafka.clients.aio.rebalance import AsyncRebalanceListener

__all__ = ["AsyncConsumer", "AsyncProducer", "AsyncRebalanceListener"]
