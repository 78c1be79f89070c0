"""Fetching for a connector, against two scripted brokers: leaders that move, offsets that are not there, stopping."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pkafka.clients.connection import Address
from pkafka.clients.legacy import KafkaStream, OldConsumerConfig
from pkafka.clients.legacy.fetchers import FetcherManager
from pkafka.clients.legacy.streams import PartitionTopicInfo
from pkafka.errors import ErrorCode
from pkafka.model import NO_OFFSET, TopicPartition
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from pkafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pkafka.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pkafka.protocol.schema import Message
from pkafka.records.batch import stamp
from pkafka.records.builder import build_batch
from tests.fakes.broker import FakeBroker
from tests.talk import wait_for

START, END = 5, 8
"""Every partition has the records 5, 6 and 7."""


class TwoBrokers:
    """A topic with two partitions, and who leads them."""

    def __init__(self, one: FakeBroker, two: FakeBroker) -> None:
        self.brokers = (one, two)
        self.leader = [0, 0]
        self.closed: set[int] = set()
        self.fetched: list[tuple[int, dict[int, int]]] = []
        for number, broker in enumerate(self.brokers):
            broker.handlers[ApiKey.METADATA] = self._metadata
            broker.handlers[ApiKey.LIST_OFFSETS] = self._offsets
            broker.handlers[ApiKey.FETCH] = lambda message, _, number=number: self._fetch(message, number)  # type: ignore[misc]

    @property
    def addresses(self) -> list[Address]:
        return [Address("127.0.0.1", each.port) for each in self.brokers]

    def close(self, number: int) -> None:
        self.closed.add(number)
        self.brokers[number].close()

    def _metadata(self, _: Message, __: int) -> Message:
        topic = MetadataResponseTopic(name="t")
        topic.partitions = [
            MetadataResponsePartition(partition_index=number, leader_id=leader)
            for number, leader in enumerate(self.leader)
        ]
        brokers = [
            MetadataResponseBroker(node_id=number, host="127.0.0.1", port=each.port)
            for number, each in enumerate(self.brokers)
        ]
        return MetadataResponse(brokers=brokers, topics=[topic])

    def _offsets(self, message: Message, _: int) -> Message:
        assert isinstance(message, ListOffsetsRequest)
        rows = [
            ListOffsetsPartitionResponse(
                partition_index=each.partition_index,
                old_style_offsets=[START if each.timestamp == -2 else END],
            )
            for each in message.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=rows)])

    def _fetch(self, message: Message, broker: int) -> Message:
        assert isinstance(message, FetchRequest)
        asked = {each.partition: each.fetch_offset for each in message.topics[0].partitions}
        self.fetched.append((broker, asked))
        rows = [self._data(partition, offset, broker) for partition, offset in asked.items()]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=rows)])

    def _data(self, partition: int, offset: int, broker: int) -> PartitionData:
        data = PartitionData(partition_index=partition, high_watermark=END, records=b"")
        if self.leader[partition] != broker:
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not START <= offset <= END:
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif offset < END:
            batch = bytearray(build_batch([(0, None, b"%d" % offset, ())]))
            stamp(batch, 0, len(batch), base_offset=offset, leader_epoch=0)
            data.records = bytes(batch)
        return data


@pytest.fixture
def cluster() -> Iterator[TwoBrokers]:
    brokers = TwoBrokers(FakeBroker(), FakeBroker())
    yield brokers
    for number in {0, 1} - brokers.closed:
        brokers.close(number)


@contextmanager
def fetching(
    cluster: TwoBrokers, offsets: list[int], **more: object
) -> Iterator[tuple[FetcherManager, KafkaStream, list[PartitionTopicInfo]]]:
    keys = {"zookeeper.connect": "nowhere:1", "group.id": "g", "refresh.leader.backoff.ms": 10, **more}
    config = OldConsumerConfig.from_properties(keys)
    stream = KafkaStream(config.queued_max_message_chunks, 60_000, bytes, bytes)
    infos = [
        PartitionTopicInfo(TopicPartition("t", number), offset, stream)
        for number, offset in enumerate(offsets)
    ]
    manager = FetcherManager(config, infos, cluster.addresses)
    manager.start()
    try:
        yield manager, stream, infos
    finally:
        manager.stop()
        manager.join()
        assert not manager.is_alive()


def take(stream: KafkaStream, count: int) -> list[tuple[int, int]]:
    return sorted((each.partition, each.offset) for each in (next(stream) for _ in range(count)))


def test_partitions_of_one_leader_are_asked_for_together(cluster: TwoBrokers) -> None:
    with fetching(cluster, [5, 6]) as (_, stream, infos):
        assert take(stream, 5) == [(0, 5), (0, 6), (0, 7), (1, 6), (1, 7)]
        wait_for(lambda: (0, {0: END, 1: END}) in cluster.fetched)
        assert [each.fetch_offset for each in infos] == [each.consumed_offset for each in infos] == [END, END]
    assert {broker for broker, _ in cluster.fetched} == {0}


def test_each_leader_has_its_own_fetcher_and_a_moved_one_is_followed(cluster: TwoBrokers) -> None:
    cluster.leader = [0, 1]
    with fetching(cluster, [7, 7]) as (_, stream, infos):
        assert take(stream, 2) == [(0, 7), (1, 7)]
        assert {(broker, tuple(asked)) for broker, asked in cluster.fetched} >= {(0, (0,)), (1, (1,))}
        infos[0].reset(5)
        cluster.leader = [1, 1]
        assert take(stream, 3) == [(0, 5), (0, 6), (0, 7)]
        wait_for(
            lambda: (
                cluster.fetched[-1] == (1, {0: END, 1: END}) or cluster.fetched[-1] == (1, {1: END, 0: END})
            )
        )


def test_a_leader_that_is_gone_is_looked_for_until_there_is_one(cluster: TwoBrokers) -> None:
    cluster.leader = [0, -1]
    with fetching(cluster, [7, 7]) as (_, stream, infos):
        assert take(stream, 1) == [(0, 7)]
        cluster.leader = [1, 1]
        cluster.close(0)
        infos[0].reset(6)
        assert take(stream, 3) == [(0, 6), (0, 7), (1, 7)]


@pytest.mark.parametrize(("policy", "first"), [("smallest", START), ("largest", END - 1)])
@pytest.mark.parametrize("offset", [NO_OFFSET, 2, 99])
def test_offsets_that_are_not_there(cluster: TwoBrokers, policy: str, first: int, offset: int) -> None:
    with fetching(cluster, [offset, END], **{"auto.offset.reset": policy}) as (_, stream, infos):
        if policy == "largest":
            wait_for(lambda: infos[0].fetch_offset == END)
            assert infos[0].consumed_offset == END
            infos[0].reset(first)
        assert next(stream)[:3] == ("t", 0, first)


def test_after_stopping_nothing_comes(cluster: TwoBrokers) -> None:
    with fetching(cluster, [5, 5], **{"queued.max.message.chunks": 1}) as (manager, stream, infos):
        wait_for(lambda: cluster.fetched)
        wait_for(lambda: stream._chunks)
        manager.stop()
        stream.clear()
        before = [each.consumed_offset for each in infos]
        manager.join()
        assert not stream._chunks
        assert [each.consumed_offset for each in infos] == before
