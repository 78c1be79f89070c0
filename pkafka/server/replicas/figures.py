"""What a worker tells the metrics of its replicas."""

from collections.abc import Iterable
from typing import Any, Final

from pkafka.model import NO_PRODUCER_ID, Millis
from pkafka.server.metrics.partition_figures import FollowedPartition, LedPartition, LogFigures
from pkafka.server.replicas.partition import Partition
from pkafka.server.replicas.partitions import Partitions
from pkafka.storage.log import Log

LATE_TRANSACTION_BUFFER_MS: Final = 5 * 60_000
"""An open transaction counts as late when its producer has been silent for longer than the longest one may take, and
that (KIP-664)."""


def figures(
    partitions: Partitions, future_logs: Iterable[Log], *, now_ms: Millis, transaction_max_ms: Millis
) -> dict[str, Any]:
    """The gauges of all replicas, as plain values.

    Args:
        partitions: of the worker.
        future_logs: those on their way to another log directory.
        now_ms: the wall clock.
        transaction_max_ms: the longest that a transaction may take.
    """
    late_after_ms = transaction_max_ms + LATE_TRANSACTION_BUFFER_MS
    led, hosted = partitions.led, partitions.hosted
    return {
        "leaders": len(led),
        "reassigning": sum(one.is_reassigning for one in led.values()),
        "partitions": len(hosted),
        "led": [_led(one, now_ms) for one in led.values()],
        "followed": [
            FollowedPartition(*key, _unstable(one)) for key, one in hosted.items() if key not in led
        ],
        "late_transactions": sum(
            one.log.producers.has_late_transaction(now_ms, late_after_ms) for one in led.values()
        ),
        "producer_ids": sum(len(log.producers) for log in partitions.logs()),
        "logs": [_log(log) for log in (*partitions.logs(), *future_logs)],
    }


def _led(partition: Partition, now_ms: Millis) -> LedPartition:
    holder = partition.log.producers.of_oldest_transaction
    return LedPartition(
        partition.topic,
        partition.index,
        replicas=len(partition.replicas),
        in_sync=len(partition.isr),
        min_insync_replicas=partition.log.config.min_insync_replicas,
        unstable=_unstable(partition),
        adding=sum(map(partition.is_adding, partition.replicas)),
        holder=NO_PRODUCER_ID if holder is None else holder.producer_id,
        silent_ms=0 if holder is None else max(0, now_ms - holder.last_timestamp),
    )


def _unstable(partition: Partition) -> int:
    return partition.log.high_watermark - partition.log.last_stable_offset


def _log(log: Log) -> LogFigures:
    return LogFigures(
        *log.topic_partition,
        size_bytes=log.size_bytes,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        segments=len(log.segments),
        high_watermark=log.high_watermark,
        is_future=log.is_future,
    )
