"""Offsets of a group, stored and read: OffsetCommit and OffsetFetch."""

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple, TypeAlias

from pkafka.clients.config import ConsumerConfig
from pkafka.clients.consumer.errors import RetriableCommitFailedError
from pkafka.clients.consumer.futures import RequestFuture
from pkafka.clients.consumer.group_channel import GroupChannel
from pkafka.clients.consumer.interceptors import Interceptors
from pkafka.clients.consumer.metrics import ConsumerMetrics
from pkafka.clients.consumer.subscription import Subscription
from pkafka.clients.errors import ClientTimeoutError, Stage, UnsupportedApiError
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import NO_EPOCH, TopicPartition
from pkafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from pkafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

log = logging.getLogger(__name__)

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
CommitCallback: TypeAlias = Callable[[Offsets, Exception | None], None]
Identity: TypeAlias = tuple[int, str, str | None]
Committed: TypeAlias = dict[TopicPartition, OffsetAndMetadata | None]

_LAST_VERSION_OF_ONE_GROUP: Final = 7


class _Completion(NamedTuple):
    """A commit that ended, whose callback is to run on the application's thread."""

    offsets: Offsets
    error: Exception | None
    callback: CommitCallback | None


class Commits:
    """Stores and reads the offsets of a group; used by one thread at a time.

    Args:
        channel: to the coordinator.
        subscription: whose positions are committed.
    """

    def __init__(
        self,
        channel: GroupChannel,
        subscription: Subscription,
        config: ConsumerConfig,
        interceptors: Interceptors,
        metrics: ConsumerMetrics,
    ) -> None:
        self._channel = channel
        self._membership = channel.membership
        self._net = channel.net
        self._subscription = subscription
        self._config = config
        self._interceptors = interceptors
        self._metrics = metrics
        self._completions: deque[_Completion] = deque()
        self._waiting: deque[tuple[Offsets, CommitCallback | None, int]] = deque()
        self._pending = 0
        self._fenced: Exception | None = None
        self._knows_groups = True
        self._next_auto_ms = self._net.now_ms + config.auto_commit_interval_ms

    # -- storing ------------------------------------------------------------------------------------------

    def commit_sync(self, offsets: Offsets, deadline_ms: int) -> bool:
        """Store offsets and wait.

        Returns:
            False when the time ran out.

        Raises:
            CommitFailedError: the partitions belong to another member by now.
            ApiError: REBALANCE_IN_PROGRESS: poll, then commit again; or the coordinator refuses.
            WakeupError: another thread called ``wakeup``; whether the offsets were stored is not known.
        """
        self.run_callbacks()
        if not offsets:
            return self.await_pending(deadline_ms)
        attempt = 0
        while True:
            if not self._channel.await_coordinator(deadline_ms):
                return False
            self.send_waiting()  # those that were called before are stored before
            future = self._send(offsets)
            self._net.poll_until(future, deadline_ms)
            # Asynchronous commits that were under way ended before this one: their callbacks come first.
            self.run_callbacks()
            if future.succeeded:
                with self._net.gate.outside():
                    self._interceptors.on_commit(offsets)
                return True
            if future.error is not None and not future.retriable:
                raise future.error
            if self._net.now_ms >= deadline_ms:
                return False
            self._net.sleep_until(min(deadline_ms, self._net.now_ms + self._backoff_ms(attempt)))
            attempt += 1

    def commit_async(self, offsets: Offsets, callback: CommitCallback | None) -> None:
        """Store offsets and go on; ``callback`` gets the outcome, in a later call of the application's thread.

        A failure is not tried again: a later commit may have been stored meanwhile.
        """
        self.run_callbacks()
        self._commit_async(offsets, callback)
        self._net.poll_now()

    def auto_commit(self, now_ms: int) -> None:
        """Store the positions when it is time to, without waiting."""
        if not self._config.enable_auto_commit or now_ms < self._next_auto_ms:
            return
        self._next_auto_ms = now_ms + self._config.auto_commit_interval_ms
        consumed = self.consumed()
        if consumed:
            self._commit_async(consumed, self._after_auto_commit)

    def auto_commit_now(self) -> RequestFuture[None] | None:
        """Begin to store the positions before partitions are given up; None where there is nothing to store."""
        consumed = self.consumed() if self._config.enable_auto_commit else {}
        if not consumed:
            return None
        future = self._send(consumed)
        future.add_listener(lambda _: self._completions.append(_Completion(consumed, None, None)))
        return future

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What an automatic commit stores: the positions, but not those of topics that were deleted meanwhile.

        The coordinator refuses those as if they were on their way to exist, and Kafka's consumer tries again for
        ``max.poll.interval.ms`` before it lets go.
        """
        view = self._net.cluster.view
        return {
            partition: at
            for partition, at in self._subscription.all_consumed().items()
            if view.partition(partition) is not None
        }

    def restart_auto_commit(self, now_ms: int) -> None:
        """Count the interval from now on."""
        self._next_auto_ms = now_ms + self._config.auto_commit_interval_ms

    def wait_ms(self, now_ms: int) -> int:
        """Until the next automatic commit."""
        return max(0, self._next_auto_ms - now_ms) if self._config.enable_auto_commit else 60_000

    def await_pending(self, deadline_ms: int) -> bool:
        """Wait for the asynchronous commits under way, and run their callbacks; False when the time ran out."""
        while self._pending or self._waiting:
            left_ms = deadline_ms - self._net.now_ms
            if left_ms <= 0:
                return False
            if self._waiting:
                self._membership.want_coordinator()
            self._net.poll(left_ms)
            self.run_callbacks()
        self.run_callbacks()
        return True

    def run_callbacks(self) -> None:
        """Tell the user what became of asynchronous commits.

        Raises:
            ApiError: FENCED_INSTANCE_ID, when a commit found out that another process took this one's place.
        """
        if self._fenced is not None:
            raise self._fenced
        while self._completions:
            done = self._completions.popleft()
            with self._net.gate.outside():
                if done.error is None:
                    self._interceptors.on_commit(done.offsets)
                if done.callback is not None:
                    done.callback(done.offsets, done.error)
                elif done.error is not None:
                    log.error("Offset commit with offsets %s failed: %s", dict(done.offsets), done.error)

    def send_waiting(self) -> None:
        """Send the asynchronous commits that waited for the coordinator, or fail them if it was not found."""
        while self._waiting:
            offsets, callback, lookups_failed = self._waiting[0]
            if self._membership.coordinator is not None:
                self._waiting.popleft()
                self._send_async(offsets, callback)
            elif self._membership.lookups_failed != lookups_failed:
                self._waiting.popleft()
                error = RetriableCommitFailedError(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
                self._completions.append(_Completion(offsets, error, callback))
            else:
                return

    # -- reading ------------------------------------------------------------------------------------------

    def committed(
        self, partitions: Collection[TopicPartition], deadline_ms: int, timeout_ms: int
    ) -> Committed:
        """What the group has stored, None where it has nothing.

        Raises:
            ClientTimeoutError: ``timeout_ms`` ran out.
            ApiError: the coordinator refuses.
        """
        attempt = 0
        while partitions:
            if self._channel.await_coordinator(deadline_ms):
                future = self.fetch(partitions)
                self._net.poll_until(future, deadline_ms)
                if future.succeeded:
                    return future.value
                if future.error is not None and not future.retriable:
                    raise future.error
            if self._net.now_ms >= deadline_ms:
                names = ", ".join(map(str, partitions))
                raise ClientTimeoutError(
                    Stage.REQUEST,
                    f"Timeout of {timeout_ms}ms expired before the last committed offset for partitions {names} could "
                    "be determined. Try tuning default.api.timeout.ms larger to relax the threshold.",
                )
            self._net.sleep_until(min(deadline_ms, self._net.now_ms + self._backoff_ms(attempt)))
            attempt += 1
        return {}

    def fetch(self, partitions: Collection[TopicPartition]) -> RequestFuture[Committed]:
        """Ask the coordinator for what the group has stored."""
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        group = self._membership.settings.group_id
        if self._knows_groups:
            topics = [
                OffsetFetchRequestTopics(name=name, partition_indexes=ids) for name, ids in by_topic.items()
            ]
            request = OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=True
            )
            answer = self._channel.send(request, OffsetFetchResponse)
        else:
            request = OffsetFetchRequest(
                group_id=group,
                topics=[
                    OffsetFetchRequestTopic(name=name, partition_indexes=ids)
                    for name, ids in by_topic.items()
                ],
            )
            answer = self._channel.send(request, OffsetFetchResponse, max_version=_LAST_VERSION_OF_ONE_GROUP)
        answer.add_listener(lambda _: None, self._note_old_broker)
        return answer.compose(self._read_committed)

    # -- inside -------------------------------------------------------------------------------------------

    def _commit_async(self, offsets: Offsets, callback: CommitCallback | None) -> None:
        if not offsets:
            self._completions.append(_Completion(offsets, None, callback))
        elif self._membership.coordinator is None or self._waiting:
            self._membership.want_coordinator()
            self._waiting.append((offsets, callback, self._membership.lookups_failed))
        else:
            self._send_async(offsets, callback)

    def _send_async(self, offsets: Offsets, callback: CommitCallback | None) -> None:
        self._pending += 1

        def succeeded(_: None) -> None:
            self._pending -= 1
            self._completions.append(_Completion(offsets, None, callback))

        def failed(error: Exception) -> None:
            self._pending -= 1
            if getattr(error, "code", None) is ErrorCode.FENCED_INSTANCE_ID:
                self._fenced = error
            passing = getattr(error, "retriable", False)
            shown = RetriableCommitFailedError(error) if passing else error
            self._completions.append(_Completion(offsets, shown, callback))

        self._send(offsets).add_listener(succeeded, failed)

    def _after_auto_commit(self, offsets: Offsets, error: Exception | None) -> None:
        if error is None:
            return
        if isinstance(error, RetriableCommitFailedError):
            soon_ms = self._net.now_ms + self._config.retry_backoff_ms
            self._next_auto_ms = min(self._next_auto_ms, soon_ms)
        else:
            log.warning("Asynchronous auto-commit of offsets %s failed: %s", dict(offsets), error)

    def _send(self, offsets: Offsets) -> RequestFuture[None]:
        try:
            identity = self._membership.commit_identity(automatic=self._subscription.is_automatic)
        except Exception as error:  # noqa: BLE001 - what it raises is the outcome of the commit
            return RequestFuture.failed_with(error)
        by_topic: dict[str, OffsetCommitRequestTopic] = {}
        for (topic, partition), at in offsets.items():
            row = by_topic.setdefault(topic, OffsetCommitRequestTopic(name=topic, partitions=[]))
            row.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=at.offset,
                    committed_leader_epoch=NO_EPOCH if at.leader_epoch is None else at.leader_epoch,
                    committed_metadata=at.metadata,
                )
            )
        generation, member_id, instance_id = identity
        request = OffsetCommitRequest(
            group_id=self._membership.settings.group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=list(by_topic.values()),
        )
        sent_ms = self._net.now_ms

        def read(answer: OffsetCommitResponse, outcome: RequestFuture[None]) -> None:
            self._metrics.committed(self._net.now_ms - sent_ms)
            error = self._refusal(answer, identity)
            if error is None:
                outcome.complete(None)
            else:
                outcome.fail(error)

        return self._channel.send(request, OffsetCommitResponse).compose(read)

    def _refusal(self, answer: OffsetCommitResponse, identity: Identity) -> Exception | None:
        forbidden = []
        for topic in answer.topics:
            for each in topic.partitions:
                code = ErrorCode(each.error_code)
                if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    forbidden.append(topic.name)
                elif code is not ErrorCode.NONE:
                    return self._membership.commit_refused(code, identity)
        if forbidden:
            names = ", ".join(sorted(set(forbidden)))
            return ApiError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"Not authorized to access topics: [{names}]"
            )
        return None

    def _read_committed(self, answer: OffsetFetchResponse, outcome: RequestFuture[Committed]) -> None:
        if answer.groups:
            group = answer.groups[0]
            code = ErrorCode(group.error_code)
            rows = [(topic.name, each) for topic in group.topics for each in topic.partitions]
        else:
            code = ErrorCode(answer.error_code)
            rows = [(topic.name, each) for topic in answer.topics for each in topic.partitions]  # type: ignore[misc]
        if code is not ErrorCode.NONE:
            if code is ErrorCode.NOT_COORDINATOR:
                self._membership.forget_coordinator(code.message)
            outcome.fail(ApiError(code))
            return
        found: Committed = {}
        for topic, each in rows:
            partition = TopicPartition(topic, each.partition_index)
            code = ErrorCode(each.error_code)
            if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                outcome.fail(_Refused(code, f"Topic or Partition {partition} does not exist"))
                return
            if code is not ErrorCode.NONE:
                outcome.fail(ApiError(code, f"{partition}: {code.message}"))
                return
            epoch = None if each.committed_leader_epoch == NO_EPOCH else each.committed_leader_epoch
            found[partition] = (
                OffsetAndMetadata(each.committed_offset, each.metadata or "", epoch)
                if each.committed_offset >= 0
                else None
            )
        outcome.complete(found)

    def _note_old_broker(self, error: Exception) -> None:
        if isinstance(error, UnsupportedApiError) and self._knows_groups:
            self._knows_groups = False

    def _backoff_ms(self, attempt: int) -> int:
        grown_ms: int = self._config.retry_backoff_ms * 2 ** min(attempt, 16)
        return min(grown_ms, self._config.retry_backoff_max_ms)


class _Refused(ApiError):
    """A code that is retriable elsewhere, and final here as in Kafka's consumer."""

    @property
    def retriable(self) -> bool:
        return False
