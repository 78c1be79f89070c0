"""Where to read on: offsets looked up by time, and positions compared with a new leader's log.

A partition without a position gets what its group committed, or else what ``auto.offset.reset`` says; one whose leader
changed is validated first (KIP-320). All of it goes on while poll waits for records; nothing here waits by itself but
:meth:`Positions.look_up` and :meth:`Positions.wait_for`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from pkafka.clients.cluster import Broker, Cluster
from pkafka.clients.config import ConsumerConfig
from pkafka.clients.consumer.errors import LogTruncationError
from pkafka.clients.consumer.futures import RequestFuture
from pkafka.clients.consumer.network import ConsumerNetwork
from pkafka.clients.consumer.subscription import Leader, Status, Subscription
from pkafka.clients.errors import ClientTimeoutError, NoOffsetError, Stage, UnsupportedApiError
from pkafka.clients.offsets import ListedOffset, OffsetAndMetadata
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import EARLIEST, LATEST, NO_EPOCH, TopicPartition
from pkafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from pkafka.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

if TYPE_CHECKING:
    from pkafka.clients.consumer.commits import Commits, Committed

Found = dict[TopicPartition, ListedOffset | ApiError]

_CONSUMER_ID: Final = -1
_UNDEFINED: Final = -1
_NOTHING: Final = ListedOffset(-1, -1, -1)
# These do not pass with fresh metadata.
_FINAL: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_REQUEST,
    }
)


class Positions:
    """Looks positions up, and checks them.

    Args:
        commits: of the group; None where there is no group, and so nothing committed.
    """

    def __init__(
        self,
        net: ConsumerNetwork,
        config: ConsumerConfig,
        subscription: Subscription,
        commits: "Commits | None",
        want_coordinator: Callable[[], bool],
    ) -> None:
        self._net = net
        self._cluster: Cluster = net.cluster
        self._config = config
        self._subscription = subscription
        self._commits = commits
        self._want_coordinator = want_coordinator
        self._errors: deque[Exception] = deque()
        self._seen: tuple[int, int] = (-1, -1)
        self._committed: RequestFuture[Committed] | None = None
        self._committed_at_ms = 0
        self._asked_ends: set[TopicPartition] = set()
        self._resetting: set[TopicPartition] = set()
        self._validating: set[TopicPartition] = set()

    def advance(self, now_ms: int) -> None:
        """Begin whatever the partitions need next; never waits.

        Raises:
            NoOffsetError: there is no position, and ``auto.offset.reset=none``.
            LogTruncationError: the log was truncated below a position, and ``auto.offset.reset=none``.
            ApiError: no permission.
        """
        if self._errors:
            raise self._errors.popleft()
        self._note_leaders()
        if self._subscription.is_settled:
            return
        validating = [each for each in self._ready(Status.VALIDATING, now_ms) if each not in self._validating]
        if validating:
            self._validate(validating)
        initializing = self._subscription.in_status(Status.INITIALIZING)
        if initializing:
            self._initialize(initializing, now_ms)
        resetting = [each for each in self._ready(Status.RESETTING, now_ms) if each not in self._resetting]
        if resetting:
            self._reset(resetting)

    def out_of_range(self, partition: TopicPartition) -> bool:
        """The leader does not have the position: reset it.

        Returns:
            False where no policy says to what.
        """
        to = self._policy()
        if to is None:
            return False
        self._subscription.reset(partition, to)
        return True

    def ask_for_end(self, partition: TopicPartition) -> None:
        """Find out where a partition ends, for its lag; never waits."""
        leader = self._cluster.view.leader(partition)
        if leader is None or partition in self._asked_ends:
            return
        self._asked_ends.add(partition)

        def take(found: Found) -> None:
            self._asked_ends.discard(partition)
            state, end = self._subscription.get(partition), found.get(partition)
            if state is None or not isinstance(end, ListedOffset):
                return
            if self._config.isolation_level == "read_committed":
                state.last_stable_offset = end.offset
            else:
                state.high_watermark = end.offset

        future = self._list_offsets(leader, {partition: LATEST})
        future.add_listener(take, lambda _: self._asked_ends.discard(partition))

    def seek(self, partition: TopicPartition, at: OffsetAndMetadata) -> None:
        """Read on from there; with a leader epoch, once the leader's log has been compared with it.

        Raises:
            IllegalStateError: the partition is not assigned.
        """
        if at.leader_epoch is None:
            self._subscription.seek(partition, at.offset)
        else:
            leader = self._leader_of(partition)
            self._subscription.seek_unvalidated(partition, at.offset, at.leader_epoch, leader)

    def wait_for(self, partition: TopicPartition, deadline_ms: int, wait_ms: int) -> int:
        """The position of a partition that is assigned; waits until it is known.

        Args:
            deadline_ms: on the clock of the network.
            wait_ms: how long that is, for the error.

        Raises:
            ClientTimeoutError: the time ran out.
            NoOffsetError, ApiError: as :meth:`advance`.
        """
        while True:
            # Good as soon as it was sought or looked up, also before a new leader was asked about it.
            found = self._subscription.state(partition).position
            if found is not None:
                return found
            self.advance(self._net.now_ms)
            left_ms = deadline_ms - self._net.now_ms
            if left_ms <= 0:
                raise ClientTimeoutError(
                    Stage.REQUEST,
                    f"Timeout of {wait_ms}ms expired before the position for partition {partition} could be "
                    "determined",
                )
            self._net.poll(min(left_ms, max(1, self._config.retry_backoff_ms)))

    def look_up(
        self, timestamps: Mapping[TopicPartition, int], deadline_ms: int, timeout_ms: int
    ) -> dict[TopicPartition, ListedOffset]:
        """Look offsets up and wait for all of them.

        Args:
            timestamps: milliseconds, EARLIEST or LATEST, per partition.

        Returns:
            For every partition an offset, -1 where there is none.

        Raises:
            ClientTimeoutError: ``timeout_ms`` ran out.
            ApiError: a partition cannot be asked.
        """
        found: dict[TopicPartition, ListedOffset] = {}
        left = dict(timestamps)
        missing = dict.fromkeys(left, "no leader is known")
        view = self._cluster.view
        self._refresh({each.topic for each in left if view.leader(each) is None}, deadline_ms)
        while left:
            for group, future in self._ask(left):
                self._net.poll_until(future, deadline_ms)
                outcomes: Found = future.value if future.succeeded else {}
                if future.error is not None and not future.retriable:
                    raise future.error
                if future.error is not None or not future.done:
                    missing.update(dict.fromkeys(group, str(future.error or "no answer")))
                for partition, outcome in outcomes.items():
                    if isinstance(outcome, ListedOffset):
                        found[partition] = outcome
                        del left[partition]
                    elif outcome.code in _FINAL:
                        raise ApiError(outcome.code, f"{partition}: {outcome.message}")
                    else:
                        missing[partition] = f"{outcome.code.name} {outcome.message}"
            if not left:
                break
            now_ms = self._net.now_ms
            if now_ms >= deadline_ms:
                why = "; ".join(f"{partition}: {missing[partition]}" for partition in sorted(left))
                raise ClientTimeoutError(
                    Stage.REQUEST, f"Failed to get offsets by times in {timeout_ms}ms ({why})"
                )
            self._net.sleep_until(min(deadline_ms, now_ms + self._config.retry_backoff_ms))
            # Topics that are not subscribed are not refreshed otherwise, and their leaders may have changed.
            self._refresh({each.topic for each in left}, deadline_ms)
        return found

    # -- positions of new partitions ----------------------------------------------------------------------

    def _initialize(self, partitions: list[TopicPartition], now_ms: int) -> None:
        if self._commits is None:
            self._apply_policy(partitions)
            return
        if self._committed is not None or now_ms < self._committed_at_ms or not self._want_coordinator():
            return
        future = self._committed = self._commits.fetch(partitions)
        future.add_listener(self._take_committed, self._committed_failed)

    def _take_committed(self, committed: "Committed") -> None:
        self._committed = None
        missing = []
        for partition, at in committed.items():
            state = self._subscription.get(partition)
            if state is None or state.status is not Status.INITIALIZING:
                continue  # given up, or sought meanwhile
            if at is None:
                missing.append(partition)
                continue
            epoch = NO_EPOCH if at.leader_epoch is None else at.leader_epoch
            self._subscription.seek_unvalidated(partition, at.offset, epoch, self._leader_of(partition))
        try:
            self._apply_policy(missing)
        except NoOffsetError as error:
            self._errors.append(error)
            self._committed_at_ms = self._net.now_ms + self._config.retry_backoff_ms

    def _committed_failed(self, error: Exception) -> None:
        self._committed = None
        self._committed_at_ms = self._net.now_ms + self._config.retry_backoff_ms
        if not getattr(error, "retriable", False) and not isinstance(error, UnsupportedApiError):
            self._errors.append(error)

    def _apply_policy(self, partitions: Iterable[TopicPartition]) -> None:
        to = self._policy()
        wanted = list(partitions)
        if to is None and wanted:
            names = ", ".join(map(str, wanted))
            raise NoOffsetError(f"Undefined offset with no reset policy for partitions: [{names}]")
        for partition in wanted:
            assert to is not None
            self._subscription.reset(partition, to)

    def _policy(self) -> int | None:
        return {"earliest": EARLIEST, "latest": LATEST}.get(self._config.auto_offset_reset)

    # -- lookups by time ----------------------------------------------------------------------------------

    def _reset(self, partitions: list[TopicPartition]) -> None:
        wanted: dict[TopicPartition, int] = {}
        for partition in partitions:
            to = self._subscription.state(partition).reset_to
            assert to is not None, partition
            wanted[partition] = to
        known = {each: to for each, to in wanted.items() if self._cluster.view.leader(each) is not None}
        if len(known) < len(wanted):
            self._cluster.want_refresh()
        for leader, group in self._by_leader(known).items():
            asked = {partition: wanted[partition] for partition in group}
            self._resetting |= asked.keys()
            future = self._list_offsets(leader, asked)
            future.add_listener(partial(self._take_offsets, asked), partial(self._offsets_failed, asked))

    def _take_offsets(self, asked: Mapping[TopicPartition, int], found: Found) -> None:
        self._resetting -= asked.keys()
        for partition, to in asked.items():
            state = self._subscription.get(partition)
            if state is None or state.status is not Status.RESETTING or state.reset_to != to:
                continue  # given up, or sought meanwhile
            outcome = found.get(partition, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))
            if isinstance(outcome, ApiError):
                self._try_again(partition)
                if outcome.code in _FINAL:
                    self._errors.append(ApiError(outcome.code, f"{partition}: {outcome.message}"))
            elif outcome.offset < 0:
                self._subscription.reset(partition, LATEST)
            else:
                self._subscription.seek(partition, outcome.offset, outcome.leader_epoch)
                state.leader = self._leader_of(partition) or state.leader

    def _offsets_failed(self, asked: Mapping[TopicPartition, int], error: Exception) -> None:
        self._resetting -= asked.keys()
        for partition in asked:
            self._try_again(partition)
        if not getattr(error, "retriable", False):
            self._errors.append(error)

    def _ask(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> list[tuple[list[TopicPartition], RequestFuture[Found]]]:
        known = {each: to for each, to in timestamps.items() if self._cluster.view.leader(each) is not None}
        return [
            (group, self._list_offsets(leader, {each: timestamps[each] for each in group}))
            for leader, group in self._by_leader(known).items()
        ]

    def _list_offsets(self, leader: Broker, timestamps: Mapping[TopicPartition, int]) -> RequestFuture[Found]:
        topics: dict[str, ListOffsetsTopic] = {}
        for (topic, partition), to in timestamps.items():
            row = topics.setdefault(topic, ListOffsetsTopic(name=topic, partitions=[]))
            known = self._leader_of(TopicPartition(topic, partition))
            epoch = NO_EPOCH if known is None else known.epoch
            row.partitions.append(
                ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=to)
            )
        request = ListOffsetsRequest(
            replica_id=_CONSUMER_ID,
            isolation_level=int(self._config.isolation_level == "read_committed"),
            topics=list(topics.values()),
        )
        return self._net.send(leader.address, request, ListOffsetsResponse).compose(_read_offsets)

    def _refresh(self, topics: set[str], deadline_ms: int) -> None:
        """Ask where topics are, unless there are none or it is too late."""
        left_ms = deadline_ms - self._net.now_ms
        if topics and left_ms > 0:
            # The caller tells of the time-out: it knows what was asked.
            with suppress(ClientTimeoutError):
                self._cluster.refresh(
                    topics, allow_auto_create=self._config.allow_auto_create_topics, timeout_ms=left_ms
                )

    # -- validation ---------------------------------------------------------------------------------------

    def _note_leaders(self) -> None:
        seen = (self._cluster.generation, self._subscription.changes)
        if seen == self._seen:
            return
        self._seen = seen
        for partition in self._subscription.partitions:
            leader = self._leader_of(partition)
            if leader is not None:
                self._subscription.leader_is(partition, leader)

    def _validate(self, partitions: list[TopicPartition]) -> None:
        known = [each for each in partitions if self._cluster.view.leader(each) is not None]
        if len(known) < len(partitions):
            self._cluster.want_refresh()
        for leader, group in self._by_leader(known).items():
            topics: dict[str, OffsetForLeaderTopic] = {}
            asked: dict[TopicPartition, tuple[int, int]] = {}
            for partition in group:
                state = self._subscription.state(partition)
                assert state.position is not None, partition
                asked[partition] = (state.position, state.position_epoch)
                row = topics.setdefault(
                    partition.topic, OffsetForLeaderTopic(topic=partition.topic, partitions=[])
                )
                row.partitions.append(
                    OffsetForLeaderPartition(
                        partition=partition.partition,
                        current_leader_epoch=state.leader.epoch,
                        leader_epoch=state.position_epoch,
                    )
                )
            self._validating |= asked.keys()
            request = OffsetForLeaderEpochRequest(replica_id=_CONSUMER_ID, topics=list(topics.values()))
            future = self._net.send(leader.address, request, OffsetForLeaderEpochResponse)
            future.add_listener(partial(self._take_ends, asked), partial(self._ends_failed, asked))

    def _take_ends(
        self, asked: Mapping[TopicPartition, tuple[int, int]], answer: OffsetForLeaderEpochResponse
    ) -> None:
        self._validating -= asked.keys()
        ends = {
            TopicPartition(topic.topic, each.partition): each
            for topic in answer.topics
            for each in topic.partitions
        }
        for partition, (offset, epoch) in asked.items():
            state = self._subscription.get(partition)
            if (
                state is None
                or state.status is not Status.VALIDATING
                or (state.position, state.position_epoch) != (offset, epoch)
            ):
                continue  # given up, or sought meanwhile
            end = ends.get(partition)
            code = ErrorCode.UNKNOWN_SERVER_ERROR if end is None else ErrorCode(end.error_code)
            if end is None or code is not ErrorCode.NONE:
                self._try_again(partition)
                if code in _FINAL:
                    self._errors.append(ApiError(code, f"{partition}: {code.message}"))
            else:
                self._compare(partition, offset, end)

    def _compare(self, partition: TopicPartition, offset: int, end: EpochEndOffset) -> None:
        unknown = end.end_offset == _UNDEFINED or end.leader_epoch == _UNDEFINED
        if not unknown and end.end_offset >= offset:
            self._subscription.validated(partition)
            return
        if self._policy() is not None:
            if unknown:
                self.out_of_range(partition)
            else:
                self._subscription.seek(partition, end.end_offset, end.leader_epoch)
            return
        divergent = {}
        if not unknown:
            divergent[partition] = OffsetAndMetadata(end.end_offset, "", end.leader_epoch)
        self._subscription.state(partition).retry_at_ms = self._net.now_ms + self._config.retry_backoff_ms
        self._errors.append(LogTruncationError({partition: offset}, divergent))

    def _ends_failed(self, asked: Mapping[TopicPartition, tuple[int, int]], error: Exception) -> None:
        self._validating -= asked.keys()
        for partition in asked:
            if self._subscription.get(partition) is None:
                continue
            if isinstance(error, UnsupportedApiError):
                self._subscription.validated(partition)
            else:
                self._try_again(partition)
        if not getattr(error, "retriable", False) and not isinstance(error, UnsupportedApiError):
            self._errors.append(error)

    # -- inside -------------------------------------------------------------------------------------------

    def _ready(self, status: Status, now_ms: int) -> list[TopicPartition]:
        return self._subscription.in_status(status, now_ms)

    def _try_again(self, partition: TopicPartition) -> None:
        state = self._subscription.get(partition)
        if state is not None:
            state.retry_at_ms = self._net.now_ms + self._config.retry_backoff_ms
        self._cluster.want_refresh()

    def _leader_of(self, partition: TopicPartition) -> Leader | None:
        view = self._cluster.view.partition(partition)
        return None if view is None else Leader(view.leader, view.leader_epoch)

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[Broker, list[TopicPartition]]:
        groups: dict[Broker, list[TopicPartition]] = {}
        for partition in partitions:
            leader = self._cluster.view.leader(partition)
            assert leader is not None, partition
            groups.setdefault(leader, []).append(partition)
        return groups


def _read_offsets(answer: ListOffsetsResponse, outcome: RequestFuture[Found]) -> None:
    found: Found = {}
    for topic in answer.topics:
        for each in topic.partitions:
            code = ErrorCode(each.error_code)
            key = TopicPartition(topic.name, each.partition_index)
            if code is ErrorCode.NONE:
                found[key] = ListedOffset(each.offset, each.timestamp, each.leader_epoch)
            elif code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
                found[key] = _NOTHING  # an old log has no times
            else:
                found[key] = ApiError(code)
    outcome.complete(found)
