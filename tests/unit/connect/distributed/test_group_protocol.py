"""Bytes of a Connect group; that they are Java's is in tests/interop/test_connect_assignor_java.py."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.connect.distributed.group_protocol import (
    Compatibility,
    ExtendedAssignment,
    WorkerState,
    decode_assignment,
    decode_state,
    encode_assignment,
    encode_state,
    offered,
)
from pkafka.connect.errors import ConfigError
from pkafka.connect.states import TaskName
from pkafka.errors import ProtocolError

GIVEN = ExtendedAssignment(
    2, 0, "m1", "http://m1/", 9, ("a",), (TaskName("a", 0), TaskName("b", 1)), ("c",), (TaskName("c", 3),), 40
)


@pytest.mark.parametrize(
    ("value", "names"),
    [("eager", ["default"]), ("Compatible", ["compatible", "default"]),
     ("sessioned", ["sessioned", "compatible", "default"])],
)  # fmt: skip
def test_a_worker_offers_its_protocol_and_the_older_ones(value: str, names: list[str]) -> None:
    assert [name for name, _ in offered(Compatibility.of(value), WorkerState("u", 1))] == names


def test_another_protocol_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value lazy for configuration connect\.protocol"):
        Compatibility.of("lazy")


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_written_is_read(version: int) -> None:
    state = WorkerState("http://m2/", 7, GIVEN)
    read_version, read = decode_state(encode_state(state, version))
    assert read_version == version
    assert read.assignment is not None
    assert read == WorkerState("http://m2/", 7, read.assignment)
    assert read.assignment == decode_assignment(encode_assignment(GIVEN, version))
    assert (read.assignment.revoked_tasks, read.assignment.delay_ms) == ((TaskName("c", 3),), 40)


def test_the_eager_protocol_says_nothing_of_what_a_worker_has_and_revokes_nothing() -> None:
    assert decode_state(encode_state(WorkerState("u", 7, GIVEN), 0)) == (0, WorkerState("u", 7, None))
    read = decode_assignment(encode_assignment(GIVEN, 0))
    assert (read.connectors, read.tasks) == (GIVEN.connectors, GIVEN.tasks)
    assert (read.revoked_connectors, read.revoked_tasks, read.delay_ms) == ((), (), 0)


def test_a_worker_keeps_what_it_had_beside_what_is_new() -> None:
    owned = ExtendedAssignment(2, 0, "m0", "http://m0/", 8, ("c", "d"), (TaskName("c", 3), TaskName("d", 0)))
    after = GIVEN.after(owned)
    assert after.connectors == ("a", "d")
    assert after.tasks == (TaskName("a", 0), TaskName("b", 1), TaskName("d", 0))
    assert GIVEN.after(None) == GIVEN


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    later = b"\0\7" + encode_state(WorkerState("u", 7, GIVEN), 2)[2:] + b"more"
    assert decode_state(later) == (7, decode_state(encode_state(WorkerState("u", 7, GIVEN), 2))[1])


@given(st.binary(max_size=60) | st.integers(0, 80).map(lambda end: encode_assignment(GIVEN, 2)[:end]))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for decode in (decode_state, decode_assignment):
        with contextlib.suppress(ProtocolError):
            decode(data)
