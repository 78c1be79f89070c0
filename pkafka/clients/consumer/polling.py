"""What a consumer does while it polls: membership, positions, metadata, fetches, round by round until records come."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pkafka.clients.config import ConsumerConfig
from pkafka.clients.consumer.chunks import Chunk
from pkafka.clients.consumer.distances import Distances
from pkafka.clients.consumer.errors import RecordDeserializationError
from pkafka.clients.consumer.fetched import Fetched, P, count_of, first_offset
from pkafka.clients.consumer.fetcher import Fetcher
from pkafka.clients.consumer.metrics import ConsumerMetrics
from pkafka.clients.consumer.network import ConsumerNetwork
from pkafka.clients.consumer.positions import Positions
from pkafka.clients.consumer.subscription import Mode, Subscription
from pkafka.clients.errors import AuthenticationError, ConnectError
from pkafka.clients.raw_batch import RawBatch
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import NO_LEADER, TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.consumer.group import Group

_WAIT_MS_MAX: Final = 1_000
# A topic may be on its way to exist, and a partition to have a leader.
_COMING: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE})


class Rounds:
    """The rounds of a consumer's polls.

    Args:
        group: None for a consumer without a ``group.id``.
        fail_fast: raise when no bootstrap server can be reached; otherwise a warning is logged.
    """

    def __init__(
        self,
        net: ConsumerNetwork,
        config: ConsumerConfig,
        subscription: Subscription,
        fetcher: Fetcher,
        positions: Positions,
        distances: Distances,
        group: "Group | None",
        metrics: ConsumerMetrics,
        *,
        fail_fast: bool,
    ) -> None:
        self._net = net
        self._cluster = net.cluster
        self._config = config
        self._subscription = subscription
        self._fetcher = fetcher
        self._positions = positions
        self._distances = distances
        self._group = group
        self._metrics = metrics
        self._fail_fast = fail_fast
        self._topics_checked = -1
        self._told_unreachable: set[str] = set()

    def fetch(self, deadline_ms: int, records_max: int) -> list[Chunk]:
        """:meth:`fetch_by`, as columns of records."""
        return self.fetch_by(Fetched.take, deadline_ms, records_max)

    def fetch_by(
        self, pull: Callable[[Fetched, int], P | None], deadline_ms: int, records_max: int
    ) -> list[P]:
        """Records that have come, or that come in time; takes what else is due a step further meanwhile.

        Raises:
            WakeupError: another thread woke the consumer.
            ApiError, ClientError: something that waiting does not cure.
        """
        is_last = False
        if self._fail_fast:
            self._cluster.known()
        while True:
            self._net.raise_if_woken()
            now_ms = self._net.now_ms
            if self._group is not None:
                self._group.coordinator.advance(now_ms)
            self._positions.advance(now_ms)
            self._tell_unreachable()
            self._check_topics()
            self._distances.watch()
            self._fetcher.send_fetches()
            chunks = self._fetcher.take_by(pull, records_max)
            if chunks:
                with self.or_give_back(chunks):
                    self._fetcher.send_fetches()
                    self._net.poll_now()
                    self._count(chunks)
                    return chunks
            if is_last:
                return []
            left_ms = deadline_ms - self._net.now_ms
            self._net.poll(min(max(0, left_ms), self._wait_ms()))
            if left_ms <= 0:
                if not self._fetcher.has_data:
                    return []
                is_last = True  # one more round takes what has come

    def background(self, now_ms: int) -> int:
        """Do what must happen in time also while a call waits for something else.

        Returns:
            In how many milliseconds to look again.
        """
        topics = None if self._subscription.mode is Mode.PATTERN else self._topics_to_ask_for()
        wait_ms = self._cluster.keep_fresh(topics, allow_auto_create=self._config.allow_auto_create_topics)
        if self._group is not None:
            wait_ms = min(wait_ms, self._group.coordinator.background(now_ms))
        return wait_ms

    @contextmanager
    def or_give_back(self, chunks: Sequence[Chunk | RawBatch]) -> Iterator[None]:
        """Go back to what was about to be returned when a KeyboardInterrupt comes between: closing would commit it."""
        try:
            yield
        except BaseException:
            for chunk in reversed(chunks):
                if self._subscription.get(chunk.partition) is not None:
                    self._subscription.seek(chunk.partition, first_offset(chunk))
                    self._fetcher.drop(chunk.partition)
            raise

    def stop_before(self, error: RecordDeserializationError) -> None:
        """Go back to a record that cannot be read: the fetcher has handed out more than that."""
        if self._subscription.get(error.partition) is not None:
            self._subscription.seek(error.partition, error.offset)
            self._fetcher.drop(error.partition)

    def is_at(self, partition: TopicPartition, offset: int) -> bool:
        """Whether that is the next record of a partition."""
        state = self._subscription.get(partition)
        return state is not None and state.position == offset

    def _wait_ms(self) -> int:
        now_ms = self._net.now_ms
        wait_ms = _WAIT_MS_MAX
        if self._group is not None:
            wait_ms = min(wait_ms, self._group.coordinator.wait_ms(now_ms))
        if not self._subscription.is_settled:
            wait_ms = min(wait_ms, max(1, self._config.retry_backoff_ms))
        return wait_ms

    def _topics_to_ask_for(self) -> Iterator[str]:
        # A generator: it is looked into only when metadata is asked for, not at every poll.
        yield from self._subscription.topics()

    def _tell_unreachable(self) -> None:
        """Warn of brokers that metadata could not be had from, of each once until metadata comes again.

        Raises:
            AuthenticationError: the brokers do not let this client in; the next call tries again.
        """
        error = self._cluster.last_refresh_error
        if error is None:
            self._told_unreachable.clear()
        elif isinstance(error, AuthenticationError):
            self._cluster.last_refresh_error = None
            raise error
        elif isinstance(error, ConnectError) and error.message not in self._told_unreachable:
            self._told_unreachable.add(error.message)
            hint = f" ({error.hint})" if error.hint else ""
            import logging  # not loaded by a consumer that has nothing to say

            # The name that operators know.
            logging.getLogger("pkafka.clients.consumer.consumer").warning(
                "%s%s; still trying", error.message, hint
            )

    def _check_topics(self) -> None:
        """Look at new metadata: ask again for what is not there yet, raise what will not come."""
        if self._topics_checked == self._cluster.generation:
            return
        self._topics_checked = self._cluster.generation
        refused: dict[ErrorCode, list[str]] = {}
        for topic in sorted(self._subscription.topics()):
            view = self._cluster.view.topics.get(topic)
            if view is None or view.error in _COMING:
                self._cluster.want_refresh()
            elif view.error in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
                refused.setdefault(view.error, []).append(topic)
            elif any(each.error in _COMING or each.leader == NO_LEADER for each in view.partitions):
                self._cluster.want_refresh()
        for code, topics in refused.items():
            text = (
                "Invalid topics"
                if code is ErrorCode.INVALID_TOPIC_EXCEPTION
                else "Not authorized to access topics"
            )
            raise ApiError(code, f"{text}: [{', '.join(topics)}]")

    def _count(self, chunks: Sequence[Chunk | RawBatch]) -> None:
        counts: dict[TopicPartition, int] = {}
        for chunk in chunks:
            counts[chunk.partition] = counts.get(chunk.partition, 0) + count_of(chunk)
        topics: dict[str, int] = {}
        for partition, count in counts.items():
            topics[partition.topic] = topics.get(partition.topic, 0) + count
            self._distances.record(partition)
        self._metrics.consumed(topics)
