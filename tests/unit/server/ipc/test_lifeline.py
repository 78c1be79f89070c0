"""The line between the supervisor and a child: its frames, and that it notices nothing but what was said."""

import array
import os
import socket
import struct
from collections.abc import Iterator

import msgpack
import pytest

from pkafka.net import parents
from pkafka.server.ipc import lifeline
from pkafka.server.ipc.lifeline import Lifeline

NOTE = 3


@pytest.fixture
def ends() -> Iterator[tuple[Lifeline, socket.socket]]:
    ours, theirs = socket.socketpair()
    line = Lifeline(ours)
    yield line, theirs
    line.close()
    theirs.close()


def frame(operation: str, payload: object) -> bytes:
    header: bytes = msgpack.packb([NOTE, 0, operation, payload, 0])
    return struct.pack(">II", len(header), 0) + header


def test_what_a_child_says_comes_whole_however_it_is_split(ends: tuple[Lifeline, socket.socket]) -> None:
    line, child = ends
    data = frame("beat", None) + frame("session", [1, b"secret"]) + frame("beat", None)
    heard = []
    for at in range(len(data)):
        child.send(data[at : at + 1])
        heard += line.read()
    assert heard == [("beat", None), ("session", [1, b"secret"]), ("beat", None)]
    assert line.read() == []


def test_the_last_words_of_a_dead_child_are_heard(ends: tuple[Lifeline, socket.socket]) -> None:
    line, child = ends
    child.send(frame("directory-failed", "/a") + b"\0\0")
    child.close()
    assert line.read() == [("directory-failed", "/a")]
    assert line.read() == []
    line.note(lifeline.STOP)  # into the void


def test_a_note_goes_out_with_its_descriptor(ends: tuple[Lifeline, socket.socket]) -> None:
    line, child = ends
    reading, writing = os.pipe()
    line.note(lifeline.PEER, "worker-1", [writing])
    data, ancillary, _flags, _address = child.recvmsg(1000, socket.CMSG_SPACE(4))
    assert msgpack.unpackb(data[8:]) == [NOTE, 0, lifeline.PEER, "worker-1", 1]
    (passed,) = array.array("i", ancillary[0][2])
    os.write(passed, b"x")
    assert os.read(reading, 1) == b"x"
    for fd in (reading, writing, passed):
        os.close(fd)


def test_a_child_that_does_not_listen_does_not_hold_the_supervisor_up(
    ends: tuple[Lifeline, socket.socket],
) -> None:
    line, _child = ends
    for _ in range(100_000):
        line.note(lifeline.STOP)


@pytest.mark.parametrize(
    ("name", "title"),
    [("worker-0", b"pkafka-worker-0"), ("cleaner", b"pkafka-cleaner"), ("worker-10", b"pk-worker-10")],
)
def test_processes_have_names_that_fit(name: str, title: bytes) -> None:
    calls: list[tuple[object, ...]] = []
    parents.set_title(lambda *arguments: calls.append(arguments), name)
    assert calls == [(15, title, 0, 0, 0)]
    assert len(title) <= 15
    parents.set_title(None, name)
