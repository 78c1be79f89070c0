"""Reports over logs: what they count, on logs whose every record is known."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pkafka.clients.audit import ID_HEADER, TIME_HEADER
from pkafka.pipeline.reports import DEFAULTS, REPORTS, ReportOptions, report
from pkafka.records.compression import Codec
from pkafka.records.control import build_end_marker
from tests.log_files import SegmentFile, name_of, offset_record

pytestmark = pytest.mark.timeout(900)

HOUR = 3_600_000
DAY = 1_700_000_000_000 // (24 * HOUR) * 24 * HOUR


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions of one topic and one of another."""
    made = tmp_path_factory.mktemp("data")
    for name in ("orders-0", "orders-1", "clicks-0"):
        (made / name).mkdir()
    first = SegmentFile()
    first.records([(DAY + each, b"a", b"%d" % each, ()) for each in range(10)])
    first.records([(DAY + 9, b"a", b"9", ())])  # as the one before
    first.next_offset += 5
    first.records([(DAY + HOUR, b"b", None, ()), (DAY + 5, b"c", b"late", ())])
    first.records([(DAY + HOUR, None, b"x", ())], codec=Codec.GZIP)
    path = first.write(made / "orders-0")
    path.write_bytes(path.read_bytes() + b"torn")
    second = SegmentFile(100)
    for sequence in range(3):
        second.records(
            [(DAY + sequence, b"k%d" % sequence, b"v", ())] * 2,
            producer_id=7,
            producer_epoch=1,
            base_sequence=2 * sequence,
            transactional=True,
        )
    marker = build_end_marker(
        committed=True,
        producer_id=7,
        producer_epoch=1,
        coordinator_epoch=0,
        timestamp_ms=DAY + 4,
        base_offset=second.next_offset,
    )
    second.add(marker, 1)
    second.write(made / "orders-1")
    clicks = SegmentFile()
    for number in range(3):
        clicks.records([(DAY, b"k", b"v", (("id", b"%d" % (number // 2)),))])  # type: ignore[list-item] # with headers
    clicks.write(made / "clicks-0")
    return made


def rows(
    spark: SparkSession, name: str, data: Path, options: ReportOptions = DEFAULTS
) -> list[dict[str, Any]]:
    found = [row.asDict() for row in report(spark, name, [str(data)], {}, options).collect()]
    for row in found:
        for column in row:
            if column.endswith("time") and row[column] is not None:
                row[column] = round(row[column].timestamp() * 1000) - DAY
        row.pop("log", None)
    return found


def test_the_audit_finds_what_is_doubtful(spark: SparkSession, data: Path) -> None:
    found = {(row["topic"], row["partition"], row["time"]): row for row in rows(spark, "audit", data)}
    known = {
        place: tuple(row[name] for name in ("records", "duplicates", "missing", "late", "damaged"))
        for place, row in found.items()
    }
    assert known == {
        ("clicks", 0, 0): (3, 2, 0, 0, 0),
        ("orders", 0, None): (0, 0, 0, 0, 1),
        ("orders", 0, 0): (12, 1, 0, 1, 0),
        ("orders", 0, HOUR): (2, 0, 5, 0, 0),
        ("orders", 1, 0): (7, 3, 0, 0, 0),
    }
    assert found["orders", 1, 0]["control_records"] == 1
    assert (found["orders", 0, 0]["first_offset"], found["orders", 0, 0]["last_offset"]) == (0, 17)


def test_messages_are_told_apart_by_a_header_and_time_by_other_stretches(
    spark: SparkSession, data: Path
) -> None:
    options = ReportOptions(bucket_ms=24 * HOUR, id_header="id")
    found = {
        (row["topic"], row["partition"], row["time"]): row["duplicates"]
        for row in rows(spark, "audit", data, options)
    }
    # Without such a header nothing is a duplicate.
    assert found == {("clicks", 0, 0): 1, ("orders", 0, None): 0, ("orders", 0, 0): 0, ("orders", 1, 0): 0}


def test_sizes(spark: SparkSession, data: Path) -> None:
    found = {(row["topic"], row["partition"]): row for row in rows(spark, "size", data)}
    first = found["orders", 0]
    assert first["bytes"] == (data / "orders-0" / name_of(0)).stat().st_size
    names = (
        "segments",
        "batches",
        "records",
        "first_offset",
        "last_offset",
        "codecs",
        "damaged",
        "first_time",
        "last_time",
    )
    assert tuple(first[name] for name in names) == (1, 4, 14, 0, 18, "gzip,none", 1, 0, HOUR)
    assert found["orders", 1]["records"] == 7
    sizes = [row["bytes"] for row in rows(spark, "size", data)]
    assert sizes == sorted(sizes, reverse=True)


def test_producers(spark: SparkSession, data: Path) -> None:
    (found,) = rows(spark, "producers", data)
    assert found == {
        "topic": "orders",
        "partition": 1,
        "producer_id": 7,
        "producer_epoch": 1,
        "batches": 3,
        "records": 6,
        "transactional_batches": 3,
        "markers": 1,
        "first_offset": 100,
        "last_offset": 106,
        "last_sequence": 5,
        "first_time": 0,
        "last_time": 4,
    }


def test_keys(spark: SparkSession, data: Path) -> None:
    found = rows(spark, "keys", data, ReportOptions(top=3))
    names = ("topic", "rank", "key", "records", "percent", "bytes", "tombstones", "partitions", "keys")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("clicks", 1, b"k", 3, 100.0, 6, 0, 1, 1),
        ("orders", 1, b"a", 11, 55.0, 22, 0, 1, 7),
        ("orders", 2, b"k0", 2, 10.0, 6, 0, 1, 7),
        ("orders", 3, b"k1", 2, 10.0, 6, 0, 1, 7),
    ]


def stamped(number: int, *times: int, value: bytes = b"v") -> Any:
    """A record of a message as the audit's interceptor leaves it; the first time is when it was sent first."""
    stamps = [(TIME_HEADER, b"%d" % (DAY + each)) for each in times]
    return (DAY + times[0], b"k", value, ((ID_HEADER, b"%016d" % number), *stamps))


def test_tiers_are_compared_message_by_message(spark: SparkSession, tmp_path: Path) -> None:
    def log(directory: str, *records: Any) -> None:
        segment = SegmentFile()
        for record in records:
            segment.records([record])
        path = tmp_path / directory
        path.mkdir(parents=True)
        segment.write(path)

    sent = [stamped(number, number * 10) for number in range(5)] + [stamped(5, HOUR + 10)]
    log("here/orders-0", *sent)
    log("replica/orders-0", *sent[:4])  # the same records on another broker are no repeats
    log(
        "there/orders-copy-0",
        stamped(0, 0, 100),
        stamped(1, 10, 30),
        stamped(1, 10, 400),  # twice, and counted from the first arrival
        stamped(3, 30, 30),
        stamped(4, 40, 50),
        stamped(9, 60, 60),  # nobody sent it here
        (DAY + 70, None, b"without an id", ()),
    )
    tiers = (("sent", "/(here|replica)/orders-"), ("copied", "/there/"), ("none", "/nowhere/"))
    found = rows(spark, "audit", tmp_path / "*", ReportOptions(tiers=tiers))
    names = (
        "records",
        "messages",
        "repeats",
        "lost",
        "unexpected",
        "unstamped",
        "delay_avg_ms",
        "delay_max_ms",
    )
    assert {(row["tier"], row["time"]): tuple(row[name] for name in names) for row in found} == {
        ("sent", 0): (5, 5, 0, 0, 0, 0, None, None),
        ("copied", 0): (7, 5, 1, 1, 1, 1, 26, 100),
        ("none", 0): (0, 0, 0, 5, 0, 0, None, None),
        ("sent", HOUR): (1, 1, 0, 0, 0, 0, None, None),
        ("copied", HOUR): (0, 0, 0, 1, 0, 0, None, None),
        ("none", HOUR): (0, 0, 0, 1, 0, 0, None, None),
    }
    assert [row["tier"] for row in found] == ["sent", "copied", "none"] * 2


def test_the_lag_of_groups_comes_from_the_logs_alone(spark: SparkSession, tmp_path: Path) -> None:
    def log(name: str, *segments: SegmentFile) -> None:
        (tmp_path / name).mkdir(parents=True)
        for each in segments:
            each.write(tmp_path / name)

    old, new = SegmentFile(100), SegmentFile(140)
    old.records([(DAY, None, b"v", ())] * 40)
    new.records([(DAY + 5, None, b"v", ())] * 10)
    log("a/orders-0", old, new)
    short = SegmentFile(100)
    short.records([(DAY, None, b"v", ())] * 20)
    log("b/orders-0", short)
    log("a/orders-1", SegmentFile(77))  # retention removed everything
    stored = SegmentFile()
    stored.records([offset_record("g", "orders", 0, 90, DAY)])
    stored.records(
        [offset_record("g", "orders", 0, 120, DAY + 1), offset_record("g", "orders", 1, 77, DAY + 2)]
    )
    stored.records([offset_record("g", "gone", 0, 5, DAY + 3, version=0)])
    stored.records([offset_record("left", "orders", 0, 100)])
    stored.records([offset_record("left", "orders", 0, None)])
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    for sequence, (offset, committed) in enumerate(((130, True), (149, False), (150, None))):
        stored.records([offset_record("eos", "orders", 0, offset, DAY)], base_sequence=sequence, **producer)
        if committed is not None:
            how = {"producer_id": 7, "producer_epoch": 0, "coordinator_epoch": 0, "timestamp_ms": DAY}
            stored.add(build_end_marker(committed=committed, base_offset=stored.next_offset, **how), 1)
    log("a/__consumer_offsets-3", stored)
    behind = SegmentFile()
    behind.records([offset_record("g", "orders", 0, 90, DAY)])
    log("b/__consumer_offsets-3", behind)
    names = (
        *("group", "topic", "partition", "current_offset", "first_offset", "log_end_offset", "lag"),
        *("committed_time", "last_time"),
    )
    found = rows(spark, "lag", tmp_path / "*")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("eos", "orders", 0, 130, 100, 150, 20, 0, 5),
        ("g", "gone", 0, 5, None, None, None, 3, None),
        ("g", "orders", 0, 120, 100, 150, 30, 1, 5),
        ("g", "orders", 1, 77, 77, 77, 0, 2, None),
    ]


def test_no_report_asks_more_of_spark_than_its_answer_needs(spark: SparkSession, data: Path) -> None:
    """On small logs stages are what takes the time: none of them counts twice, or runs the query to sort its answer."""
    for name in REPORTS:
        if name == "lag":
            continue
        plan = report(spark, name, [str(data)], {})._jdf.queryExecution().executedPlan().toString()
        exchanges = plan.count("Exchange ")
        assert "rangepartitioning" not in plan, name
        assert exchanges <= {"audit": 4, "keys": 3}.get(name, 2), (name, plan)
