"""Records of __consumer_offsets and __transaction_state as text: what Kafka's formatters for these topics print.

The present formatters write JSON, key and value with their versions; the older ones, named after classes of the
coordinators, write a line. Knows nothing of consumers: bytes in, bytes out.
"""

import base64
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from pkafka.coordination.znode_json import string_hash
from pkafka.errors import ProtocolError
from pkafka.model import TopicPartition, topic_id_text
from pkafka.protocol.codec import decode_prefix
from pkafka.protocol.messages.records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from pkafka.protocol.messages.records.transaction_log import TransactionLogKey, TransactionLogValue
from pkafka.protocol.schema import Field, Message, is_made_fresh, version_range
from pkafka.tools.java_values import in_scala_hash_order, topic_partition_hash

Formatter: TypeAlias = Callable[[bytes | None, bytes | None], bytes]
"""Key and value to what is printed; nothing for records that are not of this kind."""

_VERSION: Final = Struct(">h")
TRANSACTION_STATES: Final = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort"),
    *("CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"),
)


class _Kind(NamedTuple):
    """One kind of record."""

    key: type[Message]
    value: type[Message]


_OFFSETS: Final = _Kind(OffsetCommitKey, OffsetCommitValue)
_GROUPS: Final = _Kind(GroupMetadataKey, GroupMetadataValue)
_TRANSACTIONS: Final = _Kind(TransactionLogKey, TransactionLogValue)


def formatter(name: str) -> Formatter | None:
    """The formatter of a class name of Kafka 3.9; None for a name that is none of them."""
    return _FORMATTERS.get(name)


def document(message: Message, version: int) -> dict[str, object]:
    """A message as Kafka's JSON converters write it: the fields of a version under their names in Kafka."""
    return {
        _camel(field.name): _json(field, getattr(message, field.name), version)
        for field in message.__fields__
        if field.is_in(version)
        and not (field.is_tagged(version) and _is_default(field, getattr(message, field.name)))
    }


def stored_offset(key: bytes | None, value: bytes | None) -> tuple[OffsetCommitKey, OffsetCommitValue] | None:
    """Where a group stored an offset, and what; None for records of other kinds, and those that take one back."""
    place, stored = _decoded(OffsetCommitKey, key), _decoded(OffsetCommitValue, value)
    if place is None or stored is None:
        return None
    assert isinstance(place[0], OffsetCommitKey), place
    assert isinstance(stored[0], OffsetCommitValue), stored
    return place[0], stored[0]


def _as_json(kind: _Kind) -> Formatter:
    def format_record(key: bytes | None, value: bytes | None) -> bytes:
        from json import dumps

        found = _decoded(kind.key, key)
        if found is None:
            return b""
        shown: dict[str, object] = {"key": _versioned(*found), "value": None}
        if value is not None:
            content = _decoded(kind.value, value)
            version = _VERSION.unpack_from(value)[0] if len(value) >= _VERSION.size else -1
            shown["value"] = (
                {"version": version, "data": "unknown"} if content is None else _versioned(*content)
            )
        return dumps(shown, ensure_ascii=False, separators=(",", ":")).encode()

    return format_record


def _as_line(kind: _Kind, name: Callable[[Any], str], show: Callable[[Any, Any], str]) -> Formatter:
    """``name::content``, of which both are what the older classes of Kafka print of key and value."""

    def format_record(key: bytes | None, value: bytes | None) -> bytes:
        found = _decoded(kind.key, key)
        if found is None:
            return b""
        content = _decoded(kind.value, value)
        shown = "NULL" if content is None else show(found[0], content[0])
        return f"{name(found[0])}::{shown}\n".encode()

    return format_record


def _place(key: OffsetCommitKey) -> str:
    return f"[{key.group},{key.topic},{key.partition}]"


def _offset(_: OffsetCommitKey, stored: OffsetCommitValue) -> str:
    epoch = "Optional.empty" if stored.leader_epoch < 0 else f"Optional[{stored.leader_epoch}]"
    expires = "None" if stored.expire_timestamp < 0 else f"Some({stored.expire_timestamp})"
    return (
        f"OffsetAndMetadata(offset={stored.offset}, leaderEpoch={epoch}, metadata={stored.metadata}, "
        f"commitTimestamp={stored.commit_timestamp}, expireTimestamp={expires})"
    )


def _group(key: GroupMetadataKey, stored: GroupMetadataValue) -> str:
    protocol = "None" if not stored.protocol_type else f"Some({stored.protocol_type})"
    members = ", ".join(
        f"{each.member_id} -> MemberMetadata(memberId={each.member_id}, "
        f"groupInstanceId={f'Some({each.group_instance_id})' if each.group_instance_id else 'None'}, "
        f"clientId={each.client_id}, clientHost={each.client_host}, "
        f"sessionTimeoutMs={each.session_timeout}, rebalanceTimeoutMs={each.rebalance_timeout}, "
        f"supportedProtocols=List({stored.protocol}))"
        for each in in_scala_hash_order(stored.members, lambda each: string_hash(each.member_id))
    )
    state = "Stable" if stored.members else "Empty"
    return (
        f"GroupMetadata(groupId={key.group}, generation={stored.generation}, protocolType={protocol}, "
        f"currentState={state}, members=HashMap({members}))"
    )


def _transaction(key: TransactionLogKey, stored: TransactionLogValue) -> str:
    partitions = in_scala_hash_order(
        (
            TopicPartition(each.topic, number)
            for each in stored.transaction_partitions or ()
            for number in each.partition_ids
        ),
        topic_partition_hash,
    )
    return (
        f"TransactionMetadata(transactionalId={key.transactional_id}, "
        f"producerId={stored.producer_id}, producerEpoch={stored.producer_epoch}, "
        f"txnTimeoutMs={stored.transaction_timeout_ms}, "
        f"state={TRANSACTION_STATES[stored.transaction_status]}, pendingState=None, "
        f"topicPartitions=HashSet({', '.join(map(str, partitions))}), "
        f"txnStartTimestamp={stored.transaction_start_timestamp_ms}, "
        f"txnLastUpdateTimestamp={stored.transaction_last_update_timestamp_ms})"
    )


_FORMATTERS: Final[Mapping[str, Formatter]] = {
    "org.apache.kafka.tools.consumer.OffsetsMessageFormatter": _as_json(_OFFSETS),
    "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter": _as_json(_GROUPS),
    "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter": _as_json(_TRANSACTIONS),
    "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter": _as_line(
        _OFFSETS, _place, _offset
    ),
    "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter": _as_line(
        _GROUPS, lambda key: key.group, _group
    ),
    "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter": _as_line(
        _TRANSACTIONS, lambda key: key.transactional_id, _transaction
    ),
}


def _decoded(cls: type[Message], data: bytes | None) -> tuple[Message, int] | None:
    """The message behind a version in front, where it is of this class."""
    if data is None or len(data) < _VERSION.size:
        return None
    (version,) = _VERSION.unpack_from(data)
    if version not in version_range(cls.__versions__):
        return None
    try:
        return decode_prefix(cls, version, data, _VERSION.size)[0], version
    except ProtocolError:
        return None


def _versioned(message: Message, version: int) -> dict[str, object]:
    return {"version": version, "data": document(message, version)}


def _is_default(field: Field, value: object) -> bool:
    return value == [] if field.kind == "array" and is_made_fresh(field) else value == field.default


def _json(field: Field, value: object, version: int) -> object:
    if isinstance(value, list):
        return [_json(field.element or field, each, version) for each in value]
    if isinstance(value, Message):
        return document(value, version)
    if isinstance(value, bytes | bytearray | memoryview):
        return topic_id_text(bytes(value)) if field.kind == "uuid" else base64.b64encode(value).decode()
    return value


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(each.title() for each in rest)
