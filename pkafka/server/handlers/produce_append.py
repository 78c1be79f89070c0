"""What a worker does with the record sets of Produce for its own partitions: it appends them, or says why not.

A record set of a transaction that has not begun in the partition's log waits for the word of the transaction's
coordinator (:mod:`pkafka.server.transactions.verification`); all others are appended before the call returns.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from pkafka.clock import Clock
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import INTERNAL_TOPICS
from pkafka.protocol.hot import CurrentLeader, ProduceRow
from pkafka.records.batch import (
    ATTRIBUTE_TRANSACTIONAL,
    ATTRIBUTES_POSITION,
    BATCH_OVERHEAD,
    MAGIC_POSITION,
    producer_in,
)
from pkafka.records.validation import RecordError, validate
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.ipc.peer import Blob
from pkafka.server.limits.client_quotas import ClientQuotas
from pkafka.server.metrics.counters import Metrics
from pkafka.server.replicas.appending import Appending, Unsafe
from pkafka.server.replicas.disks import LOG_ERRORS, Disks
from pkafka.server.replicas.lookup import Lookup
from pkafka.server.replicas.partition import Partition
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.security.authorizer import Authorizer
from pkafka.server.security.rights import Rights
from pkafka.server.serving.clients import Clients
from pkafka.server.serving.peers import Peers
from pkafka.server.transactions.errors import abortable_as
from pkafka.server.transactions.questions import Vouched
from pkafka.server.transactions.transaction import Producer
from pkafka.server.transactions.verification import Verifier

ACKS_ALL: Final = -1
_ACKS: Final = (0, 1, ACKS_ALL)
_ADMIN_CLIENT_ID: Final = "__admin_client"
_MAGIC_V2: Final = 2
_FLAGS_POSITION: Final = ATTRIBUTES_POSITION + 1
_ABORTABLE_VERSION: Final = 11
"""The first that knows TRANSACTION_ABORTABLE."""
_SENT_AGAIN: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What a coordinator says for a while. Producers do not know these from Produce; NOT_ENOUGH_REPLICAS makes them send
again, and not look for another leader (ReplicaManager.handleProduceAppend)."""
_WITHOUT_LOG_START: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.INVALID_REQUIRED_ACKS,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
)
"""Errors with which Kafka sends no log start offset."""

Row: TypeAlias = tuple[
    str, int, int, int, int, int, Sequence[tuple[int, str]], str | None, CurrentLeader | None
]
"""Topic, partition, error code, base offset, log append time, log start offset, record errors, error message, and the
leader when that is another broker."""
Outcome: TypeAlias = tuple[Row, Unsafe | None]
"""What became of a record set. The row must not leave before the records are as safe as their producer wants."""


class Means:
    """What Produce works with, of one worker.

    A class and no protocol, since compiled code finds the fields of a class by their place. To ask a worker, of which
    it knows no class, it has to look into dictionaries, ten times for a request of one record.
    """

    def __init__(
        self,
        *,
        authorizer: Authorizer | None,
        partitions: Partitions,
        lookup: Lookup,
        disks: Disks,
        appending: Appending,
        metadata: MetadataCache,
        metrics: Metrics,
        clock: Clock,
        peers: Peers,
        clients: Clients,
        client_quotas: ClientQuotas,
        verifier: Verifier,
    ) -> None:
        self.authorizer: Final = authorizer
        self.partitions: Final = partitions
        self.lookup: Final = lookup
        self.disks: Final = disks
        self.appending: Final = appending
        self.metadata: Final = metadata
        self.metrics: Final = metrics
        self.now_ms: Final = clock.now_ms
        self.peers: Final = peers
        self.clients: Final = clients
        self.client_quotas: Final = client_quotas
        self.verifier: Final = verifier


class Port(Protocol):
    """A worker, as Produce sees it."""

    @property
    def for_produce(self) -> Means: ...


class Terms(NamedTuple):
    """What a request says of all its record sets."""

    version: int
    acks: int
    client_id: str | None


def append(
    worker: Means,
    topic: str,
    partition: int,
    data: Blob | None,
    version: int,
    acks: int,
    client_id: str | None,
) -> Outcome:
    """Append one record set to a log of this worker; one of a transaction has to be verified before."""
    found = worker.partitions.led.get((topic, partition))
    if found is None:
        return _not_here(worker, topic, partition), None
    try:
        worker.metrics.produce(topic)
        if acks not in _ACKS or topic in INTERNAL_TOPICS or found.log.config.min_insync_replicas > 1:
            _check_may_append(found, acks, client_id)
        now_ms = worker.now_ms()
        records = validate(data if data is not None else b"", found.rules(version), now_ms=now_ms)
        result, unsafe = worker.appending.append(found, records, needs_all=acks == ACKS_ALL, now_ms=now_ms)
    except LOG_ERRORS as error:
        worker.metrics.failed_produce(topic)
        code = worker.disks.refused(topic, partition, error)
        if isinstance(error, ApiError):
            return _refused(found, error), None
        return failed(topic, partition, code), None
    row: Row = (
        topic,
        partition,
        0,
        result.base_offset,
        result.log_append_time_ms,
        result.log_start_offset,
        [],
        None,
        None,
    )
    return row, unsafe


def append_in_transaction(
    worker: Means,
    transactional_id: str,
    part: ProduceRow,
    terms: Terms,
    later: Callable[[Outcome], None],
    word: Vouched | None,
) -> Outcome | None:
    """Append one record set of a request with transactions, once the coordinator has confirmed that of the record set.

    Args:
        part: topic, partition and the record set, which is copied where it has to wait.
        later: called with the outcome unless it is returned.
        word: of the coordinator, where it has been given for the record set.

    Returns:
        None where the outcome comes later.
    """
    topic, partition, data = part
    found = worker.partitions.led.get((topic, partition))
    if found is None or data is None or not has_transactions([part]):
        return append(worker, *part, *terms)
    producer_id, epoch, sequence = producer_in(data)
    if producer_id < 0 or not worker.verifier.is_needed(found, producer_id, epoch):
        return append(worker, *part, *terms)
    producer = Producer(producer_id, epoch)
    if word is not None and worker.verifier.is_vouched(found, producer, word):
        return append(worker, *part, *terms)
    kept = bytearray(data)
    outcome: Outcome | None = None
    is_returned = False

    def verified(code: ErrorCode) -> None:
        nonlocal outcome
        result: Outcome = (
            (_unverified(worker, topic, partition, code, terms.version), None)
            if code
            else append(worker, topic, partition, kept, *terms)
        )
        if is_returned:
            later(result)
        else:
            outcome = result

    worker.verifier.verify(
        transactional_id,
        producer,
        (topic, partition),
        verified,
        sequence=sequence,
    )
    is_returned = True
    return outcome


def vouched_for(
    worker: Means, transactional_id: str, parts: Sequence[ProduceRow]
) -> Sequence[Vouched] | None:
    """Confirm the transaction of a request where this worker coordinates it, for the owners of the partitions.

    Args:
        parts: of a request that :func:`refusal_of` lets pass, so all are of one producer.

    Returns:
        A word for each record set; None where the owners have to ask.
    """
    data = parts[0][2]
    if data is None or not all(has_transactions([part]) for part in parts):
        return None
    producer_id, epoch, _sequence = producer_in(data)
    return worker.verifier.vouch(
        transactional_id,
        Producer(producer_id, epoch),
        [(topic, partition) for topic, partition, _data in parts],
    )


def has_transactions(parts: Sequence[ProduceRow]) -> bool:
    """Whether a record set of a request begins with a batch of a transaction. Every request of a producer is asked."""
    for _topic, _partition, data in parts:
        if (
            data is not None
            and len(data) >= BATCH_OVERHEAD
            and data[_FLAGS_POSITION] & ATTRIBUTE_TRANSACTIONAL
            and data[MAGIC_POSITION] == _MAGIC_V2
        ):
            return True
    return False


def refusal_of(
    transactional_id: str | None, parts: Sequence[ProduceRow], rights: Rights | None = None
) -> tuple[ErrorCode, str | None] | None:
    """Why a request in which a record set belongs to a transaction is refused as a whole: the code and Kafka's text.

    Args:
        rights: of the client; None where it may do everything.
    """
    if transactional_id is None or not (
        rights is None or rights.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    ):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None
    sets = [part[2] for part in parts if has_transactions([part])]
    producers = {producer_in(data)[:2] for data in sets if data is not None}
    if sum(producer_id >= 0 for producer_id, _epoch in producers) > 1:
        return (
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "Transactional records contained more than one producer ID",
        )
    return None


def failed(
    topic: str,
    partition: int,
    code: ErrorCode,
    leader: CurrentLeader | None = None,
    message: str | None = None,
) -> Row:
    """Make the row of a record set that is not in the log."""
    return (topic, partition, code, -1, -1, -1, [], message, leader)


def _unverified(worker: Means, topic: str, partition: int, code: ErrorCode, version: int) -> Row:
    """Make the row of a record set whose transaction was not confirmed."""
    if (topic, partition) not in worker.partitions.led:
        return _not_here(worker, topic, partition)
    code = abortable_as(code, is_known=version >= _ABORTABLE_VERSION)
    if code in _SENT_AGAIN:
        message = (
            "Unable to verify the partition has been added to the transaction. Underlying error: " + code.name
        )
        return failed(topic, partition, ErrorCode.NOT_ENOUGH_REPLICAS, message=message)
    message_of = {ErrorCode.INVALID_TXN_STATE: "Partition was not added to the transaction"}
    return failed(topic, partition, code, message=message_of.get(code))


def _refused(partition: Partition, error: ApiError) -> Row:
    """Make the row of a record set that was not appended, with the fields that Kafka fills beside the code."""
    log_start = partition.log.log_start_offset
    faults: list[tuple[int, str]] = []
    message = None
    if isinstance(error, RecordError):
        faults = error.record_errors
        message = error.message if error.is_told else None
        log_start = -1 if error.before_log else log_start
    if error.code in _WITHOUT_LOG_START:
        log_start = -1
    return (partition.topic, partition.index, error.code, -1, -1, log_start, faults, message, None)


def _check_may_append(partition: Partition, acks: int, client_id: str | None) -> None:
    if acks not in _ACKS:
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
    if partition.topic in INTERNAL_TOPICS and client_id != _ADMIN_CLIENT_ID:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if acks == ACKS_ALL:
        partition.check_enough_in_sync()


def _not_here(worker: Means, topic: str, partition: int) -> Row:
    error = worker.lookup.missing_partition(topic, partition)
    leader = None
    if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        leader = worker.lookup.current_leader(topic, partition)
    return failed(topic, partition, error.code, leader)
