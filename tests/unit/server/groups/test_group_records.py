"""The keys and values of __consumer_offsets, against bytes and hash codes that Java gave."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.errors import ProtocolError
from pkafka.protocol.codec import encode
from pkafka.protocol.messages.records.group_metadata import (
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from pkafka.server.coordinator.keyed_topic import partition_of
from pkafka.server.groups.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    UnknownKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@pytest.mark.parametrize(
    ("group", "java_hash"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", 0),  # its hash is -2^31, which has no opposite
        ("connect-cluster", 1440343063),
        ("\U0001f600", 1772899),  # two units of UTF-16
    ],
)
def test_the_partition_of_a_group_is_that_of_java(group: str, java_hash: int) -> None:
    assert partition_of(group, 2**31) == java_hash
    assert partition_of(group, 50) == java_hash % 50


def test_a_negative_hash_counts_without_its_sign() -> None:
    # "zzzzzz".hashCode() is -685785664
    assert partition_of("zzzzzz", 2**31) == 685785664


def test_an_offset_as_kafka_writes_it() -> None:
    assert encode_offset_key("g", "t", 3) == bytes.fromhex("0001 0001 67 0001 74 00000003")
    committed = CommittedOffset(5, 1000, 2, "m")
    value = "0003 0000000000000005 00000002 0001 6d 00000000000003e8"
    assert encode_offset_value(committed) == bytes.fromhex(value)


def test_an_offset_that_expires_has_no_epoch() -> None:
    committed = CommittedOffset(5, 1000, 2, "m", 2000)
    value = "0001 0000000000000005 0001 6d 00000000000003e8 00000000000007d0"
    assert encode_offset_value(committed) == bytes.fromhex(value)
    assert decode_offset_value(bytes.fromhex(value)) == committed._replace(leader_epoch=-1)


@given(st.builds(CommittedOffset, INT64, INT64, st.integers(-1, 2**31 - 1), TEXT, st.just(-1)))
def test_reading_inverts_writing_an_offset(committed: CommittedOffset) -> None:
    assert decode_offset_value(encode_offset_value(committed)) == committed


@given(TEXT, TEXT, st.integers(0, 2**31 - 1))
def test_reading_inverts_writing_a_key(group: str, topic: str, partition: int) -> None:
    assert decode_key(encode_offset_key(group, topic, partition)) == OffsetKey(group, topic, partition)
    assert decode_key(encode_group_key(group)) == GroupKey(group)


@given(TEXT, TEXT, st.integers(0, 2**31 - 1), INT64, INT64, st.integers(-1, 2**31 - 1), TEXT)
def test_what_is_packed_here_is_what_the_declarations_say(
    group: str, topic: str, partition: int, offset: int, timestamp: int, epoch: int, metadata: str
) -> None:
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    assert encode_offset_key(group, topic, partition) == b"\x00\x01" + encode(key, 1)
    value = OffsetCommitValue(
        offset=offset, leader_epoch=epoch, metadata=metadata, commit_timestamp=timestamp
    )
    committed = CommittedOffset(offset, timestamp, epoch, metadata)
    assert encode_offset_value(committed) == b"\x00\x03" + encode(value, 3)


def test_old_keys_and_values_are_read() -> None:
    assert decode_key(bytes.fromhex("0000 0001 67 0001 74 00000003")) == OffsetKey("g", "t", 3)
    assert decode_offset_value(
        bytes.fromhex("0000 0000000000000005 0001 6d 00000000000003e8")
    ) == CommittedOffset(5, 1000, -1, "m")


def test_the_state_of_a_group() -> None:
    member = MemberMetadata(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/h",
        rebalance_timeout=1,
        session_timeout=2,
    )
    member.subscription, member.assignment = b"s", b"a"
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m",
        current_state_timestamp=9,
        members=[member],
    )
    assert encode_group_value(value)[:2] == b"\x00\x03"
    assert decode_group_value(encode_group_value(value)) == value


def test_what_a_later_kafka_wrote_is_told_apart() -> None:
    assert decode_key(b"\x00\x03\x00\x01g") == UnknownKey(3)
    for decode in (decode_offset_value, decode_group_value):
        with pytest.raises(ProtocolError, match="version 9"):
            decode(b"\x00\x09abc")


@given(st.binary(max_size=40))
def test_nothing_else_escapes(data: bytes) -> None:
    for decode in (decode_key, decode_offset_value, decode_group_value):
        try:
            decode(data)
        except ProtocolError:
            continue
