"""The flat readers and writers of Produce and Fetch against the declared messages, at every version."""

import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pkafka.errors import ProtocolError
from pkafka.protocol.api import ApiKey
from pkafka.protocol.codec import decode_request, encode
from pkafka.protocol.headers import decode_response, encode_response
from pkafka.protocol.hot import (
    CurrentLeader,
    FetchHeader,
    NodeEndpoint,
    decode_fetch,
    decode_produce,
    encode_fetch_response,
    encode_produce_answer,
    encode_produce_response,
)
from pkafka.protocol.messages import fetch, produce
from pkafka.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from pkafka.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from pkafka.protocol.registry import versions
from tests.unit.protocol.strategies import flip, instances_of

PRODUCE = list(versions(ApiKey.PRODUCE))
FETCH = list(versions(ApiKey.FETCH))
SOME = settings(suppress_health_check=list(HealthCheck))
# What nearly every producer sends has a short way.
ONE_RECORD_SET = st.builds(
    lambda acks, timeout_ms, topic, index, records: ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=records)])
        ],
    ),
    st.sampled_from([-1, 0, 1]),
    st.integers(0, 2**31 - 1),
    st.text(min_size=1, max_size=150),
    st.integers(0, 2**31 - 1),
    st.none() | st.binary(max_size=300),
)


def flat_produce(message: ProduceRequest) -> tuple[Any, ...]:
    rows = [
        (topic.name, partition.index, partition.records)
        for topic in message.topic_data
        for partition in topic.partition_data
    ]
    return message.transactional_id, message.acks, message.timeout_ms, rows


def flat_fetch(message: FetchRequest, version: int) -> FetchHeader:
    def name(topic: Any) -> str | bytes:
        return topic.topic_id if version >= 13 else topic.topic  # type: ignore[no-any-return]

    return FetchHeader(
        replica_id=message.replica_state.replica_id if version >= 15 else message.replica_id,
        max_wait_ms=message.max_wait_ms,
        min_bytes=message.min_bytes,
        max_bytes=message.max_bytes,
        isolation_level=message.isolation_level,
        session_id=message.session_id,
        session_epoch=message.session_epoch,
        rack_id=message.rack_id,
        partitions=[
            (
                name(topic),
                each.partition,
                each.current_leader_epoch,
                each.fetch_offset,
                each.last_fetched_epoch,
                each.log_start_offset,
                each.partition_max_bytes,
            )
            for topic in message.topics
            for each in topic.partitions
        ],
        forgotten=[
            (name(topic), each) for topic in message.forgotten_topics_data for each in topic.partitions
        ],
    )


@pytest.mark.parametrize("version", PRODUCE)
@given(data=st.data())
@SOME
def test_produce_requests_read_alike(version: int, data: st.DataObject) -> None:
    message = data.draw(instances_of(ProduceRequest, version) | ONE_RECORD_SET)
    assert isinstance(message, ProduceRequest)
    frame = b"header" + encode(message, version)
    assert decode_produce(frame, 6, version) == flat_produce(message)
    assert decode_produce(memoryview(frame + b"tail"), 6, version) == flat_produce(message)


@pytest.mark.parametrize("version", FETCH)
@given(data=st.data())
@SOME
def test_fetch_requests_read_alike(version: int, data: st.DataObject) -> None:
    message = data.draw(instances_of(FetchRequest, version))
    assert isinstance(message, FetchRequest)
    frame = b"header" + encode(message, version)
    assert decode_fetch(frame, 6, version) == flat_fetch(message, version)
    assert decode_fetch(frame + b"tail", 6, version) == flat_fetch(message, version)


@pytest.mark.parametrize("version", PRODUCE)
@given(data=st.data())
@SOME
def test_produce_requests_are_refused_alike(version: int, data: st.DataObject) -> None:
    wire = flip(encode(data.draw(instances_of(ProduceRequest, version) | ONE_RECORD_SET), version), data)
    try:
        expected = flat_produce(decode_request(ProduceRequest, version, wire))
    except ProtocolError:
        with pytest.raises(ProtocolError):
            decode_produce(wire, 0, version)
    else:
        assert decode_produce(wire, 0, version) == expected


@pytest.mark.parametrize("version", FETCH)
@given(data=st.data())
@SOME
def test_fetch_requests_are_refused_alike(version: int, data: st.DataObject) -> None:
    wire = flip(encode(data.draw(instances_of(FetchRequest, version)), version), data)
    try:
        expected = flat_fetch(decode_request(FetchRequest, version, wire), version)
    except ProtocolError:
        with pytest.raises(ProtocolError):
            decode_fetch(wire, 0, version)
    else:
        assert decode_fetch(wire, 0, version) == expected


TOPICS = st.sampled_from(["a", "b", "x" * 130])
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
CODES = st.integers(-1, 127)
TEXTS = st.none() | st.text(max_size=5)
LEADERS = st.none() | st.builds(CurrentLeader, st.integers(0, 9), INT32)
ENDPOINTS = st.lists(
    st.builds(NodeEndpoint, INT32, st.sampled_from(["", "host", "h" * 130]), INT32, TEXTS), max_size=3
)
PRODUCED = st.lists(
    st.tuples(
        TOPICS,
        INT32,
        CODES,
        INT64,
        INT64,
        INT64,
        st.lists(st.tuples(INT32, TEXTS), max_size=2),
        TEXTS,
        LEADERS,
    ),
    max_size=6,
)
FETCHED = st.lists(
    st.tuples(
        TOPICS,
        INT32,
        CODES,
        INT64,
        INT64,
        INT64,
        st.none() | st.lists(st.tuples(INT64, INT64), max_size=3),
        INT32,
        st.sampled_from([-1, 0, 1, 126, 127, 500]),
        st.none() | st.tuples(st.integers(0, 9), INT64),
        LEADERS,
    ),
    max_size=6,
)


@pytest.mark.parametrize("version", PRODUCE)
@given(rows=PRODUCED, throttle_ms=INT32, endpoints=ENDPOINTS)
@SOME
def test_produce_responses_are_written_alike(
    version: int, rows: list[Any], throttle_ms: int, endpoints: list[NodeEndpoint]
) -> None:
    expected = ProduceResponse(throttle_time_ms=throttle_ms)
    if version >= 10:
        expected.node_endpoints = [produce.NodeEndpoint(**each._asdict()) for each in endpoints]
    for topic, partition, code, base_offset, append_time_ms, start_offset, errors, message, leader in rows:
        if not expected.responses or expected.responses[-1].name != topic:
            expected.responses.append(TopicProduceResponse(name=topic))
        expected.responses[-1].partition_responses.append(
            PartitionProduceResponse(
                index=partition,
                error_code=code,
                base_offset=base_offset,
                log_append_time_ms=append_time_ms,
                log_start_offset=start_offset,
                record_errors=[
                    BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
                    for index, text in errors
                ]
                if version >= 8
                else [],
                error_message=message,
                current_leader=produce.LeaderIdAndEpoch(**leader._asdict())
                if leader and version >= 10
                else produce.LeaderIdAndEpoch(),
            )
        )
    assert encode_produce_response(version, rows, throttle_ms, endpoints) == encode(expected, version)
    whole = encode_response(ApiKey.PRODUCE, version, 7, expected)
    assert encode_produce_answer(version, 7, rows, throttle_ms, endpoints) == whole


@pytest.mark.parametrize("version", [8, 9, 11])
def test_answers_about_one_partition_hold_for_any_number_of_topics_and_length_of_a_name(version: int) -> None:
    names = ["t" * size for size in (1, 125, 126, 127, 128, 249)] + ["\u00e4" * 63, "\u00e4" * 64]
    names += [f"topic-{number}" for number in range(1_100)]
    for name in [*names, *names[:8]]:
        answer = encode_produce_answer(version, 7, [(name, 3, 0, 5, -1, 0, [], None, None)], 9)
        expected = ProduceResponse(throttle_time_ms=9, responses=[TopicProduceResponse(name=name)])
        expected.responses[0].partition_responses = [
            PartitionProduceResponse(index=3, base_offset=5, log_append_time_ms=-1, log_start_offset=0)
        ]
        assert answer == encode_response(ApiKey.PRODUCE, version, 7, expected)


@pytest.mark.parametrize("version", FETCH)
@given(rows=FETCHED, throttle_ms=INT32, code=CODES, session_id=INT32, endpoints=ENDPOINTS)
@SOME
def test_fetch_responses_are_written_alike(
    version: int,
    rows: list[Any],
    throttle_ms: int,
    code: int,
    session_id: int,
    endpoints: list[NodeEndpoint],
) -> None:
    session_id = session_id if version >= 7 else 0
    expected = FetchResponse(throttle_time_ms=throttle_ms, error_code=code, session_id=session_id)
    if version >= 16:
        expected.node_endpoints = [fetch.NodeEndpoint(**each._asdict()) for each in endpoints]
    if version >= 13:
        rows = [(row[0].encode()[:1] * 16, *row[1:]) for row in rows]
    previous = None
    for topic, partition, error, high, stable, start, aborted, preferred, size, diverging, leader in rows:
        if topic != previous:
            named = {"topic_id": topic} if version >= 13 else {"topic": topic}
            expected.responses.append(FetchableTopicResponse(**named))
            previous = topic
        expected.responses[-1].partitions.append(
            PartitionData(
                partition_index=partition,
                error_code=error,
                high_watermark=high,
                last_stable_offset=stable,
                log_start_offset=start,
                diverging_epoch=EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
                if diverging and version >= 12
                else EpochEndOffset(),
                current_leader=fetch.LeaderIdAndEpoch(**leader._asdict())
                if leader and version >= 12
                else fetch.LeaderIdAndEpoch(),
                aborted_transactions=None
                if aborted is None
                else [AbortedTransaction(producer_id=who, first_offset=first) for who, first in aborted]
                if version >= 4
                else [],
                preferred_read_replica=preferred if version >= 11 else -1,
                records=None if size < 0 else b"r" * size,
            )
        )
    pieces = encode_fetch_response(version, 77, throttle_ms, code, session_id, rows, endpoints)
    frame = b"".join([b"r" * piece if isinstance(piece, int) else piece for piece in pieces])
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    wire = frame[4:]
    assert wire[4 + (version >= 12) :] == encode(expected, version)
    assert decode_response(ApiKey.FETCH, version, wire)[0] == 77
    sizes = [row[8] for row in rows if row[8] > 0]
    assert [piece for piece in pieces if isinstance(piece, int)] == sizes


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="Produce response v9"):
        encode_produce_response(9, [("t", 2**31, 0, 0, -1, 0, (), None, None)], 0)
    with pytest.raises(ValueError, match="Fetch response v12"):
        encode_fetch_response(12, 1, 0, 0, 2**31, [])


def test_records_of_a_produce_request_are_views() -> None:
    frame = struct.pack(">hhiih1sii", -1, 1, 0, 1, 1, b"t", 1, 0) + struct.pack(">i", 3) + b"abc"
    (row,) = decode_produce(frame, 0, 3)[3]
    assert isinstance(row[2], memoryview)
    assert row[2].obj is frame


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param(b"\x01\x00\x03\x02x\x00", id="cluster id shorter than its tag"),
        pytest.param(b"\x01\x00\x01\x02x", id="cluster id longer than its tag"),
        pytest.param(b"\x01\x01\x0e" + bytes(14), id="replica state shorter than its tag"),
        pytest.param(b"\x01\x01\x0c" + bytes(13), id="replica state longer than its tag"),
        pytest.param(b"\x02\x05\x00\x05\x00", id="repeated"),
        pytest.param(b"\x01\x05\x01", id="longer than the frame"),
        pytest.param(b"\xff\xff\xff\xff\x0f", id="four billion"),
    ],
)
def test_tags_out_of_shape_are_refused_alike(tags: bytes) -> None:
    body = encode(FetchRequest(), 15)[:-1]
    good = body + b"\x02\x01\x0d" + struct.pack(">iqB", 7, 1, 0) + b"\x05\x01?"
    assert (
        decode_fetch(good, 0, 15).replica_id
        == decode_request(FetchRequest, 15, good).replica_state.replica_id
        == 7
    )
    for read in (
        lambda: decode_fetch(body + tags, 0, 15),
        lambda: decode_request(FetchRequest, 15, body + tags),
    ):
        with pytest.raises(ProtocolError):
            read()


@pytest.mark.parametrize("tags", [b"\x01\x00\x0f" + bytes(15), b"\x01\x00\x11" + bytes(17), b"\x01\x05\x01"])
def test_partition_tags_out_of_shape_are_refused_alike(tags: bytes) -> None:
    def wire(section: bytes) -> bytes:
        whole = encode(FetchRequest(topics=[FetchTopic(partitions=[FetchPartition()])]), 17)
        # Behind the partition: its tags, its topic's tags, no forgotten topics, no rack, the message's tags.
        return whole[:-5] + section + whole[-4:]

    assert decode_fetch(wire(b"\x01\x00\x10" + bytes(16)), 0, 17) == decode_fetch(wire(b"\x00"), 0, 17)
    for read in (
        lambda: decode_fetch(wire(tags), 0, 17),
        lambda: decode_request(FetchRequest, 17, wire(tags)),
    ):
        with pytest.raises(ProtocolError):
            read()


def test_errors_name_what_was_wrong_with_a_string() -> None:
    frame = struct.pack(">hhiih1sii", -1, 1, 0, 1, 1, b"\xff", 1, 0) + struct.pack(">i", -1)
    with pytest.raises(ProtocolError, match="UTF-8"):
        decode_produce(frame, 0, 3)
