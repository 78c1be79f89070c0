"""Markers of a broker's own transactions: topics that are deleted, partitions that an operator has ended."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pkafka.testing import Broker, running_broker
from tests.raw_client import create_topic
from tests.talk import talking, wait_for
from tests.transaction_client import TransactionClient


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    return {"pkafka.workers": 2, "transaction.state.log.num.partitions": 4}


@pytest.fixture
def producer(broker: Broker) -> Iterator[TransactionClient]:
    """A producer with an identity."""
    with TransactionClient(broker.bootstrap) as client:
        client.coordinate()
        client.begin()
        yield client


def write_by_hand(client: TransactionClient, topic: str, *, epoch: int, coordinator: int = 0) -> int:
    """Abort a partition's transaction of the producer as an operator does; returns the code."""
    marker = WritableTxnMarker(
        producer_id=client.producer[0],
        producer_epoch=epoch,
        coordinator_epoch=coordinator,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
    )
    answer = client.client.call(WriteTxnMarkersRequest(markers=[marker]), 1)
    return int(answer.markers[0].topics[0].partitions[0].error_code)


def test_all_partitions_get_a_marker_whichever_worker_has_them(
    broker: Broker, producer: TransactionClient
) -> None:
    topic = create_topic(broker.bootstrap, 4)
    keys = [(topic, index) for index in range(4)]
    with talking(broker.bootstrap) as talk:
        for commit in (True, False):
            before = [talk.ends(*key)[1] for key in keys]
            assert set(producer.add(*keys).values()) == {ErrorCode.NONE}
            producer.ended(commit=commit)
            assert producer.state == ("CompleteCommit" if commit else "CompleteAbort")
            assert [talk.ends(*key)[1] for key in keys] == [end + 1 for end in before]


def test_a_transaction_whose_topic_is_deleted_completes(broker: Broker, producer: TransactionClient) -> None:
    gone, stays = (create_topic(broker.bootstrap, 2) for _ in range(2))
    keys = [(gone, 0), (gone, 1), (stays, 0)]
    assert set(producer.add(*keys).values()) == {ErrorCode.NONE}
    with talking(broker.bootstrap) as talk:
        talk.delete(gone)
        producer.ended()
        assert producer.state == "CompleteCommit"
        assert talk.ends(stays)[1] == 1
    assert f"{gone}-0 does not exist any more: it gets no marker of transactional id x" in (
        broker.log_file.read_text()
    )


def test_a_transaction_that_another_marker_has_ended_completes(
    broker: Broker, producer: TransactionClient
) -> None:
    topic, other = (create_topic(broker.bootstrap) for _ in range(2))
    producer.begin()  # of a transaction of its own
    epoch = producer.producer[1]
    assert set(producer.add((topic, 0), (other, 0)).values()) == {ErrorCode.NONE}
    assert write_by_hand(producer, topic, epoch=epoch + 1) == ErrorCode.NONE
    assert write_by_hand(producer, other, epoch=epoch, coordinator=1_000) == ErrorCode.NONE
    producer.ended()
    assert producer.state == "CompleteCommit"
    log = broker.log_file.read_text()
    assert f"{topic}-0 refuses the marker of transactional id x" in log
    assert (
        f"Another marker, with epoch {epoch + 1} and coordinator epoch 0, has ended the transaction there"
        in log
    )
    assert (
        f"Another marker, with epoch {epoch} and coordinator epoch 1000, has ended the transaction there"
        in log
    )


def test_as_in_kafka_it_stays_decided_where_that_is_switched_off(tmp_path: Path) -> None:
    settings = {"pkafka.transaction.fenced.markers.heal.enable": "false", "pkafka.workers": 1}
    with (
        running_broker(tmp_path / "broker", settings) as broker,
        TransactionClient(broker.bootstrap) as client,
    ):
        topic = create_topic(broker.bootstrap)
        client.coordinate()
        client.begin()
        client.add((topic, 0))
        assert write_by_hand(client, topic, epoch=5) == ErrorCode.NONE
        assert client.end() is ErrorCode.NONE
        wait_for(lambda: "its end is given up" in broker.log_file.read_text(), what="the refusal")
        assert client.state == "PrepareCommit"
        assert client.end() is ErrorCode.CONCURRENT_TRANSACTIONS
