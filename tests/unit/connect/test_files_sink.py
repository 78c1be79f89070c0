"""Records as files: formats, rotation, what is committed, and kills in between."""

import datetime
import decimal
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.connect.connectors.file_store import FileStore
from pkafka.connect.connectors.files_sink import FilesSinkConnector, FilesSinkTask
from pkafka.connect.data.logical import Date, Decimal, Time, Timestamp
from pkafka.connect.data.records import SinkRecord
from pkafka.connect.data.schema import Schema, SchemaBuilder
from pkafka.connect.data.struct import Struct
from pkafka.connect.errors import ConnectError, DataError, RetriableError
from pkafka.model import TopicPartition

AT = TopicPartition("t", 0)


class Sink:
    """A task that writes into a directory, and what it asks of its worker."""

    def __init__(self, directory: Path, *, tolerates: bool = True, **settings: str) -> None:
        self.directory = directory
        self.dead: list[int] = []
        self.waits: list[int] = []
        self._tolerates = tolerates
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.restart()

    def restart(self, **settings: str) -> None:
        self._settings |= {name.replace("_", "."): value for name, value in settings.items()}
        self.task = FilesSinkTask()
        reporter = SimpleNamespace(report=lambda record, _error: self.dead.append(record.offset))
        self.task.initialize(
            SimpleNamespace(
                configs={},
                errant_records=reporter if self._tolerates else None,
                timeout=self.waits.append,
                request_commit=lambda: None,
            )
        )
        self.task.start({"files.url": str(self.directory), "retry.backoff.ms": "7", **self._settings})

    def put(self, *values: Any, first: int = 0, times: tuple[int, ...] = ()) -> None:
        self.task.put(
            [
                SinkRecord(
                    "t",
                    0,
                    None,
                    None,
                    value.schema if isinstance(value, Struct) else None,
                    value,
                    times[number] if times else None,
                    offset=first + number,
                )
                for number, value in enumerate(values)
            ]
        )

    def committed(self, offset: int) -> int:
        return self.task.pre_commit({AT: OffsetAndMetadata(offset)})[AT].offset

    def files(self) -> dict[int, list[Any]]:
        """What files of JSON have, by the offsets in their names."""
        return {
            int(path.name.split("+")[2].split(".")[0]): [
                json.loads(line) for line in path.read_text().splitlines()
            ]
            for path in sorted((self.directory / "t" / "partition=0").glob("t+0+*.json"))
        }


@pytest.fixture
def sink(tmp_path: Path) -> Callable[..., Sink]:
    return lambda **settings: Sink(tmp_path / "out", **settings)


def test_files_are_named_by_their_first_record_and_committed_when_written(sink: Callable[..., Sink]) -> None:
    made = sink(rotate_records="2")
    made.put(1, {"a": 2}, 3, first=5)
    assert made.files() == {5: [1, {"a": 2}]}
    assert made.committed(8) == 7
    made.put(4, first=8)
    assert made.files() == {5: [1, {"a": 2}], 7: [3, 4]}
    assert made.committed(9) == 9
    names = [path.name for path in made.directory.rglob("*.json")]
    assert sorted(names) == ["t+0+00000000000000000005.json", "t+0+00000000000000000007.json"]
    assert not list(made.directory.rglob("*.tmp"))


@pytest.mark.parametrize(
    ("settings", "values", "times", "files"),
    [
        ({"rotate_bytes": "4"}, (1, 2, 3), (), {0: [1, 2]}),
        ({"rotate_interval_ms": "10"}, (1, 2, 3, 4), (100, 109, 110, 90), {0: [1, 2]}),
        ({"rotate_wait_ms": "0"}, (1, 2), (), {0: [1, 2]}),
        ({}, (1, 2), (), {}),
    ],
)
def test_a_file_is_whole(
    sink: Callable[..., Sink], settings: dict[str, str], values: Any, times: Any, files: dict[int, list[Any]]
) -> None:
    made = sink(**settings)
    made.put(*values, times=times)
    assert made.files() == files


def test_records_without_a_value(sink: Callable[..., Sink]) -> None:
    made = sink(rotate_records="2")
    made.put(None, 1, None)
    assert (made.files(), made.committed(3)) == ({}, 1)
    made.put(2, first=3)
    assert made.files() == {1: [1, 2]}
    strict = sink(behavior_on_null_values="fail")
    strict.put(None)
    assert strict.dead == [0]
    with pytest.raises(DataError, match="has no value"):
        sink(behavior_on_null_values="fail", tolerates=False).put(None)


def test_what_could_not_be_written_is_written_later(
    sink: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sink(rotate_records="2", max_retries="1")
    with monkeypatch.context() as broken:
        broken.setattr(FileStore, "write", _fails)
        with pytest.raises(RetriableError):
            made.put(1, 2, 3)
        assert (made.waits, made.committed(3)) == ([7], 0)
    made.put(1, 2, 3)  # the worker gives the same records again
    assert (made.files(), made.committed(3)) == ({0: [1, 2]}, 2)
    monkeypatch.setattr(FileStore, "write", _fails)
    for _ in range(2):
        with pytest.raises(ConnectError) as raised:
            made.put(4, first=3)
    assert not isinstance(raised.value, RetriableError)


def _fails(*_: object) -> None:
    raise RetriableError("full")


@given(runs=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 12), st.booleans()), min_size=1, max_size=8))
def test_each_record_is_in_one_file_whatever_kills_and_rotations_there_are(
    runs: list[tuple[int, int, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each run reads on from what was committed, with another rotation; not every one commits what it wrote."""
    made = Sink(tmp_path_factory.mktemp("files"))
    committed = end = 0
    for rotation, count, commits in [*runs, (1, 0, True)]:
        made.restart(rotate_records=str(rotation))
        end = max(end, committed + count)
        made.put(*range(committed, end), first=committed)
        if commits:
            committed = made.committed(end)
    found = made.files()
    assert sorted(value for values in found.values() for value in values) == list(range(end))
    assert all(values[0] == first for first, values in found.items())


def test_partitions_that_go_elsewhere_are_forgotten(sink: Callable[..., Sink]) -> None:
    made = sink(rotate_records="2")
    made.put(1)
    made.task.close([AT])
    made.put(1, 2)
    assert made.files() == {0: [1, 2]}


def test_json_can_be_compressed(sink: Callable[..., Sink]) -> None:
    made = sink(compression="gzip", rotate_records="2")
    made.put("ä", 2)
    (path,) = made.directory.rglob("*.json.gz")
    assert gzip.decompress(path.read_bytes()) == '"ä"\n2\n'.encode()


INNER = SchemaBuilder.struct().field("x", Schema.INT8).build()
ALL_TYPES = (
    SchemaBuilder.struct()
    .field("i", Schema.INT64)
    .field("f", Schema.OPTIONAL_FLOAT64)
    .field("s", Schema.STRING)
    .field("b", Schema.BYTES)
    .field("t", Schema.BOOLEAN)
    .field("money", Decimal.builder(2).build())
    .field("day", Date.SCHEMA)
    .field("clock", Time.SCHEMA)
    .field("at", Timestamp.SCHEMA)
    .field("list", SchemaBuilder.array(Schema.STRING).build())
    .field("map", SchemaBuilder.map(Schema.STRING, Schema.INT32).build())
    .field("inner", INNER)
    .build()
)


def test_parquet_has_a_column_for_each_field(sink: Callable[..., Sink]) -> None:
    made = sink(format="parquet", rotate_records="1")
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 6000, datetime.UTC)
    day = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    clock = datetime.datetime(1970, 1, 1, 1, 2, 3, tzinfo=datetime.UTC)
    value = Struct(ALL_TYPES)
    for name, each in {
        "i": 1,
        "f": None,
        "s": "ä",
        "b": b"\xff",
        "t": True,
        "money": decimal.Decimal("1.50"),
        "day": day,
        "clock": clock,
        "at": at,
        "list": ["a"],
        "map": {"k": 1},
        "inner": Struct(INNER).put("x", 3),
    }.items():
        value.put(name, each)
    made.put(value)
    (path,) = made.directory.rglob("*.parquet")
    table = pyarrow.parquet.ParquetFile(path).read()
    assert table.to_pylist() == [
        {
            "i": 1,
            "f": None,
            "s": "ä",
            "b": b"\xff",
            "t": True,
            "money": decimal.Decimal("1.50"),
            "day": datetime.date(2026, 1, 2),
            "clock": datetime.time(1, 2, 3),
            "at": at,
            "list": ["a"],
            "map": [("k", 1)],
            "inner": {"x": 3},
        }
    ]
    assert [field.nullable for field in table.schema][:2] == [False, True]


def test_another_schema_begins_another_file(sink: Callable[..., Sink]) -> None:
    made = sink(format="parquet", rotate_records="2")
    one = Struct(SchemaBuilder.struct().field("a", Schema.INT32).build()).put("a", 1)
    other = Struct(SchemaBuilder.struct().field("b", Schema.INT32).build()).put("b", 1)
    made.put(one, other, other)
    found = [
        pyarrow.parquet.ParquetFile(path).read().to_pylist()
        for path in sorted(made.directory.rglob("*.parquet"))
    ]
    assert found == [[{"a": 1}], [{"b": 1}, {"b": 1}]]


def test_what_parquet_has_no_column_for_is_a_dead_letter(sink: Callable[..., Sink]) -> None:
    made = sink(format="parquet", rotate_records="1")
    long = Struct(SchemaBuilder.struct().field("d", Decimal.builder(0).build()).build()).put(
        "d", decimal.Decimal(10**40)
    )
    made.put({"a": 1}, Struct(SchemaBuilder.struct().build()), long)
    assert made.dead == [0, 1, 2]
    assert made.committed(3) == 3


def test_a_url_that_names_no_store_is_refused() -> None:
    with pytest.raises(ConnectError, match="is no place for files"):
        FileStore("odd://x", {})


@pytest.mark.parametrize(
    ("settings", "key", "said"),
    [
        ({"compression": "zstd"}, "compression", "Files of json can be none, gzip."),
        ({"storage.options": "[]"}, "storage.options", "an object of JSON is expected"),
        ({"storage.options": "{"}, "storage.options", "an object of JSON is expected"),
        ({"rotate.records": "0"}, "rotate.records", "at least 1"),
        ({"files.url": ""}, "files.url", "non-empty"),
    ],
)
def test_settings_are_refused(settings: dict[str, str], key: str, said: str) -> None:
    values = FilesSinkConnector().validate({"files.url": "/x", **settings})
    assert [(each.name, said in each.errors[0]) for each in values if each.errors] == [(key, True)]


def test_every_setting_is_documented() -> None:
    assert all(key.documentation for key in FilesSinkConnector.CONFIG.keys.values())
