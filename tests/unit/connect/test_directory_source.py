"""Files of a directory as records: formats, order, what was read before, what becomes of files."""

import itertools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.connect.connectors.directory_source import DirectorySourceConnector, DirectorySourceTask
from pkafka.connect.data.struct import Struct
from pkafka.connect.errors import ConnectError, DataError


class Worker:
    """Runs tasks one after the other, and keeps their offsets."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.offsets: dict[str, Mapping[str, Any]] = {}
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.task = self.restarted()

    def restarted(self, share: str = "0/1") -> DirectorySourceTask:
        self.task = DirectorySourceTask()
        reader = SimpleNamespace(
            offsets=lambda wanted: [(each, self.offsets.get(each["file"])) for each in wanted]
        )
        self.task.initialize(SimpleNamespace(configs={}, offset_reader=reader, wait=lambda _timeout_s: False))
        settings = {
            "directory": str(self.directory),
            "topic": "t",
            "file.min.age.ms": "0",
            "task.share": share,
        }
        self.task.start(settings | self._settings)
        return self.task

    def poll(self, *, stores: bool = True) -> list[Any]:
        """The values of one poll; their offsets are stored when all of them are in Kafka."""
        records = self.task.poll() or []
        if stores and records:
            for each in records:
                assert each.source_partition is not None
                self.offsets[each.source_partition["file"]] = each.source_offset or {}
            self.task.commit()
        return [_plain(each.value) for each in records]

    def all(self) -> list[Any]:
        """The values of all polls until one has none."""
        return list(itertools.chain(*iter(self.poll, [])))

    def write(self, name: str, text: str | bytes, modified: int | None = None) -> Path:
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        if modified is not None:
            os.utime(path, (modified, modified))
        return path


def _plain(value: Any) -> Any:
    return (
        {each.name: value.get(each) for each in value.schema.fields} if isinstance(value, Struct) else value
    )


@pytest.fixture
def worker(tmp_path: Path) -> Callable[..., Worker]:
    return lambda **settings: Worker(tmp_path / "in", **settings)


@pytest.mark.parametrize(
    ("format", "content", "values"),
    [
        ("lines", "a\r\nb\n\nlast", ["a", "b", "", "last"]),
        ("json", '{"a": 1}\n\n [null]', [{"a": 1}, [None]]),
        (
            "csv",
            '\ufeffa,b\n1,2\n\n"x\ny",\n3\n',
            [{"a": "1", "b": "2"}, {"a": "x\ny", "b": ""}, {"a": "3", "b": None}],
        ),
        ("text", "a\nb", ["a\nb"]),
        ("bytes", b"\xff\x00", [b"\xff\x00"]),
    ],
)
@pytest.mark.parametrize("batch_size", ["1", "2", "2000"])
def test_each_format_is_read_in_parts_of_any_size(
    worker: Callable[..., Worker], format: str, content: str | bytes, values: list[Any], batch_size: str
) -> None:
    made = worker(format=format, batch_size=batch_size)
    made.write("f", content)
    assert made.all() == values
    assert made.all() == []
    made.restarted()
    assert made.all() == []


@given(st.lists(st.text('ab,"\n\u00e4', max_size=6), max_size=12), st.lists(st.integers(1, 4), min_size=1))
def test_a_task_that_is_killed_between_any_records_goes_on_behind_them(
    rows: list[str], sizes: list[int]
) -> None:
    import csv
    import io
    import tempfile

    text = io.StringIO(newline="")
    csv.writer(text).writerows([["x", "y"], *([row, "end"] for row in rows)])
    with tempfile.TemporaryDirectory() as directory:
        made = Worker(Path(directory) / "in", format="csv")
        made.write("f.csv", text.getvalue())
        found: list[Any] = []
        for size in itertools.chain(sizes, itertools.repeat(3)):
            made.restarted()
            records = list(made.task.poll() or ())[:size]
            if not records:
                break
            found += [_plain(each.value)["x"] for each in records]
            made.offsets["f.csv"] = records[-1].source_offset or {}
        assert found == rows


@pytest.mark.parametrize(("order", "values"), [("name", ["a", "b", "c"]), ("mtime", ["c", "a", "b"])])
def test_files_come_one_after_the_other(worker: Callable[..., Worker], order: str, values: list[str]) -> None:
    made = worker(file_order=order)
    made.write("b", "b\n", 300)
    made.write("a", "a\n", 200)
    made.write("c", "c\n", 100)
    assert made.all() == values


def test_a_pattern_chooses_files_below_the_directory(worker: Callable[..., Worker]) -> None:
    made = worker(file_pattern="**/*.txt")
    made.write("a.txt", "a\n")
    made.write("b.csv", "b\n")
    made.write("in/c.txt", "c\n")
    assert made.all() == ["a", "c"]


def test_a_file_that_may_still_be_written_is_left_alone(worker: Callable[..., Worker]) -> None:
    made = worker(file_min_age_ms="3600000")
    made.write("new", "a\n")
    made.write("old", "b\n", 1000)
    assert made.all() == ["b"]


def test_what_is_appended_to_a_kept_file_is_read(worker: Callable[..., Worker]) -> None:
    made = worker()
    path = made.write("f", "a\n")
    assert made.all() == ["a"]
    with path.open("a") as file:
        file.write("b\n")
    assert made.all() == ["b"]
    made.restarted()
    assert made.all() == []


@pytest.mark.parametrize("after", ["keep", "delete"])
def test_another_file_of_the_same_name_is_read_from_its_beginning(
    worker: Callable[..., Worker], after: str
) -> None:
    made = worker(file_after=after)
    made.write("f", "a\nb\n", 1000)
    assert made.all() == ["a", "b"]
    made.write("f", "x\nb\nc\n", 2000)
    assert made.all() == ["x", "b", "c"]
    made.restarted()
    made.write("f", "d\n", 3000)
    assert made.all() == ["d"]


def test_a_file_leaves_when_its_last_record_is_stored_and_not_before(
    worker: Callable[..., Worker], tmp_path: Path
) -> None:
    made = worker(file_after="move", done_directory=str(tmp_path / "done"), batch_size="1")
    path = made.write("f", "a\nb\n")
    assert made.poll() == ["a"]
    assert made.poll(stores=False) == ["b"]
    assert made.poll() == []
    assert path.exists()
    made.restarted()  # as after a kill
    assert made.all() == ["b"]
    assert made.poll() == []
    assert not path.exists()
    assert (tmp_path / "done" / "f").read_text() == "a\nb\n"


def test_the_same_file_comes_again_and_is_another(worker: Callable[..., Worker], tmp_path: Path) -> None:
    made = worker(file_after="move", done_directory=str(tmp_path / "done"))
    for modified in (1000, 2000):
        made.write("f", "same\n", modified)
        assert made.all() == ["same"]
        assert made.all() == []
    assert sorted(each.name for each in (tmp_path / "done").iterdir()) == ["f", "f.1"]


def test_a_task_that_ended_before_it_could_put_a_file_away_does_it_later(
    worker: Callable[..., Worker],
) -> None:
    made = worker(file_after="delete")
    path = made.write("f", "a\n")
    assert made.poll() == ["a"]
    made.restarted()
    assert made.poll() == []
    assert not path.exists()


def test_an_empty_file_leaves_at_once(worker: Callable[..., Worker]) -> None:
    made = worker(file_after="delete")
    path = made.write("f", "")
    assert made.poll() == []
    assert not path.exists()


def test_tasks_share_the_files(worker: Callable[..., Worker], tmp_path: Path) -> None:
    made = worker()
    for number in range(20):
        made.write(f"f{number}", f"{number}\n")
    configs = {"directory": str(made.directory), "topic": "t"}
    connector = DirectorySourceConnector()
    connector.start(configs)
    found = []
    for task in connector.task_configs(3):
        made.restarted(task["task.share"])
        mine = made.all()
        assert 0 < len(mine) < 20
        found += mine
    assert sorted(map(int, found)) == list(range(20))


@pytest.mark.parametrize(
    ("format", "content", "values", "said"),
    [
        ("json", '1\n{\nNaN\n"\xff"\n2\n', [1, 2], "What ends at byte 4 of f is no json"),
        (
            "csv",
            'a,b\n1,2\n1,2,3\n"1"2,3\n4,5\n',
            [{"a": "1", "b": "2"}, {"a": "4", "b": "5"}],
            "a row of 3 values",
        ),
        ("csv", b"a\n1\n\xff\n2\n", [{"a": "1"}, {"a": "2"}], "What ends at byte 6 of f is no csv"),
        ("text", b"\xff", [], "What ends at byte 1 of f is no text"),
    ],
)
def test_what_is_malformed_ends_the_task_or_is_left_out(
    worker: Callable[..., Worker],
    caplog: pytest.LogCaptureFixture,
    format: str,
    content: str | bytes,
    values: list[Any],
    said: str,
) -> None:
    made = worker(format=format, malformed_records="skip")
    made.write("f", content.encode("latin-1") if isinstance(content, str) else content)
    assert made.all() == values
    assert said in caplog.text
    strict = worker(format=format)
    with pytest.raises(DataError, match=said):
        strict.all()


@pytest.mark.parametrize("header", ["a,a", "a,,", "\xff"])
def test_a_header_that_names_no_fields_ends_the_task(worker: Callable[..., Worker], header: str) -> None:
    made = worker(format="csv", malformed_records="skip")
    made.write("f", header.encode("latin-1") + b"\n1,2\n")
    with pytest.raises(DataError, match=r"^(f: |The header of f)"):
        made.all()


@pytest.mark.parametrize(
    ("settings", "key", "said"),
    [
        ({"file.after": "move"}, "done.directory", "needs a directory"),
        (
            {"file.after": "move", "done.directory": "/in"},
            "done.directory",
            "cannot be moved to the directory",
        ),
        ({"csv.separator": "ab"}, "csv.separator", "one character"),
        ({"file.pattern": "../*"}, "file.pattern", "below the directory"),
        ({"format": "xml"}, "format", "String must be one of"),
        ({"batch.size": "0"}, "batch.size", "at least 1"),
    ],
)
def test_settings_are_refused(settings: dict[str, str], key: str, said: str) -> None:
    values = DirectorySourceConnector().validate({"directory": "/in", "topic": "t", **settings})
    assert [(each.name, said in each.errors[0]) for each in values if each.errors] == [(key, True)]


def test_every_setting_is_documented() -> None:
    assert all(key.documentation for key in DirectorySourceConnector.CONFIG.keys.values())


def test_a_directory_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match="is no directory"):
        DirectorySourceConnector().start({"directory": str(tmp_path / "none"), "topic": "t"})


def test_offsets_of_operators_are_looked_at() -> None:
    alter = DirectorySourceConnector().alter_offsets
    good = {"position": 1, "modified_ns": 2, "prefix_crc": 3}
    assert alter({}, {0: ({"file": "f"}, good), 1: ({"file": "f"}, None)})
    for partition, offset in (
        ({}, good),
        ({"file": "f"}, {**good, "position": -1}),
        ({"file": "f"}, {"position": 1}),
    ):
        with pytest.raises(ConnectError):
            alter({}, {0: (partition, offset)})
