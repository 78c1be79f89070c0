"""The callbacks of records, from when they are handed over until the outcome of their batch is known."""

import logging
from bisect import bisect_left
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from pkafka.clients.producer.record_metadata import RecordMetadata, new_metadata

if TYPE_CHECKING:
    from pkafka.clients.producer.batch import ProducerBatch

Callback = Callable[[RecordMetadata, Exception | None], None]
"""Called once, on the sender thread, in the order of sends within a partition, before the future is done. With an
error the metadata has -1 for what is not known."""

_log = logging.getLogger("pkafka.clients.producer.batch")  # the name that operators know


class RecordCallbacks(NamedTuple):
    """Those of records that have one time, and what they are told: by columns, and without the records' futures.

    A future and a pair for each record would be objects that the garbage collector looks at again and again while
    they wait. That took a quarter of all CPU time of a producer with callbacks.
    """

    timestamp_ms: int
    """Of all the records."""
    indexes: list[int]
    """Of the records in their batch, ascending: the first column, which says how many rows there are."""
    callbacks: list[Callback]
    key_sizes: list[int]
    """In bytes; -1 for null, as :attr:`value_sizes`."""
    value_sizes: list[int]

    def call(self, batch: "ProducerBatch") -> None:
        """Tell each of its record's outcome, as ``batch`` has it. What a callback raises is logged."""
        topic, partition = batch.queue.partition
        base, stamp_ms = batch.base_offset, batch.append_time_ms
        if stamp_ms < 0:
            stamp_ms = self.timestamp_ms
        has_errors = batch.error is not None or batch.record_errors is not None
        for index, callback, key_size, value_size in zip(*self[1:], strict=False):
            error = batch.error_of(index) if has_errors else None
            if error is None:
                offset = base + index if base >= 0 else -1
                metadata = new_metadata(
                    RecordMetadata, (topic, partition, offset, stamp_ms, key_size, value_size)
                )
            else:
                metadata = RecordMetadata(topic, partition, -1, -1)
            try:
                callback(metadata, error)
            except Exception:  # noqa: BLE001 - the user's, and no concern of other records
                _log.exception("a producer callback for %s failed", batch.queue.partition)

    def split(self, middle: int) -> tuple["RecordCallbacks", "RecordCallbacks"]:
        """Those of the records before the one with index ``middle``, and the others, whose indexes begin there."""
        cut = bisect_left(self.indexes, middle)
        return self._part(slice(cut), 0), self._part(slice(cut, None), middle)

    def _part(self, rows: slice, before: int) -> "RecordCallbacks":
        return RecordCallbacks(
            self.timestamp_ms,
            [index - before for index in self.indexes[rows]],
            self.callbacks[rows],
            self.key_sizes[rows],
            self.value_sizes[rows],
        )
