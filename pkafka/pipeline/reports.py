"""Reports over logs, as queries on the tables of ``pkafka-log``: events, sizes, which producers wrote.

Each is one query of Spark's SQL over the view ``records`` or ``batches`` (:func:`make_view`), with names of columns as
other commands have them. A log is the directory of a partition: of a topic that lies in several brokers' directories
there are as many.

An answer is small beside what it was made of, so one task puts it in order: sorting it in parallel would run the query
once more, to see where the parts may be cut. For the same reason different values are counted as a set, within the one
aggregation, and not as ``count(DISTINCT ...)``, which makes two more. On small logs stages are what takes the time.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from pkafka.clients.audit import ID_HEADER, TIME_HEADER
from pkafka.model import CONSUMER_OFFSETS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from pkafka.pipeline.segments.plan import Segment

BUCKET_MS: Final = 3_600_000
TOP: Final = 20

_LOG: Final = "regexp_extract(segment, '^(.*)/', 1)"


class ReportOptions(NamedTuple):
    """What can be asked of reports.

    ``bucket_ms``: of the audit, how long the stretches of time are. ``id_header``: of the audit, the header that tells
    one message from another; without it, time, key and value do, and between tiers what the audit's interceptor writes.
    ``tiers``: of the audit, what is compared: a name, and the regular expression that is found in the directories of
    its logs; the first is what all should have. ``top``: of keys, how many of each topic.
    """

    bucket_ms: int = BUCKET_MS
    id_header: str | None = None
    tiers: tuple[tuple[str, str], ...] = ()
    top: int = TOP


DEFAULTS: Final = ReportOptions()


def make_view(
    session: "SparkSession", rows: str, paths: Sequence[str], options: Mapping[str, str]
) -> "DataFrame":
    """Make the view ``records`` or ``batches``, as ``rows`` says, of the logs below paths.

    Args:
        session: where it is made.
        rows: which of them.
        paths: data directories, partitions' directories, segments and patterns.
        options: more of those that the data source takes.
    """
    reader = session.read.format("pkafka-log").options(**{**options, "rows": rows})
    table = reader.option("paths", json.dumps(list(paths))).load()
    table.createOrReplaceTempView(rows)
    return table


def report(
    session: "SparkSession",
    name: str,
    paths: Sequence[str],
    read: Mapping[str, str],
    options: ReportOptions = DEFAULTS,
) -> "DataFrame":
    """A report by its name in ``REPORTS``.

    Args:
        session: where it is made.
        name: of the report.
        paths, read: as of :func:`make_view`.
        options: of the report.
    """
    kind = REPORTS[name]
    if name == "audit" and options.tiers:
        kind = _TIERS
    elif name == "audit" and options.id_header is not None:
        kind = kind._replace(columns=(*kind.columns, "headers"))
    if name == "lag":
        _view_of_ends(session, paths, read)
    make_view(
        session, kind.rows, paths, {**read, "columns": ",".join(kind.columns)} if kind.columns else read
    )
    return kind.query(session, options)


def _audit(session: "SparkSession", options: ReportOptions) -> "DataFrame":
    """Records by log and stretch of time: how many, and how many are doubtful.

    ``duplicates``: as an earlier one of the same log, or with its offset. ``missing``: offsets between the one before
    and this one, which compaction and loss leave. ``late``: earlier than the record before. ``damaged``: places where
    no batch could be read; they have no time.
    """
    header = options.id_header
    id_of = "named_struct('a', xxhash64(timestamp, key, value), 'b', hash(timestamp, key, value))"
    arguments: dict[str, object] = {"bucket_us": options.bucket_ms * 1000}
    if header is not None:
        id_of = "try_element_at(filter(headers, each -> each.key = :header), 1).value"
        arguments["header"] = header
    return session.sql(
        f"""
        WITH placed AS (
            SELECT topic, partition, offset, timestamp, error, control, {_LOG} AS log, {id_of} AS id FROM records
        ), compared AS (
            SELECT *, lag(offset) OVER in_order AS before, lag(timestamp) OVER in_order AS earlier,
                row_number() OVER (PARTITION BY log, id ORDER BY offset) AS copy
            FROM placed
            WINDOW in_order AS (PARTITION BY log ORDER BY offset)
        )
        SELECT /*+ REPARTITION(1) */ topic, partition, log,
            timestamp_micros(unix_micros(timestamp) - pmod(unix_micros(timestamp), :bucket_us)) AS time,
            count(offset) AS records,
            count_if(control) AS control_records,
            min(offset) AS first_offset,
            max(offset) AS last_offset,
            count_if(offset = before OR (copy > 1 AND id IS NOT NULL AND NOT control)) AS duplicates,
            coalesce(sum(greatest(offset - before - 1, 0)), 0) AS missing,
            count_if(timestamp < earlier) AS late,
            count(error) AS damaged
        FROM compared
        GROUP BY ALL
        SORT BY topic, partition, log, time
        """,  # noqa: S608 - nothing of this comes from outside
        args=arguments,
    )


def _tiers(session: "SparkSession", options: ReportOptions) -> "DataFrame":
    """What became of messages from one tier to the next, by tier and the time at which they were first sent.

    A header tells messages apart, and another has the times of all producers that sent them on. The interceptor of the
    audit (:mod:`pkafka.clients.audit`) writes both. Without a time, that of the record counts. A record that lies in
    the logs of several replicas is one.

    ``repeats``: copies of a message within the tier, but for one. ``lost``: messages that the first tier has and this
    one lacks. ``unexpected``: the reverse. ``delay``: from the first sending to the arrival in this tier, which is the
    last sending, or else the time of the append where the topic keeps that. ``unstamped``: records without an id.
    """
    names, patterns = zip(*options.tiers, strict=True)
    cases = " ".join(f"WHEN {_LOG} RLIKE :pattern{number} THEN {number}" for number in range(len(names)))
    arguments: dict[str, object] = {f"pattern{number}": each for number, each in enumerate(patterns)}
    arguments |= {f"name{number}": each for number, each in enumerate(names)}
    arguments |= {"id": options.id_header or ID_HEADER, "time": TIME_HEADER, "bucket_ms": options.bucket_ms}
    listed = ", ".join(f":name{number}" for number in range(len(names)))
    return session.sql(
        f"""
        WITH placed AS (
            SELECT CASE {cases} END AS tier, topic, partition, offset, timestamp, timestampType,
                try_element_at(filter(headers, each -> each.key = :id), 1).value AS id,
                transform(
                    filter(headers, each -> each.key = :time), each -> try_cast(string(each.value) AS BIGINT)
                ) AS times
            FROM records
            WHERE error IS NULL AND NOT control
        ), timed AS (
            SELECT tier, topic, partition, offset, id,
                coalesce(try_element_at(times, 1), unix_millis(timestamp)) AS sent,
                CASE WHEN size(times) > 1 THEN element_at(times, -1)
                    WHEN timestampType = 1 THEN unix_millis(timestamp) END AS arrived
            FROM placed
            WHERE tier IS NOT NULL
        ), messages AS (
            SELECT id, min(sent) AS sent, collect_set(
                named_struct('tier', tier, 'topic', topic, 'partition', partition, 'offset', offset, 'arrived', arrived)
            ) AS places
            FROM timed
            WHERE id IS NOT NULL
            GROUP BY id
        ), seen AS (
            SELECT sent, tier, exists(places, each -> each.tier = 0) AS is_sent,
                filter(places, each -> each.tier = one.tier) AS here
            FROM messages LATERAL VIEW explode(sequence(0, {len(names) - 1})) one AS tier
        ), counted AS (
            SELECT tier, sent, size(here) AS records, int(size(here) > 0) AS messages,
                greatest(size(here) - 1, 0) AS repeats, int(is_sent AND size(here) = 0) AS lost,
                int(NOT is_sent AND size(here) > 0) AS unexpected,
                array_min(transform(here, each -> if(each.arrived < sent, 0, each.arrived - sent))) AS delay,
                0 AS unstamped
            FROM seen
            UNION ALL
            SELECT tier, min(sent), 1, 0, 0, 0, 0, NULL, 1
            FROM timed
            WHERE id IS NULL
            GROUP BY tier, topic, partition, offset
        )
        SELECT /*+ REPARTITION(1) */ array({listed})[tier] AS tier,
            timestamp_millis(sent - pmod(sent, :bucket_ms)) AS time,
            sum(records) AS records, sum(messages) AS messages, sum(repeats) AS repeats, sum(lost) AS lost,
            sum(unexpected) AS unexpected, sum(unstamped) AS unstamped,
            bigint(round(avg(delay))) AS delay_avg_ms, max(delay) AS delay_max_ms
        FROM counted
        GROUP BY counted.tier, 2
        HAVING sum(records) + sum(lost) > 0
        SORT BY time, counted.tier
        """,  # noqa: S608 - numbers and names of parameters
        args=arguments,
    )


def _size(session: "SparkSession", options: ReportOptions) -> "DataFrame":
    """What each log takes, the largest first; by the headers of batches, so a wrapper of an old format is a record."""
    return session.sql(
        f"""
        SELECT /*+ REPARTITION(1) */ topic, partition, {_LOG} AS log,
            size(collect_set(segment)) AS segments,
            coalesce(sum(size), 0) AS bytes,
            count(crc) AS batches,
            coalesce(sum(recordsCount), 0) AS records,
            min(baseOffset) AS first_offset,
            max(lastOffset) AS last_offset,
            min(baseTimestamp) AS first_time,
            max(maxTimestamp) AS last_time,
            array_join(array_sort(collect_set(codec)), ',') AS codecs,
            count(error) AS damaged
        FROM batches
        GROUP BY ALL
        SORT BY bytes DESC, topic, partition, log
        """  # noqa: S608 - as above
    )


def _producers(session: "SparkSession", options: ReportOptions) -> "DataFrame":
    """What each producer with an id wrote into each log; ``markers`` are ends of their transactions."""
    return session.sql(
        f"""
        SELECT /*+ REPARTITION(1) */ topic, partition, {_LOG} AS log,
            producerId AS producer_id,
            producerEpoch AS producer_epoch,
            count_if(NOT control) AS batches,
            coalesce(sum(CASE WHEN NOT control THEN recordsCount END), 0) AS records,
            count_if(transactional AND NOT control) AS transactional_batches,
            count_if(control) AS markers,
            min(baseOffset) AS first_offset,
            max(lastOffset) AS last_offset,
            max_by(lastSequence, lastOffset) FILTER (WHERE NOT control) AS last_sequence,
            min(maxTimestamp) AS first_time,
            max(maxTimestamp) AS last_time
        FROM batches
        WHERE producerId >= 0 AND error IS NULL
        GROUP BY ALL
        SORT BY topic, partition, log, producer_id, producer_epoch
        """  # noqa: S608 - as above
    )


def _keys(session: "SparkSession", options: ReportOptions) -> "DataFrame":
    """The keys of each topic with the most records; records without a key count as one key.

    ``bytes`` is the size of keys and values, ``tombstones`` are records without a value.
    """
    return session.sql(
        """
        WITH counted AS (
            SELECT topic, key, count(*) AS records,
                sum(coalesce(length(key), 0) + coalesce(length(value), 0)) AS bytes,
                count_if(value IS NULL) AS tombstones,
                size(collect_set(partition)) AS partitions,
                max(timestamp) AS last_time
            FROM records
            WHERE error IS NULL AND NOT control
            GROUP BY topic, key
        ), ranked AS (
            SELECT *, sum(records) OVER (PARTITION BY topic) AS all_records, count(*) OVER (PARTITION BY topic) AS keys,
                row_number() OVER (PARTITION BY topic ORDER BY records DESC, key) AS rank
            FROM counted
        )
        SELECT /*+ REPARTITION(1) */ topic, rank, key, records, round(100 * records / all_records, 1) AS percent,
            bytes, tombstones, partitions, last_time, keys
        FROM ranked
        WHERE rank <= :top
        SORT BY topic, rank
        """,
        args={"top": options.top},
    )


def _view_of_ends(session: "SparkSession", paths: Sequence[str], read: Mapping[str, str]) -> None:
    """Make the view ``ends``: of every partition of a topic the first offset and the end, by its longest replica.

    The last segment of a log says where the log ends, and its name does where it is empty, so nothing else is read.
    """
    from pkafka.pipeline.segments.plan import find_segments

    logs: dict[tuple[str, int, str], list[Segment]] = {}
    for each in find_segments(paths):
        if each.topic is not None and each.partition is not None:
            logs.setdefault((each.topic, each.partition, os.path.dirname(each.path)), []).append(each)
    firsts = [
        (topic, partition, min(each.base_offset for each in found), max(each.base_offset for each in found))
        for (topic, partition, _), found in logs.items()
    ]
    session.createDataFrame(
        firsts, "topic string, partition int, first bigint, last bigint"
    ).createOrReplaceTempView("logs")
    last = [each.path for found in logs.values() for each in found if each.end_offset is None and each.size]
    columns = {"columns": "topic,partition,lastOffset,maxTimestamp,error"}
    if last:
        make_view(session, "batches", last, {**read, **columns})
    else:
        session.sql(
            "SELECT '' AS topic, 0 AS partition, 0L AS lastOffset, TIMESTAMP '1970-01-01' AS maxTimestamp, "
            "'' AS error WHERE false"
        ).createOrReplaceTempView("batches")
    session.sql(
        """
        SELECT topic, partition, min(first) AS first_offset, max(following) AS log_end_offset, max(time) AS last_time
        FROM (
            SELECT topic, partition, first, last AS following, NULL AS time FROM logs
            UNION ALL
            SELECT topic, partition, NULL, lastOffset + 1, maxTimestamp FROM batches WHERE error IS NULL
        )
        GROUP BY topic, partition
        """
    ).createOrReplaceTempView("ends")


def _lag(session: "SparkSession", options: ReportOptions) -> "DataFrame":
    """How far groups have come, by what they committed into ``__consumer_offsets``, and how far the logs go.

    The last record of a key counts, over all replicas; one without a value takes the offset back. What a transaction
    committed counts when its marker is there. ``lag`` is null where the log of the partition is not among these.
    """
    latest = session.sql(
        f"""
        WITH stored AS (
            SELECT key, value, offset, timestamp, transactional, control, partition, producerId, {_LOG} AS log
            FROM records
            WHERE topic = '{CONSUMER_OFFSETS_TOPIC}' AND error IS NULL
        ), decided AS (
            SELECT key, value, offset, timestamp, control, first_value(if(control, key, NULL)) IGNORE NULLS OVER (
                PARTITION BY log, producerId ORDER BY offset ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
            ) AS marker
            FROM stored
            WHERE transactional
        ), counting AS (
            SELECT key, value, offset, timestamp FROM stored WHERE NOT transactional AND NOT control
            UNION ALL
            SELECT key, value, offset, timestamp FROM decided WHERE NOT control AND hex(marker) = '{_COMMIT_MARKER}'
        )
        SELECT key, latest.value AS value, latest.timestamp AS timestamp
        FROM (
            SELECT key, max_by(named_struct('value', value, 'timestamp', timestamp), offset) AS latest
            FROM counting
            WHERE key IS NOT NULL
            GROUP BY key
        )
        WHERE latest.value IS NOT NULL
        """  # noqa: S608 - constants
    )
    # Not as Arrow: Spark wants pandas for that. What is left is a record for each group and partition.
    committed = session.createDataFrame(latest.rdd.flatMap(_committed_offset), _COMMITTED)
    lag = "if(log_end_offset IS NULL, NULL, log_end_offset - current_offset) AS lag"
    return (
        committed.join(session.table("ends"), ["topic", "partition"], "left")
        .selectExpr(
            *("group", "topic", "partition", "current_offset", "first_offset", "log_end_offset", lag),
            *("committed_time", "last_time"),
        )
        .repartition(1)
        .sortWithinPartitions("group", "topic", "partition")
    )


def _committed_offset(row: "Row") -> "Iterator[tuple[str, str, int, int, datetime]]":
    """A record of ``__consumer_offsets`` as a row of ``_COMMITTED``; no row for records about groups."""
    from pkafka.tools.logs.records.internal_topics import stored_offset

    found = stored_offset(bytes(row["key"]), bytes(row["value"]))
    if found is not None:
        where, what = found
        yield where.group, where.topic, where.partition, what.offset, row["timestamp"]


_COMMITTED: Final = (
    "`group` string, topic string, partition int, current_offset bigint, committed_time timestamp"
)
_COMMIT_MARKER: Final = "00000001"  # version 0, and what it says


class _Report(NamedTuple):
    """A query, and the columns of the logs that it reads; of batches it reads all, which are only headers."""

    query: Callable[["SparkSession", ReportOptions], "DataFrame"]
    rows: str
    columns: tuple[str, ...] = ()


_WHERE: Final = ("topic", "partition", "segment", "error")
_WHAT: Final = ("timestamp", "key", "value", "control")
REPORTS: Final[Mapping[str, _Report]] = {
    "audit": _Report(_audit, "records", (*_WHERE, "offset", *_WHAT)),
    "size": _Report(_size, "batches"),
    "producers": _Report(_producers, "batches"),
    "keys": _Report(_keys, "records", ("topic", "partition", "error", *_WHAT)),
    "lag": _Report(_lag, "records", (*_WHERE, "offset", *_WHAT, "transactional", "producerId")),
}
"""The reports that there are."""

_TIERS: Final = _Report(
    _tiers, "records", (*_WHERE, "offset", "timestamp", "timestampType", "control", "headers")
)
