"""Fetching for a connector: one thread finds leaders, and one thread per leading broker reads from it.

Only leaders are read. A partition whose leader moved, or whose broker is gone, goes back to the finder; the positions
stay with the partition.
"""

import logging
import threading
from collections.abc import Iterable, Sequence

from pkafka.clients.cluster import Cluster
from pkafka.clients.config import ClientConfig
from pkafka.clients.connection import Address
from pkafka.clients.errors import ClientError, ClosedError
from pkafka.clients.legacy.config import OldConsumerConfig
from pkafka.clients.legacy.simple_consumer import EARLIEST, LATEST, FetchedPartition, SimpleConsumer
from pkafka.clients.legacy.streams import Chunk, PartitionTopicInfo
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol import Buffer
from pkafka.records.batch import peek, read_header
from pkafka.records.reading import iter_entries

logger = logging.getLogger(__name__)

_JOIN_S = 10.0


class FetcherManager:
    """The fetchers of one round, from one rebalance to the next.

    Args:
        partitions: what to read.
        brokers: where brokers are, for asking about leaders.
    """

    def __init__(
        self, config: OldConsumerConfig, partitions: Iterable[PartitionTopicInfo], brokers: Sequence[Address]
    ) -> None:
        self._config = config
        self._bootstrap = tuple(map(str, brokers))
        self._changed = threading.Condition()
        self._leaderless = {each.partition: each for each in partitions}
        self._fetchers: dict[Address, _Fetcher] = {}
        self._stopped = False
        self._streams = {each.stream for each in self._leaderless.values()}
        self._finder = threading.Thread(target=self._find_leaders, name="leader-finder", daemon=True)

    def start(self) -> None:
        """Begin to find leaders and to read."""
        self._finder.start()

    def is_stopped(self) -> bool:
        """Whether :meth:`stop` was called: nothing comes into a stream from here any more."""
        return self._stopped

    def stop(self) -> None:
        """Nothing is put into a stream once this returns; the threads end at once or soon after."""
        with self._changed:
            self._stopped = True
            fetchers = list(self._fetchers.values())
            self._changed.notify_all()
        for fetcher in fetchers:
            fetcher.interrupt()
        for stream in self._streams:
            stream.wake()

    def is_alive(self) -> bool:
        """Whether a thread of it still runs."""
        return any(each.is_alive() for each in (self._finder, *self._fetchers.values()))

    def join(self) -> None:
        """Wait for the threads to end, after :meth:`stop`."""
        self._finder.join(_JOIN_S)
        for fetcher in self._fetchers.values():
            fetcher.join(_JOIN_S)

    def give_back(self, infos: Iterable[PartitionTopicInfo]) -> None:
        """These have no leader that is known: it is to be found again."""
        with self._changed:
            self._leaderless.update((each.partition, each) for each in infos)
            self._changed.notify_all()

    def _find_leaders(self) -> None:
        config = self._config
        client = ClientConfig.from_properties(
            {
                "bootstrap.servers": self._bootstrap,
                "client.id": config.client_id,
                "request.timeout.ms": config.socket_timeout_ms,
                "retries": 0,
            }
        )
        with Cluster(client) as cluster:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._stopped or self._leaderless)
                    if self._stopped:
                        return
                    wanted = {each.topic for each in self._leaderless}
                try:
                    cluster.refresh(wanted, timeout_ms=config.socket_timeout_ms)
                except (ClientError, ApiError) as error:
                    logger.warning("leaders of %s could not be asked for: %s", sorted(wanted), error)
                else:
                    self._hand_out(cluster)
                with self._changed:
                    self._changed.wait_for(lambda: self._stopped, config.refresh_leader_backoff_ms / 1000)

    def _hand_out(self, cluster: Cluster) -> None:
        with self._changed:
            for partition, info in list(self._leaderless.items()):
                leader = cluster.view.leader(partition)
                if leader is None or self._stopped:
                    continue
                del self._leaderless[partition]
                fetcher = self._fetchers.get(leader.address)
                if fetcher is None:
                    fetcher = self._fetchers[leader.address] = _Fetcher(self, self._config, leader.address)
                    fetcher.start()
                fetcher.add(info)


class _Fetcher(threading.Thread):
    """Reads all partitions that one broker leads, in one request at a time."""

    def __init__(self, manager: FetcherManager, config: OldConsumerConfig, address: Address) -> None:
        super().__init__(name=f"fetcher-{address}", daemon=True)
        self._manager = manager
        self._config = config
        self._broker = SimpleConsumer(
            address.host,
            address.port,
            so_timeout_ms=config.socket_timeout_ms,
            buffer_bytes=config.socket_receive_buffer_bytes,
            client_id=config.client_id,
        )
        self._changed = threading.Condition()
        self._partitions: dict[TopicPartition, PartitionTopicInfo] = {}

    def add(self, info: PartitionTopicInfo) -> None:
        with self._changed:
            self._partitions[info.partition] = info
            self._changed.notify()

    def interrupt(self) -> None:
        self._broker.interrupt()
        with self._changed:
            self._changed.notify()

    def run(self) -> None:
        stopped = self._manager.is_stopped
        while not stopped():
            with self._changed:
                self._changed.wait_for(lambda: stopped() or self._partitions)
                infos = list(self._partitions.values())
            if stopped():
                break
            try:
                self._round(infos)
            except ClosedError:
                break
            except (ClientError, ApiError) as error:
                logger.warning("%s could not be read: %s", self._broker.address, error)
                self._give_back(infos)
        self._broker.close()

    def _round(self, infos: Sequence[PartitionTopicInfo]) -> None:
        config = self._config
        for info in infos:
            if info.fetch_offset < 0:
                self._reset(info)
        wanted = {each.partition: each for each in infos if each.partition in self._partitions}
        if not wanted:
            return
        answers = self._broker.fetch(
            {partition: info.fetch_offset for partition, info in wanted.items()},
            bytes_max=config.fetch_message_max_bytes,
            max_wait_ms=config.fetch_wait_max_ms,
            min_bytes=config.fetch_min_bytes,
        )
        for partition, answer in answers.items():
            self._take(wanted[partition], answer)

    def _take(self, info: PartitionTopicInfo, answer: FetchedPartition) -> None:
        if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._reset(info)
        elif answer.error:
            logger.info("%s of %s: %s", info.partition, self._broker.address, answer.error.name)
            self._give_back([info])
        else:
            next_offset = _offset_behind(answer.data)
            if next_offset is not None and info.stream.put(
                Chunk(info, answer.fetch_offset, answer.data), self._manager.is_stopped
            ):
                info.fetch_offset = next_offset

    def _reset(self, info: PartitionTopicInfo) -> None:
        """``auto.offset.reset``: no offset is stored, or the log has it no more."""
        time = EARLIEST if self._config.auto_offset_reset == "smallest" else LATEST
        try:
            info.reset(self._broker.earliest_or_latest_offset(info.partition, time))
        except ApiError as error:
            logger.info("%s has no offsets at %s: %s", info.partition, self._broker.address, error)
            self._give_back([info])

    def _give_back(self, infos: Iterable[PartitionTopicInfo]) -> None:
        infos = list(infos)
        with self._changed:
            for info in infos:
                self._partitions.pop(info.partition, None)
        self._manager.give_back(infos)


def _offset_behind(data: Buffer) -> int | None:
    """The offset behind the last whole batch; None when there is none."""
    last = None
    for position, _, magic in iter_entries(data):
        last = (position, magic)
    if last is None:
        return None
    position, magic = last
    # An old message set carries the offset of its last message.
    return (read_header(data, position).last_offset if magic == 2 else peek(data, position)[0]) + 1
