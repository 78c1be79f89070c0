"""Offsets of connectors: under which keys, and in which of two topics."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from pkafka.connect.errors import ConnectError
from pkafka.connect.storage.offset_store import ConnectorOffsets, OffsetFile
from pkafka.connect.storage.offset_topic import OwnOffsets


class Recorded:
    """A store in memory that tells in which order it was written."""

    def __init__(self, name: str, calls: list[tuple[str, dict[bytes, bytes | None]]]) -> None:
        self._name = name
        self._calls = calls
        self.stored: dict[bytes, bytes | None] = {}
        self.fails = False

    def refresh(self) -> None:
        pass

    def get(self, key: bytes) -> bytes | None:
        return self.stored.get(key)

    def entries(self) -> dict[bytes, bytes | None]:
        return dict(self.stored)

    def put(self, entries: Mapping[bytes, bytes | None]) -> None:
        self._calls.append((self._name, dict(entries)))
        if self.fails:
            raise ConnectError("no")
        for key, value in entries.items():
            if value is None:
                self.stored.pop(key, None)
            else:
                self.stored[key] = value


class Two:
    """A connector's store and the workers'."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[bytes, bytes | None]]] = []
        self.own, self.workers = Recorded("own", self.calls), Recorded("workers", self.calls)
        self.both = OwnOffsets(self.own, self.workers)


@pytest.fixture
def two() -> Two:
    return Two()


def test_the_connectors_topic_comes_first(two: Two) -> None:
    two.workers.stored = {b"a": b"1", b"b": b"2"}
    two.own.stored = {b"b": b"3"}
    assert (two.both.get(b"a"), two.both.get(b"b"), two.both.get(b"c")) == (b"1", b"3", None)
    assert two.both.entries() == {b"a": b"1", b"b": b"3"}


def test_both_topics_are_written_and_tombstones_go_to_the_workers_first(two: Two) -> None:
    two.both.put({b"a": b"1", b"b": None})
    assert two.calls == [
        ("workers", {b"b": None}),
        ("own", {b"a": b"1", b"b": None}),
        ("workers", {b"a": b"1"}),
    ]


def test_a_copy_in_the_workers_topic_may_be_missing(two: Two) -> None:
    two.workers.fails = True
    two.both.put({b"a": b"1"})
    assert two.both.get(b"a") == b"1"


def test_a_tombstone_that_the_workers_topic_lacks_is_written_nowhere(two: Two) -> None:
    two.both.put({b"a": b"1"})
    two.workers.fails = True
    with pytest.raises(ConnectError):
        two.both.put({b"a": None})
    assert two.both.get(b"a") == b"1"


def test_without_the_connectors_topic_nothing_is_stored(two: Two) -> None:
    two.own.fails = True
    with pytest.raises(ConnectError):
        two.both.put({b"a": b"1"})
    assert two.both.get(b"a") is None


def test_offsets_are_found_by_what_their_keys_mean(tmp_path: Path) -> None:
    store = OffsetFile(tmp_path / "offsets")
    strange = b'["c",{"topic":"t","partition":1,"cluster":"A"}]'
    store.put({strange: b'{"offset":1}', b'["c",[]]': b"{}", b'["c",{"a":[1],"b":2}]': b"{}"})
    offsets = ConnectorOffsets(store, "c")
    partition = {"cluster": "A", "partition": 1, "topic": "t"}
    assert offsets.offset(partition) == {"offset": 1}
    offsets.store(
        [(partition, {"offset": 2}), ({"cluster": "A", "partition": 2, "topic": "t"}, {"offset": 7})]
    )
    assert store.get(strange) == b'{"offset":2}'
    assert store.get(b'["c",{"cluster":"A","partition":2,"topic":"t"}]') == b'{"offset":7}'
    assert ConnectorOffsets(store, "d").offset(partition) is None
