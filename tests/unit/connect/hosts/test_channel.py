"""The line between a worker and its processes."""

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pytest

from pkafka.connect.errors import ConfigError, ConnectError, TooManyTasksError
from pkafka.connect.hosts.channel import Channel, PeerEndedError
from pkafka.connect.hosts.messages import (
    AllOffsets,
    AskForTasks,
    GetOffset,
    Message,
    PutOffsets,
    StopTask,
    TaskSaid,
    WantsTasks,
)
from pkafka.connect.hosts.offsets import WorkerOffsets, answer_of
from pkafka.connect.traces import trace_of

PATIENCE_S: Final = 60.0


class Ears:
    """Remembers notes, and answers by a function."""

    def __init__(self, answer: Callable[[Message], object]) -> None:
        self.heard: list[Message] = []
        self.answer = answer

    def hear(self, message: Message) -> None:
        self.heard.append(message)
        if message == WantsTasks(0):
            raise RuntimeError("a note that cannot be taken up")


class Line:
    """A line whose ends are both here."""

    def __init__(self) -> None:
        one, other = socket.socketpair()
        self.here, self.there = Channel(one), Channel(other)
        self.ears = Ears(self.answer)
        self.waits = threading.Event()
        self.store: dict[bytes, bytes | None] = {}
        self.threads = [
            threading.Thread(target=self.here.run, args=(Ears(lambda _message: None),)),
            threading.Thread(target=self.there.run, args=(self.ears,)),
        ]
        for thread in self.threads:
            thread.start()

    def answer(self, message: Message) -> object:
        match message:
            case AskForTasks(0):
                raise TooManyTasksError("too many")
            case AskForTasks(1):
                raise RuntimeError("of a connector")
            case AskForTasks(2):
                return [{"a": "b\udc80"}]
            case AskForTasks(3):
                return object()
            case AskForTasks(4):
                raise SystemExit(3)
            case StopTask():
                return self.waits.wait(PATIENCE_S)
            case _:
                return answer_of(self, message)

    # -- a store of offsets --

    def refresh(self) -> None:
        raise ConnectError("not today")

    def get(self, key: bytes) -> bytes | None:
        return self.store.get(key)

    def entries(self) -> dict[bytes, bytes | None]:
        return self.store

    def put(self, entries: Mapping[bytes, bytes | None]) -> None:
        self.store.update(entries)

    def close(self) -> None:
        self.waits.set()
        self.here.close()
        for thread in self.threads:
            thread.join(PATIENCE_S)


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line()
    yield line
    line.close()


def test_notes_are_heard_in_their_order(line: Line) -> None:
    notes = [TaskSaid(number, "RUNNING", None) for number in range(100)]
    for note in notes:
        line.here.tell(note)
    line.here.ask(AskForTasks(2)).result(PATIENCE_S)
    assert line.ears.heard == notes


def test_a_note_that_cannot_be_taken_up_ends_nothing(line: Line) -> None:
    line.here.tell(WantsTasks(0))
    assert line.here.ask(AskForTasks(2)).result(PATIENCE_S) == [{"a": "b\udc80"}]


def test_an_answer_that_takes_long_holds_up_no_other(line: Line) -> None:
    slow = line.here.ask(StopTask(0))
    assert line.here.ask(AskForTasks(2)).result(PATIENCE_S)
    assert not slow.done()
    line.waits.set()
    assert slow.result(PATIENCE_S) is True


@pytest.mark.parametrize(
    ("run", "kind", "trace"),
    [
        (0, TooManyTasksError, "org.apache.kafka.connect.runtime.TooManyTasksException: too many\n"),
        (1, ConnectError, "RuntimeError: of a connector\n"),
        (3, ConnectError, "TypeError: "),
        (4, ConnectError, "SystemExit: 3\n"),
    ],
)
def test_what_is_raised_there_is_raised_here(line: Line, run: int, kind: type[Exception], trace: str) -> None:
    with pytest.raises(kind) as raised:
        line.here.ask(AskForTasks(run)).result(PATIENCE_S)
    assert type(raised.value) is kind
    assert trace_of(raised.value).startswith(trace)


def test_offsets_are_those_of_the_worker(line: Line) -> None:
    offsets = WorkerOffsets(line.here)
    offsets.put({b"a": b"1", b"b": None})
    assert line.store == {b"a": b"1", b"b": None}
    assert (offsets.get(b"a"), offsets.get(b"c")) == (b"1", None)
    assert offsets.entries() == line.store
    with pytest.raises(ConnectError, match="not today"):
        offsets.refresh()


def test_who_waits_when_the_other_ends_is_told_so(line: Line) -> None:
    waiting = line.here.ask(StopTask(0))
    line.there.close()
    with pytest.raises(PeerEndedError):
        waiting.result(PATIENCE_S)
    line.threads[0].join(PATIENCE_S)
    assert not line.here.is_open
    with pytest.raises(PeerEndedError):
        line.here.ask(GetOffset(b"")).result(PATIENCE_S)
    line.here.tell(AllOffsets())  # into the void


def test_a_refused_setting_stays_one(line: Line) -> None:
    def refuse(_message: Message) -> object:
        raise ConfigError("no")

    line.ears.answer = refuse
    with pytest.raises(ConfigError, match="no"):
        line.here.ask(PutOffsets({})).result(PATIENCE_S)
