"""Playing a partition of __consumer_offsets: the last word on each key counts, and nothing stops the rest."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.model import TopicPartition
from pkafka.protocol.messages.records.group_metadata import GroupMetadataValue
from pkafka.records.builder import RecordFields, build_batch
from pkafka.records.control import ControlType, encode_key
from pkafka.records.reading import read_batches
from pkafka.server.groups.loading import LoadedGroup, Replay
from pkafka.server.groups.offsets import StoredOffset
from pkafka.server.groups.records import (
    CommittedOffset,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
)

A, B = ("a", 0), ("b", 1)


def offset(group: str, key: tuple[str, int], number: int | None) -> RecordFields:
    """A commit, or its tombstone."""
    value = None if number is None else encode_offset_value(CommittedOffset(number, 100))
    return (100, encode_offset_key(group, *key), value, ())


def state(group: str, generation: int | None) -> RecordFields:
    """A group's state, or its tombstone."""
    value = (
        None
        if generation is None
        else encode_group_value(GroupMetadataValue(protocol_type="consumer", generation=generation))
    )
    return (100, encode_group_key(group), value, ())


class Partition:
    """A log in the making."""

    def __init__(self) -> None:
        self._end = 0
        self.data = bytearray()

    def add(self, *records: RecordFields, producer_id: int = -1, control: bool = False) -> "Partition":
        self.data += build_batch(
            records,
            base_offset=self._end,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=0 if producer_id >= 0 and not control else -1,
            transactional=producer_id >= 0,
            control=control,
        )
        self._end += len(records)
        return self

    def end(self, producer_id: int, how: ControlType) -> "Partition":
        return self.add(
            (100, encode_key(how), b"\x00\x00\x00\x00\x00\x00", ()), producer_id=producer_id, control=True
        )

    def loaded(self) -> dict[str, LoadedGroup]:
        replay = Replay(TopicPartition("__consumer_offsets", 0))
        for header, records in read_batches(self.data):
            replay.play(header, records)
        return dict(replay.groups())


def stored(batch_offset: int, number: int) -> StoredOffset:
    return StoredOffset(batch_offset, CommittedOffset(number, 100))


def test_the_last_record_of_a_key_counts() -> None:
    log = Partition().add(offset("g", A, 1), offset("g", B, 2)).add(offset("g", A, 3)).add(state("g", 1))
    log.add(state("g", 2))
    [(group_id, group)] = log.loaded().items()
    assert group_id == "g"
    assert group.value is not None
    assert group.value.generation == 2
    assert group.offsets == {A: stored(2, 3), B: stored(0, 2)}


def test_tombstones_remove() -> None:
    log = Partition().add(offset("g", A, 1), offset("g", B, 2)).add(offset("g", A, None)).add(state("h", 1))
    log.add(state("h", None))
    assert log.loaded() == {"g": LoadedGroup(None, {B: stored(0, 2)}, {})}


def test_a_group_that_was_removed_may_come_back_with_offsets_only() -> None:
    log = Partition().add(state("g", 3)).add(state("g", None)).add(offset("g", A, 1))
    assert log.loaded() == {"g": LoadedGroup(None, {A: stored(2, 1)}, {})}


def test_commits_of_a_transaction_count_from_its_marker_on() -> None:
    log = Partition().add(offset("g", A, 1)).add(offset("g", A, 5), offset("g", B, 6), producer_id=9)
    assert log.loaded()["g"] == LoadedGroup(None, {A: stored(0, 1)}, {9: {A: stored(1, 5), B: stored(1, 6)}})
    log.add(offset("g", B, 7))
    log.end(9, ControlType.COMMIT)
    # What was committed plainly behind it is newer.
    assert log.loaded()["g"] == LoadedGroup(None, {A: stored(1, 5), B: stored(3, 7)}, {})


def test_an_aborted_transaction_never_was() -> None:
    log = Partition().add(offset("g", A, 5), producer_id=9).end(9, ControlType.ABORT)
    assert log.loaded() == {}


def test_what_cannot_be_read_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    key = encode_offset_key("g", *A)
    log = Partition().add(
        (0, b"\x00\x63later", b"", ()),
        (0, None, b"no key", ()),
        (0, b"", b"", ()),
        (0, key, b"\x00\x63", ()),
        (0, key[:-1], b"", ()),
        offset("g", B, 2),
    )
    with caplog.at_level(logging.WARNING):
        assert log.loaded() == {"g": LoadedGroup(None, {B: stored(0, 2)}, {})}
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR", "ERROR", "ERROR", "ERROR"]
    assert "Unknown message key with version 99" in caplog.text
    assert "offset 3 of __consumer_offsets-0: version 99" in caplog.text


def test_an_empty_log_has_no_groups() -> None:
    assert Partition().loaded() == {}


PIECES = st.one_of(
    st.none(),
    st.binary(max_size=30),
    st.sampled_from(
        [encode_offset_key("g", *A), encode_group_key("g"), encode_offset_value(CommittedOffset(1, 2))]
    ),
    st.builds(
        lambda head, tail: head + tail, st.sampled_from([b"\0\0", b"\0\1", b"\0\2", b"\0\3"]), st.binary()
    ),
)


@given(st.lists(st.tuples(PIECES, PIECES, st.sampled_from([-1, 5])), min_size=1, max_size=8))
def test_nothing_in_a_log_stops_the_loading(rows: list[tuple[bytes | None, bytes | None, int]]) -> None:
    log = Partition()
    for key, value, producer_id in rows:
        log.add((0, key, value, ()), producer_id=producer_id)
    log.add(offset("last", B, 7))
    assert log.loaded()["last"].offsets[B].committed.offset == 7
