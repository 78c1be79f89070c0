"""ZookeeperConsumerConnector: the high-level consumer of Kafka 0.8, whose groups have no coordinator but ZooKeeper.

Every member registers, watches the others, computes the same assignment, and owns partitions by ephemeral nodes that
only one of them can create. What is wrong with that is in docs/old-clients.md.

Threads: the rebalancer (a rebalance at a time, the session), one that commits, those of ``fetchers.py``, and the
application's, one a stream. ``_lock`` covers what they share: no thread commits while ownership changes hands.
"""

import contextlib
import logging
import socket
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Self

from pkafka.clients.connection import Address
from pkafka.clients.errors import ClosedError
from pkafka.clients.legacy import group
from pkafka.clients.legacy.assignors import ASSIGNORS, Assignment
from pkafka.clients.legacy.config import OldConsumerConfig
from pkafka.clients.legacy.errors import ConsumerRebalanceFailedError, MessageStreamsExistError
from pkafka.clients.legacy.fetchers import FetcherManager
from pkafka.clients.legacy.offsets import offset_storage
from pkafka.clients.legacy.streams import Decoder, KafkaStream, PartitionTopicInfo
from pkafka.clients.legacy.topic_filter import TopicFilter
from pkafka.clock import Clock, SystemClock
from pkafka.coordination.cluster import create_checked_ephemeral, create_persistent_paths
from pkafka.coordination.store import (
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    SessionState,
    Store,
    StoreError,
    WatchEvent,
)
from pkafka.coordination.znodes import BROKER_IDS, TOPICS, TopicAssignment
from pkafka.coordination.znodes_consumers import STATIC, ConsumerRegistration, ConsumerThread, PartitionOwner
from pkafka.errors import PkafkaError
from pkafka.model import TopicPartition

logger = logging.getLogger(__name__)


def _same(data: bytes) -> bytes:
    return data


class ZookeeperConsumerConnector:
    """A member of a group of Kafka 0.8. Thread-safe.

    Args:
        config: the old consumer's keys (dotted), at least ``zookeeper.connect`` and ``group.id``, or the typed form.
        open_store: makes a session with the coordination store; by default with the ZooKeeper that
            ``zookeeper.connect`` names. Called again when a session expires.
        clock: for the member's id.

    Raises:
        ConfigError: a key has a bad value.
        StoreError: there is no session to be had.
    """

    def __init__(
        self,
        config: Mapping[str, object] | OldConsumerConfig,
        *,
        open_store: Callable[[], Store] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.config = (
            config if isinstance(config, OldConsumerConfig) else OldConsumerConfig.from_properties(config)
        )
        self._clock = clock or SystemClock()
        self._group = self.config.group_id
        self.consumer_id = f"{self._group}_{self.config.consumer_id or self._new_id()}"
        self._open_store = open_store or self._open_zookeeper
        self._lock = threading.RLock()
        self._news = threading.Condition()
        self._rebalance_due = False
        self._topics_changed = False
        self._expired = False
        self._shutting_down = False
        self._registration: ConsumerRegistration | None = None
        self._filter: TopicFilter | None = None
        self._streams: dict[tuple[str | None, int], KafkaStream] = {}
        self._watched: set[str] = set()
        self._owned: dict[TopicPartition, PartitionTopicInfo] = {}
        self._fetchers: FetcherManager | None = None
        self._ending: list[FetcherManager] = []
        self._threads: list[threading.Thread] = []
        self._store = self._new_session()
        self._offsets = offset_storage(self.config, lambda: self._store, self._brokers)

    # -- what an application calls ------------------------------------------------------------------------

    def create_message_streams(
        self,
        topic_threads: Mapping[str, int],
        *,
        key_decoder: Decoder = _same,
        value_decoder: Decoder = _same,
    ) -> dict[str, list[KafkaStream]]:
        """Join the group, and read topics.

        Args:
            topic_threads: how many streams for each topic; each is for one thread, and owns its partitions alone.
            key_decoder, value_decoder: make objects of keys and messages.

        Returns:
            The streams of each topic.

        Raises:
            MessageStreamsExistError: this connector gave its streams already.
            ConsumerRebalanceFailedError: the partitions could not be taken over; the group goes on without this member
                once it is shut down.
        """
        if any(count < 1 for count in topic_threads.values()):
            raise ValueError("every topic needs at least one stream")
        streams = {
            topic: [self._new_stream(key_decoder, value_decoder) for _ in range(count)]
            for topic, count in topic_threads.items()
        }
        self._join(
            STATIC,
            topic_threads,
            {(topic, number): each for topic, row in streams.items() for number, each in enumerate(row)},
        )
        return streams

    def create_message_streams_by_filter(
        self,
        topic_filter: TopicFilter,
        threads: int = 1,
        *,
        key_decoder: Decoder = _same,
        value_decoder: Decoder = _same,
    ) -> list[KafkaStream]:
        """As :meth:`create_message_streams`, for all topics that a filter allows, now and later.

        Args:
            threads: how many streams; each has messages of all topics.
        """
        if threads < 1:
            raise ValueError("at least one stream is needed")
        streams = [self._new_stream(key_decoder, value_decoder) for _ in range(threads)]
        self._filter = topic_filter
        self._join(
            topic_filter.pattern,
            {topic_filter.regex: threads},
            {(None, number): each for number, each in enumerate(streams)},
        )
        return streams

    def commit_offsets(self, *, retry: bool = True) -> bool:
        """Store how far the application got.

        Args:
            retry: try ``offsets.commit.max.retries`` times more.

        Returns:
            Whether everything is stored.
        """
        for attempt in range(1 + (self.config.offsets_commit_max_retries if retry else 0)):
            if attempt and self._pause(self.config.offsets_channel_backoff_ms):
                return False
            with self._lock:
                try:
                    if self._commit():
                        return True
                except StoreError as error:
                    logger.warning("offsets of %s were not committed: %s", self.consumer_id, error)
        return False

    def owned_partitions(self) -> dict[TopicPartition, int]:
        """The partitions that this member owns, with the offset behind the last message that was consumed."""
        with self._lock:
            return {each: info.consumed_offset for each, info in self._owned.items()}

    def shutdown(self) -> None:
        """Leave the group: commit (where that is automatic), end the streams, give the session back. Idempotent."""
        with self._news:
            if self._shutting_down:
                return
            self._shutting_down = True
            self._news.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        with self._lock:
            with contextlib.suppress(StoreError):
                self._stop_fetching()
            for stream in self._streams.values():
                stream.close()
            self._offsets.close()
            self._store.close()
        for each in self._ending:
            each.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    # -- joining ------------------------------------------------------------------------------------------

    def _join(
        self,
        pattern: str,
        subscription: Mapping[str, int],
        streams: dict[tuple[str | None, int], KafkaStream],
    ) -> None:
        with self._lock:
            if self._shutting_down:
                raise ClosedError("the connector was shut down")
            if self._registration is not None:
                raise MessageStreamsExistError("a connector gives its streams once")
            self._registration = ConsumerRegistration(subscription, pattern, self._clock.now_ms())
            self._streams = streams
        self._register(previous_session_id=None)
        if not self._synced_rebalance():
            text = f"{self.consumer_id} can't rebalance after {self.config.rebalance_max_retries} retries"
            raise ConsumerRebalanceFailedError(text)
        for name, run in (("rebalancer", self._run), ("auto-commit", self._run_auto_commit)):
            thread = threading.Thread(target=run, name=f"{self.consumer_id}-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _register(self, previous_session_id: int | None) -> None:
        assert self._registration is not None
        create_persistent_paths(self._store, [ConsumerRegistration.parent(self._group)])
        create_checked_ephemeral(
            self._store,
            ConsumerRegistration.path(self._group, self.consumer_id),
            self._registration.encode(),
            previous_session_id=previous_session_id,
        )
        self._watched = set()
        self._store.watch_children(ConsumerRegistration.parent(self._group), self._on_change)
        if self._filter is not None:
            self._store.watch_children(TOPICS, self._on_topics)
        self._watch_topics()

    def _watch_topics(self) -> bool:
        """Watch the partition count of every topic that is read.

        Returns:
            Whether there are other topics now.
        """
        assert self._registration is not None
        wanted = set(self._registration.subscription)
        if self._filter is not None:
            exclude = self.config.exclude_internal_topics
            topics = group.all_topics(self._store)
            wanted = {each for each in topics if self._filter.allows(each, exclude_internal=exclude)}
        if wanted == self._watched:
            return False
        for topic in wanted - self._watched:
            self._store.watch_data(TopicAssignment.path(topic), self._on_change)
        self._watched = wanted
        return True

    # -- rebalancing --------------------------------------------------------------------------------------

    def _synced_rebalance(self) -> bool:
        """Try to take over what is this member's now.

        Returns:
            Whether that succeeded, or is needless.
        """
        for attempt in range(self.config.rebalance_max_retries):
            if self._shutting_down or self._expired:
                return True
            logger.info("%s begins to rebalance, try #%d", self.consumer_id, attempt)
            with self._lock:
                try:
                    if self._rebalance():
                        return True
                    self._stop_fetching()
                except SessionExpiredError:
                    return True  # a new session begins with a rebalance
                except PkafkaError as error:
                    # The tree changes while it is read: a member may vanish between two looks.
                    logger.info("%s could not rebalance: %s", self.consumer_id, error)
            if self._pause(self.config.rebalance_backoff_ms):
                return True
        return False

    def _rebalance(self) -> bool:
        brokers = self._brokers()
        if not brokers:
            logger.warning("no brokers found when trying to rebalance")
            self._store.watch_children(BROKER_IDS, self._on_change)
            return True
        # Fetching ends first: what is released may be another's at once, and would be delivered twice.
        self._stop_fetching()
        self._release()
        assignment = self._assign()
        offsets = self._offsets.fetch(list(assignment)) if assignment else {}
        if offsets is None:
            return False
        infos = {
            partition: PartitionTopicInfo(partition, offsets[partition], self._stream_of(partition, thread))
            for partition, thread in assignment.items()
        }
        if not self._claim(assignment):
            return False
        logger.info("%s owns %s", self.consumer_id, sorted(map(str, infos)))
        self._owned = infos
        self._fetchers = FetcherManager(self.config, infos.values(), brokers)
        self._fetchers.start()
        return True

    def _assign(self) -> Assignment:
        """This member's share of what all members would compute from the same facts."""
        registrations = group.members(self._store, self._group)
        if self.consumer_id not in registrations:
            raise NoNodeError(
                ConsumerRegistration.path(self._group, self.consumer_id), "this member is not registered"
            )
        threads = group.threads_by_topic(
            registrations,
            group.all_topics(self._store),
            exclude_internal=self.config.exclude_internal_topics,
        )
        partitions = group.partitions_of(self._store, list(threads))
        whole = ASSIGNORS[self.config.partition_assignment_strategy](threads, partitions)
        return {
            partition: thread for partition, thread in whole.items() if thread.consumer_id == self.consumer_id
        }

    def _stop_fetching(self) -> None:
        """No message of what is owned now is returned from here on, and what was returned is committed."""
        if self._fetchers is None:
            return
        self._fetchers.stop()
        for stream in self._streams.values():
            stream.clear()
        self._forget_fetchers()
        if self.config.auto_commit_enable:
            try:
                self._commit()
            except SessionExpiredError:
                raise
            except StoreError as error:
                logger.warning("offsets of %s were not committed: %s", self.consumer_id, error)

    def _forget_fetchers(self) -> None:
        """They are stopped. Their threads are not waited for, one of which may be asking a broker that is gone."""
        if self._fetchers is not None:
            self._ending = [each for each in (*self._ending, self._fetchers) if each.is_alive()]
            self._fetchers = None

    def _release(self) -> None:
        for partition in list(self._owned):
            self._disown(partition)
            del self._owned[partition]

    def _disown(self, partition: TopicPartition) -> None:
        """Release a partition, unless another member owns it by now."""
        path = PartitionOwner.path(self._group, partition)
        stat = self._store.exists(path)
        if stat is not None and stat.ephemeral_owner == self._store.session_id:
            with contextlib.suppress(NoNodeError):
                self._store.delete(path)

    def _claim(self, assignment: Assignment) -> bool:
        """Become the owner of all partitions, or of none."""
        claimed: list[TopicPartition] = []
        try:
            for partition, thread in assignment.items():
                claimed.append(partition)
                if not self._claim_one(partition, thread):
                    claimed.pop()
                    logger.info("%s waits for the owner of %s to go", self.consumer_id, partition)
                    break
            else:
                return True
        except StoreError:
            # The answer to the last one may have been lost: it is given back as well, when it is ours.
            self._give_up(claimed)
            raise
        self._give_up(claimed)
        return False

    def _claim_one(self, partition: TopicPartition, thread: ConsumerThread) -> bool:
        path, data = PartitionOwner.path(self._group, partition), PartitionOwner(thread).encode()
        try:
            self._store.create(path, data, ephemeral=True, make_parents=True)
        except NodeExistsError:
            with contextlib.suppress(NoNodeError):
                found, stat = self._store.get(path)
                return found == data and stat.ephemeral_owner == self._store.session_id
            return False
        return True

    def _give_up(self, claimed: list[TopicPartition]) -> None:
        for partition in claimed:
            with contextlib.suppress(StoreError):
                self._disown(partition)

    def _commit(self) -> bool:
        offsets = {
            each: info.consumed_offset for each, info in self._owned.items() if info.consumed_offset >= 0
        }
        return not offsets or self._offsets.commit(offsets)

    # -- threads ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(
                    lambda: (
                        self._shutting_down or self._expired or self._rebalance_due or self._topics_changed
                    )
                )
                if self._shutting_down:
                    return
                is_due, self._rebalance_due = self._rebalance_due, False
                topics_changed, self._topics_changed = self._topics_changed, False
            try:
                if self._expired:
                    is_due = self._renew_session()
                elif topics_changed:
                    is_due = self._watch_topics() or is_due
                if is_due and not self._synced_rebalance():
                    # Kafka's own gave up here until the next change, and its partitions went unread meanwhile.
                    logger.error(
                        "%s can't rebalance after %d retries, and goes on trying",
                        self.consumer_id,
                        self.config.rebalance_max_retries,
                    )
                    self._on_change(None)
            except PkafkaError as error:
                logger.warning("%s tries again: %s", self.consumer_id, error)
                self._on_change(None)
                self._pause(self.config.rebalance_backoff_ms)

    def _run_auto_commit(self) -> None:
        if not self.config.auto_commit_enable:
            return
        while not self._pause(self.config.auto_commit_interval_ms):
            self.commit_offsets(retry=False)

    def _pause(self, wait_ms: int) -> bool:
        """Let time pass.

        Returns:
            Whether the connector is being shut down.
        """
        with self._news:
            return self._news.wait_for(lambda: self._shutting_down, wait_ms / 1000)

    # -- the session --------------------------------------------------------------------------------------

    def _renew_session(self) -> bool:
        """Begin again after the session expired.

        Nothing is committed: other members may own the partitions by now, and be farther.

        Returns:
            Whether a rebalance is due.
        """
        with self._lock:
            logger.warning("the session of %s expired", self.consumer_id)
            if self._fetchers is not None:
                self._fetchers.stop()
            for stream in self._streams.values():
                stream.clear()
            self._forget_fetchers()
            self._owned = {}
            previous = self._store.session_id
            self._store.close()
            self._expired = False
            try:
                self._store = self._new_session()
                self._register(previous_session_id=previous)
            except StoreError:
                self._expired = True
                raise
            return True

    def _new_session(self) -> Store:
        store = self._open_store()
        store.on_session(self._on_session)
        return store

    def _open_zookeeper(self) -> Store:
        from pkafka.coordination.zookeeper import ZooKeeperStore

        config = self.config
        return ZooKeeperStore(
            config.zookeeper_connect,
            config.zookeeper_session_timeout_ms,
            connect_timeout_ms=config.zookeeper_connection_timeout_ms,
        )

    # -- called by the store's threads: they only leave a note --------------------------------------------

    def _on_change(self, _: WatchEvent | None) -> None:
        with self._news:
            self._rebalance_due = True
            self._news.notify_all()

    def _on_topics(self, _: WatchEvent) -> None:
        with self._news:
            self._topics_changed = True
            self._news.notify_all()

    def _on_session(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            with self._news:
                self._expired = True
                self._news.notify_all()

    # -- small things -------------------------------------------------------------------------------------

    def _brokers(self) -> list[Address]:
        return group.broker_addresses(self._store)

    def _new_stream(self, key_decoder: Decoder, value_decoder: Decoder) -> KafkaStream:
        config = self.config
        return KafkaStream(
            config.queued_max_message_chunks, config.consumer_timeout_ms, key_decoder, value_decoder
        )

    def _stream_of(self, partition: TopicPartition, thread: ConsumerThread) -> KafkaStream:
        return self._streams[None if self._filter is not None else partition.topic, thread.number]

    def _new_id(self) -> str:
        return f"{socket.gethostname()}-{self._clock.now_ms()}-{uuid.uuid4().hex[:8]}"
