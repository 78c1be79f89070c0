"""Transactions that a test leaves open: of a producer, or hanging in a partition, known to no coordinator."""

from collections.abc import Iterator
from contextlib import contextmanager

from pkafka.clients.admin import Admin
from pkafka.clients.producer import Producer
from pkafka.model import LATEST, TopicPartition
from pkafka.protocol.messages import produce
from pkafka.records.builder import build_batch
from tests.talk import Talk, good, wait_for


@contextmanager
def transactional_producer(
    bootstrap: str, transactional_id: str, *, timeout_ms: int = 60_000
) -> Iterator[Producer]:
    """A producer that is ready for its first transaction.

    Args:
        timeout_ms: how long a transaction may be open.
    """
    keys = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id}
    made = Producer({**keys, "transaction.timeout.ms": timeout_ms})
    try:
        made.init_transactions()
        yield made
    finally:
        made.close(0)


def begin(writer: Producer, topic: str, *partitions: int) -> None:
    """Begin a transaction that has a record in each of these partitions."""
    writer.begin_transaction()
    for partition in partitions:
        writer.send(topic, b"v", partition=partition)
    writer.flush()


def hang(talk: Talk, topic: str, *, producer_id: int, written_ms: int, epoch: int = 0) -> None:
    """Leave a transaction in partition 0 that no coordinator knows, as brokers did that do not ask (KIP-890)."""
    talk.set_broker(transaction_partition_verification_enable="false")
    try:
        batch = build_batch(
            [(written_ms, None, b"v", ())],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            transactional=True,
        )
        wait_for(lambda: _appended(talk, topic, bytes(batch)), what="the setting to be heard of")
    finally:
        talk.set_broker(transaction_partition_verification_enable=None)


def _appended(talk: Talk, topic: str, batch: bytes) -> bool:
    partition = produce.PartitionProduceData(index=0, records=batch)
    request = produce.ProduceRequest(
        transactional_id="no-coordinator-knows-it",
        acks=-1,
        timeout_ms=10_000,
        topic_data=[produce.TopicProduceData(name=topic, partition_data=[partition])],
    )
    answer = talk.admin.cluster.request(request, produce.ProduceResponse, max_version=11)
    return not answer.responses[0].partition_responses[0].error_code


def ends(admin: Admin, topic: str, partition: int = 0) -> tuple[int, int]:
    """Last stable offset and high watermark."""
    key = TopicPartition(topic, partition)
    stable = good(admin.list_offsets({key: LATEST}, read_committed=True)[key]).offset
    return stable, good(admin.list_offsets({key: LATEST})[key]).offset
