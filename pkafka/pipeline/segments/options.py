"""The options and columns of the data source ``pkafka-log``, as values. No Spark and no files."""

import json
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

from pkafka.pipeline.segments.plan import SPLIT_BYTES, SourceError, Wanted
from pkafka.tools.logs.selection import Selection, moment_ms

T = TypeVar("T")

# Names and types of what a record is are those of Spark's own source for Kafka.
RECORD_COLUMNS: Final[Mapping[str, str]] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
    "batchBaseOffset": "bigint",
    "producerId": "bigint",
    "producerEpoch": "int",
    "sequence": "int",
    "transactional": "boolean",
    "control": "boolean",
    "codec": "string",
    "leaderEpoch": "int",
    "magic": "int",
    "segment": "string",
    "position": "bigint",
    "error": "string",
}
"""The columns of a row per record, with their types in Spark's SQL."""

BATCH_COLUMNS: Final[Mapping[str, str]] = {
    "topic": "string",
    "partition": "int",
    "baseOffset": "bigint",
    "lastOffset": "bigint",
    "recordsCount": "int",
    "baseTimestamp": "timestamp",
    "maxTimestamp": "timestamp",
    "timestampType": "int",
    "producerId": "bigint",
    "producerEpoch": "int",
    "baseSequence": "int",
    "lastSequence": "int",
    "transactional": "boolean",
    "control": "boolean",
    "deleteHorizon": "timestamp",
    "codec": "string",
    "leaderEpoch": "int",
    "magic": "int",
    "crc": "bigint",
    "size": "bigint",
    "segment": "string",
    "position": "bigint",
    "error": "string",
}
"""The columns of a row per batch; a message of an old format is a batch of its own."""

ROWS: Final[Mapping[str, Mapping[str, str]]] = {"records": RECORD_COLUMNS, "batches": BATCH_COLUMNS}

NARROWING: Final = (
    "topic",
    "partition",
    "startingOffset",
    "endingOffset",
    "startTimestamp",
    "endTimestamp",
)
"""Options that say which records are wanted."""

_OPTIONS: Final = ("path", "paths", "rows", "columns", "splitBytes", *NARROWING)
_UNITS: Final = {"k": 10, "m": 20, "g": 30}


class ReadOptions(NamedTuple):
    """What to read: where, a row of what, which of its columns, and what of the logs."""

    paths: tuple[str, ...]
    rows: str
    columns: tuple[str, ...]
    wanted: Wanted
    split_bytes: int

    @property
    def ddl(self) -> str:
        """The columns as a schema of Spark's."""
        types = ROWS[self.rows]
        return ", ".join(f"`{name}` {types[name]}" for name in self.columns)


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a read; their names are taken in any case, as Spark takes them.

    ``path``: directories, segments or patterns with commas between them. ``rows``: ``records`` or ``batches``.
    ``columns``: names, with commas between them. ``topic``, ``partition``: one or more, with commas between them.
    ``startingOffset`` and ``startTimestamp``: from there on; ``endingOffset`` and ``endTimestamp``: up to there, but
    without it; times in ms or as ISO 8601, UTC unless they say otherwise. ``splitBytes``: what a task reads at most.

    Raises:
        SourceError: there is no such option, or a value makes no sense.
    """
    known = {name.lower(): name for name in _OPTIONS}
    values: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() not in known:
            raise SourceError(f"there is no option {name}; there are {', '.join(sorted(_OPTIONS))}")
        values[known[name.lower()]] = value
    rows = values.get("rows", "records")
    if rows not in ROWS:
        raise SourceError(f"rows is {' or '.join(ROWS)}, not {rows!r}")
    columns = _names(values.get("columns", "")) or tuple(ROWS[rows])
    for name in columns:
        if name not in ROWS[rows]:
            raise SourceError(f"there is no column {name!r} of {rows}; there are {', '.join(ROWS[rows])}")
    if len(set(columns)) < len(columns):
        raise SourceError(f"columns names one twice: {', '.join(columns)}")
    paths = _names(values.get("path", "")) + tuple(json.loads(values.get("paths", "[]")))
    if not paths:
        raise SourceError("load() needs a data directory, a partition's directory, a segment or a pattern")
    split_bytes = _value(values, "splitBytes", _bytes)
    return ReadOptions(
        paths, rows, columns, _wanted(values), SPLIT_BYTES if split_bytes is None else split_bytes
    )


def _wanted(values: Mapping[str, str]) -> Wanted:
    topics, partitions = _names(values.get("topic", "")), _value(values, "partition", _numbers)
    selection = Selection(
        _value(values, "startingOffset", int),
        _value(values, "endingOffset", int),
        _value(values, "startTimestamp", moment_ms),
        _value(values, "endTimestamp", moment_ms),
    )
    return Wanted(
        frozenset(topics) if topics else None,
        frozenset(partitions) if partitions else None,
        selection,
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, _names(text)))


def _bytes(text: str) -> int:
    shift = _UNITS.get(text[-1:].lower(), 0)
    number = int(text[:-1] if shift else text) << shift
    if number <= 0:
        raise ValueError(text)
    return number


def _value(values: Mapping[str, str], name: str, read: Callable[[str], T]) -> T | None:
    text = values.get(name)
    if text is None:
        return None
    try:
        return read(text.strip())
    except ValueError:
        raise SourceError(f"{name} cannot be {text!r}") from None
