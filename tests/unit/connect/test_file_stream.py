"""Lines out of files: their ends, their positions, what waits for the rest."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import pytest

from pkafka.connect.connectors.file_stream import FileStreamSourceConnector, FileStreamSourceTask
from pkafka.connect.errors import ConnectError


class Task(Protocol):
    def __call__(
        self, path: Path, stored: dict[str, Any] | None = None, settings: Mapping[str, str] | None = None
    ) -> FileStreamSourceTask: ...


@pytest.fixture
def task() -> Iterator[Task]:
    """Makes tasks that read a file, from a stored offset on; they never wait."""
    tasks: list[FileStreamSourceTask] = []

    def make(
        path: Path, stored: dict[str, Any] | None = None, settings: Mapping[str, str] | None = None
    ) -> FileStreamSourceTask:
        tasks.append(_task(path, stored, settings or {}))
        return tasks[-1]

    yield make
    for each in tasks:
        each.stop()


def _task(path: Path, stored: dict[str, Any] | None, settings: Mapping[str, str]) -> FileStreamSourceTask:
    made = FileStreamSourceTask()
    made.initialize(
        SimpleNamespace(
            configs={},
            offset_reader=SimpleNamespace(offset=lambda _partition: stored),
            wait=lambda _timeout_s: False,
        )
    )
    made.start({"file": str(path), "topic": "t", **settings})
    return made


def lines(made: FileStreamSourceTask) -> list[tuple[str, int]]:
    return [(each.value, (each.source_offset or {})["position"]) for each in made.poll() or ()]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_each_end_of_a_line_counts(task: Task, tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"a" + end + b"bc" + end + b"rest")
    size = len(end)
    assert lines(task(path)) == [("a", 1 + size), ("bc", 3 + 2 * size)]


def test_a_last_carriage_return_waits_for_what_comes(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"a\r")
    made = task(path)
    assert lines(made) == []
    with path.open("ab") as file:
        file.write(b"\nb\n")
    assert lines(made) == [("a", 3), ("b", 5)]


def test_positions_are_bytes_whatever_the_text(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "in"
    text = "äöü\nzwei\n"
    path.write_text(text, encoding="utf-8")
    found = lines(task(path))
    assert found == [("äöü", 7), ("zwei", 12)]
    assert lines(task(path, {"position": 7})) == [("zwei", 12)]


def test_a_poll_gives_no_more_than_it_may(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_text("1\n2\n3\n")
    made = task(path, settings={"batch.size": "2"})
    assert [value for value, _ in lines(made)] == ["1", "2"]
    assert [value for value, _ in lines(made)] == ["3"]


def test_a_file_may_come_later(task: Task, tmp_path: Path) -> None:
    made = task(tmp_path / "in")
    assert made.poll() is None
    (tmp_path / "in").write_text("now\n")
    assert lines(made) == [("now", 4)]


def test_a_position_that_is_none_ends_the_task(task: Task, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a\n")
    with pytest.raises(ConnectError, match="Offset position is the incorrect type"):
        task(tmp_path / "in", {"position": "2"}).poll()


@pytest.mark.parametrize(
    ("partition", "offset", "text"),
    [
        ({"filename": "x"}, {"pos": 1}, "contain the key 'position'"),
        ({"filename": "x"}, {"position": "1"}, "expected to be a Long value"),
        ({"filename": "x"}, {"position": True}, "expected to be a Long value"),
        ({"filename": "x"}, {"position": -1}, "non-negative"),
        ({"other": "x"}, {"position": 1}, "should contain the key 'filename'"),
    ],
)
def test_offsets_of_operators_are_looked_at(partition: Any, offset: Any, text: str) -> None:
    with pytest.raises(ConnectError, match=text):
        FileStreamSourceConnector().alter_offsets({"file": "x"}, {0: (partition, offset)})


def test_offsets_of_a_file_may_be_set_and_forgotten() -> None:
    connector = FileStreamSourceConnector()
    assert connector.alter_offsets(
        {"file": "x"}, {0: ({"filename": "x"}, {"position": 1}), 1: ({"any": 1}, None)}
    )
    with pytest.raises(ConnectError, match="'file' configuration is unspecified"):
        connector.alter_offsets({}, {})
