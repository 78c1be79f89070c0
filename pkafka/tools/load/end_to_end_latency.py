"""How long a record takes from a producer to a consumer, one record at a time. Does not print."""

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from pkafka.errors import PkafkaError
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.consumer import Consumer
    from pkafka.clients.producer import Producer

_POLL_MS: Final = 60_000
_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SEED: Final = 0


class LatencyError(PkafkaError):
    """What came back is not what was sent: another producer writes to the topic."""


class Latencies(NamedTuple):
    """Every measurement in nanoseconds, sorted."""

    sorted_ns: tuple[int, ...]

    @property
    def average_ms(self) -> float:
        """The mean of all."""
        return sum(self.sorted_ns) / len(self.sorted_ns) / 1e6

    def percentile_ms(self, fraction: float) -> float:
        """What that fraction of all is below."""
        return self.sorted_ns[int(len(self.sorted_ns) * fraction)] / 1e6


def measure_latency(
    producer: "Producer",
    consumer: "Consumer",
    topic: str,
    *,
    records: int,
    record_bytes: int,
    on_measured: Callable[[int, int], None],
) -> Latencies:
    """Send records one by one, and wait for each until it is read.

    Args:
        topic: exists; all of its partitions are read, from their ends.
        on_measured: called with every record's number and nanoseconds.

    Raises:
        LatencyError: a record does not come, or others come.
        ApiError, ClientError: a record cannot be sent or read.
    """
    partitions = [TopicPartition(topic, each.partition) for each in consumer.partitions_for(topic).partitions]
    consumer.assign(partitions)
    consumer.seek_to_end(partitions)
    for each in partitions:
        consumer.position(each)  # before the first record is sent
    draw = random.Random(_SEED)  # noqa: S311 - payload
    found: list[int] = []
    for number in range(records):
        payload = bytes(draw.choices(_LETTERS, k=record_bytes))
        began = time.perf_counter_ns()
        producer.send(topic, payload).result()
        values = [record.value for record in consumer.poll(_POLL_MS)]
        passed = time.perf_counter_ns() - began
        _check(values, payload)
        found.append(passed)
        on_measured(number, passed)
    return Latencies(tuple(sorted(found)))


def _check(values: list[bytes | None], payload: bytes) -> None:
    if not values:
        raise LatencyError(f"poll() timed out before finding a result (timeout:[{_POLL_MS}])")
    if values[0] != payload:
        shown = (values[0] or b"").decode(errors="replace")
        raise LatencyError(f"The message read [{shown}] did not match the message sent [{payload.decode()}]")
    if len(values) > 1:
        raise LatencyError(f"Only one result was expected during this test. We found [{len(values)}]")
