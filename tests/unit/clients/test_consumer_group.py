"""The consumer with a group against a scripted coordinator: what is sent, what is raised, and how long calls take."""

import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import pytest

from pkafka.clients.consumer import Consumer, ConsumerRebalanceListener
from pkafka.clients.consumer.assignors.api import (
    Assignment,
    Assignor,
    PartitionsByTopic,
    RebalanceProtocol,
    Subscription,
)
from pkafka.clients.consumer.assignors.wire import encode_assignment, encode_subscription
from pkafka.clients.consumer.errors import (
    CommitFailedError,
    ConcurrentModificationError,
    IllegalStateError,
    InvalidGroupIdError,
    LogTruncationError,
    RetriableCommitFailedError,
)
from pkafka.clients.errors import ClientError, ClientTimeoutError, ClosedError, WakeupError
from pkafka.clients.metrics import Metric
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages import (
    fetch,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    sync_group,
)
from pkafka.protocol.schema import Message
from tests.fakes.broker import NO_ANSWER, FakeBroker
from tests.talk import wait_for

T0 = TopicPartition("t", 0)
QUICK = {
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 20,
    "reconnect.backoff.ms": 5,
    "heartbeat.interval.ms": 30,
    "fetch.max.wait.ms": 5,
    "auto.offset.reset": "earliest",
}


class Group:
    """A coordinator of one member that gives it partition 0 of ``t``, and stores its offsets."""

    def __init__(self) -> None:
        self.broker = FakeBroker({"t": 1})
        self.errors: dict[ApiKey, list[ErrorCode]] = {}
        self.silent: set[ApiKey] = set()
        self.generation = 0
        self.stored: dict[TopicPartition, OffsetAndMetadata] = {}
        self.log_end = 10
        self.epoch_ends: dict[int, int] = {}
        self.leader_epoch = 0
        handlers: dict[ApiKey, Callable[[Any, ErrorCode], Message]] = {
            ApiKey.FIND_COORDINATOR: self._find,
            ApiKey.JOIN_GROUP: self._join,
            ApiKey.SYNC_GROUP: self._sync,
            ApiKey.HEARTBEAT: lambda _, code: heartbeat.HeartbeatResponse(error_code=code),
            ApiKey.LEAVE_GROUP: lambda _, code: leave_group.LeaveGroupResponse(error_code=code),
            ApiKey.OFFSET_COMMIT: self._commit,
            ApiKey.OFFSET_FETCH: self._fetch_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: self._epoch_end,
            ApiKey.FETCH: self._fetch,
        }
        for key, handler in handlers.items():
            self.broker.handlers[key] = self._answering(key, handler)
        plain = self.broker.handlers[ApiKey.METADATA]

        def with_epoch(message: Message, version: int) -> Message | None:
            answer = plain(message, version)
            assert isinstance(answer, metadata.MetadataResponse)
            for topic in answer.topics:
                for each in topic.partitions:
                    each.leader_epoch = self.leader_epoch
            return answer

        self.broker.handlers[ApiKey.METADATA] = with_epoch

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.close()

    def sent(self, key: ApiKey) -> list[Any]:
        return [message for each, _, message in self.broker.requests if each is key]

    def _answering(
        self, key: ApiKey, handler: Callable[[Any, ErrorCode], Message]
    ) -> Callable[[Message, int], Message]:
        def answer(message: Message, _: int) -> Message:
            if key in self.silent:
                return NO_ANSWER
            errors = self.errors.get(key)
            return handler(message, errors.pop(0) if errors else ErrorCode.NONE)

        return answer

    def _find(self, message: find_coordinator.FindCoordinatorRequest, code: ErrorCode) -> Message:
        row = find_coordinator.Coordinator(
            key=message.coordinator_keys[0],
            node_id=1,
            host="127.0.0.1",
            port=self.broker.port,
            error_code=code,
        )
        return find_coordinator.FindCoordinatorResponse(coordinators=[row])

    def _join(self, message: join_group.JoinGroupRequest, code: ErrorCode) -> Message:
        if code is ErrorCode.NONE:
            self.generation += 1
        member = join_group.JoinGroupResponseMember(member_id="m", metadata=message.protocols[0].metadata)
        return join_group.JoinGroupResponse(
            error_code=code,
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=message.protocols[0].name,
            leader="m",
            member_id="m",
            members=[member],
        )

    def _sync(self, _: Message, code: ErrorCode) -> Message:
        given = encode_assignment(Assignment([T0]))
        return sync_group.SyncGroupResponse(error_code=code, assignment=given)

    def _commit(self, message: offset_commit.OffsetCommitRequest, code: ErrorCode) -> Message:
        rows = []
        for topic in message.topics:
            for each in topic.partitions:
                if code is ErrorCode.NONE:
                    at = OffsetAndMetadata(each.committed_offset, each.committed_metadata or "")
                    self.stored[TopicPartition(topic.name, each.partition_index)] = at
            rows.append(
                offset_commit.OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        offset_commit.OffsetCommitResponsePartition(
                            partition_index=each.partition_index, error_code=code
                        )
                        for each in topic.partitions
                    ],
                )
            )
        return offset_commit.OffsetCommitResponse(topics=rows)

    def _fetch_offsets(self, message: offset_fetch.OffsetFetchRequest, code: ErrorCode) -> Message:
        topics = []
        for topic in message.groups[0].topics or []:
            rows = []
            for number in topic.partition_indexes:
                at = self.stored.get(TopicPartition(topic.name, number))
                rows.append(
                    offset_fetch.OffsetFetchResponsePartitions(
                        partition_index=number,
                        committed_offset=-1 if at is None else at.offset,
                        committed_leader_epoch=-1
                        if at is None or at.leader_epoch is None
                        else at.leader_epoch,
                        metadata="",
                        error_code=code,
                    )
                )
            topics.append(offset_fetch.OffsetFetchResponseTopics(name=topic.name, partitions=rows))
        group = offset_fetch.OffsetFetchResponseGroup(group_id="g", topics=topics, error_code=0)
        return offset_fetch.OffsetFetchResponse(groups=[group])

    def _epoch_end(
        self, message: offset_for_leader_epoch.OffsetForLeaderEpochRequest, code: ErrorCode
    ) -> Message:
        asked = message.topics[0].partitions[0].leader_epoch
        end = offset_for_leader_epoch.EpochEndOffset(
            error_code=code,
            partition=0,
            leader_epoch=asked if asked in self.epoch_ends else -1,
            end_offset=self.epoch_ends.get(asked, -1),
        )
        return offset_for_leader_epoch.OffsetForLeaderEpochResponse(
            topics=[offset_for_leader_epoch.OffsetForLeaderTopicResult(topic="t", partitions=[end])]
        )

    def _fetch(self, message: fetch.FetchRequest, _: ErrorCode) -> Message:
        time.sleep(0.005)
        if not message.topics:
            return fetch.FetchResponse(responses=[])
        topic = message.topics[0]
        row = fetch.PartitionData(
            partition_index=topic.partitions[0].partition, high_watermark=self.log_end, records=b""
        )
        answer = fetch.FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[row])
        return fetch.FetchResponse(responses=[answer])


@pytest.fixture
def group() -> Iterator[Group]:
    with Group() as made:
        yield made


def member(group: Group, **keys: object) -> Consumer:
    dotted = {key.replace("_", "."): value for key, value in keys.items()}
    values = {"bootstrap.servers": group.broker.bootstrap, "group.id": "g", **QUICK, **dotted}
    return Consumer(values)


def joined(group: Group, listener: ConsumerRebalanceListener | None = None, **keys: object) -> Consumer:
    consumer = member(group, **keys)
    consumer.subscribe(["t"], listener=listener)
    wait_for(lambda: not consumer.poll(10) and consumer.assignment() == [T0])
    return consumer


# -- heartbeats and the thread that sends them ----------------------------------------------------------------


def test_heartbeats_go_on_while_the_application_works(group: Group) -> None:
    with joined(group):
        before = group.broker.count(ApiKey.HEARTBEAT)
        wait_for(lambda: group.broker.count(ApiKey.HEARTBEAT) >= before + 3)


def test_heartbeats_go_on_in_a_callback_of_the_users(group: Group) -> None:
    beats: list[int] = []

    class Slow(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            before = group.broker.count(ApiKey.HEARTBEAT)
            wait_for(lambda: group.broker.count(ApiKey.HEARTBEAT) >= before + 3)
            beats.append(group.broker.count(ApiKey.HEARTBEAT))

    with joined(group, Slow()):
        assert beats


def test_heartbeats_go_on_while_a_call_waits(group: Group) -> None:
    with joined(group, enable_auto_commit=False) as consumer:
        asked = group.broker.count(ApiKey.LIST_OFFSETS)
        group.broker.handlers[ApiKey.LIST_OFFSETS] = lambda *_: NO_ANSWER

        def wake_after_three_heartbeats() -> None:
            wait_for(lambda: group.broker.count(ApiKey.LIST_OFFSETS) > asked)
            before = group.broker.count(ApiKey.HEARTBEAT)
            wait_for(lambda: group.broker.count(ApiKey.HEARTBEAT) >= before + 3)
            consumer.wakeup()

        waker = threading.Thread(target=wake_after_three_heartbeats)
        waker.start()
        with pytest.raises(WakeupError):
            consumer.end_offsets([T0], timeout_ms=60_000)
        waker.join()


def test_the_thread_ends_with_the_consumer(group: Group) -> None:
    before = threading.active_count()
    consumer = joined(group)
    names = [each.name for each in threading.enumerate()]
    assert "kafka-coordinator-heartbeat-thread | g" in names
    consumer.close()
    wait_for(lambda: threading.active_count() <= before + len(group.broker._threads))
    assert "kafka-coordinator-heartbeat-thread | g" not in [each.name for each in threading.enumerate()]
    assert [each.reason for each in group.sent(ApiKey.LEAVE_GROUP)[0].members] == [
        "the consumer is being closed"
    ]
    consumer.close()
    with pytest.raises(ClosedError):
        consumer.poll(0)


def test_a_static_member_does_not_leave(group: Group) -> None:
    joined(group, group_instance_id="i").close()
    assert group.broker.count(ApiKey.LEAVE_GROUP) == 0


# -- commits --------------------------------------------------------------------------------------------------


def test_a_commit_is_tried_again_while_that_may_help(group: Group) -> None:
    with joined(group, enable_auto_commit=False) as consumer:
        group.errors[ApiKey.OFFSET_COMMIT] = [
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        lookups = group.broker.count(ApiKey.FIND_COORDINATOR)
        consumer.commit_sync({T0: OffsetAndMetadata(3, "note")})
        assert group.stored[T0] == OffsetAndMetadata(3, "note")
        assert group.broker.count(ApiKey.FIND_COORDINATOR) == lookups + 1


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.ILLEGAL_GENERATION, CommitFailedError),
        (ErrorCode.UNKNOWN_MEMBER_ID, CommitFailedError),
        (ErrorCode.REBALANCE_IN_PROGRESS, ApiError),
        (ErrorCode.FENCED_INSTANCE_ID, ApiError),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, ApiError),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ApiError),
    ],
)
def test_a_commit_that_is_refused_says_why(group: Group, code: ErrorCode, error: type[Exception]) -> None:
    with joined(group, enable_auto_commit=False) as consumer:
        group.errors[ApiKey.OFFSET_COMMIT] = [code]
        with pytest.raises(error) as caught:
            consumer.commit_sync({T0: 3})
        assert getattr(caught.value, "code", code) is code
        # After which the member, where it can, goes on.
        if code is not ErrorCode.FENCED_INSTANCE_ID:
            wait_for(lambda: not consumer.poll(10) and not consumer._group.membership.is_join_needed)  # type: ignore[union-attr]
            consumer.commit_sync({T0: 4})
            assert group.stored[T0].offset == 4


def test_an_asynchronous_commit_is_not_tried_again(group: Group) -> None:
    outcomes: list[Exception | None] = []
    with joined(group, enable_auto_commit=False) as consumer:
        group.errors[ApiKey.OFFSET_COMMIT] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        consumer.commit_async({T0: 3}, lambda _, error: outcomes.append(error))
        consumer.commit_async({T0: 4}, lambda _, error: outcomes.append(error))
        wait_for(lambda: not consumer.poll(10) and len(outcomes) == 2)
        assert isinstance(outcomes[0], RetriableCommitFailedError)
        assert outcomes[0].retriable
        assert outcomes[1] is None
        assert group.stored[T0].offset == 4


def test_asynchronous_commits_without_a_coordinator_end_with_its_lookup(group: Group) -> None:
    outcomes: list[Exception | None] = []
    group.errors[ApiKey.FIND_COORDINATOR] = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    with member(group, enable_auto_commit=False) as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 0)
        consumer.commit_async({T0: 3}, lambda _, error: outcomes.append(error))
        wait_for(lambda: not consumer.poll(10) and len(outcomes) == 1)
        assert isinstance(outcomes[0], RetriableCommitFailedError)
        consumer.commit_async({T0: 4}, lambda _, error: outcomes.append(error))
        wait_for(lambda: not consumer.poll(10) and len(outcomes) == 2)
        assert outcomes[1] is None


def test_closing_waits_for_commits_and_runs_their_callbacks(group: Group) -> None:
    outcomes: list[Exception | None] = []
    consumer = member(group, enable_auto_commit=False)
    consumer.assign([T0])
    consumer.commit_async({T0: 3}, lambda _, error: outcomes.append(error))
    consumer.close()
    assert outcomes == [None]


def test_an_automatic_commit_comes_before_revocation(group: Group) -> None:
    order: list[str] = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            order.append(f"revoked, {group.stored[T0].offset} stored")

    with joined(group, Listener(), auto_commit_interval_ms=60_000) as consumer:
        consumer.seek(T0, 7)
        group.errors[ApiKey.OFFSET_COMMIT] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        group.errors[ApiKey.HEARTBEAT] = [ErrorCode.REBALANCE_IN_PROGRESS]
        wait_for(lambda: not consumer.poll(10) and group.generation == 2)
        assert order == ["revoked, 7 stored"]


def test_positions_of_partitions_assigned_by_hand_are_committed_too(group: Group) -> None:
    with member(group, auto_commit_interval_ms=30) as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 6)
        wait_for(lambda: not consumer.poll(10) and T0 in group.stored)
        commit = group.sent(ApiKey.OFFSET_COMMIT)[0]
        assert (commit.generation_id_or_member_epoch, commit.member_id) == (-1, "")
        consumer.seek(T0, 9)
    assert group.stored[T0].offset == 9
    assert group.broker.count(ApiKey.JOIN_GROUP) == 0


def test_a_topic_that_was_deleted_does_not_hold_a_rebalance_up(group: Group) -> None:
    with joined(group, auto_commit_interval_ms=60_000, metadata_max_age_ms=20) as consumer:
        consumer.seek(T0, 6)
        group.broker.topics.clear()
        group.errors[ApiKey.OFFSET_COMMIT] = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 100_000
        wait_for(lambda: not consumer.poll(10) and group.generation == 2)


# -- assignors ----------------------------------------------------------------------------------------------------


class Grabbing(Assignor):
    """Gives a partition to somebody before it was given up."""

    name = "grabbing"
    supported_protocols = (RebalanceProtocol.COOPERATIVE,)

    def assign(
        self, partitions: PartitionsByTopic, subscriptions: Mapping[str, Subscription]
    ) -> Mapping[str, Assignment]:
        return {"m": Assignment([T0]), "n": Assignment([])}


def test_an_assignor_that_moves_too_early_is_refused(group: Group) -> None:
    answer = group.broker.handlers[ApiKey.JOIN_GROUP]

    def join(message: Message, version: int) -> Message | None:
        joined = answer(message, version)
        assert isinstance(joined, join_group.JoinGroupResponse)
        other = encode_subscription(Subscription(["t"], owned_partitions=[T0]))
        joined.members.append(join_group.JoinGroupResponseMember(member_id="n", metadata=other))
        return joined

    group.broker.handlers[ApiKey.JOIN_GROUP] = join
    with member(group, partition_assignment_strategy=[Grabbing]) as consumer:
        consumer.subscribe(["t"])
        with pytest.raises(IllegalStateError, match="violates its requirements"):
            wait_for(lambda: consumer.poll(10))
    assert group.broker.count(ApiKey.SYNC_GROUP) == 0


def test_a_listener_that_is_woken_up_is_not_told_again(group: Group) -> None:
    """As seen with Java's consumer: the assignment changes with the next one, which brings nothing."""
    events: list[tuple[str, int]] = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            events.append(("assigned", len(partitions)))

        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            events.append(("revoked", len(partitions)))
            if len(events) == 2:
                consumer.wakeup()
                consumer.commit_sync({T0: 1})

    with joined(group, Listener(), enable_auto_commit=False) as consumer:
        consumer.enforce_rebalance()
        with pytest.raises(WakeupError):
            wait_for(lambda: consumer.poll(10))
        assert consumer.assignment() == [T0]
        wait_for(lambda: not consumer.poll(10) and len(events) == 3)
        assert events == [("assigned", 1), ("revoked", 1), ("assigned", 0)]
        assert consumer.assignment() == [T0]


# -- committed positions ----------------------------------------------------------------------------------------


def test_unstable_offsets_are_asked_for_again(group: Group) -> None:
    group.stored[T0] = OffsetAndMetadata(5)
    group.errors[ApiKey.OFFSET_FETCH] = [
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ]
    with joined(group, enable_auto_commit=False) as consumer:
        assert consumer.position(T0) == 5
        assert all(each.require_stable for each in group.sent(ApiKey.OFFSET_FETCH))


def test_an_old_coordinator_is_asked_in_its_way(group: Group) -> None:
    group.broker.versions[ApiKey.FIND_COORDINATOR] = (0, 3)
    group.broker.versions[ApiKey.OFFSET_FETCH] = (0, 5)

    def find(message: Message, _: int) -> Message:
        assert isinstance(message, find_coordinator.FindCoordinatorRequest)
        assert message.key == "g"
        return find_coordinator.FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=group.broker.port)

    def offsets(message: Message, _: int) -> Message:
        assert isinstance(message, offset_fetch.OffsetFetchRequest)
        row = offset_fetch.OffsetFetchResponsePartition(
            partition_index=0, committed_offset=6, metadata="", error_code=0
        )
        topic = offset_fetch.OffsetFetchResponseTopic(name="t", partitions=[row])
        return offset_fetch.OffsetFetchResponse(topics=[topic])

    group.broker.handlers[ApiKey.FIND_COORDINATOR] = find
    group.broker.handlers[ApiKey.OFFSET_FETCH] = offsets
    with joined(group, enable_auto_commit=False) as consumer:
        assert consumer.position(T0) == 6
        assert consumer.committed([T0]) == {T0: OffsetAndMetadata(6)}


# -- leaders that change (KIP-320) --------------------------------------------------------------------------------


def at_epoch(group: Group, consumer: Consumer, offset: int) -> None:
    """Read up to ``offset`` in epoch 0; then another leader is elected, with epoch 1."""
    consumer.assign([T0])
    consumer.poll(20)
    consumer.seek(T0, offset)
    consumer._subscription.advance(T0, offset, 0)
    group.leader_epoch = 1
    consumer._cluster.want_refresh()


def test_a_position_is_compared_with_the_log_of_a_new_leader(group: Group) -> None:
    group.epoch_ends = {0: 10}
    with member(group, enable_auto_commit=False) as consumer:
        at_epoch(group, consumer, 7)

        def compared() -> list[tuple[int, int]]:
            sent = [one.topics[0].partitions[0] for one in group.sent(ApiKey.OFFSET_FOR_LEADER_EPOCH)]
            return [(one.current_leader_epoch, one.leader_epoch) for one in sent]

        # A look at the metadata that was on its way already may have it compared with the old leader's first.
        wait_for(lambda: not consumer.poll(10) and (1, 0) in compared())
        assert set(compared()) <= {(0, 0), (1, 0)}
        wait_for(lambda: not consumer.poll(10) and consumer._subscription.is_fetchable(T0))
        assert consumer.position(T0) == 7


def test_a_truncated_log_is_read_on_from_where_it_differs(group: Group) -> None:
    group.epoch_ends = {0: 4}
    with member(group, enable_auto_commit=False) as consumer:
        at_epoch(group, consumer, 7)
        wait_for(lambda: not consumer.poll(10) and consumer.position(T0) == 4)


def test_a_truncated_log_is_told_where_there_is_no_policy(group: Group) -> None:
    group.epoch_ends = {0: 4}
    group.stored[T0] = OffsetAndMetadata(0)
    with member(group, enable_auto_commit=False, auto_offset_reset="none") as consumer:
        at_epoch(group, consumer, 7)
        with pytest.raises(LogTruncationError) as caught:
            wait_for(lambda: consumer.poll(10))
        assert caught.value.positions == {T0: 7}
        assert caught.value.divergent == {T0: OffsetAndMetadata(4, "", 0)}


def test_a_committed_epoch_is_compared_before_anything_is_read(group: Group) -> None:
    group.stored[T0] = OffsetAndMetadata(7, "", 0)
    group.epoch_ends = {0: 5}
    with joined(group, enable_auto_commit=False) as consumer:
        wait_for(lambda: not consumer.poll(10) and consumer._subscription.is_fetchable(T0))
        assert consumer.position(T0) == 5


# -- metrics ------------------------------------------------------------------------------------------------------


def test_metrics_have_kafkas_names_and_count(group: Group) -> None:
    told: list[str] = []

    class Reporter:
        def init(self, metrics: list[Metric]) -> None:
            told.extend(each.name.name for each in metrics)

        def metric_change(self, metric: Metric) -> None:
            told.append(metric.name.name)

        def metric_removal(self, metric: Metric) -> None:
            told.append(f"-{metric.name.name}")

        def close(self) -> None:
            told.append("closed")

    with joined(group, enable_auto_commit=False, metric_reporters=[Reporter()]) as consumer:
        consumer.seek(T0, 0)
        consumer.commit_sync({T0: 1})
        before = group.broker.count(ApiKey.HEARTBEAT)
        wait_for(lambda: not consumer.poll(10) and group.broker.count(ApiKey.HEARTBEAT) > before + 1)
        registry = consumer._metrics.registry
        groups = {name.group for name in consumer.metrics()}
        assert {
            "consumer-coordinator-metrics",
            "consumer-fetch-manager-metrics",
            "consumer-metrics",
            "consumer-node-metrics",
        } <= groups
        for name, least in {
            "join-total": 1,
            "sync-total": 1,
            "rebalance-total": 1,
            "heartbeat-total": 1,
            "commit-total": 1,
            "assigned-partitions": 1,
            "poll-idle-ratio-avg": 0,
            "commit-sync-time-ns-total": 1,
        }.items():
            assert registry.value(name) >= least, name
        assert registry.value("failed-rebalance-total") == 0
        # The coordinator has a connection of its own, named as Kafka's consumer names it.
        nodes = {name.tag("node-id") for name in consumer.metrics() if name.group == "consumer-node-metrics"}
        assert {"node-1", f"node-{2**31 - 2}"} <= nodes
        tags = {"topic": "t", "partition": "0"}
        assert "records-lag" in told
        wait_for(lambda: not consumer.poll(10) and registry.value("records-lag", **tags) == group.log_end)
        consumer.unsubscribe()
        consumer.assign([TopicPartition("t", 5)])
        consumer.poll(0)
        assert "-records-lag" in told
    assert told[-1] == "closed"


# -- calls and their time -----------------------------------------------------------------------------------------


CALLS: dict[str, Callable[[Consumer], object]] = {
    "poll": lambda consumer: consumer.poll(200),
    "position": lambda consumer: consumer.position(T0, 200),
    "commit_sync": lambda consumer: consumer.commit_sync({T0: 1}, timeout_ms=200),
    "committed": lambda consumer: consumer.committed([T0], timeout_ms=200),
    "partitions_for": lambda consumer: consumer.partitions_for("t", timeout_ms=200),
    "topics": lambda consumer: consumer.topics(timeout_ms=200),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times({T0: 1}, timeout_ms=200),
    "end_offsets": lambda consumer: consumer.end_offsets([T0], timeout_ms=200),
    "close": lambda consumer: consumer.close(200),
}


@pytest.mark.parametrize("where", ["nobody listens", "nobody answers"])
@pytest.mark.parametrize("name", CALLS)
def test_no_call_outlasts_its_time(where: str, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if where == "nobody listens":
            server.close()
        consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "g", **QUICK})
        consumer.assign([T0])
        start = time.monotonic()
        if name in ("poll", "close"):
            CALLS[name](consumer)
        else:
            with pytest.raises(ClientError) as caught:
                CALLS[name](consumer)
            assert caught.value.retriable
        assert time.monotonic() - start < 20
        start = time.monotonic()
        consumer.close(100)
        assert time.monotonic() - start < 20


def test_a_coordinator_that_does_not_answer_delays_nobody(group: Group) -> None:
    with joined(group, enable_auto_commit=False) as consumer:
        group.silent |= {ApiKey.OFFSET_COMMIT, ApiKey.LEAVE_GROUP, ApiKey.HEARTBEAT}
        start = time.monotonic()
        with pytest.raises(ClientTimeoutError, match="committing offsets"):
            consumer.commit_sync({T0: 1}, timeout_ms=200)
        assert consumer.poll(100) == []
        consumer.close(200)
        assert time.monotonic() - start < 20


@pytest.mark.parametrize("name", ["position", "commit_sync", "committed", "end_offsets"])
def test_wakeup_ends_a_call_that_waits(name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "g", **QUICK})
        consumer.assign([T0])
        timer = threading.Timer(0.1, consumer.wakeup)
        timer.start()
        calls: dict[str, Callable[[], object]] = {
            "position": lambda: consumer.position(T0),
            "commit_sync": lambda: consumer.commit_sync({T0: 1}),
            "committed": lambda: consumer.committed([T0]),
            "end_offsets": lambda: consumer.end_offsets([T0]),
        }
        with pytest.raises(WakeupError):
            calls[name]()
        timer.join()
        consumer.close(0)


# -- what does not go together ------------------------------------------------------------------------------------


def test_topics_patterns_and_partitions_exclude_each_other(group: Group) -> None:
    with member(group) as consumer:
        consumer.subscribe(["t"])
        with pytest.raises(IllegalStateError, match="mutually exclusive"):
            consumer.subscribe(pattern="t.*")
        with pytest.raises(IllegalStateError, match="mutually exclusive"):
            consumer.assign([T0])
        consumer.unsubscribe()
        with pytest.raises(IllegalStateError, match="not subscribed to any topics or assigned any"):
            consumer.poll(0)
        consumer.assign([T0])
        with pytest.raises(IllegalStateError, match="mutually exclusive"):
            consumer.subscribe(["t"])
        consumer.assign([])
        consumer.subscribe(pattern="t.*")
        consumer.subscribe(pattern="u.*")
        consumer.subscribe([])
        consumer.assign([T0])
        for wrong in ([""], [" "]):
            with pytest.raises(ValueError, match="empty topic"):
                consumer.subscribe(wrong)
        with pytest.raises(ValueError, match="one name"):
            consumer.subscribe("t")
        with pytest.raises(ValueError, match="either topics or a pattern"):
            consumer.subscribe()
        with pytest.raises(ValueError, match="negative"):
            consumer.commit_sync({T0: -1})
        with pytest.raises(IllegalStateError, match="No current assignment"):
            consumer.pause([TopicPartition("t", 9)])


def test_whom_a_transaction_names_stays_when_the_membership_is_lost(group: Group) -> None:
    """Without a generation and a member, a zombie's offsets would pass for those of a consumer without a group."""
    with joined(group) as consumer:
        named = consumer.group_metadata()
        assert (named.group_id, named.generation_id > 0, bool(named.member_id)) == ("g", True, True)
        consumer.unsubscribe()
        assert consumer.group_metadata() == named


def test_what_needs_a_group_says_so(group: Group) -> None:
    with Consumer({"bootstrap.servers": group.broker.bootstrap}) as consumer:
        calls: list[Callable[[], object]] = [
            lambda: consumer.subscribe(["t"]),
            lambda: consumer.commit_sync({T0: 1}),
            lambda: consumer.commit_async(),
            lambda: consumer.committed([T0]),
            consumer.group_metadata,
        ]
        for call in calls:
            with pytest.raises(InvalidGroupIdError, match=r"group\.id"):
                call()
        with pytest.raises(IllegalStateError, match="does not have a group"):
            consumer.enforce_rebalance()


def test_a_second_thread_is_refused_and_callbacks_are_not(group: Group) -> None:
    refused: list[Exception] = []
    seen: list[object] = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            def intrude() -> None:
                try:
                    consumer.commit_sync()
                except ConcurrentModificationError as error:
                    refused.append(error)

            thread = threading.Thread(target=intrude)
            thread.start()
            thread.join()
            consumer.seek(T0, 3)
            consumer.commit_sync({T0: 3})
            seen.append(consumer.committed([T0]))

    consumer = member(group, enable_auto_commit=False)
    consumer.subscribe(["t"], listener=Listener())
    wait_for(lambda: not consumer.poll(10) and seen)
    assert len(refused) == 1
    assert seen == [{T0: OffsetAndMetadata(3)}]
    assert consumer.position(T0) == 3
    consumer.close()
