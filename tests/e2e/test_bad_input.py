"""Whatever a client sends, the others are served: real processes, every kind of malformed, absurd or hostile input.

After each test the broker answers on a new connection, all of its processes are still the same, and its log has no
error.
"""

import random
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import encode_request
from pkafka.protocol.messages import (
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    list_offsets,
    metadata,
    produce,
)
from pkafka.protocol.registry import request_class, request_header_version, versions
from pkafka.records.batch import BATCH_OVERHEAD, write_crc
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.testing import Broker
from tests.e2e.conftest import WORKERS, complaints
from tests.raw_client import (
    ClosedByBroker,
    RawClient,
    ask_offsets,
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

REQUEST_BYTES_MAX = 4_000_000
LARGEST = 2**31 - 1
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    return {
        "pkafka.workers": WORKERS,
        "socket.request.max.bytes": REQUEST_BYTES_MAX,
        # A million names are a second of work: where ten others want the core, a worker that is busy with them would be
        # taken for one that hangs.
        "pkafka.heartbeat.timeout.ms": 60_000,
    }


@pytest.fixture(scope="module")
def topic(address: str) -> str:
    return create_topic(address)


@pytest.fixture(autouse=True)
def unharmed(broker: Broker | None, address: str) -> Iterator[None]:
    if broker is None:
        yield
        assert_answers(address)
        return
    processes = children(broker)
    said = broker.log_file.stat().st_size
    yield
    assert_answers(address)
    assert children(broker) == processes
    assert complaints(broker, said) == []


def assert_answers(address: str) -> None:
    """A new connection is served; how soon is a matter of the machine."""
    with RawClient(address) as fresh:
        assert fresh.call(metadata.MetadataRequest(topics=[]), 9).brokers


def children(broker: Broker) -> list[psutil.Process]:
    return psutil.Process(broker.pid).children(recursive=True)


def resident_bytes(broker: Broker) -> int:
    return sum(one.memory_info().rss for one in children(broker))


def worked_s(broker: Broker | None) -> float:
    """The time for which the broker's processes have had a processor: unlike the time of day, it is their own."""
    if broker is None:
        return 0.0
    return sum(times.user + times.system for times in (one.cpu_times() for one in children(broker)))


def header(key: int, version: int, client_id: bytes | None = b"bad") -> bytes:
    """A request header without tags; flexible versions have a byte of them."""
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    tags = b"\0" if request_header_version(key, version) == 2 else b""
    return struct.pack(">hhi", key, version, 7) + name + tags


def compact(number: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


# -- frames --


@pytest.mark.parametrize("size", [-1, -(2**31), LARGEST, 0, 1, 7])
def test_a_length_that_no_request_has_closes_the_connection(client: RawClient, size: int) -> None:
    client.send_bytes(struct.pack(">i", size) + bytes(max(min(size, 100), 0)))
    assert client.is_closed()


def test_the_largest_request_is_served_and_a_larger_one_is_not(own_broker: Broker, client: RawClient) -> None:
    name_bytes = REQUEST_BYTES_MAX - 10 - 4 - 2
    names = []
    while name_bytes:
        names.append(b"x" * min(name_bytes, 30_000))
        name_bytes -= len(names[-1])
        if name_bytes:
            name_bytes -= 2
    body = struct.pack(">i", len(names)) + b"".join(struct.pack(">h", len(name)) + name for name in names)
    frame = header(ApiKey.METADATA, 0, b"") + body
    assert len(frame) == REQUEST_BYTES_MAX
    client.send_frame(frame)
    assert client.read_frame()
    with RawClient(own_broker.bootstrap) as other:
        other.send_bytes(struct.pack(">i", REQUEST_BYTES_MAX + 1) + frame[:100])
        assert other.is_closed()


def test_announced_requests_that_never_come_cost_no_memory(own_broker: Broker) -> None:
    before = resident_bytes(own_broker)
    clients = [RawClient(own_broker.bootstrap) for _ in range(200)]
    for client in clients:
        client.send_bytes(struct.pack(">i", REQUEST_BYTES_MAX) + b"\0")
    wait_for(lambda: unread_bytes(own_broker.port) == 0, what="reading")
    assert_answers(own_broker.bootstrap)
    assert resident_bytes(own_broker) - before < 32 * MIB
    for client in clients:
        client.close()


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 11, 13])
def test_half_a_request_and_then_the_end(address: str, cut: int) -> None:
    with RawClient(address) as client:
        client.send_bytes(client.encoded(metadata.MetadataRequest(topics=[]), 1)[:cut])


def test_a_request_that_comes_byte_by_byte_is_served(client: RawClient) -> None:
    for byte in client.encoded(api_versions.ApiVersionsRequest(), 0):
        client.send_bytes(bytes([byte]))
        time.sleep(0.002)
    assert client.receive().error_code == 0


# -- headers --


@pytest.mark.parametrize("key", [-1, -32768, 500, 32767, ApiKey.LEADER_AND_ISR + 50, ApiKey.VOTE])
def test_an_unknown_api_key_closes_the_connection(client: RawClient, key: int) -> None:
    client.send_frame(struct.pack(">hhih", key, 0, 1, -1) + bytes(20))
    assert client.is_closed()


@pytest.mark.parametrize("version", [-1, 100, 32767])
@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.CREATE_TOPICS])
def test_an_unsupported_version_closes_the_connection(client: RawClient, key: ApiKey, version: int) -> None:
    client.send_frame(struct.pack(">hhih", key, version, 1, -1) + bytes(20))
    assert client.is_closed()


@pytest.mark.parametrize("version", [5, 100, 32767])
def test_an_api_versions_request_of_the_future_is_told_what_there_is(client: RawClient, version: int) -> None:
    client.send_frame(header(ApiKey.API_VERSIONS, version) + b"\x05what\x06comes\0")
    answer = client.read_frame()
    correlation_id, code, count = struct.unpack_from(">ihi", answer)
    assert (correlation_id, code) == (7, ErrorCode.UNSUPPORTED_VERSION)
    ranges = {row[0]: row[1:] for row in struct.iter_unpack(">hhh", answer[10 : 10 + 6 * count])}
    assert ranges[ApiKey.API_VERSIONS] == (0, 4)
    # The connection goes on.
    assert client.call(api_versions.ApiVersionsRequest(), 0).error_code == 0


@pytest.mark.parametrize(
    "bad",
    [
        struct.pack(">hhih", ApiKey.METADATA, 1, 7, -2),
        struct.pack(">hhih", ApiKey.METADATA, 1, 7, 32767) + b"short",
        header(ApiKey.METADATA, 12)[:-1] + b"\xff\xff\xff\xff\x0f",
        header(ApiKey.METADATA, 12)[:-1] + b"\xff" * 12,
    ],
    ids=["client id of -2 bytes", "client id longer than the frame", "2^32 tags", "endless varint"],
)
def test_a_malformed_header_closes_the_connection(client: RawClient, bad: bytes) -> None:
    client.send_frame(bad)
    assert client.is_closed()


@pytest.mark.parametrize("client_id", [b"\xff\xfe", b"a\nERROR forged", b"%n%s%x", b"x" * 32_000, b"\0"])
def test_odd_client_ids_do_no_harm(address: str, client_id: bytes) -> None:
    with RawClient(address) as client:
        client.send_frame(header(ApiKey.METADATA, 1, client_id) + struct.pack(">i", 0))
        try:
            assert client.read_frame()
        except ClosedByBroker:
            assert client_id == b"\xff\xfe"


# -- bodies --


def served_keys(address: str) -> list[tuple[ApiKey, int]]:
    with RawClient(address) as client:
        answer = client.call(api_versions.ApiVersionsRequest(), 0)
    return [(ApiKey(row.api_key), row.max_version) for row in answer.api_keys]


def test_cut_bodies_close_the_connection_at_every_api(address: str) -> None:
    served = [(key, newest) for key, newest in served_keys(address) if key in CUT_KEYS]
    assert len(served) == len(CUT_KEYS)
    for key, newest in served:
        for version in {versions(key).start, newest}:
            whole = encode_request(key, version, 1, "bad", request_class(key)())[4:]
            start = len(header(key, version))
            for cut in sorted({start, (start + len(whole)) // 2, len(whole) - 1} - {len(whole)}):
                if cut < start:
                    continue
                with RawClient(address) as client:
                    client.send_frame(whole[:cut])
                    assert client.is_closed(), (key.name, version, cut, len(whole))


CUT_KEYS = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_CLUSTER,
    }
)


@pytest.mark.parametrize("count", [-2, LARGEST, 1_000_000])
@pytest.mark.parametrize(
    ("key", "version", "before"),
    [
        (ApiKey.METADATA, 1, b""),
        (ApiKey.PRODUCE, 3, struct.pack(">hhi", -1, -1, 1000)),
        (ApiKey.FETCH, 4, struct.pack(">iiiib", -1, 0, 1, 1000, 0)),
        (ApiKey.LIST_OFFSETS, 1, struct.pack(">i", -1)),
        (ApiKey.CREATE_TOPICS, 0, b""),
        (ApiKey.DELETE_RECORDS, 0, b""),
    ],
)
def test_array_sizes_without_elements_close_the_connection(
    broker: Broker | None, client: RawClient, key: ApiKey, version: int, before: bytes, count: int
) -> None:
    worked_before_s = worked_s(broker)
    client.send_frame(header(key, version) + before + struct.pack(">i", count))
    assert client.is_closed()
    assert worked_s(broker) - worked_before_s < 1


@pytest.mark.parametrize("count", [2**31, 2**32 - 1, 1_000_000])
@pytest.mark.parametrize(
    ("key", "version", "before"),
    [
        (ApiKey.METADATA, 9, b""),
        (ApiKey.PRODUCE, 9, b"\0" + struct.pack(">hi", -1, 1000)),
        (ApiKey.FETCH, 12, struct.pack(">iiiibii", -1, 0, 1, 1000, 0, 0, -1)),
        (ApiKey.LIST_OFFSETS, 6, struct.pack(">ib", -1, 0)),
        (ApiKey.CREATE_TOPICS, 5, b""),
    ],
)
def test_compact_array_sizes_without_elements_close_the_connection(
    client: RawClient, key: ApiKey, version: int, before: bytes, count: int
) -> None:
    client.send_frame(header(key, version) + before + compact(count))
    assert client.is_closed()


def test_a_million_empty_names_are_refused_or_answered_but_never_kill(
    client: RawClient, address: str
) -> None:
    client.send_frame(header(ApiKey.METADATA, 9) + compact(1_000_001) + b"\x01\0" * 1_000_000 + b"\0\0\0\0")
    with RawClient(address) as other:
        assert other.call(api_versions.ApiVersionsRequest(), 0).error_code == 0
    try:
        client.read_frame()
    except ClosedByBroker:
        return


def test_mutated_requests_never_harm(address: str, topic: str) -> None:
    """Valid frames with a few bytes changed, dropped or doubled; the same ones in every run."""
    rng = random.Random(20_240_611)
    with RawClient(address) as client:
        frames = [
            client.encoded(metadata.MetadataRequest(topics=[]), 12)[4:],
            client.encoded(produce_request({(topic, 0): batch(b"a", b"b", b"c")}), 9)[4:],
            client.encoded(produce_request({(topic, 0): batch(b"a", codec=Codec.GZIP)}), 3)[4:],
            client.encoded(fetch_request({(topic, 0): 0}, max_wait_ms=0), 12)[4:],
            client.encoded(fetch_request({(topic, 0): 0}, max_wait_ms=0), 4)[4:],
            client.encoded(list_offsets.ListOffsetsRequest(replica_id=-1, topics=[]), 7)[4:],
            client.encoded(api_versions.ApiVersionsRequest(client_software_name="x"), 3)[4:],
        ]
    for _ in range(300):
        frame = bytearray(rng.choice(frames))
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(8, len(frame))
            match rng.randrange(3):
                case 0:
                    frame[place] = rng.randrange(256)
                case 1:
                    del frame[place : place + rng.randint(1, 8)]
                case _:
                    frame[place:place] = frame[place : place + rng.randint(1, 8)]
            if len(frame) < 9:
                break
        with RawClient(address) as client:
            client.send_frame(bytes(frame))
            client.sock.shutdown(1)
            while client.sock.recv(65536):
                pass


# -- names --

BAD_NAMES = [
    b"",
    b".",
    b"..",
    b"../../etc/passwd",
    b"a/b",
    b"/absolute",
    b"nul\0byte",
    b"new\nline",
    b"x" * 250,
    b"\xff\xfe\xfd",
    "ünïcode".encode(),
    b"a b",
    b"__proto__/..",
]


def directories(broker: Broker | None) -> set[Path]:
    if broker is None:
        return set()
    return {path for path in broker.directory.parent.rglob("*") if path.is_dir()}


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_no_topic_may_have(
    address: str, client: RawClient, name: bytes, broker: Broker | None
) -> None:
    before = directories(broker)
    name_field = struct.pack(">h", len(name)) + name

    def code(key: ApiKey, version: int, body: bytes, at: Callable[[bytes], int]) -> ErrorCode | None:
        with RawClient(address) as one:
            one.send_frame(header(key, version) + body)
            try:
                return ErrorCode(struct.unpack_from(">h", answer := one.read_frame(), at(answer))[0])
            except ClosedByBroker:
                return None

    closed_or = {None} if name == b"\xff\xfe\xfd" else set()
    # Metadata v4 with auto-creation: throttle, brokers (1, host), cluster id, controller, then topics.
    answer = code(
        ApiKey.METADATA,
        4,
        struct.pack(">i", 1) + name_field + b"\1",
        lambda data: data.index(b"\0\0\0\1", 40) + 4,
    )
    assert answer in {ErrorCode.INVALID_TOPIC_EXCEPTION, *closed_or}
    create = struct.pack(">i", 1) + name_field + struct.pack(">ihiiib", 1, 1, 0, 0, 5000, 0)
    answer = code(
        ApiKey.CREATE_TOPICS, 1, create, lambda data: 4 + 4 + 2 + struct.unpack_from(">h", data, 8)[0]
    )
    assert answer in {ErrorCode.INVALID_TOPIC_EXCEPTION, *closed_or}
    if name not in (b"\xff\xfe\xfd",):
        text = name.decode()
        produced = produce_to(client, text, batch(b"x"))
        assert produced[0] in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)
        assert fetch_from(client, text, 0, max_wait_ms=0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert ask_offsets(client, {(text, 0): -1})[text, 0][0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert directories(broker) == before


@pytest.mark.parametrize("partition", [-1, 1, LARGEST, -(2**31)])
def test_partitions_that_do_not_exist(client: RawClient, topic: str, partition: int) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produce_to(client, topic, batch(b"x"), partition)[0] == unknown
    assert fetch_from(client, topic, 0, partition, max_wait_ms=0).error_code == unknown
    assert ask_offsets(client, {(topic, partition): -1})[topic, partition][0] == unknown
    assert delete_before(client, topic, 0, partition)[0] == unknown


def delete_before(client: RawClient, topic: str, offset: int, partition: int = 0) -> tuple[ErrorCode, int]:
    request = delete_records.DeleteRecordsRequest(
        topics=[
            delete_records.DeleteRecordsTopic(
                name=topic,
                partitions=[delete_records.DeleteRecordsPartition(partition_index=partition, offset=offset)],
            )
        ],
        timeout_ms=5_000,
    )
    found = client.call(request, 1).topics[0].partitions[0]
    return ErrorCode(found.error_code), found.low_watermark


# -- record sets --


def damaged(data: bytes, change: Callable[[bytearray], None], *, new_crc: bool = True) -> bytes:
    out = bytearray(data)
    change(out)
    if new_crc:
        write_crc(out, 0, len(out))
    return bytes(out)


def put(position: int, layout: str, value: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        struct.pack_into(layout, data, position, value)

    return change


GOOD = batch(b"one", b"two", b"three")
CORRUPT = ErrorCode.CORRUPT_MESSAGE
INVALID = ErrorCode.INVALID_RECORD
BAD_SETS: dict[str, tuple[bytes | None, set[ErrorCode]]] = {
    "null": (None, {INVALID, CORRUPT}),
    "empty": (b"", {INVALID, CORRUPT}),
    "wrong checksum": (damaged(GOOD, put(17, ">I", 1), new_crc=False), {CORRUPT}),
    "a flipped bit": (damaged(GOOD, put(BATCH_OVERHEAD + 5, ">B", 0xFF), new_crc=False), {CORRUPT}),
    "count too high": (damaged(GOOD, put(57, ">i", 4)), {INVALID, CORRUPT}),
    "count too low": (damaged(GOOD, put(57, ">i", 2)), {INVALID, CORRUPT}),
    "count of -1": (damaged(GOOD, put(57, ">i", -1)), {INVALID, CORRUPT}),
    "count of 2^31-1": (damaged(GOOD, put(57, ">i", LARGEST)), {INVALID, CORRUPT}),
    "last offset delta": (damaged(GOOD, put(23, ">i", 7)), {INVALID, CORRUPT}),
    "length beyond the set": (
        damaged(GOOD, put(8, ">i", len(GOOD) + 100), new_crc=False),
        {CORRUPT, INVALID},
    ),
    "length of 2^31-1": (damaged(GOOD, put(8, ">i", LARGEST), new_crc=False), {CORRUPT, INVALID}),
    "negative length": (damaged(GOOD, put(8, ">i", -1), new_crc=False), {CORRUPT, INVALID}),
    "length of 10": (damaged(GOOD, put(8, ">i", 10), new_crc=False), {CORRUPT, INVALID}),
    "cut": (GOOD[:-1], {CORRUPT, INVALID}),
    "half a header": (GOOD[:30], {CORRUPT, INVALID}),
    "two batches": (GOOD + GOOD, {INVALID}),
    "magic 3": (damaged(GOOD, put(16, ">b", 3), new_crc=False), {CORRUPT, INVALID}),
    "magic 127": (damaged(GOOD, put(16, ">b", 127), new_crc=False), {CORRUPT, INVALID}),
    "magic 1": (damaged(GOOD, put(16, ">b", 1), new_crc=False), {CORRUPT, INVALID}),
    "control batch": (damaged(GOOD, put(21, ">h", 0x20)), {INVALID}),
    "codec 7": (damaged(GOOD, put(21, ">h", 7)), {CORRUPT, INVALID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE}),
    "no gzip": (damaged(GOOD, put(21, ">h", 1)), {CORRUPT, INVALID}),
    "no snappy": (damaged(GOOD, put(21, ">h", 2)), {CORRUPT, INVALID}),
    "no lz4": (damaged(GOOD, put(21, ">h", 3)), {CORRUPT, INVALID}),
    "no zstd": (damaged(GOOD, put(21, ">h", 4)), {CORRUPT, INVALID}),
    "record longer than the batch": (damaged(GOOD, put(BATCH_OVERHEAD, ">B", 0x7E)), {INVALID, CORRUPT}),
    "negative record length": (damaged(GOOD, put(BATCH_OVERHEAD, ">B", 1)), {INVALID, CORRUPT}),
    "producer without a sequence": (
        bytes(build_batch([(0, None, b"x", ())], producer_id=5, producer_epoch=0, base_sequence=-1)),
        {INVALID},
    ),
    "too large": (
        batch(b"x" * 1_100_000),
        {ErrorCode.MESSAGE_TOO_LARGE},
    ),
}


@pytest.mark.parametrize("name", BAD_SETS)
def test_a_bad_record_set_is_refused_and_the_connection_goes_on(
    client: RawClient, topic: str, name: str
) -> None:
    data, codes = BAD_SETS[name]
    [(_key, (_code, end))] = ask_offsets(client, {(topic, 0): -1}).items()
    answer = client.call(produce_request({(topic, 0): data}), 9)
    assert ErrorCode(answer.responses[0].partition_responses[0].error_code) in codes
    assert ask_offsets(client, {(topic, 0): -1})[topic, 0][1] == end
    assert produce_to(client, topic, GOOD)[0] == ErrorCode.NONE
    [*_earlier, one, two, three] = records_of(fetch_from(client, topic, end), end)
    assert (one.value, two.value, three.value) == (b"one", b"two", b"three")


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_decompression_bomb_is_not_inflated(
    client: RawClient, topic: str, codec: Codec, own_broker: Broker
) -> None:
    bomb = batch(bytes(300_000_000), codec=codec)
    before = resident_bytes(own_broker)
    code, _offset = produce_to(client, topic, bomb[: REQUEST_BYTES_MAX - 1000])
    assert code in (CORRUPT, INVALID, ErrorCode.MESSAGE_TOO_LARGE)
    assert resident_bytes(own_broker) - before < 150 * MIB
    assert produce_to(client, topic, GOOD)[0] == ErrorCode.NONE


@pytest.mark.parametrize("timestamp", [0, -1, 1, 2**63 - 1, 253_402_300_800_000_0])
def test_extreme_timestamps_are_taken_or_refused_by_their_limits(
    client: RawClient, address: str, timestamp: int
) -> None:
    name = create_topic(address, message_timestamp_after_max_ms=3_600_000, retention_ms=-1)
    code, _offset = produce_to(client, name, batch(b"x", timestamp=timestamp))
    in_future = timestamp > time.time() * 1000 + 3_600_000
    assert code == (ErrorCode.INVALID_TIMESTAMP if in_future else ErrorCode.NONE)


# -- offsets, sizes and times --


@pytest.mark.parametrize("offset", [-1, -3, -(2**63), 2**63 - 1, 10**12])
def test_fetching_from_offsets_that_do_not_exist(client: RawClient, topic: str, offset: int) -> None:
    assert fetch_from(client, topic, offset, max_wait_ms=0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    "options",
    [
        {"max_bytes": 0},
        {"max_bytes": -1},
        {"partition_max_bytes": 0},
        {"partition_max_bytes": -1},
        {"min_bytes": -1},
        {"max_wait_ms": -1},
        {"max_wait_ms": -(2**31)},
        {"max_wait_ms": 0, "min_bytes": LARGEST},
        {"max_bytes": LARGEST, "partition_max_bytes": LARGEST},
        {"isolation_level": 1},
        {"isolation_level": 77},
    ],
    ids=str,
)
def test_fetch_limits_at_their_extremes(client: RawClient, topic: str, options: dict[str, int]) -> None:
    assert produce_to(client, topic, GOOD)[0] == ErrorCode.NONE
    part = fetch_from(client, topic, 0, **options)
    assert part.error_code == 0
    assert records_of(part), "at least one batch, whatever the limits"


@pytest.mark.parametrize("timestamp", [-3, 0, 1, 2**63 - 1, -(2**63), -6, -100])
def test_list_offsets_at_extreme_timestamps(client: RawClient, topic: str, timestamp: int) -> None:
    [(code, offset)] = ask_offsets(client, {(topic, 0): timestamp}).values()
    if timestamp in (-6, -100, -(2**63)):
        assert code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.NONE)
    else:
        assert code == 0
        assert offset >= -1


@pytest.mark.parametrize("offset", [-2, -(2**63), 2**63 - 1, 10**12])
def test_deleting_records_before_offsets_that_do_not_exist(
    client: RawClient, topic: str, offset: int
) -> None:
    assert delete_before(client, topic, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_acks_that_do_not_exist(client: RawClient, topic: str, acks: int) -> None:
    assert produce_to(client, topic, GOOD, acks=acks)[0] == ErrorCode.INVALID_REQUIRED_ACKS


def test_topics_with_absurd_partitions_or_replicas_are_refused(client: RawClient) -> None:
    for partitions, replicas in ((0, 1), (-2, 1), (LARGEST, 1), (1, 0), (1, 32767), (1, -2)):
        name = new_topic_name()
        request = create_topics.CreateTopicsRequest(
            topics=[
                create_topics.CreatableTopic(
                    name=name, num_partitions=partitions, replication_factor=replicas
                )
            ],
            timeout_ms=2_000,
        )
        [answer] = client.call(request, 5).topics
        assert answer.error_code in (
            ErrorCode.INVALID_PARTITIONS,
            ErrorCode.INVALID_REPLICATION_FACTOR,
        ), (partitions, replicas, ErrorCode(answer.error_code))


def test_a_topic_grown_absurdly_is_refused(client: RawClient, topic: str) -> None:
    for count in (0, -1, 120_000, 200_000, LARGEST):
        grown = create_partitions.CreatePartitionsTopic(name=topic, count=count, assignments=None)
        request = create_partitions.CreatePartitionsRequest(topics=[grown], timeout_ms=2_000)
        [answer] = client.call(request, 3).results
        assert answer.error_code == ErrorCode.INVALID_PARTITIONS, (count, ErrorCode(answer.error_code))


def test_the_same_partition_twice_in_one_request(client: RawClient, topic: str) -> None:
    answer = client.call(produce_request([((topic, 0), GOOD), ((topic, 0), GOOD)]), 9)
    assert answer.responses
    request = fetch_request([((topic, 0), 0), ((topic, 0), 0)], max_wait_ms=0)
    assert fetched(client.call(request, 12))


# -- clients that take and do not read --


def test_ten_thousand_pipelined_requests_are_answered_in_order(client: RawClient) -> None:
    request = api_versions.ApiVersionsRequest()
    stream = b"".join(client.encoded(request, 0) for _ in range(10_000))
    client.sock.setblocking(False)
    sent = 0
    deadline = time.monotonic() + 2
    while sent < len(stream) and time.monotonic() < deadline:
        try:
            sent += client.sock.send(stream[sent : sent + 65536])
        except BlockingIOError:
            time.sleep(0.01)  # it may take more when it has answered some
    client.sock.settimeout(60)
    assert_answers(client.address)
    # The broker may have stopped reading: what it has read it answers, and then it reads on.
    answered = 0
    while answered < 10_000:
        assert client.receive().error_code == 0  # receive() compares the correlation ids
        answered += 1
        if sent < len(stream):
            sent += client.sock.send(stream[sent : sent + 1000])


def test_a_client_that_never_reads_costs_little_memory(own_broker: Broker) -> None:
    address = own_broker.bootstrap
    name = create_topic(address)
    with RawClient(address) as writer:
        for _ in range(5):
            produce_to(writer, name, batch(b"x" * 900_000))
    before = resident_bytes(own_broker)
    clients = [RawClient(address, receive_buffer_bytes=4096) for _ in range(20)]
    for number, client in enumerate(clients):
        request: metadata.MetadataRequest | produce.ProduceRequest
        request = metadata.MetadataRequest(topics=None)
        version = 9
        one = (
            client.encoded(fetch_request({(name, 0): 0}), 12)
            if number % 2
            else client.encoded(request, version)
        )
        client.sock.setblocking(False)
        try:
            for _ in range(200):
                client.sock.send(one * 50)
        except BlockingIOError:
            pass
    # The broker stops reading at a point that cannot be seen from here, so look again and again.
    for _ in range(10):
        assert_answers(address)
        assert resident_bytes(own_broker) - before < 64 * MIB
        time.sleep(0.05)
    for client in clients:
        client.close()


# -- at the start --


def start(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pkafka.cli.server_start", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("log.retention.hours=abc", "abc"),
        ("num.partitions=0", "num.partitions"),
        ("log.segment.bytes=1", "log.segment.bytes"),
        ("compression.type=rar", "rar"),
        ("listeners=PLAINTEXT:/nonsense", "listeners"),
        ("listeners=SSL://127.0.0.1:0", "SSL"),
        ("listeners=PLAINTEXT://127.0.0.1:99999", "99999"),
        ("listeners=PLAINTEXT://no-such-host.invalid:0", "no-such-host.invalid"),
        ("max.connections.per.ip.overrides=no-such-host.invalid:3", "no-such-host.invalid"),
        ("listener.name.plaintext.max.connections=many", "listener.name.plaintext.max.connections"),
        ("log.dirs=/proc/nothing/can/be/written/here", "/proc/nothing"),
        ("pkafka.workers=-1", "pkafka.workers"),
        ("process.roles=broker", "process.roles"),
    ],
)
def test_a_bad_setting_is_refused_in_one_line_that_names_it(tmp_path: Path, setting: str, named: str) -> None:
    said = start("--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", setting, cwd=tmp_path)
    assert said.returncode in (1, 2)  # 2: the setting alone is wrong; 1: it cannot be had here and now
    assert said.stdout == ""
    lines = [line for line in said.stderr.splitlines() if line.startswith("pk-server-start: ")]
    assert len(lines) == 1, said.stderr
    assert named in lines[0]
    assert "Traceback" not in said.stderr


def test_a_kraft_server_properties_is_refused_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\ncontroller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
    )
    said = start(str(file), cwd=tmp_path)
    assert said.returncode in (1, 2)  # 2: the setting alone is wrong; 1: it cannot be had here and now
    [line] = said.stderr.splitlines()
    assert "process.roles" in line
    assert list(tmp_path.iterdir()) == [file]
