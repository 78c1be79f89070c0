"""What the consumer fetches, from whom, and what it keeps, against scripted brokers."""

import gc
import math
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pkafka.clients.consumer import Chunk, Consumer, ConsumerRecord
from pkafka.clients.consumer.fetched import Fetched
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from pkafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pkafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pkafka.protocol.schema import Message
from pkafka.records.builder import build_batch
from pkafka.records.control import build_end_marker
from tests.fakes.broker import FakeBroker, Handler
from tests.talk import wait_for

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = b"t".ljust(16, b"\1")
KEYS = {"retry.backoff.ms": 5, "reconnect.backoff.ms": 5, "fetch.max.wait.ms": 1, "auto.offset.reset": "none"}


class Logs:
    """Partitions of batches of ten records; an answer holds one batch of each partition that is asked for."""

    def __init__(self, *batches: int) -> None:
        self.batches = [
            [
                bytes(
                    build_batch(
                        [(1, None, b"%d" % (base + each), ()) for each in range(10)], base_offset=base
                    )
                )
                for base in range(0, count * 10, 10)
            ]
            for count in batches
        ]
        self.asked: list[dict[int, int]] = []
        """The offsets of the partitions that each fetch wanted, in its session."""
        self.racks: list[str] = []
        self.final = 0
        self.preferred: int = -1
        self.failures: dict[int, list[ErrorCode]] = {}
        self._wanted: dict[int, int] = {}

    def fetch(self, message: Message, version: int) -> Message:
        assert isinstance(message, FetchRequest)
        if message.session_epoch == -1:
            self.final += 1
            return FetchResponse(responses=[])
        if message.session_epoch == 0:
            self._wanted = {}
        for topic in message.topics:
            self._wanted.update({each.partition: each.fetch_offset for each in topic.partitions})
        for forgotten in message.forgotten_topics_data:
            for each in forgotten.partitions:
                del self._wanted[each]
        self.asked.append(dict(self._wanted))
        self.racks.append(message.rack_id)
        rows = [self._partition(index, offset) for index, offset in self._wanted.items()]
        rows = [each for each in rows if each.records or each.error_code or each.preferred_read_replica >= 0]
        if not rows:
            return FetchResponse(session_id=3, responses=[])
        row = FetchableTopicResponse(topic="t" if version < 13 else "", topic_id=TOPIC_ID, partitions=rows)
        return FetchResponse(session_id=3, responses=[row])

    def _partition(self, index: int, offset: int) -> PartitionData:
        batches = self.batches[index]
        data = PartitionData(partition_index=index, high_watermark=10 * len(batches), records=b"")
        if self.failures.get(index):
            data.error_code = self.failures[index].pop(0)
        if data.error_code:
            data.records = b""
        elif self.preferred >= 0:
            data.preferred_read_replica = self.preferred
        else:
            data.records = b"".join(batches[offset // 10 : offset // 10 + 1])
        return data


@contextmanager
def consuming(logs: Logs, **keys: object) -> Iterator[tuple[Consumer, FakeBroker]]:
    with FakeBroker({"t": len(logs.batches)}) as broker:
        broker.handlers[ApiKey.FETCH] = logs.fetch
        values = {"bootstrap.servers": broker.bootstrap, **KEYS}
        values.update({key.replace("_", "."): value for key, value in keys.items()})
        with Consumer(values) as consumer:
            partitions = [TopicPartition("t", index) for index in range(len(logs.batches))]
            consumer.assign(partitions)
            for each in partitions:
                consumer.seek(each, 0)
            yield consumer, broker


def polled(consumer: Consumer, count: int) -> list[int]:
    values: list[int] = []
    for _ in range(600):
        values += [int(each.value) for each in consumer.poll(50)]
        if len(values) >= count:
            return values
    raise AssertionError(f"only {len(values)} of {count} records came")


def test_the_next_answer_is_asked_for_while_the_last_is_handed_out() -> None:
    logs = Logs(4)
    with consuming(logs, max_poll_records=2) as (consumer, _):
        assert polled(consumer, 2) == [0, 1]
        wait_for(lambda: len(logs.asked) == 2)
        assert logs.asked == [{0: 0}, {0: 10}]
        consumer.poll(0)
        consumer.poll(0)
        assert len(logs.asked) == 2, "two answers are kept, and no more"
        assert polled(consumer, 34) == list(range(6, 40))


def test_nothing_is_fetched_ahead_while_much_is_kept() -> None:
    logs = Logs(3)
    with consuming(logs, max_poll_records=2, fetch_max_bytes=100) as (consumer, _):
        assert polled(consumer, 2) == [0, 1]
        consumer.poll(0)
        consumer.poll(0)
        assert logs.asked == [{0: 0}]
        assert polled(consumer, 24) == list(range(6, 30))
        assert consumer._fetcher._kept_bytes == 0
        consumer.seek(T0, 0)
        assert polled(consumer, 2) == [0, 1]
        consumer.seek(T0, 0)
        assert consumer._fetcher._kept_bytes == 0


def test_one_answer_is_handed_out_after_the_other() -> None:
    with consuming(Logs(2, 2), max_poll_records=4) as (consumer, _):
        order = []
        for _ in range(600):
            order += [(each.partition, each.offset) for each in consumer.poll(50)]
            if len(order) == 40:
                break
        for start in range(0, 40, 10):
            assert len({partition for partition, _ in order[start : start + 10]}) == 1
        for partition in (0, 1):
            assert [offset for each, offset in order if each == partition] == list(range(20))


def test_a_seek_drops_what_was_fetched_ahead() -> None:
    with consuming(Logs(6), max_poll_records=3) as (consumer, _):
        assert polled(consumer, 3) == [0, 1, 2]
        consumer.seek(T0, 47)
        assert polled(consumer, 13) == list(range(47, 60))
        consumer.seek(T0, 5)
        assert polled(consumer, 55) == list(range(5, 60))


def test_what_was_asked_for_before_a_seek_is_not_handed_out() -> None:
    logs, asked, go_on = Logs(6), threading.Event(), threading.Event()

    def late(message: Message, version: int) -> Message:
        answer = logs.fetch(message, version)
        asked.set()
        assert go_on.wait(20)
        return answer

    with consuming(logs) as (consumer, broker):
        broker.handlers[ApiKey.FETCH] = late
        wait_for(lambda: consumer.poll(10) == [] and asked.is_set())
        consumer.seek(T0, 30)
        go_on.set()
        assert polled(consumer, 30) == list(range(30, 60))


def test_a_position_that_is_gone_ahead_is_found_out_when_it_is_reached() -> None:
    logs = Logs(3)
    with consuming(logs, max_poll_records=5, auto_offset_reset="latest") as (consumer, broker):
        broker.handlers[ApiKey.LIST_OFFSETS] = latest(20)
        assert polled(consumer, 5) == [0, 1, 2, 3, 4]
        wait_for(lambda: len(logs.asked) == 2)
        consumer.seek(T0, 0)
        logs.failures[0] = [ErrorCode.NONE] + [ErrorCode.OFFSET_OUT_OF_RANGE] * 3
        assert polled(consumer, 20)[10:] == list(range(20, 30)), "the policy said where to go on"


def latest(offset: int) -> Handler:
    def answer(message: Message, version: int) -> Message:
        row = ListOffsetsPartitionResponse(partition_index=0, offset=offset, timestamp=-1)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[row])])

    return answer


def test_a_paused_partition_keeps_what_came_and_the_others_go_on() -> None:
    logs = Logs(1, 3)
    with consuming(logs, max_poll_records=5) as (consumer, _):
        first = consumer.poll(60_000)
        paused = TopicPartition("t", first[0].partition)
        consumer.pause([paused])
        other = next(each for each in (T0, T1) if each != paused)
        count = 10 * len(logs.batches[other.partition])
        seen: list[ConsumerRecord] = []
        for _ in range(600):
            seen += consumer.poll(50)
            if len(seen) >= count:
                break
        assert {each.partition for each in seen} == {other.partition}
        assert consumer.position(paused) == 5
        asked = [each[paused.partition] for each in logs.asked if paused.partition in each]
        consumer.resume([paused])
        assert [each.offset for each in consumer.poll(60_000)] == [5, 6, 7, 8, 9]
        assert asked.count(0) == 1, "nothing of it was fetched twice"


def test_a_damaged_batch_stops_its_partition_until_somebody_seeks_behind_it() -> None:
    logs = Logs(3)
    damaged = bytearray(logs.batches[0][1])
    damaged[-1] ^= 1
    logs.batches[0][1] = bytes(damaged)
    with consuming(logs) as (consumer, _):
        assert polled(consumer, 10) == list(range(10))
        for _ in range(2):
            with pytest.raises(ApiError, match="partition t-0 at offset 10 is invalid") as caught:
                polled(consumer, 1)
            assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
            assert consumer.position(T0) == 10
        consumer.seek(T0, 20)
        assert polled(consumer, 10) == list(range(20, 30))


def test_an_answer_without_a_whole_batch_is_an_error_and_no_endless_loop() -> None:
    logs = Logs(1)
    logs.batches[0][0] = logs.batches[0][0][:-5]
    with consuming(logs) as (consumer, _), pytest.raises(ApiError, match="no complete records"):
        polled(consumer, 1)


def test_an_answer_of_another_format_says_so_at_every_poll() -> None:
    logs = Logs(1)
    logs.batches[0][0] = b"\0" * 11 + b"\x20" + b"\0" * 4 + b"\7" + b"\0" * 60
    with consuming(logs) as (consumer, _):
        for _ in range(2):
            with pytest.raises(ApiError, match="Invalid magic found in record: 7"):
                polled(consumer, 1)


def test_partition_errors_name_the_partition() -> None:
    logs = Logs(1)
    logs.failures[0] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with consuming(logs) as (consumer, _), pytest.raises(ApiError, match="t-0"):
        polled(consumer, 1)


def test_closing_ends_the_fetch_session() -> None:
    logs = Logs(1)
    with consuming(logs) as (consumer, _):
        polled(consumer, 10)
        consumer.poll(20)
        wait_for(lambda: consumer.poll(20) == [] and not consumer._fetcher._under_way)
    assert logs.final == 1


def test_chunks_are_columns() -> None:
    with consuming(Logs(2), max_poll_records=500) as (consumer, _):
        chunks: list[Chunk] = []
        for _ in range(600):
            chunks += consumer.poll_chunks(50, records_max=7)
            if sum(map(len, chunks)) == 20:
                break
        assert [len(each) for each in chunks][:2] == [7, 3]
        first = chunks[0]
        assert (first.partition, first.timestamp_type, first.leader_epoch) == (T0, 0, -1)
        assert list(first.offsets) == list(range(7))
        assert first.values == [b"%d" % each for each in range(7)]
        assert first.keys == [None] * 7
        assert list(first.headers) == [()] * 7
        assert [each.value for each in first.records] == first.values
        assert repr(first) == "<7 records of t-0 from offset 0 to 6>"


# -- the nearest replica ------------------------------------------------------------------------------------------


@contextmanager
def two_brokers(
    leader: Logs, follower: Logs, **keys: object
) -> Iterator[tuple[Consumer, FakeBroker, FakeBroker]]:
    with FakeBroker() as first, FakeBroker() as second:

        def metadata(message: Message, version: int) -> Message:
            assert isinstance(message, MetadataRequest)
            row = MetadataResponsePartition(
                partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=[1, 2], isr_nodes=[1, 2]
            )
            return MetadataResponse(
                brokers=[
                    MetadataResponseBroker(node_id=node, host="127.0.0.1", port=broker.port)
                    for node, broker in ((1, first), (2, second))
                ],
                controller_id=1,
                topics=[MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=[row])],
            )

        for broker, logs in ((first, leader), (second, follower)):
            broker.handlers[ApiKey.METADATA] = metadata
            broker.handlers[ApiKey.FETCH] = logs.fetch
        leader.preferred = 2
        values = {"bootstrap.servers": first.bootstrap, "client.rack": "near", **KEYS}
        values.update({key.replace("_", "."): value for key, value in keys.items()})
        with Consumer(values) as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 0)
            yield consumer, first, second


def test_a_nearer_replica_is_read_when_the_leader_names_it() -> None:
    leader, follower = Logs(2), Logs(2)
    with two_brokers(leader, follower) as (consumer, _, _):
        assert polled(consumer, 20) == list(range(20))
        assert leader.asked == [{0: 0}]
        assert leader.racks == ["near"]
        assert follower.asked[0] == {0: 0}
        assert consumer._metrics.registry.value("preferred-read-replica", topic="t", partition="0") == 2


@pytest.mark.parametrize("code", [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_the_leader_is_asked_again_when_the_nearer_replica_cannot_answer(code: ErrorCode) -> None:
    leader, follower = Logs(1), Logs(1)
    follower.failures[0] = [code]
    with two_brokers(leader, follower) as (consumer, _, _):
        assert polled(consumer, 10) == list(range(10))
        assert leader.asked[:2] == [{0: 0}, {0: 0}]


def test_the_leader_is_asked_again_when_the_nearer_replica_is_gone() -> None:
    leader, follower = Logs(3), Logs(1)
    with two_brokers(leader, follower) as (consumer, _, second):
        assert polled(consumer, 10) == list(range(10))
        leader.preferred = -1
        second.handlers[ApiKey.FETCH] = lambda *_: None
        assert polled(consumer, 20) == list(range(10, 30))


def test_a_leader_that_the_old_one_names_is_asked_although_metadata_do_not_know_it_yet() -> None:
    old, new = Logs(1), Logs(2)
    with two_brokers(old, new, retry_backoff_ms=100_000) as (consumer, first, second):

        def moved(message: Message, version: int) -> Message:
            answer = old.fetch(message, version)
            assert isinstance(answer, FetchResponse)
            data = PartitionData(
                partition_index=0,
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=4),
            )
            answer.responses = [
                FetchableTopicResponse(
                    topic="t" if version < 13 else "", topic_id=TOPIC_ID, partitions=[data]
                )
            ]
            answer.node_endpoints = [NodeEndpoint(node_id=2, host="127.0.0.1", port=second.port)]
            return answer

        first.handlers[ApiKey.FETCH] = moved
        assert polled(consumer, 20) == list(range(20)), "nothing was waited for"
        assert len(old.asked) == 1
        consumer._cluster.refresh(["t"])
        known = consumer._cluster.view.partition(T0)
        assert known is not None
        assert (known.leader, known.leader_epoch) == (2, 4), "an answer of before does not undo it"


def test_the_leader_is_asked_again_after_a_while() -> None:
    leader, follower = Logs(1), Logs(1)
    with two_brokers(leader, follower, metadata_max_age_ms=100) as (consumer, _, _):
        assert polled(consumer, 10) == list(range(10))
        # On a busy machine the while may be over before anything was read.
        wait_for(lambda: consumer.poll(20) == [] and {0: 10} in leader.asked[1:])


# -- one answer ---------------------------------------------------------------------------------------------------


def test_an_aborted_transaction_is_left_out_up_to_its_marker() -> None:
    def part(base: int, producer: int) -> bytes:
        return bytes(
            build_batch(
                [(1, None, b"%d" % producer, ())],
                base_offset=base,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=base,
                transactional=True,
            )
        )

    def marker(base: int, producer: int, *, committed: bool) -> bytes:
        return bytes(
            build_end_marker(
                committed=committed,
                producer_id=producer,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=1,
                base_offset=base,
            )
        )

    data = part(0, 7) + part(1, 8) + marker(2, 7, committed=False) + part(3, 7) + marker(4, 8, committed=True)
    aborted = [AbortedTransaction(producer_id=7, first_offset=0)]
    for transactions, expected in ((aborted, [1, 3]), (None, [0, 1, 3])):
        fetched = Fetched(T0, data, 0, check_crcs=True, aborted=transactions)
        assert fetched.end == 5
        offsets: list[int] = []
        while (chunk := fetched.take(10)) is not None:
            offsets += chunk.offsets
        assert offsets == expected
        assert fetched.next_offset == 5


def test_what_is_damaged_behind_whole_batches_is_said_behind_them() -> None:
    first, second = Logs(2).batches[0]
    fetched = Fetched(T0, first + second + b"\0" * 16 + b"\7" + b"\0" * 60, 12, check_crcs=True)
    assert fetched.end == 20
    chunk = fetched.take(100)
    assert chunk is not None
    assert list(chunk.offsets) == list(range(12, 20))
    for _ in range(2):
        with pytest.raises(ApiError, match="partition t-0 at offset 20 is invalid, cause: Record size 0"):
            fetched.take(100)


def test_a_batch_that_begins_before_the_position_is_cut() -> None:
    data = Logs(2).batches[0][0]
    fetched = Fetched(T0, data, 4, check_crcs=True)
    assert [list(chunk.offsets) for chunk in iter(lambda: fetched.take(3), None) if chunk] == [
        [4, 5, 6],
        [7, 8, 9],
    ]
    assert fetched.next_offset == 10


# -- figures ------------------------------------------------------------------------------------------------------


def test_records_are_counted_by_answer_and_topic_and_distances_by_partition() -> None:
    logs = Logs(2, 1)
    with consuming(logs, max_poll_records=4) as (consumer, _):
        value = consumer._metrics.registry.value
        assert len(consumer.poll(60_000)) == 4
        assert math.isnan(value("records-per-request-avg")), "not all of the answer is taken"
        polled(consumer, 26)
        size = sum(len(batch) for batches in logs.batches for batch in batches)
        for tags in ({}, {"topic": "t"}):
            assert value("records-consumed-total", **tags) == 30
            assert value("bytes-consumed-total", **tags) == size
            # Both partitions came in the first answer.
            assert value("records-per-request-avg", **tags) == 15
            assert value("fetch-size-max", **tags) == len(logs.batches[0][0]) + len(logs.batches[1][0])
        assert value("records-lag", topic="t", partition="0") == 0
        assert value("records-lag-max", topic="t", partition="0") == 16
        assert 0 < value("records-lag-avg", topic="t", partition="0") < 16
        assert value("records-lag-max", topic="t", partition="1") < 10
        assert value("preferred-read-replica", topic="t", partition="0") == -1
        consumer.assign([T1])
        consumer.poll(0)
        assert {name.tag("partition") for name in consumer.metrics()} == {None, "1"}


def test_what_a_seek_drops_is_no_record_of_its_answer() -> None:
    logs = Logs(1)
    with consuming(logs, max_poll_records=4) as (consumer, _):
        polled(consumer, 4)
        consumer.seek(T0, 10)
        assert consumer._metrics.registry.value("records-per-request-avg") == 4


def test_an_answer_is_given_back_when_it_is_read_and_not_by_the_garbage_collector() -> None:
    batches = [bytes(build_batch([(1, None, b"v", ())] * 2, base_offset=2 * each)) for each in range(4)]
    records = b"".join(batches)
    fetched = Fetched(T0, records, 0, check_crcs=True)
    gone = weakref.ref(fetched)
    gc.disable()
    try:
        assert fetched.take(5) is not None
        del fetched
        assert gone() is None
    finally:
        gc.enable()
