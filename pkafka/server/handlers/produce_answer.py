"""The answers to Produce: rows become bytes once the records are as safe as their producer wants."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pkafka.errors import ErrorCode, PkafkaError
from pkafka.net.answers import Answer
from pkafka.net.connection import ServerConnection
from pkafka.protocol.headers import RequestHeader
from pkafka.protocol.hot import CurrentLeader, NodeEndpoint, encode_produce_answer
from pkafka.server.handlers.produce_append import Means, Row, failed
from pkafka.server.ipc.peer import PeerLate
from pkafka.server.limits.client_quotas import ClientQuotas
from pkafka.server.replicas.appending import Unsafe
from pkafka.server.replicas.partition import PartitionKey
from pkafka.server.serving.dispatch import client_of

log = logging.getLogger(__name__)

_FIRST_VERSION_WITH_LEADERS: Final = 10


def answer_to(
    worker: Means,
    connection: ServerConnection,
    header: RequestHeader,
    acks: int,
    rows: Sequence[Row],
    size_bytes: int,
) -> Answer | None:
    """Make the answer.

    Args:
        size_bytes: of the request, for the quotas of its client.

    Returns:
        None when the connection is to be closed instead.
    """
    quotas = worker.client_quotas
    throttle_ms = _slow_down(quotas, connection, header, acks, size_bytes) if quotas.is_active else 0
    if acks != 0:
        endpoints: Sequence[NodeEndpoint] = ()
        if header.api_version >= _FIRST_VERSION_WITH_LEADERS:
            leaders = [row[8][0] for row in rows if row[8]]
            if leaders:
                endpoints = worker.metadata.node_endpoints(leaders, connection.listener)
        answer = encode_produce_answer(
            header.api_version, header.correlation_id, rows, throttle_ms, endpoints
        )
        return (answer,)
    failed = next((row for row in rows if row[2]), None)
    if failed is None:
        return ()
    # A client with acks=0 expects no answer: a closed connection is the only signal (KafkaApis.handleProduceRequest).
    log.info("Closing the connection of %s: acks=0 and %s", connection.peer_host, ErrorCode(failed[2]).name)
    return None


def _slow_down(
    quotas: ClientQuotas, connection: ServerConnection, header: RequestHeader, acks: int, size_bytes: int
) -> int:
    """Note what a client has sent; returns for how many ms nothing more is read of this connection."""
    client = client_of(connection, header)
    throttle_ms = quotas.produced(*client, size_bytes)
    if acks != 0:  # Kafka does not hold the time of requests against clients that expect no answer
        throttle_ms = max(throttle_ms, quotas.served(*client, 0))
    if throttle_ms:
        connection.pause(throttle_ms / 1000)
    return throttle_ms


def answer_now(
    worker: Means,
    connection: ServerConnection,
    header: RequestHeader,
    acks: int,
    rows: Sequence[Row],
    size_bytes: int,
) -> Answer:
    if acks and len(rows) == 1 and not rows[0][2] and not worker.client_quotas.is_active:
        return (encode_produce_answer(header.api_version, header.correlation_id, rows, 0),)
    answer = answer_to(worker, connection, header, acks, rows, size_bytes)
    if answer is None:
        connection.close()
        return ()
    return answer


def unanswered(topic: str, partition: int, error: PkafkaError | None) -> Row:
    """Make the row of a record set whose owner, another worker, has not answered."""
    if isinstance(error, PeerLate):
        return failed(topic, partition, ErrorCode.REQUEST_TIMED_OUT)
    # The owner died with these records in hand: they may or may not be in the log; a retry finds out.
    return failed(topic, partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def when_safe(
    worker: Means, rows: list[Row], unsafe: Sequence[Unsafe], timeout_ms: int, done: Callable[[], None]
) -> None:
    """Call back when the appended records are as safe as the producer wants; rows that are not become errors."""

    def safe(codes: Mapping[PartitionKey, ErrorCode]) -> None:
        note_failures(rows, codes, worker.lookup.current_leader)
        done()

    worker.appending.when_safe(unsafe, safe, timeout_ms=timeout_ms)


def note_failures(
    rows: list[Row],
    codes: Mapping[PartitionKey, ErrorCode],
    leader_of: Callable[[str, int], CurrentLeader | None],
) -> None:
    """Put errors into the rows of appended records.

    Records that are in the log, but less safe than asked for, keep their offset in the row, beside the error.
    """
    if not any(codes.values()):
        return
    for number, row in enumerate(rows):
        code = codes.get((row[0], row[1]), ErrorCode.NONE)
        if code and not row[2]:
            moved = code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            leader = leader_of(row[0], row[1]) if moved else None
            if code == ErrorCode.KAFKA_STORAGE_ERROR:
                rows[number] = failed(row[0], row[1], code)
            else:
                rows[number] = (*row[:2], code, *row[3:8], leader)
