"""Reports over logs, as queries on the tables of ``pkafka-log``: what happened when, what takes the room, who wrote it.

Each is one query of Spark's SQL over the view ``records`` or ``batches`` (:func:`make_view`), with names of columns as
other commands have them. A log is the directory of a partition: of a topic that lies in several brokers' directories
there are as many.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKET_MS: Final = 3_600_000
TOP: Final = 20

_LOG: Final = "regexp_extract(segment, '^(.*)/', 1)"


class ReportOptions(NamedTuple):
    """What can be asked of reports.

    ``bucket_ms``: of the audit, how long the stretches of time are. ``id_header``: of the audit, the header that tells
    one message from another; without it, time, key and value do. ``top``: of keys, how many of each topic.
    """

    bucket_ms: int = BUCKET_MS
    id_header: str | None = None
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
    columns = (*kind.columns, *(("headers",) if name == "audit" and options.id_header is not None else ()))
    make_view(session, kind.rows, paths, {**read, "columns": ",".join(columns)} if columns else read)
    return kind.query(session, options)


def _audit(session: "SparkSession", options: ReportOptions) -> "DataFrame":
    """Records by log and stretch of time (OBS-7): how many, and how many are doubtful.

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
        SELECT topic, partition, log,
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
        ORDER BY topic, partition, log, time
        """,  # noqa: S608 - nothing of this comes from outside
        args=arguments,
    )


def _size(session: "SparkSession", options: ReportOptions) -> "DataFrame":
    """What each log takes, the largest first; by the headers of batches, so a wrapper of an old format is a record."""
    return session.sql(
        f"""
        SELECT topic, partition, {_LOG} AS log,
            count(DISTINCT segment) AS segments,
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
        ORDER BY bytes DESC, topic, partition, log
        """  # noqa: S608 - as above
    )


def _producers(session: "SparkSession", options: ReportOptions) -> "DataFrame":
    """Who wrote what into each log, of producers that have an id; ``markers`` are ends of their transactions."""
    return session.sql(
        f"""
        SELECT topic, partition, {_LOG} AS log,
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
        ORDER BY topic, partition, log, producer_id, producer_epoch
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
                count(DISTINCT partition) AS partitions,
                max(timestamp) AS last_time
            FROM records
            WHERE error IS NULL AND NOT control
            GROUP BY topic, key
        ), ranked AS (
            SELECT *, sum(records) OVER (PARTITION BY topic) AS all_records, count(*) OVER (PARTITION BY topic) AS keys,
                row_number() OVER (PARTITION BY topic ORDER BY records DESC, key) AS rank
            FROM counted
        )
        SELECT topic, rank, key, records, round(100 * records / all_records, 1) AS percent, bytes, tombstones,
            partitions, last_time, keys
        FROM ranked
        WHERE rank <= :top
        ORDER BY topic, rank
        """,
        args={"top": options.top},
    )


class _Report(NamedTuple):
    """A query, and what of the logs it asks for; all columns of batches, which are but headers."""

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
}
"""The reports that there are."""
