"""The keys and values of __transaction_state.

Each begins with its version, an i16. pkafka writes version 0, as Kafka 3.9 in ZooKeeper mode, and reads version 1, too.
"""

from struct import Struct
from typing import Final

from pkafka.errors import ProtocolError
from pkafka.protocol.codec import decode_prefix, encode
from pkafka.protocol.messages.records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from pkafka.protocol.schema import version_range
from pkafka.server.transactions.states import TransactionState
from pkafka.server.transactions.transaction import Facts

_VERSION: Final = Struct(">h")
_WRITTEN: Final = 0


def encode_key(transactional_id: str) -> bytes:
    """The key of a transactional id."""
    return _VERSION.pack(_WRITTEN) + encode(TransactionLogKey(transactional_id=transactional_id), _WRITTEN)


def encode_value(facts: Facts) -> bytes:
    """The value of an id's record."""
    topics: dict[str, list[int]] = {}
    for topic, partition in facts.partitions:
        topics.setdefault(topic, []).append(partition)
    value = TransactionLogValue(
        producer_id=facts.producer_id,
        producer_epoch=facts.producer_epoch,
        transaction_timeout_ms=facts.timeout_ms,
        transaction_status=facts.state,
        transaction_partitions=None
        if facts.state is TransactionState.EMPTY
        else [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in topics.items()],
        transaction_last_update_timestamp_ms=facts.update_ms,
        transaction_start_timestamp_ms=facts.start_ms,
    )
    return _VERSION.pack(_WRITTEN) + encode(value, _WRITTEN)


def decode_key(data: bytes) -> str | None:
    """The transactional id of a key; None for a key of another version, which another kind of record has.

    Raises:
        ProtocolError: it is damaged.
    """
    version = _version_of(data)
    if version not in version_range(TransactionLogKey.__versions__):
        return None
    return decode_prefix(TransactionLogKey, version, data, _VERSION.size)[0].transactional_id


def decode_value(data: bytes) -> Facts:
    """The facts of a value.

    Raises:
        ProtocolError: it is damaged, of an unknown version, or of a state that is never written.
    """
    version = _version_of(data)
    if version not in version_range(TransactionLogValue.__versions__):
        raise ProtocolError(f"version {version} of a transactional id's state is not known")
    value = decode_prefix(TransactionLogValue, version, data, _VERSION.size)[0]
    if not TransactionState.EMPTY <= value.transaction_status <= TransactionState.COMPLETE_ABORT:
        raise ProtocolError(f"state {value.transaction_status} of a transactional id is not known")
    return Facts(
        state=TransactionState(value.transaction_status),
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        partitions=tuple(
            (one.topic, partition)
            for one in value.transaction_partitions or ()
            for partition in one.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        update_ms=value.transaction_last_update_timestamp_ms,
    )


def _version_of(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise ProtocolError(f"{len(data)} bytes cannot hold a version")
    version: int = _VERSION.unpack_from(data)[0]
    return version
