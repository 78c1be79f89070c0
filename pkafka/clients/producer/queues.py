"""What waits for topics and their partitions. Data; changed under the accumulator's lock, or by the sender alone."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from pkafka.clients.producer.batch import ProducerBatch
from pkafka.clients.producer.gathering import NO_RUN
from pkafka.clients.producer.partitioner import Sticky
from pkafka.model import TopicPartition

_NO_SEQUENCE: Final = -1


class PartitionQueue:
    """What waits for one partition, what the sender has under way to it, and where its sequence stands."""

    __slots__ = (
        "batches",
        "last_acked_offset",
        "last_acked_sequence",
        "next_sequence",
        "open",
        "partition",
        "producer",
        "run",
        "topic",
        "tracked",
        "unanswered",
    )

    def __init__(self, topic: "TopicQueues", partition: int) -> None:
        self.topic = topic
        self.partition = TopicPartition(topic.name, partition)
        self.batches: deque[ProducerBatch] = deque()
        self.open: ProducerBatch | None = None
        """The last of ``batches`` while it takes records."""
        self.run = NO_RUN
        """The open run of records that were sent to this partition by their key or by name."""
        self.unanswered = 0
        """How many of its batches are under way."""
        self.tracked: list[ProducerBatch] = []
        """Those that have a sequence and no outcome, under way or to be sent again; in order of sequence."""
        self.next_sequence = 0
        self.producer = (-1, -1)
        """The producer id and epoch that ``next_sequence`` belongs to."""
        self.last_acked_sequence = _NO_SEQUENCE
        self.last_acked_offset = -1

    def shut(self) -> None:
        """Put no more into the last batch; call with the accumulator's lock held."""
        batch, self.open = self.open, None
        if batch is not None and batch.run is not None:
            batch.run.end()


class TopicQueues:
    """A topic that is produced to: its partitions as metadata has them, and their queues."""

    __slots__ = (
        "available",
        "generation",
        "grows",
        "idle_since_ms",
        "name",
        "partition_count",
        "queues",
        "ratio",
        "run",
        "sticky",
        "unavailable",
        "was_used",
        "watched",
    )

    def __init__(self, name: str, bytes_per_turn: int) -> None:
        self.name = name
        self.generation = -1
        """Of the metadata that the next two are from; -1 before there was any."""
        self.partition_count = 0
        self.available: Sequence[int] = ()
        self.queues: dict[int, PartitionQueue] = {}
        self.run = NO_RUN
        """The open run of records that may go to any partition: they go to the sticky one."""
        self.grows = True
        """Whether batches may grow beyond batch.size while they wait; not where the broker refused a large one."""
        self.sticky = Sticky(bytes_per_turn)
        self.unavailable: frozenset[int] = frozenset()
        """Partitions whose leader has not taken anything for partitioner.availability.timeout.ms."""
        self.ratio = 1.0
        """What compression is expected to leave of a batch."""
        self.was_used = True
        """Set with every record, unset by the sender: so it finds the topics that are not used any more."""
        self.watched = True
        """Whether metadata is kept fresh for it (metadata.max.idle.ms)."""
        self.idle_since_ms = 0

    def queue(self, partition: int) -> PartitionQueue:
        """The queue of a partition, made on first use."""
        queue = self.queues.get(partition)
        if queue is None:
            queue = self.queues[partition] = PartitionQueue(self, partition)
        return queue
