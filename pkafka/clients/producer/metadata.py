"""The partitions of topics as the senders of records see them, waited for where they are not known."""

from collections.abc import Callable

from pkafka.clients.cluster import Cluster, TopicView
from pkafka.clients.config import ProducerConfig
from pkafka.clients.errors import ClientTimeoutError, ClosedError, Stage
from pkafka.clients.producer.accumulator import Accumulator
from pkafka.clients.producer.metrics import ProducerMetrics
from pkafka.clients.producer.queues import TopicQueues
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import topic_name_problem


class ProducerMetadata:
    """What a producer knows of its topics. For any thread; the sender thread asks the brokers.

    Args:
        accumulator: its lock and condition are what waiters wait with.
        topics: those that are produced to, by name.
        wake_sender: called when metadata is wanted.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        accumulator: Accumulator,
        metrics: ProducerMetrics,
        topics: dict[str, TopicQueues],
        wake_sender: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._accumulator = accumulator
        self._sensors = metrics
        self._topics = topics
        self._wake = wake_sender

    def layout(self, topic: str, partition: int | None, deadline_ms: int) -> TopicQueues:
        """The partitions of a topic, waiting for metadata if need be."""
        layout = self._topics.get(topic)
        if (
            layout is None
            or layout.generation != self._cluster.generation
            or (partition is not None and partition >= layout.partition_count)
        ):
            layout = self._learn(topic, partition, deadline_ms)
        layout.was_used = True
        return layout

    def _learn(self, topic: str, partition: int | None, deadline_ms: int) -> TopicQueues:
        if topic not in self._topics and topic_name_problem(topic):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Invalid topics: [{topic}]")
        begun_ms = self._cluster.clock.monotonic_ms()
        accumulator = self._accumulator
        with accumulator.lock:
            layout = self._topics.get(topic)
            asked = -1
            if layout is None:
                layout = self._topics[topic] = TopicQueues(topic, self._config.batch_size)
            elif not layout.watched:
                layout.watched = True
                asked = self._cluster.generation  # what is known of it may be old
            while True:
                generation = self._cluster.generation
                view = self._cluster.view.topics.get(topic) if generation != asked else None
                count = len(view.partitions) if view is not None else 0
                if view is not None and count > (partition or 0):
                    self._take_over(layout, view, generation)
                    break
                if accumulator.closed:
                    raise closed_error()
                self._check_refused(view)
                left_ms = deadline_ms - self._cluster.clock.monotonic_ms()
                if left_ms <= 0:
                    raise self._no_metadata(topic, view, partition)
                self._cluster.want_refresh()
                self._wake()
                accumulator.metadata_changed.wait(left_ms / 1000)
        waited_ms = self._cluster.clock.monotonic_ms() - begun_ms
        if waited_ms:
            self._sensors.metadata_wait.record(waited_ms * 1_000_000)
        return layout

    def _take_over(self, layout: TopicQueues, view: TopicView, generation: int) -> None:
        layout.available = [each.partition for each in view.partitions if each.leader >= 0]
        layout.partition_count = len(view.partitions)
        layout.generation = generation
        sticky = layout.sticky.partition
        if layout.available and sticky not in layout.available:
            layout.sticky.start(-1)
            layout.run.end()

    def _check_refused(self, view: TopicView | None) -> None:
        """Raise what will not pass: a topic that may not be, and brokers that do not let this client in."""
        if view is not None and view.error and not view.error.retriable:
            raise ApiError(view.error)
        cause = self._cluster.last_refresh_error
        if cause is not None and not cause.retriable:
            raise cause

    def _no_metadata(self, topic: str, view: TopicView | None, partition: int | None) -> Exception:
        after = f"after {self._config.max_block_ms} ms."
        if view is not None and view.partitions:
            text = (
                f"Partition {partition} of topic {topic} with partition count {len(view.partitions)} "
                f"is not present in metadata {after}"
            )
            return ClientTimeoutError(Stage.METADATA, text)
        text = f"Topic {topic} not present in metadata {after}"
        cause = self._cluster.last_refresh_error
        if cause is not None:
            return ClientTimeoutError(Stage.METADATA, f"{text} {cause.message}", hint=cause.hint)
        return ClientTimeoutError(Stage.METADATA, text, hint="create the topic first")


def closed_error() -> ClosedError:
    """What a closed producer raises."""
    return ClosedError("Cannot perform operation after producer has been closed")
