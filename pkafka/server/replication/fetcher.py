"""Followers: they fetch from the leaders on other brokers, and write what comes, byte for byte.

A worker has ``num.replica.fetchers`` fetchers for each broker that leads partitions of which it owns replicas. Each has
one connection, and one request in hand for all its partitions. The leader's answer to a fetch tells where the two logs
part; the follower then cuts its log by leader epochs.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pkafka.clock import Clock
from pkafka.coordination.znode_json import string_hash
from pkafka.errors import ApiError, ErrorCode, PkafkaError, ProtocolError, StorageError
from pkafka.model import EARLIEST, LATEST, NO_LEADER, BrokerId, LeaderEpoch, Millis, Offset
from pkafka.net.channel import ChannelError
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import decode_response
from pkafka.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData, ReplicaState
from pkafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from pkafka.server.cluster.broker_link import BrokerLink
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.config.broker_config import BrokerConfig, socket_buffer_bytes
from pkafka.server.ipc.tasks import Tasks
from pkafka.server.limits.replication_quota import ReplicationQuota
from pkafka.server.metrics.counters import Metrics
from pkafka.server.replicas.delayed import Purgatory
from pkafka.server.replicas.disks import Disks
from pkafka.server.replicas.partition import Partition, PartitionKey
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.replicas.truncation import truncation_offset
from pkafka.server.replication.session import FollowerSession, Key, Wish

log = logging.getLogger(__name__)

_FETCH_VERSION: Final = 17
_LIST_OFFSETS_VERSION: Final = 9
_FIRST_REST_MS: Final = 20
"""The pause after an error. It doubles with each further error, up to ``replica.fetch.backoff.ms``. When a leader
changes, the first fetch often comes before the new leader knows that it leads, so the first pause is short."""
_UNKNOWN_ADDRESS_PAUSE_S: Final = 0.02
"""The pause while the leader's address is unknown: LeaderAndIsr comes before the metadata with the address."""
_WAIT_FOR_CONTROLLER: Final = frozenset({ErrorCode.FENCED_LEADER_EPOCH})


@dataclass(frozen=True, slots=True)
class Home:
    """What the fetchers of a worker work with.

    Attributes:
        index: of the home.
        workers: how many there are.
        config: gives the broker's configuration of the moment.
        clock: tells when pauses are over.
        tasks: runs the fetchers.
        metadata: tells the addresses of leaders.
        metrics: counts what is replicated.
        partitions: the replicas of the home.
        fetches: the consumers that wait for committed records of a follower.
        disks: takes directories offline.
        quota: limits what followers fetch.
    """

    index: int
    workers: int
    config: Callable[[], BrokerConfig]
    clock: Clock
    tasks: Tasks
    metadata: MetadataCache
    metrics: Metrics
    partitions: Partitions
    fetches: Purgatory
    disks: Disks
    quota: ReplicationQuota


class ReplicaFetchers:
    """Holds all fetchers of one worker, and gives each partition to one."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._size = home.config().num_replica_fetchers
        self._fetchers: dict[tuple[BrokerId, int], _Fetcher] = {}
        """By the leader and a number from 0 to ``num.replica.fetchers`` - 1."""
        self._followed: dict[PartitionKey, tuple[BrokerId, LeaderEpoch]] = {}
        self._follows_no_more = False

    def follow_no_more(self) -> None:
        """Do not follow the partitions that this broker gives away while it stops.

        The replica is caught up, so the new leader would propose it for the ISR that it has just left, and would commit
        nothing before the controller's answer. When the controller is the broker that stops, leaders of Apache Kafka
        hear of the refusal late, and look again only at the next fetch or record: producers waited for half a minute.
        """
        self._follows_no_more = True

    def update(self, key: PartitionKey) -> None:
        """Follow the leader of a partition that the controller named last."""
        partition = self._home.partitions.hosted.get(key)
        wanted = None
        if partition is not None and partition.leadership is None and partition.leader != NO_LEADER:
            wanted = (partition.leader, partition.leader_epoch)
        now = self._followed.get(key)
        if now == wanted:
            return
        if self._follows_no_more:
            wanted = None
        if now is not None:
            del self._followed[key]
            before = self._fetchers.get((now[0], self._number(key)))
            if before is not None:
                # The fetcher may have let the partition go: its leader has answered that it does not lead.
                before.remove(key)
        if wanted is not None and partition is not None:
            self._followed[key] = wanted
            self._fetcher(wanted[0], key).add(partition)
        for place in [place for place, fetcher in self._fetchers.items() if fetcher.is_idle]:
            self._fetchers.pop(place).close()

    def resize(self, size: int) -> None:
        """Change the number of fetchers (``num.replica.fetchers``), and share out all partitions anew.

        All fetchers are replaced, so that a late answer to one does not touch a log that another fetcher follows now.
        """
        if size == self._size:
            return
        followed = [(leader, one) for (leader, _), each in self._fetchers.items() for one in each.followed()]
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._size = size
        for leader, one in followed:
            self._fetcher(leader, one.partition.key).take_over(one)

    def _fetcher(self, leader: BrokerId, key: PartitionKey) -> "_Fetcher":
        """The fetcher for a partition, made when it does not exist."""
        place = (leader, self._number(key))
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = _Fetcher(self._home, *place)
        return fetcher

    def _number(self, key: PartitionKey) -> int:
        """Which of its leader's fetchers follows a partition: Kafka's rule, over those that this worker owns."""
        topic, partition = key
        # A worker owns every N-th partition of a topic; shared out by their numbers, one fetcher could get them all.
        place = (31 * string_hash(topic) + partition // self._home.workers) & 0xFFFFFFFF
        return min(place, (1 << 32) - place) % self._size  # Java's Math.abs of the signed number

    def lags(self) -> list[tuple[int, BrokerId, str, int, int]]:
        """Fetcher, leader, topic, partition and missing records (FetcherLagMetrics) of what has been fetched."""
        return [
            (fetcher.fetcher_id, leader, *followed.partition.key, followed.lag)
            for (leader, _), fetcher in self._fetchers.items()
            for followed in fetcher.followed()
            if followed.lag is not None
        ]

    def gauges(self) -> dict[str, Any]:
        """The gauges of Kafka's ReplicaFetcherManager.

        Returns:
            ``failed``: partitions with a known leader that no fetcher follows, until the controller's next request.
            ``dead``: dead fetchers. ``requests``: fetches of each fetcher that follows, by number and leader.
        """
        fetchers = self._fetchers.items()
        return {
            "failed": len(self._followed) - sum(len(list(fetcher.followed())) for _, fetcher in fetchers),
            "dead": sum(fetcher.is_dead for _, fetcher in fetchers),
            "requests": {
                f"{fetcher.fetcher_id}-{leader}": fetcher.requests
                for (leader, _), fetcher in fetchers
                if not fetcher.is_idle
            },
        }

    def close(self) -> None:
        """End all fetchers, as the logs are about to be closed."""
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._followed.clear()


class _Followed:
    """Holds one partition of a fetcher."""

    __slots__ = ("lag", "leader_epoch", "partition", "rest_ms", "rests_until_ms", "topic_id")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.topic_id = partition.log.topic_id or bytes(16)
        self.rests_until_ms: Millis = 0
        self.rest_ms: Millis = _FIRST_REST_MS
        self.lag: int | None = None
        """How many committed records this replica lacked after the last answer; None before the first one."""

    @property
    def is_in_sync(self) -> bool:
        """Whether the replica has all committed records of which it knows."""
        return self.lag is not None and self.lag <= 0


class _Ends(NamedTuple):
    """Holds the start and the end of a leader's log."""

    start: Offset
    end: Offset


class _Fetcher:
    """Follows partitions that one broker leads."""

    def __init__(self, home: Home, leader: BrokerId, number: int) -> None:
        self._home = home
        self._leader = leader
        self.fetcher_id = number * home.workers + home.index
        """Unique over all workers, unlike the number."""
        self.requests = 0
        config = home.config()
        self._link = BrokerLink(
            lambda: home.metadata.endpoint(leader, config.inter_broker_listener_name),
            f"broker-{home.partitions.broker_id}-fetcher-{self.fetcher_id}",
            home.config,
            connect_timeout_ms=config.replica_socket_timeout_ms,
            receive_buffer_bytes=socket_buffer_bytes(config, "replica.socket.receive.buffer.bytes"),
        )
        self._session = FollowerSession()
        self._followed: dict[Key, _Followed] = {}
        self._places: dict[PartitionKey, Key] = {}
        self._some = asyncio.Event()
        self._told = ""
        """The last failure that was logged; empty while fetching works."""
        self._pause_ms: Millis = _FIRST_REST_MS
        """After the next failure."""
        self._task: asyncio.Task[None] | None = home.tasks.spawn_vital(self._run())

    @property
    def is_dead(self) -> bool:
        """Whether it has ended by itself."""
        return self._task is not None and self._task.done()

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to follow."""
        return not self._followed

    def followed(self) -> Iterable[_Followed]:
        """What is followed now."""
        return self._followed.values()

    def add(self, partition: Partition) -> None:
        """Follow a partition from where its log ends."""
        if partition.log.leader_epochs.latest < 0 and partition.log.log_end_offset > 0:
            # Without leader epochs to compare, only the committed records are sure to be the leader's, too.
            partition.log.truncate_to(partition.log.high_watermark)
        self.take_over(_Followed(partition))

    def take_over(self, followed: _Followed) -> None:
        """Take a partition over from another fetcher of the same leader, with its position."""
        place = (followed.topic_id, followed.partition.index)
        self._followed[place] = followed
        self._places[followed.partition.key] = place
        self._some.set()

    def remove(self, key: PartitionKey) -> None:
        """Stop following a partition; an answer that is on its way does not count for it any more."""
        place = self._places.pop(key, None)
        if place is not None:
            del self._followed[place]

    def close(self) -> None:
        """End; nothing is written after this."""
        self._followed.clear()
        self._places.clear()
        if self._task is not None:
            self._task.cancel()
            # Breaks a cycle: the task's error refers to its frames, and these to this fetcher.
            self._task = None
        self._link.close()

    # -- fetching --

    async def _run(self) -> None:
        while True:
            if not self._followed:
                self._some.clear()
                await self._some.wait()
            if self._home.metadata.brokers.get(self._leader) is None:
                await asyncio.sleep(_UNKNOWN_ADDRESS_PAUSE_S)
                continue
            try:
                await self._fetch()
            except (ChannelError, ProtocolError) as error:
                if str(error) != self._told:
                    self._told = str(error)
                    log.warning("Cannot fetch from broker %d: %s; trying again", self._leader, error)
                self._session.reset()
                self._link.close()
                pause_ms = min(self._pause_ms, self._home.config().replica_fetch_backoff_ms)
                await asyncio.sleep(pause_ms / 1000)
                self._pause_ms = 2 * pause_ms

    async def _fetch(self) -> None:
        """Fetch until something else has to be done."""
        wishes = self._wishes()
        if not wishes:
            await self._rest_all()
            return
        answer = await self._link.ask_frame(self._request(wishes), _FETCH_VERSION, timeout_s=self._patience_s)
        lost = self._take_all(answer, wishes) or await self._fetch_on()
        for followed in lost:
            await self._find_place(followed)

    async def _fetch_on(self) -> list[_Followed]:
        """Fetch again and again, until something else has to be done.

        Each request is sent from the callback that receives the answer before it: a task that waits for the answer
        would cost a turn of the event loop and more.

        Returns:
            The partitions whose leader's log has nothing where this one ends, as :meth:`_take_all`.
        """
        over: asyncio.Future[list[_Followed]] = asyncio.get_running_loop().create_future()
        try:
            return await over if self._fetch_again(over) else []
        finally:
            del over  # breaks a cycle: an error refers to this frame, and the frame to the error

    def _fetch_again(self, over: "asyncio.Future[list[_Followed]]") -> bool:
        wishes = self._wishes()
        if not wishes or self._home.metadata.brokers.get(self._leader) is None:
            return False

        def answered(answer: memoryview | None, error: ChannelError | None) -> None:
            if over.done():
                return  # this fetcher was closed, perhaps by a failed write of this very answer
            if answer is None:
                over.set_exception(error or ChannelError("The connection is closed"))
                return
            try:
                lost = self._take_all(answer, wishes)
                if not over.done() and (lost or not self._fetch_again(over)):
                    over.set_result(lost)
            except Exception as failure:
                if over.done():
                    raise
                over.set_exception(failure)  # the task decides what the failure means

        return self._link.ask_then(
            self._request(wishes), _FETCH_VERSION, answered, timeout_s=self._patience_s
        )

    @property
    def _patience_s(self) -> float:
        return self._home.config().request_timeout_ms / 1000

    def _request(self, wishes: "dict[Key, Wish]") -> FetchRequest:
        config = self._home.config()
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self._home.partitions.broker_id),
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
        )
        self._session.fill(request, wishes)
        self.requests += 1
        return request

    def _take_all(self, answer: memoryview, wishes: "dict[Key, Wish]") -> list[_Followed]:
        """Write the records of an answer.

        Returns:
            The partitions whose leader's log has nothing where this one ends.
        """
        _, response = decode_response(ApiKey.FETCH, _FETCH_VERSION, answer)
        assert isinstance(response, FetchResponse)
        if self._session.answered(response.error_code, response.session_id):
            return []
        if response.error_code:
            raise ChannelError(f"it answers {ErrorCode(response.error_code).name}")
        self._told, self._pause_ms = "", _FIRST_REST_MS
        lost: list[_Followed] = []
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                followed = self._followed.get(key)
                wish = wishes.get(key)
                # A partition that has got another leader or epoch since the request is left alone.
                if followed is None or wish is None or wish.leader_epoch != followed.leader_epoch:
                    self._session.begin_anew()
                    continue
                if self._take(followed, wish, data):
                    lost.append(followed)
        return lost

    async def _rest_all(self) -> None:
        """Wait until the first partition may go on, or another one is added.

        All of them pause after errors, or wait for room in the quota.
        """
        now_ms = self._home.clock.monotonic_ms()
        backoff_ms = self._home.config().replica_fetch_backoff_ms
        rests_ms = [one.rests_until_ms - now_ms for one in self._followed.values()]
        rest_ms = min((rest if rest > 0 else backoff_ms for rest in rests_ms), default=0)
        self._some.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(rest_ms, 1) / 1000):
                await self._some.wait()

    def _wishes(self) -> dict[Key, Wish]:
        now_ms = self._home.clock.monotonic_ms()
        bytes_max = self._home.config().replica_fetch_max_bytes
        quota = self._home.quota
        throttles = quota.is_exceeded()
        wishes = {}
        for key, followed in self._followed.items():
            if throttles and not followed.is_in_sync and quota.throttles(*followed.partition.key):
                continue
            if followed.rests_until_ms <= now_ms:
                own = followed.partition.log
                wishes[key] = Wish(
                    followed.leader_epoch,
                    own.log_end_offset,
                    own.leader_epochs.latest,
                    own.log_start_offset,
                    bytes_max,
                )
        return wishes

    def _take(self, followed: _Followed, wish: Wish, data: PartitionData) -> bool:
        """Write the records of one partition.

        Returns:
            Whether the leader's log has nothing where this one ends.
        """
        partition = followed.partition
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return True
        if data.error_code:
            self._rest(followed, ErrorCode(data.error_code))
            return False
        followed.rest_ms = _FIRST_REST_MS
        try:
            self._write(followed, wish, data)
        except ApiError as error:
            self._rest(followed, error.code)
        except (StorageError, OSError) as failure:
            self._home.disks.refused(partition.topic, partition.index, failure)
        except PkafkaError as damage:
            log.error("What broker %d sent for %s-%d: %s", self._leader, *partition.key, damage)
            self._rest(followed, ErrorCode.CORRUPT_MESSAGE)
        return False

    def _write(self, followed: _Followed, wish: Wish, data: PartitionData) -> None:
        partition = followed.partition
        own = partition.log
        if data.diverging_epoch.epoch >= 0:
            # The rest of the answer does not count: it continues a log that this one does not share.
            offset = truncation_offset(own, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            log.info("Truncating %s-%d to %d, where its leader's log and it part", *partition.key, offset)
            own.truncate_to(offset)
            self._session.begin_anew()
            return
        if data.records and own.log_end_offset == wish.fetch_offset:
            own.append_as_follower(data.records)
            home = self._home
            home.metrics.replicated(
                len(data.records), is_adding=partition.is_adding(home.partitions.broker_id)
            )
            quota = self._home.quota
            if quota.throttles(*partition.key):
                quota.record(len(data.records))
        if data.records or followed.lag is None:
            followed.lag = max(data.high_watermark - own.log_end_offset, 0)
        committed = min(data.high_watermark, own.log_end_offset)
        if committed > own.high_watermark:
            own.set_high_watermark(committed)
            self._home.fetches.check(partition.key)
            self._home.fetches.check(partition.stable_key)
        if own.log_start_offset < data.log_start_offset <= own.high_watermark:
            own.raise_log_start_offset(data.log_start_offset)

    def _rest(self, followed: _Followed, code: ErrorCode) -> None:
        """Pause a partition: most errors pass when both brokers have heard from the controller."""
        log.info("Broker %d answers %s for %s-%d", self._leader, code.name, *followed.partition.key)
        rest_ms = min(followed.rest_ms, self._home.config().replica_fetch_backoff_ms)
        followed.rests_until_ms = self._home.clock.monotonic_ms() + rest_ms
        followed.rest_ms = 2 * rest_ms
        if code in _WAIT_FOR_CONTROLLER:
            self.remove(followed.partition.key)

    # -- a log that ends where the leader's has nothing --

    async def _find_place(self, followed: _Followed) -> None:
        """Ask the leader for the start and the end of its log, and go on from there."""
        try:
            ends = await self._ends(followed)
        except ApiError as error:
            self._rest(followed, error.code)
            return
        partition = followed.partition
        if self._followed.get((followed.topic_id, partition.index)) is not followed:
            return  # the partition has got another leader or epoch meanwhile
        own = partition.log
        try:
            if ends.end < own.log_end_offset:
                # An unclean election has made a shorter log the leader's.
                log.warning("Truncating %s-%d to %d, where its leader's log ends", *partition.key, ends.end)
                own.truncate_to(ends.end)
            elif ends.start > own.log_end_offset:
                log.info("Beginning %s-%d anew at %d, its leader's start", *partition.key, ends.start)
                own.truncate_fully_and_start_at(ends.start)
            followed.lag = max(ends.end - own.log_end_offset, 0)
        except (StorageError, OSError) as failure:
            self._home.disks.refused(partition.topic, partition.index, failure)

    async def _ends(self, followed: _Followed) -> _Ends:
        found = []
        for timestamp in (EARLIEST, LATEST):
            request = ListOffsetsRequest(
                replica_id=self._home.partitions.broker_id,
                topics=[
                    ListOffsetsTopic(
                        name=followed.partition.topic,
                        partitions=[
                            ListOffsetsPartition(
                                partition_index=followed.partition.index,
                                current_leader_epoch=followed.leader_epoch,
                                timestamp=timestamp,
                            )
                        ],
                    )
                ],
            )
            response = await self._link.ask(
                request,
                _LIST_OFFSETS_VERSION,
                ListOffsetsResponse,
                timeout_s=self._patience_s,
            )
            answer = response.topics[0].partitions[0]
            if answer.error_code:
                raise ApiError(ErrorCode(answer.error_code))
            found.append(answer.offset)
        return _Ends(*found)
