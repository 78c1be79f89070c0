"""Records that were handed over and are not encoded yet: a run of them goes into its batch at once.

To encode a record alone takes longer. So ``Producer.send()`` puts records that are alike into a run, and whoever looks
at their batch next has the run ended and encoded. A run takes only what surely fits: where a batch is full, when the
turn of a sticky partition ends, and when more memory is taken, is decided record by record, as without runs.

No lock is held to put a record into a run, as one thread alone may: its owner. It looks afterwards whether the run was
still open. What is in the list by the time the run ends was taken; a record that came later is sent another way.
"""

import threading
from typing import Final

from pkafka.clients.producer.batch import ProducerBatch
from pkafka.clients.producer.callbacks import Callback, RecordCallbacks
from pkafka.clients.producer.futures import Placed, RecordFuture
from pkafka.records import varint
from pkafka.records.builder import NO_HEADERS

# Lengths and offsets up to here take 3 bytes at most.
_BYTES_MAX: Final = 2**20 - 1
_COUNT_MAX: Final = 2**19
_RECORD_BYTES_MIN: Final = 7
_ATTRIBUTES_BYTES: Final = 1


class Run:
    """Records for one batch that have one time and the same headers, all of them with a key or none.

    Args:
        batch: where they go; None for a run that takes nothing.
        topic: its name, the very object that it was sent with.
        stamp_ms: their time, since the epoch.
        owner: the thread that may add records.
        lock: the accumulator's.
        generation: of the metadata by which their partition was chosen.
        is_sticky: whether they count to the turn of the sticky partition.
        has_keys: whether they have keys.
        headers: of each of them, encoded.
        room_bytes: how far the batch may grow.
    """

    __slots__ = (
        "batch",
        "begin_s",
        "callbacks",
        "end_s",
        "first",
        "generation",
        "headers",
        "is_open",
        "is_sticky",
        "keys",
        "lock",
        "overhead",
        "owner",
        "room",
        "stamp_ms",
        "taken",
        "topic",
        "values",
    )

    def __init__(
        self,
        batch: ProducerBatch | None,
        topic: str | None,
        stamp_ms: int,
        *,
        owner: int,
        lock: threading.Lock,
        generation: int,
        is_sticky: bool,
        has_keys: bool,
        headers: bytes,
        room_bytes: int,
    ) -> None:
        self.batch = batch
        self.topic = topic
        self.stamp_ms = stamp_ms
        self.begin_s, self.end_s = stamp_ms / 1_000, (stamp_ms + 1) / 1_000
        self.owner = owner
        self.lock = lock
        self.generation = generation
        self.headers = headers
        self.is_sticky = is_sticky
        self.is_open = batch is not None
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] | None = [] if has_keys else None
        self.callbacks: dict[int, Callback] = {}
        """By the place of their records in :attr:`values`."""
        self.first = 0 if batch is None else batch.builder.count
        """How many records the batch had before."""
        self.taken = 0
        """How many of the run were encoded, once it is not open any more."""
        self.overhead = 0
        """What a record takes at most beside its key and its value, in bytes."""
        self.room = -1
        """How long the key and the value of the next record may be together; negative when there is no room."""
        if batch is not None and self.first <= _COUNT_MAX:
            room = min(room_bytes, _BYTES_MAX)
            # Of the record, of its value, and of its key; a null needs one byte.
            lengths = _bytes_of(room) * (3 if has_keys else 2) + (not has_keys)
            times = len(varint.encode(stamp_ms - batch.builder.base_timestamp))
            offsets = _bytes_of(self.first + room // _RECORD_BYTES_MIN)
            self.overhead = _ATTRIBUTES_BYTES + lengths + times + offsets + len(headers)
            self.room = room - self.overhead

    def add(
        self,
        now_s: float,
        generation: int,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
        callback: Callback | None,
    ) -> RecordFuture | None:
        """Add a record; None where the run does not take it.

        Args:
            now_s: the time of the record, since the epoch.
            generation: of the metadata by which the partition was chosen.
        """
        key_size = 0 if key is None else len(key)
        value_size = 0 if value is None else len(value)
        room = self.room - key_size - value_size
        batch, keys = self.batch, self.keys
        if (
            batch is None
            or room < 0
            or not self.begin_s <= now_s < self.end_s
            or self.owner != threading.get_ident()
            or (keys is None) != (key is None)
            or self.headers != headers
            or self.generation != generation
            or not self.is_open
        ):
            return None
        self.room = room - self.overhead
        future = RecordFuture()
        future.batch = batch
        future.index = self.first + len(self.values)
        future.timestamp_ms = self.stamp_ms
        future.key_size = -1 if key is None else key_size
        future.value_size = -1 if value is None else value_size
        if callback is not None:
            self.callbacks[len(self.values)] = callback
        elif self.callbacks:
            self.callbacks.pop(len(self.values), None)  # of a record that a Ctrl-C kept out
        if keys is not None:
            del keys[len(self.values) :]  # a Ctrl-C may have come between a key and its value
            keys.append(key)
        self.values.append(value)
        return future if self.is_open or self.has(future) else None

    def has(self, record: Placed) -> bool:
        """Whether a record was in the run when that ended."""
        with self.lock:
            return record.index < self.first + self.taken

    def end(self) -> int:
        """Take no more, and encode what is there; call with the accumulator's lock held.

        Returns:
            By how many bytes the batch grew.
        """
        batch = self.batch
        if batch is None or batch.run is not self:
            return 0
        self.is_open = False
        self.taken = count = len(self.values)  # what the owner adds from now on is not taken
        builder = batch.builder
        before = builder.size_bytes
        while (done := builder.count - self.first) < count:  # the loops take as many at once as they can
            end = builder.append_many(self.stamp_ms, self.values, self.keys, self.headers, done, count)
            assert end > done, "a run has what fits the batch"
        if self.callbacks:
            batch.callbacks.append(self._called_back(count))
        batch.run = None
        self._forget()
        return builder.size_bytes - before

    def _called_back(self, count: int) -> RecordCallbacks:
        """The callbacks of the first ``count`` records."""
        # By the records' places, because a Ctrl-C may have come between a record and its callback. A copy in one step:
        # the owner may still add records, which are not taken any more.
        callbacks = self.callbacks.copy()
        while callbacks and next(reversed(callbacks)) >= count:
            callbacks.popitem()
        keys, values = self.keys, self.values
        return RecordCallbacks(
            self.stamp_ms,
            [self.first + place for place in callbacks],
            list(callbacks.values()),
            [-1] * len(callbacks) if keys is None else [_size_of(keys[place]) for place in callbacks],
            [_size_of(values[place]) for place in callbacks],
        )

    def _forget(self) -> None:
        """Have nobody keep the records: there is a run for every partition."""
        assert self.batch is not None
        queue = self.batch.queue
        if queue.run is self:
            queue.run = NO_RUN
        if queue.topic.run is self:
            queue.topic.run = NO_RUN


def _size_of(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _bytes_of(number_max: int) -> int:
    """How many bytes a number of a record takes, as a varint, if it is no larger."""
    return 1 if number_max < 64 else 2 if number_max < 8192 else 3


NO_RUN: Final = Run(
    None,
    None,
    -1,
    owner=0,
    lock=threading.Lock(),
    generation=-1,
    is_sticky=False,
    has_keys=False,
    headers=NO_HEADERS,
    room_bytes=0,
)
"""Takes nothing; stands where no run is open."""
