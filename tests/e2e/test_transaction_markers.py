"""Markers of a broker's own transactions: topics that are deleted, partitions that an operator has ended."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from pkafka.errors import ErrorCode
from pkafka.model import CONSUMER_OFFSETS_TOPIC
from pkafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pkafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pkafka.server.coordinator.keyed_topic import partition_of
from pkafka.server.transactions.incarnations import Sender
from pkafka.testing import Broker, running_broker
from tests.group_client import GroupClient
from tests.raw_client import create_topic
from tests.talk import talking, wait_for
from tests.transaction_client import Identity, TransactionClient

PARTITIONS: Final = 4
"""Of __transaction_state."""


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    return {
        "pkafka.workers": 2,
        "transaction.state.log.num.partitions": PARTITIONS,
        "offsets.topic.num.partitions": PARTITIONS,
    }


@pytest.fixture
def client(address: str) -> Iterator[TransactionClient]:
    """The producer of the transactional id x."""
    with TransactionClient(address) as client:
        client.coordinate(PARTITIONS)
        yield client


def write_by_hand(
    client: TransactionClient,
    topic: str,
    producer: Identity,
    *,
    index: int = 0,
    coordinator: int = 0,
    commit: bool = False,
    client_id: str = "operator",
) -> int:
    """End a partition's transaction of a producer as an operator does; returns the code."""
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        coordinator_epoch=coordinator,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
    )
    client.client.send(WriteTxnMarkersRequest(markers=[marker]), 1, client_id=client_id)
    answer = client.client.receive()
    return int(answer.markers[0].topics[0].partitions[0].error_code)


def test_all_partitions_get_a_marker_whichever_worker_has_them(
    broker: Broker, client: TransactionClient
) -> None:
    topic = create_topic(broker.bootstrap, 4)
    producer = client.init("all")
    with talking(broker.bootstrap) as talk:
        for commit, state in ((True, "CompleteCommit"), (False, "CompleteAbort")):
            before = [talk.ends(topic, index)[1] for index in range(4)]
            client.add("all", producer, [(topic, range(4))])
            assert not client.end("all", producer, commit=commit).error_code
            client.wait_for_state("all", state)
            assert [talk.ends(topic, index)[1] for index in range(4)] == [end + 1 for end in before]


def test_a_transaction_whose_topic_is_deleted_completes(broker: Broker, client: TransactionClient) -> None:
    gone, stays = (create_topic(broker.bootstrap, 2) for _ in range(2))
    producer = client.init("gone")
    client.add("gone", producer, [(gone, [0, 1]), (stays, [0])])
    with talking(broker.bootstrap) as talk:
        talk.delete(gone)
        assert not client.end("gone", producer).error_code
        client.wait_for_state("gone", "CompleteCommit")
        assert talk.ends(stays)[1] == 1
    line = f"{gone}-0 does not exist any more: it gets no marker of transactional id gone"
    assert line in broker.log_file.read_text()


def test_a_transaction_that_another_marker_has_ended_completes(
    broker: Broker, client: TransactionClient
) -> None:
    topic, other = (create_topic(broker.bootstrap) for _ in range(2))
    producer = client.init("fenced")
    client.add("fenced", producer, [(topic, [0]), (other, [0])])
    newer = producer._replace(epoch=producer.epoch + 1)
    assert write_by_hand(client, topic, newer) == ErrorCode.NONE
    assert write_by_hand(client, other, producer, coordinator=1_000) == ErrorCode.NONE
    assert not client.end("fenced", producer).error_code
    client.wait_for_state("fenced", "CompleteCommit")
    log = broker.log_file.read_text()
    assert f"{topic}-0 refuses the marker of transactional id fenced" in log
    assert "Another marker, with epoch 1 and coordinator epoch 0, has ended the transaction there" in log
    assert "Another marker, with epoch 0 and coordinator epoch 1000, has ended the transaction there" in log


def test_a_request_of_a_connection_that_was_given_up_ends_nothing(
    broker: Broker, client: TransactionClient
) -> None:
    """The broker plays the other one, too: it has sent the marker again by another connection since."""
    topic = create_topic(broker.bootstrap)
    producer = client.init("late")
    for number, code in ((7, ErrorCode.NONE), (8, ErrorCode.NONE), (7, ErrorCode.NOT_LEADER_OR_FOLLOWER)):
        for _ in range(4):  # by connections to both workers
            with TransactionClient(broker.bootstrap) as sender:
                sender_id = Sender(0, 0, "ab", number).client_id
                assert write_by_hand(sender, topic, producer, client_id=sender_id) == code
    with talking(broker.bootstrap) as talk:
        assert talk.ends(topic)[1] == 8


def test_offsets_of_a_transaction_are_there_when_its_marker_is_answered(
    broker: Broker, client: TransactionClient
) -> None:
    """KAFKA-17507: a consumer that asked at once for what was committed got what was there before."""
    topic = create_topic(broker.bootstrap)
    with GroupClient(broker.bootstrap) as group:
        group.make_topic_of_groups()
        group.coordinate("g")
        producer = client.init("offsets")
        place = partition_of("g", PARTITIONS)
        for offset in range(1, 21):
            wait_for(lambda: not client.add_offsets("offsets", producer).error_code, what="the next one")
            store_offset(client, "offsets", producer, topic, offset)
            code = write_by_hand(client, CONSUMER_OFFSETS_TOPIC, producer, index=place, commit=True)
            assert code == ErrorCode.NONE
            assert group.offsets("g") == {(topic, 0): (offset, "")}
            assert not client.end("offsets", producer).error_code


def store_offset(client: TransactionClient, name: str, producer: Identity, topic: str, offset: int) -> None:
    """Store an offset of the group g in a transaction."""
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    request = TxnOffsetCommitRequest(
        transactional_id=name,
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    answer = client.ask(request, 3)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def test_as_in_kafka_it_stays_decided_where_that_is_switched_off(tmp_path: Path) -> None:
    settings = {
        "transaction.state.log.num.partitions": PARTITIONS,
        "pkafka.transaction.fenced.markers.heal.enable": "false",
    }
    with (
        running_broker(tmp_path / "broker", settings) as broker,
        TransactionClient(broker.bootstrap) as client,
    ):
        topic = create_topic(broker.bootstrap)
        client.coordinate(PARTITIONS)
        producer = client.init("x")
        client.add("x", producer, [(topic, [0])])
        assert write_by_hand(client, topic, producer._replace(epoch=5)) == ErrorCode.NONE
        assert not client.end("x", producer).error_code
        wait_for(lambda: "its end is given up" in broker.log_file.read_text(), what="the refusal")
        assert client.state("x") == "PrepareCommit"
        assert client.end("x", producer).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
