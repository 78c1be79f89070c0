"""The metrics of a producer that are read when asked for: what is in flight, waits or is free at the moment."""

from pkafka.clients.cluster import Cluster
from pkafka.clients.config import ProducerConfig
from pkafka.clients.metrics import Metrics
from pkafka.clients.producer.accumulator import Accumulator
from pkafka.clients.producer.sender import Sender


def add_gauges(
    metrics: Metrics, config: ProducerConfig, accumulator: Accumulator, sender: Sender, cluster: Cluster
) -> None:
    """Register what a producer's metrics read from its parts.

    Args:
        metrics: of the producer.
    """
    total = config.buffer_memory
    for name, read, text in (
        (
            "requests-in-flight",
            lambda: sender.requests_in_flight,
            "The current number of in-flight requests awaiting a response.",
        ),
        (
            "metadata-age",
            lambda: cluster.metadata_age_ms / 1000,
            "The age in seconds of the current producer metadata being used.",
        ),
        (
            "waiting-threads",
            lambda: accumulator.waiting_threads,
            "The number of user threads blocked waiting for buffer memory to enqueue their records",
        ),
        (
            "buffer-total-bytes",
            lambda: total,
            "The maximum amount of buffer memory the client can use (whether or not it is currently used).",
        ),
        (
            "buffer-available-bytes",
            lambda: accumulator.free_bytes,
            "The total amount of buffer memory that is not being used.",
        ),
    ):
        metrics.gauge(name, "producer-metrics", read, text)
