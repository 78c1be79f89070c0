"""Produce on real processes: acks, versions, topic settings, idempotence, and producers that move between workers."""

import os
import struct
import threading
import time
from functools import partial
from typing import Any

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.messages import api_versions, init_producer_id
from pkafka.records.batch import iter_headers, read_header
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.records.legacy import build_message_set
from pkafka.server.replicas.partitions import owner_of
from pkafka.testing import Broker
from tests.e2e.conftest import WORKERS
from tests.faults.family import family, holder
from tests.raw_client import (
    OTHER_BROKER,
    ClosedByBroker,
    RawClient,
    ask_offsets,
    at_once,
    batch,
    create_topic,
    fetch_from,
    fetch_request,
    fetched,
    new_topic_name,
    produce_request,
    produce_to,
    records_of,
)
from tests.sockets import unread_bytes
from tests.talk import wait_for

pytestmark = pytest.mark.usefixtures("no_error_is_logged")

NONE = ErrorCode.NONE


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    # A worker that a test suspends is not to be given up meanwhile.
    return {"pkafka.workers": WORKERS, "pkafka.heartbeat.timeout.ms": 60_000}


def read_values(client: RawClient, topic: str, partition: int = 0) -> list[bytes | None]:
    end = ask_offsets(client, {(topic, partition): -1})[topic, partition][1]
    values: list[bytes | None] = []
    while len(values) < end:
        part = fetch_from(client, topic, len(values), partition, partition_max_bytes=10_000_000)
        assert part.error_code == 0
        values += [record.value for record in records_of(part, len(values))]
    return values


def answer_of(client: RawClient, topic: str, data: bytes | None, *, version: int = 9, acks: int = -1) -> Any:
    """The whole answer for one record set."""
    response = client.call(produce_request({(topic, 0): data}, acks=acks), version)
    return response.responses[0].partition_responses[0]


# -- acks and versions --


@pytest.mark.parametrize("acks", [1, -1])
def test_offsets_go_on_where_the_last_batch_ended(address: str, client: RawClient, acks: int) -> None:
    topic = create_topic(address)
    assert produce_to(client, topic, batch(b"a", b"b"), acks=acks) == (NONE, 0)
    assert produce_to(client, topic, batch(b"c"), acks=acks) == (NONE, 2)
    assert read_values(client, topic) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("version", range(12))
def test_every_version_writes_the_same_values(address: str, client: RawClient, version: int) -> None:
    topic = create_topic(address)
    now = int(time.time() * 1000)
    if version >= 3:
        data = batch(b"one", b"two")
    else:
        rows = [(0, now, None, b"one"), (1, now, None, b"two")]
        data = build_message_set(rows, magic=0 if version < 2 else 1)
    answer = answer_of(client, topic, data, version=version)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    part = fetch_from(client, topic, 0)
    assert [record.value for record in records_of(part)] == [b"one", b"two"]
    assert read_header(part.records).magic == 2


def test_without_acks_nothing_is_answered_and_all_is_written(address: str, client: RawClient) -> None:
    topic = create_topic(address)
    for number in range(20):
        # No answer is to come: bytes only, so that the client expects none.
        frame = client.encoded(produce_request({(topic, 0): batch(b"%d" % number)}, acks=0), 9)
        client._sent.pop()
        client.send_bytes(frame)
    assert client.call(api_versions.ApiVersionsRequest(), 0).error_code == 0
    assert read_values(client, topic) == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("partitions", [1, 4])
def test_an_error_without_acks_closes_the_connection_after_earlier_answers(
    address: str, client: RawClient, partitions: int
) -> None:
    topic = create_topic(address, partitions)
    places = {(topic, n): batch(b"x") for n in range(partitions)}
    good = client.encoded(produce_request(places), 9)
    bad = client.encoded(produce_request({**places, (topic, 99): batch(b"x")}, acks=0), 9)
    client.send_bytes(good + bad)
    client._sent.pop()
    assert client.receive().responses[0].partition_responses[0].error_code == 0
    assert client.is_closed()


# -- several partitions and workers --


def test_one_request_for_partitions_of_all_workers_is_answered_in_its_order(
    address: str, client: RawClient
) -> None:
    topic = create_topic(address, 4)
    missing = new_topic_name("missing")
    good = batch(b"fine")
    pairs = [
        ((topic, 3), good),
        ((missing, 0), good),
        ((topic, 0), good[:-1]),
        ((topic, 2), good),
        ((topic, 1), good),
        ((topic, 7), good),
    ]
    response = client.call(produce_request(pairs), 9)
    rows = [
        (found.name, part.index, part.error_code)
        for found in response.responses
        for part in found.partition_responses
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    expected = {
        (topic, 3, 0),
        (missing, 0, unknown),
        (topic, 0, ErrorCode.INVALID_RECORD),
        (topic, 2, 0),
        (topic, 1, 0),
        (topic, 7, unknown),
    }
    assert set(rows) == expected
    if not OTHER_BROKER:  # Kafka groups them by what happened to them
        assert rows[0] == (topic, 3, 0)
    assert [read_values(client, topic, n) for n in range(4)] == [[], [b"fine"], [b"fine"], [b"fine"]]


def test_pipelined_requests_for_all_workers_are_answered_in_order(address: str, client: RawClient) -> None:
    topic = create_topic(address, 4)
    order = [number * 7 // 3 % 4 for number in range(400)]
    stream = b"".join(
        client.encoded(produce_request({(topic, n): batch(b"%d" % place)}), 9)
        for place, n in enumerate(order)
    )
    sender = threading.Thread(target=client.send_bytes, args=(stream,))
    sender.start()
    counts = [0] * 4
    for partition in order:
        part = client.receive().responses[0].partition_responses[0]
        assert (part.index, part.error_code, part.base_offset) == (partition, 0, counts[partition])
        counts[partition] += 1
    sender.join()
    for n in range(4):
        assert read_values(client, topic, n) == [
            b"%d" % place for place, partition in enumerate(order) if partition == n
        ]


def test_what_follows_pipelined_records_finds_them_in_the_log(address: str, client: RawClient) -> None:
    topic = create_topic(address, 4)
    stream = b""
    for round_number in range(30):
        for n in range(4):
            stream += client.encoded(produce_request({(topic, n): batch(b"%d" % round_number)}), 9)
        stream += client.encoded(
            fetch_request({(topic, n): round_number for n in range(4)}, max_wait_ms=0), 11
        )
    client.send_bytes(stream)
    for round_number in range(30):
        for _ in range(4):
            assert client.receive().responses[0].partition_responses[0].base_offset == round_number
        for part in fetched(client.receive()).values():
            assert [record.value for record in records_of(part)] == [b"%d" % round_number]


def test_many_producers_of_all_partitions_at_once(address: str) -> None:
    topic = create_topic(address, 4)

    def produce(producer: int) -> None:
        with RawClient(address) as client:
            for number in range(100):
                partition = number * (producer + 1) % 4
                value = struct.pack(">II", producer, number) + bytes(200)
                assert produce_to(client, topic, batch(value), partition)[0] == NONE

    at_once([partial(produce, n) for n in range(6)])
    with RawClient(address) as client:
        found = []
        for partition in range(4):
            rows = [
                struct.unpack_from(">II", value or b"") for value in read_values(client, topic, partition)
            ]
            for producer in range(6):
                numbers = [number for one, number in rows if one == producer]
                assert numbers == sorted(numbers)
            found += rows
    assert sorted(found) == [(producer, number) for producer in range(6) for number in range(100)]


@pytest.mark.parametrize("size", [2_000, 30_000, 300_000, 700_000])
def test_large_requests_for_all_workers_are_written_as_they_came(address: str, size: int) -> None:
    """Twenty producers, more than a worker has places for frames that another one reads, each with sets of all four
    partitions in every request; no two sets are alike."""
    topic = create_topic(address, 4, **{"max.message.bytes": 2_000_000})
    producers, rounds = 20, 3

    def produce(producer: int) -> None:
        with RawClient(address) as client:
            for number in range(rounds):
                sets = {(topic, n): batch(repeated(size, producer, number, n)) for n in range(4)}
                assert errors_of(client.call(produce_request(sets), 9)) == [NONE] * 4

    at_once([partial(produce, n) for n in range(producers)])
    with RawClient(address) as client:
        for partition in range(4):
            found = sorted(whole(value, size) for value in read_values(client, topic, partition))
            assert found == [(one, number, partition) for one in range(producers) for number in range(rounds)]


@pytest.mark.parametrize("size", [2_000, 300_000])
def test_a_request_keeps_its_memory_until_the_other_worker_has_read_it(own_broker: Broker, size: int) -> None:
    """Three requests for both workers at one of them, while the other one stands still; the first client leaves."""
    topic = create_topic(own_broker.bootstrap, WORKERS)
    here: list[RawClient] = []
    while len(here) < 3:  # the kernel spreads connections over the workers
        client = RawClient(own_broker.bootstrap)
        wait_for(lambda: holder(own_broker, client.port), what="accepting")  # noqa: B023 - called at once
        if holder(own_broker, client.port) == "worker-0":
            here.append(client)
        else:
            client.close()
    other = family(own_broker)["worker-1"]
    other.suspend()
    try:
        for number, client in enumerate(here):
            sets = {(topic, n): batch(repeated(size, number, 0, n)) for n in range(WORKERS)}
            client.send(produce_request(sets), 9)
            wait_for(lambda: unread_bytes(own_broker.port) == 0, what="reading")
        here[0].close()
    finally:
        other.resume()
    for client in here[1:]:
        assert errors_of(client.receive()) == [NONE] * WORKERS
    for partition in range(WORKERS):
        found = [whole(value, size) for value in read_values(here[1], topic, partition)]
        assert found == [(number, 0, partition) for number in range(3)]
    for client in here:
        client.close()


def repeated(size: int, producer: int, number: int, partition: int) -> bytes:
    """A value of about that size, made of nothing but these numbers."""
    seed = struct.pack(">III", producer, number, partition)
    return seed * (size // len(seed))


def whole(value: bytes | None, size: int) -> tuple[int, int, int]:
    """The numbers of which ``value`` is made, when all of it is; so a failure prints numbers and not megabytes."""
    assert value is not None
    producer, number, partition = struct.unpack_from(">III", value)
    assert value == repeated(size, producer, number, partition), "other bytes behind the first ones"
    return producer, number, partition


def errors_of(response: Any) -> list[ErrorCode]:
    """The error code of every partition in a Produce response."""
    return [ErrorCode(part.error_code) for found in response.responses for part in found.partition_responses]


# -- settings of the topic --


def test_log_append_time_is_the_brokers(address: str, client: RawClient) -> None:
    topic = create_topic(address, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    answer = answer_of(client, topic, batch(b"a", b"b", timestamp=1))
    after = int(time.time() * 1000)
    assert before <= answer.log_append_time_ms <= after
    part = fetch_from(client, topic, 0)
    header = read_header(part.records)
    assert header.timestamp_type == 1
    assert [record.timestamp for record in records_of(part)] == [answer.log_append_time_ms] * 2


def test_create_time_is_the_producers(address: str, client: RawClient) -> None:
    topic = create_topic(address, retention_ms=-1)
    assert answer_of(client, topic, batch(b"a", timestamp=77)).log_append_time_ms == -1
    assert [record.timestamp for record in records_of(fetch_from(client, topic, 0))] == [77]


@pytest.mark.parametrize("came", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
@pytest.mark.parametrize(
    ("setting", "stored"),
    [
        ("producer", None),
        ("uncompressed", Codec.NONE),
        ("gzip", Codec.GZIP),
        ("snappy", Codec.SNAPPY),
        ("lz4", Codec.LZ4),
        ("zstd", Codec.ZSTD),
    ],
)
def test_the_topic_decides_the_compression(
    address: str, client: RawClient, setting: str, stored: Codec | None, came: Codec
) -> None:
    topic = create_topic(address, compression_type=setting)
    assert produce_to(client, topic, batch(b"x" * 100, b"y" * 100, codec=came))[0] == NONE
    part = fetch_from(client, topic, 0)
    assert read_header(part.records).codec == (came if stored is None else stored)
    assert [record.value for record in records_of(part)] == [b"x" * 100, b"y" * 100]


def test_a_compacted_topic_wants_keys(address: str, client: RawClient) -> None:
    topic = create_topic(address, cleanup_policy="compact")
    now = int(time.time() * 1000)
    mixed = bytes(build_batch([(now, b"k", b"v", ()), (now, None, b"v", ()), (now, b"k", None, ())]))
    answer = answer_of(client, topic, mixed)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    assert [error.batch_index for error in answer.record_errors] == [1]
    assert answer.error_message
    assert answer_of(client, topic, batch(b"v", key=b"k")).error_code == 0


def test_sizes_and_times_are_bounded_by_the_topic(address: str, client: RawClient) -> None:
    topic = create_topic(
        address,
        max_message_bytes=1_000,
        message_timestamp_before_max_ms=60_000,
        message_timestamp_after_max_ms=60_000,
    )
    assert produce_to(client, topic, batch(b"x" * 900))[0] == NONE
    assert produce_to(client, topic, batch(b"x" * 1_000))[0] == ErrorCode.MESSAGE_TOO_LARGE
    now = int(time.time() * 1000)
    for wrong in (now - 120_000, now + 120_000):
        answer = answer_of(client, topic, batch(b"x", timestamp=wrong))
        assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
        assert [error.batch_index for error in answer.record_errors] == [0]


@pytest.mark.parametrize("acks", [1, -1])
def test_a_topic_cannot_want_more_replicas_in_sync_than_it_has(
    address: str, client: RawClient, acks: int
) -> None:
    topic = create_topic(address, min_insync_replicas=2)
    assert produce_to(client, topic, batch(b"x"), acks=acks) == (NONE, 0)


# -- idempotence --


def producer(client: RawClient) -> tuple[int, int]:
    request = init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    answer = client.call(request, 4)
    while answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # Kafka fetches its first block of ids
        time.sleep(0.05)
        answer = client.call(request, 4)
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


def numbered(who: tuple[int, int], sequence: int, *values: bytes) -> bytes:
    return batch(*values, producer_id=who[0], producer_epoch=who[1], base_sequence=sequence)


def test_producer_ids_are_never_given_twice(address: str) -> None:
    seen = set()
    for _ in range(4):
        with RawClient(address) as client:
            for _ in range(25):
                seen.add(producer(client)[0])
    assert len(seen) == 100


@pytest.mark.parametrize("partition", range(WORKERS))
def test_a_repeated_batch_is_written_once_and_answered_with_its_first_offset(
    address: str, client: RawClient, partition: int
) -> None:
    topic = create_topic(address, WORKERS)
    who = producer(client)
    sets = [numbered(who, 2 * n, b"%d" % n, b"also %d" % n) for n in range(6)]
    for n, data in enumerate(sets):
        assert produce_to(client, topic, data, partition) == (NONE, 2 * n)
    for n in range(1, 6):  # the last five are remembered
        assert produce_to(client, topic, sets[n], partition) == (NONE, 2 * n)
    assert produce_to(client, topic, sets[0], partition)[0] in (
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    )
    assert len(read_values(client, topic, partition)) == 12


def test_a_gap_and_an_old_epoch_are_refused(address: str, client: RawClient) -> None:
    topic = create_topic(address)
    producer_id, _epoch = producer(client)
    assert produce_to(client, topic, numbered((producer_id, 1), 0, b"a"))[0] == NONE
    gap = produce_to(client, topic, numbered((producer_id, 1), 5, b"b"))
    assert gap[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    zombie = produce_to(client, topic, numbered((producer_id, 0), 1, b"c"))
    assert zombie[0] == ErrorCode.INVALID_PRODUCER_EPOCH
    new_epoch = produce_to(client, topic, numbered((producer_id, 2), 3, b"d"))
    assert new_epoch[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce_to(client, topic, numbered((producer_id, 2), 0, b"e")) == (NONE, 1)


def test_the_sequence_goes_from_its_largest_number_to_zero(address: str, client: RawClient) -> None:
    topic = create_topic(address)
    who = producer(client)
    # A producer that is not known begins wherever it says.
    assert produce_to(client, topic, numbered(who, 2**31 - 2, b"a", b"b")) == (NONE, 0)
    assert produce_to(client, topic, numbered(who, 0, b"c")) == (NONE, 2)


def test_records_of_a_transaction_that_no_coordinator_knows_are_refused(
    client: RawClient, address: str
) -> None:
    topic = create_topic(address)
    data = batch(b"x", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    refused = answer_of(client, topic, data)
    assert (refused.error_code, refused.log_start_offset) == (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,  # it does not say whose
        -1,
    )
    named = produce_request({(topic, 0): data})
    named.transactional_id = "tx"
    refused = client.call(named, 9).responses[0].partition_responses[0]
    assert refused.error_code in (
        ErrorCode.NOT_ENOUGH_REPLICAS,  # there is no coordinator before the first producer asks for one
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    )
    assert read_values(client, topic) == []


# -- connections that move --


@pytest.mark.parametrize("size", [10, 1_000_000])
@pytest.mark.parametrize("partition", range(WORKERS))
def test_a_producer_of_one_partition_ends_at_its_owner(own_broker: Broker, partition: int, size: int) -> None:
    topic = create_topic(own_broker.bootstrap, WORKERS)
    owner = f"worker-{owner_of(topic, partition, WORKERS)}"
    payload = os.urandom(size)
    count = 0
    for _ in range(5):
        with RawClient(own_broker.bootstrap) as client:
            for _ in range(3):
                assert produce_to(client, topic, batch(payload), partition) == (NONE, count)
                count += 1
            wait_for(lambda: holder(own_broker, client.port) == owner)
    with RawClient(own_broker.bootstrap) as client:
        found = read_values(client, topic, partition)
    # Not the values, which fill a page each.
    assert [value == payload for value in found] == [True] * count


def test_large_frames_in_pieces_survive_the_move(address: str) -> None:
    """Pipelined requests of 1 MB, sent in odd pieces, now to a partition of one worker, now of the other."""
    topic = create_topic(address, 2)
    payloads = [os.urandom(900_000) for _ in range(6)]
    with RawClient(address) as client:
        order = [0, 0, 1, 1, 0, 1]
        stream = b"".join(
            client.encoded(produce_request({(topic, n): batch(payload)}), 9)
            for n, payload in zip(order, payloads, strict=True)
        )

        def send() -> None:
            for start in range(0, len(stream), 333_333):
                client.send_bytes(stream[start : start + 333_333])
                time.sleep(0.005)

        sender = threading.Thread(target=send)
        sender.start()
        for _ in order:
            assert client.receive().responses[0].partition_responses[0].error_code == 0
        sender.join()
        for partition in range(2):
            expected = [payload for n, payload in zip(order, payloads, strict=True) if n == partition]
            assert read_values(client, topic, partition) == expected


def test_a_connection_that_goes_to_and_fro_soon_stays(own_broker: Broker) -> None:
    topic = create_topic(own_broker.bootstrap, 2)
    with RawClient(own_broker.bootstrap) as client:
        moves, before = 0, ""
        for number in range(60):
            assert produce_to(client, topic, batch(b"x"), number % 2)[0] == NONE
            if number % 6 == 5:
                now = holder(own_broker, client.port) or before
                moves += now != before
                before = now
        assert moves <= 4
        assert [len(read_values(client, topic, n)) for n in range(2)] == [30, 30]


def test_a_producer_that_dies_within_a_request_writes_nothing(address: str, client: RawClient) -> None:
    topic = create_topic(address)
    for cut in (5, 100, 50_000):
        with RawClient(address) as dying:
            dying.send_bytes(dying.encoded(produce_request({(topic, 0): batch(b"x" * 100_000)}), 9)[:cut])
    assert produce_to(client, topic, batch(b"whole")) == (NONE, 0)
    assert [
        header.last_offset for _position, header in iter_headers(fetch_from(client, topic, 0).records)
    ] == [0]


def test_a_request_without_partitions_is_answered(client: RawClient) -> None:
    try:
        assert client.call(produce_request({}), 9).responses == []
    except ClosedByBroker:
        pytest.fail("an empty request is no error")
