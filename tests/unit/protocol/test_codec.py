"""Laws of the compiled codecs for every message at every version, and the refusals of their decoders."""

import gc
import struct
from time import process_time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pkafka.errors import ProtocolError
from pkafka.protocol.codec import decode, decode_prefix, encode, encode_into
from pkafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pkafka.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from pkafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from pkafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from pkafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pkafka.protocol.primitives import read_uvarint, uvarint
from pkafka.protocol.schema import Message, array, int32, string, version_range
from tests.unit.protocol.strategies import every_message_version, flip, instances_of

EVERY = list(every_message_version())
IDS = [f"{cls.__name__}-v{version}" for cls, version in EVERY]


@pytest.mark.parametrize(("cls", "version"), EVERY, ids=IDS)
@given(data=st.data())
@settings(max_examples=settings().max_examples // 6, suppress_health_check=list(HealthCheck))
def test_laws(cls: type[Message], version: int, data: st.DataObject) -> None:
    message = data.draw(instances_of(cls, version))
    wire = encode(message, version)
    decode_inverts_encode(message, version, wire)
    shorter_and_longer_are_refused(cls, version, wire)
    damage_raises_nothing_but_protocol_error(cls, version, flip(wire, data))


def decode_inverts_encode(message: Message, version: int, wire: bytes) -> None:
    cls = type(message)
    assert decode(cls, version, wire) == message
    assert decode(cls, version, memoryview(b"head" + wire), 4) == message
    assert decode_prefix(cls, version, bytearray(wire + b"tail"), 0) == (message, len(wire))
    out = bytearray(b"head")
    encode_into(message, version, out)
    assert out == b"head" + wire


def shorter_and_longer_are_refused(cls: type[Message], version: int, wire: bytes) -> None:
    for end in {len(wire) // 3, len(wire) // 2, *range(max(0, len(wire) - 10), len(wire))} - {len(wire)}:
        with pytest.raises(ProtocolError):
            decode_prefix(cls, version, wire[:end])
    with pytest.raises(ProtocolError, match="follow"):
        decode(cls, version, wire + b"\x00")


def damage_raises_nothing_but_protocol_error(cls: type[Message], version: int, damaged: bytes) -> None:
    try:
        message = decode(cls, version, damaged)
    except ProtocolError:
        return
    assert isinstance(message, cls)


@pytest.mark.parametrize(("cls", "version"), EVERY, ids=IDS)
def test_a_message_of_defaults_survives_where_it_can_be_written(cls: type[Message], version: int) -> None:
    try:
        wire = encode(cls(), version)
    except ValueError:
        missing = [
            f for f in cls.__fields__ if f.is_in(version) and f.default is None and not f.is_nullable(version)
        ]
        assert missing, "only a null default may keep a message of defaults from being written"
        return
    assert decode(cls, version, wire) == cls()


@given(st.sampled_from(EVERY), st.binary(max_size=200))
@settings(max_examples=12 * settings().max_examples)
def test_random_bytes_raise_nothing_but_protocol_error(
    which: tuple[type[Message], int], noise: bytes
) -> None:
    damage_raises_nothing_but_protocol_error(*which, noise)


def test_records_are_a_view_into_the_input() -> None:
    wire = encode(
        ProduceRequest(
            topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(records=b"batch")])]
        ),
        9,
    )
    buffer = bytearray(wire)
    records = decode(ProduceRequest, 9, buffer).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    buffer[buffer.index(b"batch")] = ord("m")
    assert bytes(records) == b"match"


@pytest.mark.parametrize("count", [-2, -(2**31), 2**31 - 1, 1000])
def test_an_array_count_that_cannot_be_true_is_refused_before_anything_is_made(count: int) -> None:
    with pytest.raises(ProtocolError):
        decode(MetadataRequest, 1, struct.pack(">i", count))


def test_a_compact_count_near_four_billion_is_refused() -> None:
    with pytest.raises(ProtocolError, match="longer than what is left"):
        decode(MetadataRequest, 9, b"\xff\xff\xff\xff\x0f" + bytes(10))


@pytest.mark.parametrize("wire", [b"\xff" * 5 + b"\x01", b"\xff\xff\xff\xff\x7f", b"\x80"])
def test_a_varint_over_five_bytes_or_32_bits_or_without_an_end_is_refused(wire: bytes) -> None:
    with pytest.raises((ProtocolError, IndexError)):
        read_uvarint(wire, 0)
    with pytest.raises(ProtocolError):
        decode(MetadataRequest, 9, wire)


def test_null_is_refused_where_the_version_does_not_allow_it() -> None:
    assert decode(MetadataRequest, 1, struct.pack(">i", -1)).topics is None
    with pytest.raises(ProtocolError, match=r"MetadataRequest\.topics"):
        decode(MetadataRequest, 0, struct.pack(">i", -1))
    with pytest.raises(ProtocolError, match=r"ApiVersionsRequest\.client_software_name"):
        decode(ApiVersionsRequest, 3, b"\x00\x01\x00")


def test_a_string_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(ProtocolError, match="UTF-8"):
        decode(ApiVersionsRequest, 3, b"\x02\xff\x01\x00")


class TestTags:
    EMPTY = b"\x01\x01"  # both strings of ApiVersionsRequest v3

    def test_unknown_tags_are_stepped_over(self) -> None:
        wire = self.EMPTY + b"\x02" + b"\x05\x03abc" + b"\x07\x00"
        assert decode(ApiVersionsRequest, 3, wire) == ApiVersionsRequest()

    @pytest.mark.parametrize(
        "section",
        [
            pytest.param(b"\x02\x05\x00\x05\x00", id="repeated"),
            pytest.param(b"\x02\x05\x00\x04\x00", id="descending"),
            pytest.param(b"\x01\x05\x04abc", id="longer than the message"),
            pytest.param(b"\x02\x05\x00", id="fewer than counted"),
            pytest.param(b"\xff\xff\xff\xff\x0f", id="four billion"),
        ],
    )
    def test_unknown_tags_out_of_shape_are_refused(self, section: bytes) -> None:
        with pytest.raises(ProtocolError):
            decode_prefix(ApiVersionsRequest, 3, self.EMPTY + section)

    @pytest.mark.parametrize(
        "section",
        [
            pytest.param(b"\x01\x01\x07" + bytes(8), id="says less than it takes"),
            pytest.param(b"\x01\x01\x09" + bytes(9), id="says more than it takes"),
            pytest.param(b"\x02\x01\x08" + bytes(8) + b"\x01\x08" + bytes(8), id="repeated"),
            pytest.param(b"\x02\x02\x01\x01\x01\x08" + bytes(8), id="descending"),
            pytest.param(b"\x01\x01\x08" + bytes(7), id="longer than the message"),
            pytest.param(b"\x01\x05\x08" + bytes(7), id="unknown and longer than the message"),
        ],
    )
    def test_known_tags_out_of_shape_are_refused(self, section: bytes) -> None:
        body = struct.pack(">h", 0) + b"\x01" + struct.pack(">i", 0)
        assert (
            decode(
                ApiVersionsResponse, 3, body + b"\x01\x01\x08" + struct.pack(">q", 5)
            ).finalized_features_epoch
            == 5
        )
        with pytest.raises(ProtocolError):
            decode_prefix(ApiVersionsResponse, 3, body + section)

    def test_tags_of_default_value_are_left_out_and_the_others_ascend(self) -> None:
        assert encode(ApiVersionsResponse(), 3)[-1:] == b"\x00"
        full = encode(ApiVersionsResponse(finalized_features_epoch=7, zk_migration_ready=True), 3)
        assert full.endswith(b"\x02\x01\x08" + struct.pack(">q", 7) + b"\x03\x01\x01")

    def test_a_tagged_structure_of_defaults_is_left_out(self) -> None:
        with_default = encode(FetchRequest(replica_state=ReplicaState()), 15)
        assert with_default == encode(FetchRequest(), 15)
        wire = encode(FetchRequest(replica_state=ReplicaState(replica_id=3)), 15)
        assert decode(FetchRequest, 15, wire).replica_state.replica_id == 3


def test_a_nullable_structure_has_one_mark_byte() -> None:
    absent = encode(DescribeTopicPartitionsRequest(), 0)
    assert decode(DescribeTopicPartitionsRequest, 0, absent).cursor is None
    assert absent[-2:] == b"\xff\x00"
    for mark in (0, 2, 0xFE):
        with pytest.raises(ProtocolError, match="cursor"):
            decode(DescribeTopicPartitionsRequest, 0, absent[:-2] + bytes([mark, 0]))


class TestWhatAVersionCannotCarry:
    def test_a_value_that_matters_is_refused_by_name(self) -> None:
        with pytest.raises(ValueError, match=r"MetadataRequest\.allow_auto_topic_creation .*version 3"):
            encode(MetadataRequest(topics=[], allow_auto_topic_creation=False), 3)
        with pytest.raises(ValueError, match=r"FetchPartition\.last_fetched_epoch .*version 11"):
            encode(FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(last_fetched_epoch=1)])]), 11)

    def test_an_ignorable_value_is_dropped(self) -> None:
        wire = encode(MetadataResponse(cluster_id="c"), 0)
        assert decode(MetadataResponse, 0, wire).cluster_id is None

    def test_null_is_refused_by_name(self) -> None:
        with pytest.raises(ValueError, match=r"MetadataRequest\.topics"):
            encode(MetadataRequest(topics=None), 0)

    @pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 1.5, "1", None])
    def test_a_number_out_of_range_is_refused(self, value: object) -> None:
        with pytest.raises(ValueError, match="ProduceRequest"):
            encode(ProduceRequest(timeout_ms=value), 3)  # type: ignore[arg-type]

    def test_a_string_over_its_length_prefix_is_refused(self) -> None:
        with pytest.raises(ValueError, match="ProduceRequest"):
            encode(ProduceRequest(transactional_id="x" * 32768), 3)
        assert encode(ProduceRequest(transactional_id="x" * 32768), 9)

    @pytest.mark.parametrize("version", [8, 9])
    def test_no_version_reads_a_longer_string_than_kafka(self, version: int) -> None:
        longest = ProduceRequest(transactional_id="x" * 32767)
        assert decode(ProduceRequest, version, encode(longest, version)).transactional_id == "x" * 32767
        if version == 9:
            longer = encode(ProduceRequest(transactional_id="x" * 32768), version)
            with pytest.raises(ProtocolError, match="transactional_id: a string of 32768 bytes"):
                decode(ProduceRequest, version, longer)

    def test_an_id_of_another_size_is_refused(self) -> None:
        with pytest.raises(ValueError, match="topic_id is not 16 bytes"):
            encode(FetchRequest(topics=[FetchTopic(topic_id=b"short")]), 13)

    def test_an_unknown_version_is_refused(self) -> None:
        for call in (lambda: encode(MetadataRequest(), 13), lambda: decode(MetadataRequest, -1, b"")):
            with pytest.raises(ValueError, match="0-12"):
                call()


class TestDeclarations:
    class Inner(Message):
        number: int = int32("1+", default=7)

    class Outer(Message, versions="0-2", flexible="2+"):
        name: str | None = string(default=None, nullable="1+")
        inner: "list[TestDeclarations.Inner]" = array(int32)

    def test_lists_are_not_shared_between_messages(self) -> None:
        one, other = self.Outer(), self.Outer()
        one.inner.append(self.Inner())
        assert other.inner == []

    def test_unknown_keywords_and_attributes_are_refused(self) -> None:
        with pytest.raises(TypeError):
            self.Inner(amount=1)  # type: ignore[call-arg]
        with pytest.raises(AttributeError):
            self.Inner().amount = 1  # type: ignore[attr-defined]

    def test_equality_and_text_are_by_value(self) -> None:
        assert self.Inner() == self.Inner(number=7) != self.Inner(number=8)
        assert repr(self.Inner()) == "Inner(number=7)"
        assert self.Inner() != 7

    @pytest.mark.parametrize(
        ("text", "expected"),
        [("3", range(3, 4)), ("0-2", range(3)), ("none", range(0)), ("7+", range(7, 32768))],
    )
    def test_version_ranges(self, text: str, expected: range) -> None:
        assert version_range(text) == expected


@given(st.integers(0, 2**32 - 1))
def test_uvarint_round_trip(value: int) -> None:
    raw = uvarint(value)
    assert read_uvarint(raw, 0) == (value, len(raw))


def test_decoding_takes_linear_time() -> None:
    # A decoder that copied the rest of the buffer at each element would take 100 times as long for 10 times as much.
    def seconds(count: int) -> float:
        wire = encode(FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition()] * count)]), 12)
        times = []
        for _ in range(3):
            start = process_time()
            decode(FetchRequest, 12, wire)
            times.append(process_time() - start)
        return min(times)

    gc.collect()
    gc.disable()  # a collection in between would be measured too
    try:
        assert seconds(40_000) < 40 * max(seconds(4_000), 0.001)
    finally:
        gc.enable()
