"""Record bytes against Apache Kafka's own reader, writer, converter and validator, both ways."""

import gzip
import random
from collections.abc import Iterator

import cramjam
import pytest

from pkafka.errors import ErrorCode
from pkafka.records import control, legacy, snappy
from pkafka.records.batch import read_header, write_crc
from pkafka.records.builder import RecordFields, build_batch
from pkafka.records.compression import Codec, compress
from pkafka.records.conversion import down_convert
from pkafka.records.errors import RecordError
from pkafka.records.reading import read_batches
from pkafka.records.validation import LONG_MAX, ProduceRules, validate
from tests.interop.line_oracle import LineOracle, line_oracle

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

NOW = 1_700_000_000_000
CODECS = list(Codec)
OLD_CODECS = [codec for codec in Codec if codec is not Codec.ZSTD]


@pytest.fixture(scope="module")
def oracle(kafka_classpath: str) -> Iterator[LineOracle]:
    with line_oracle(kafka_classpath, "RecordsOracle") as started:
        yield started


def word(data: bytes | bytearray | memoryview | None) -> str:
    if data is None:
        return "-"
    return bytes(data).hex() or "="


def fields(record: RecordFields) -> str:
    timestamp, key, value, headers = record
    parts = [str(timestamp), word(key), word(value)]
    parts += [f"{word(name.encode())}:{word(content)}" for name, content in headers]
    return ",".join(parts)


def described(data: bytes | bytearray | memoryview) -> str:
    """The same text that the oracle prints for a record set."""
    parts = ["ok"]
    for header, records in read_batches(data):
        parts.append(
            ",".join(
                str(each).lower()
                for each in (
                    "B",
                    header.magic,
                    header.base_offset,
                    header.last_offset,
                    header.codec,
                    header.is_control,
                    header.is_transactional,
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    header.max_timestamp,
                )
            ).replace("b,", "B,", 1)
        )
        for record in records:
            line = f"R,{record.offset}," + fields(record[1:])
            if header.is_control:
                marker = control.decode_end_marker(record.key, record.value)
                line += f",control={marker.control_type.name}={marker.coordinator_epoch}"
            parts.append(line)
    return " ".join(parts)


def some_records(count: int, seed: int, *, headers: bool = True) -> list[RecordFields]:
    chance = random.Random(seed)
    return [
        (
            NOW + chance.choice((0, 0, 1, -5, 70, 9000, 40_000_000)),
            chance.choice((None, b"", b"key", chance.randbytes(70))),
            chance.choice(
                (None, b"", b"value", b"abc" * 40, chance.randbytes(chance.choice((10, 300, 9000))))
            ),
            [("h", None), ("", b"x"), ("größe", b"")][: chance.randint(0, 3)] if headers else [],
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [1, 3, 200])
def test_java_reads_what_is_built_here(oracle: LineOracle, codec: Codec, count: int) -> None:
    data = build_batch(
        some_records(count, count),
        codec=codec,
        base_offset=41,
        producer_id=9,
        producer_epoch=1,
        base_sequence=3,
    )
    assert oracle.ask(f"read {word(data)}") == described(data)


@pytest.mark.parametrize(
    ("codec", "level"), [(Codec.GZIP, 1), (Codec.LZ4, 1), (Codec.LZ4, 17), (Codec.ZSTD, -7), (Codec.ZSTD, 19)]
)
def test_java_reads_every_level(oracle: LineOracle, codec: Codec, level: int) -> None:
    data = build_batch(some_records(2_000, 1), codec=codec, level=level)
    assert oracle.ask(f"read {word(data)}") == described(data)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("timestamp_type", [0, 1])
def test_what_java_writes_is_read_here(oracle: LineOracle, codec: Codec, timestamp_type: int) -> None:
    records = some_records(150, 7)
    words = " ".join(map(fields, records))
    answer = oracle.ask(f"write {codec} 2 17 {timestamp_type} {NOW} 5 0 0 true {words}")
    data = bytes.fromhex(answer.removeprefix("ok "))
    assert described(data) == oracle.ask(f"read {word(data)}")
    if codec is Codec.NONE and timestamp_type == 0:
        ours = build_batch(
            records, base_offset=17, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True
        )
        assert ours == data


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_go_both_ways(oracle: LineOracle, codec: Codec, magic: int) -> None:
    records = some_records(20, 3, headers=False)
    words = " ".join(map(fields, records))
    theirs = bytes.fromhex(
        oracle.ask(f"write {codec} {magic} 8 0 -1 -1 -1 -1 false {words}").removeprefix("ok ")
    )
    java_reads = oracle.ask(f"read {word(theirs)}")
    rows = [(8 + index, record[0], record[1], record[2]) for index, record in enumerate(records)]
    ours = legacy.build_message_set(rows, magic=magic, codec=codec)
    if codec is Codec.NONE:
        assert ours == theirs
        # Java counts a wrapper as a batch of unknown first offset, so only plain sets print alike.
    got = [tuple(each[:4]) for _, batch in read_batches(theirs) for each in batch]
    want = [(offset, time if magic else -1, key, value) for offset, time, key, value in rows]
    assert got == want
    records_of = [each for each in java_reads.split(" ") if each.startswith("R")]
    ours_read_by_java = [each for each in oracle.ask(f"read {word(ours)}").split(" ") if each.startswith("R")]
    assert ours_read_by_java == records_of
    assert records_of == [f"R,{offset},{time},{word(key)},{word(value)}" for offset, time, key, value in want]


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_down_conversion_yields_what_java_yields(oracle: LineOracle, codec: Codec, magic: int) -> None:
    data = (
        build_batch(some_records(5, 1), codec=codec, base_offset=100)
        + control.build_end_marker(
            committed=True,
            producer_id=1,
            producer_epoch=0,
            coordinator_epoch=2,
            timestamp_ms=NOW,
            base_offset=105,
        )
        + build_batch(some_records(3, 2), codec=codec, base_offset=106, timestamp_type=1)
    )
    theirs = bytes.fromhex(oracle.ask(f"downconvert {magic} {word(data)}").removeprefix("ok "))
    ours = b"".join(down_convert(data, magic))
    if codec is Codec.NONE:
        assert ours == theirs
    assert oracle.ask(f"read {word(ours)}") == oracle.ask(f"read {word(theirs)}")


@pytest.mark.parametrize("committed", [True, False])
def test_markers_are_java_s_byte_for_byte(oracle: LineOracle, committed: bool) -> None:
    ours = control.build_end_marker(
        committed=committed,
        producer_id=77,
        producer_epoch=4,
        coordinator_epoch=12,
        timestamp_ms=NOW,
        base_offset=55,
        leader_epoch=6,
    )
    answer = oracle.ask(f"marker {str(committed).lower()} 55 {NOW} 6 77 4 12")
    assert answer == f"ok {word(ours)}"
    assert oracle.ask(f"read {word(ours)}") == described(ours)


def judged(data: bytes | bytearray, rules: ProduceRules) -> str:
    """What validation says, in the oracle's words."""
    try:
        result = validate(data, rules, now_ms=NOW)
    except RecordError as problem:
        return " ".join(["error", problem.code.name, *(str(index) for index, _ in problem.record_errors)])
    for batch in result.batches:
        assert batch.max_timestamp == read_header(result.data, batch.position).max_timestamp
    return f"ok {word(result.data)}"


def asked(oracle: LineOracle, data: bytes | bytearray, rules: ProduceRules) -> str:
    codec = -1 if rules.codec is None else int(rules.codec)
    answer = oracle.ask(
        f"validate {rules.produce_version} {str(rules.compacted).lower()} {rules.timestamp_type} "
        f"{rules.timestamp_before_max_ms} {rules.timestamp_after_max_ms} {rules.message_bytes_max} {codec} {NOW} "
        f"{word(data)}"
    )
    return answer.split(" (")[0]


def agree(oracle: LineOracle, data: bytes | bytearray, rules: ProduceRules) -> str:
    """Assert that both say the same: the same error and records at fault, or sets that read the same."""
    theirs, ours = asked(oracle, bytes(data), rules), judged(bytearray(data), rules)
    if theirs.startswith("ok ") and ours.startswith("ok ") and theirs != ours:
        assert oracle.ask("read " + ours[3:]) == oracle.ask("read " + theirs[3:])
    else:
        assert ours == theirs
    return ours


def forged(data: bytes | bytearray, position: int, content: bytes) -> bytearray:
    """A copy with other bytes at ``position`` and a right checksum."""
    copy = bytearray(data)
    copy[position : position + len(content)] = content
    write_crc(copy, 0, len(copy))
    return copy


RULES = [
    ProduceRules(),
    ProduceRules(timestamp_type=1),
    ProduceRules(compacted=True),
    ProduceRules(timestamp_before_max_ms=3, timestamp_after_max_ms=60),
    ProduceRules(timestamp_before_max_ms=0, timestamp_after_max_ms=LONG_MAX, compacted=True),
    ProduceRules(message_bytes_max=700),
    ProduceRules(codec=Codec.NONE),
    ProduceRules(codec=Codec.LZ4),
    ProduceRules(codec=Codec.ZSTD, timestamp_type=1),
    ProduceRules(produce_version=3),
    ProduceRules(produce_version=2),
    ProduceRules(produce_version=2, timestamp_type=1, codec=Codec.GZIP),
]


@pytest.mark.parametrize("rules", RULES, ids=range(len(RULES)))
@pytest.mark.parametrize("codec", CODECS)
def test_validation_agrees_on_good_batches(oracle: LineOracle, rules: ProduceRules, codec: Codec) -> None:
    for seed, count in ((1, 1), (2, 4), (3, 60)):
        agree(oracle, build_batch(some_records(count, seed), codec=codec), rules)
    keyed: list[RecordFields] = [(NOW, b"k", b"v", ()), (NOW + 2, b"k", None, ())]
    agree(oracle, build_batch(keyed, codec=codec), rules)
    agree(oracle, build_batch(keyed, codec=codec, producer_id=4, producer_epoch=0, base_sequence=0), rules)
    agree(oracle, build_batch([(-1, b"k", b"v", ())], codec=codec), rules)
    agree(oracle, build_batch(keyed, codec=codec, timestamp_type=1), rules)
    agree(oracle, build_batch(keyed, codec=codec) + build_batch(keyed, codec=codec), rules)
    agree(oracle, build_batch(keyed, codec=codec) + b"cut", rules)


@pytest.mark.parametrize("rules", RULES, ids=range(len(RULES)))
@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_validation_agrees_on_old_messages(
    oracle: LineOracle, rules: ProduceRules, codec: Codec, magic: int
) -> None:
    rows = [
        (index, record[0], record[1], record[2])
        for index, record in enumerate(some_records(6, 5, headers=False))
    ]
    agree(oracle, legacy.build_message_set(rows, magic=magic, codec=codec), rules)
    agree(oracle, legacy.build_message_set(rows[:1], magic=magic, codec=codec, timestamp_type=1), rules)
    two = legacy.build_message_set(rows, magic=magic, codec=codec) * 2
    agree(oracle, two, rules)
    agree(oracle, two[:-3], rules)


def hostile_headers() -> dict[str, bytearray]:
    """Batches with a right checksum and a wrong header."""
    good = build_batch(
        [(NOW, b"k", b"v", ()), (NOW + 1, b"k", b"w", ())], producer_id=3, producer_epoch=0, base_sequence=0
    )
    return {
        "base offset": forged(good, 0, b"\x00" * 7 + b"\x05"),
        "magic 3": forged(good, 16, b"\x03"),
        "length 48": forged(good, 8, b"\x00\x00\x00\x0d"),
        "length negative": forged(good, 8, b"\xff\xff\xff\xff"),
        "length beyond": forged(good, 8, b"\x00\x00\xff\xff"),
        "last delta": forged(good, 23, b"\x00\x00\x00\x05"),
        "last delta negative": forged(good, 23, b"\xff\xff\xff\xf0"),
        "count zero": forged(good, 57, b"\x00\x00\x00\x00"),
        "count negative": forged(good, 57, b"\xff\xff\xff\xff"),
        "count and delta too large": forged(forged(good, 57, b"\x00\x00\x00\x03"), 23, b"\x00\x00\x00\x02"),
        "count and delta too small": forged(forged(good, 57, b"\x00\x00\x00\x01"), 23, b"\x00\x00\x00\x00"),
        "control": forged(good, 21, b"\x00\x20"),
        "sequence negative": forged(good, 53, b"\xff\xff\xff\xf0"),
        "max timestamp": forged(good, 35, b"\x00" * 8),
        "empty": bytearray(),
        "rubbish": bytearray(b"rubbish" * 9),
    }


@pytest.mark.parametrize("name", hostile_headers())
@pytest.mark.parametrize("version", [2, 3, 11])
def test_validation_agrees_on_hostile_headers(oracle: LineOracle, name: str, version: int) -> None:
    agree(oracle, hostile_headers()[name], ProduceRules(produce_version=version))


def test_validation_is_never_laxer_than_java_on_damaged_records(oracle: LineOracle) -> None:
    chance = random.Random(11)
    good = build_batch([*some_records(3, 4), (NOW, b"k", b"v" * 100, [("a", b"b")])])
    refused = 0
    for _ in range(300):
        place = chance.randrange(61, len(good))
        bad = forged(good, place, bytes((chance.randrange(256),)))
        theirs, ours = asked(oracle, bad, ProduceRules()), judged(bytearray(bad), ProduceRules())
        if theirs.startswith("error"):
            refused += 1
            assert ours.startswith("error"), (place, theirs)
            assert ErrorCode[ours.split()[1]] in (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP)
        elif ours.startswith("ok"):
            assert oracle.ask("read " + ours[3:]).startswith("ok")
    assert refused > 20


def with_payload(payload: bytes, codec: int, count: int) -> bytearray:
    """A batch around bytes that somebody else compressed."""
    batch = build_batch([(NOW, b"k", b"v", ())])
    batch[61:] = payload
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[21:23] = codec.to_bytes(2, "big")
    batch[23:27] = (count - 1).to_bytes(4, "big")
    batch[57:61] = count.to_bytes(4, "big")
    write_crc(batch, 0, len(batch))
    return batch


_SKIPPABLE = (0x184D2A53).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"about"


def foreign_payloads() -> dict[str, tuple[Codec, bytes, int]]:
    """Streams of other compressors, which real clients send."""
    rows: list[RecordFields] = [(NOW, b"k", b"value %d" % (index % 7) * 30, ()) for index in range(900)]
    body = bytes(build_batch(rows)[61:])
    xerial = snappy.compress(memoryview(body))
    return {
        "snappy raw": (Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(body)), 900),
        "snappy streams in a row": (
            Codec.SNAPPY,
            snappy.compress(memoryview(body[:1000])) + snappy.compress(memoryview(body[1000:])),
            900,
        ),
        "snappy cut off": (Codec.SNAPPY, xerial[:-5], 900),
        "snappy negative block": (Codec.SNAPPY, xerial[:16] + b"\xff" * 4 + xerial[20:], 900),
        "lz4 linked blocks": (Codec.LZ4, bytes(cramjam.lz4.compress(body)), 900),
        "lz4 cut off": (Codec.LZ4, compress(Codec.LZ4, body)[:-6], 900),
        "gzip members in a row": (Codec.GZIP, gzip.compress(body[:1000]) + gzip.compress(body[1000:]), 900),
        "gzip cut off": (Codec.GZIP, gzip.compress(body)[:-20], 900),
        "zstd frames in a row": (
            Codec.ZSTD,
            bytes(cramjam.zstd.compress(body[:1000])) + bytes(cramjam.zstd.compress(body[1000:])),
            900,
        ),
        "zstd behind a skippable frame": (Codec.ZSTD, _SKIPPABLE + bytes(cramjam.zstd.compress(body)), 900),
        "zstd before a skippable frame": (Codec.ZSTD, bytes(cramjam.zstd.compress(body)) + _SKIPPABLE, 900),
        "zstd skippable frame cut off": (Codec.ZSTD, _SKIPPABLE[:-1], 900),
        "zstd cut off": (Codec.ZSTD, bytes(cramjam.zstd.compress(body))[:-9], 900),
        "zstd garbage": (Codec.ZSTD, b"\x28\xb5\x2f\xfd" + b"\xff" * 40, 900),
        "gzip under the bits of zstd": (Codec.ZSTD, gzip.compress(body), 900),
    }


@pytest.mark.parametrize("name", foreign_payloads())
def test_foreign_streams_are_taken_where_java_takes_them(oracle: LineOracle, name: str) -> None:
    codec, payload, count = foreign_payloads()[name]
    data = with_payload(payload, codec, count)
    theirs, ours = asked(oracle, data, ProduceRules()), judged(bytearray(data), ProduceRules())
    if theirs.startswith("ok"):
        assert ours == theirs
        assert described(data) == oracle.ask(f"read {word(data)}")
    else:
        # Java's answer to a damaged stream depends on where it notices, UNKNOWN_SERVER_ERROR among them.
        assert ours == "error CORRUPT_MESSAGE"


def test_a_zstd_stream_without_records_is_refused_by_both(oracle: LineOracle) -> None:
    data = with_payload(_SKIPPABLE, Codec.ZSTD, 900)
    assert asked(oracle, data, ProduceRules()) == judged(data, ProduceRules()) == "error INVALID_RECORD"


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused_by_both(oracle: LineOracle, codec: int) -> None:
    data = with_payload(b"\x00" * 20, codec, 1)
    assert asked(oracle, data, ProduceRules()).startswith("error")
    assert judged(data, ProduceRules()) == "error CORRUPT_MESSAGE"
