"""Idempotence and transactions as one partition sees them."""

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.errors import ApiError, ErrorCode, StorageError
from pkafka.storage.producer_snapshot import decode_snapshot, encode_snapshot
from pkafka.storage.producer_state import SEQUENCE_MAX, ProducerBatch, ProducerEntry, advance_sequence
from tests.unit.storage.makers import NOW, World, append, batch, end_transaction, everything, stored


def refusal(world_append: object) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        world_append()  # type: ignore[operator]
    return refused.value.code


def test_a_resend_of_the_last_five_batches_gets_the_original_offset(world: World) -> None:
    log = world.create()
    for sequence in range(7):
        append(log, b"%d" % sequence, pid=9, epoch=0, sequence=sequence)
    for sequence in range(2, 7):
        again = append(log, b"%d" % sequence, pid=9, epoch=0, sequence=sequence)
        assert (again.base_offset, again.last_offset, again.duplicate) == (sequence, sequence, True)
    # An older one is not known any more, and is not written either.
    assert (
        refusal(lambda: append(log, b"1", pid=9, epoch=0, sequence=1))
        is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    assert log.log_end_offset == 7
    assert len(everything(log)) == 7


def test_a_resend_with_other_records_is_no_duplicate(world: World) -> None:
    log = world.create()
    append(log, b"a", b"b", pid=9, epoch=0, sequence=0)
    assert (
        refusal(lambda: append(log, b"a", pid=9, epoch=0, sequence=0))
        is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )


def test_gaps_are_refused_and_change_nothing(world: World) -> None:
    log = world.create()
    append(log, b"a", pid=9, epoch=0, sequence=0)
    assert (
        refusal(lambda: append(log, b"c", pid=9, epoch=0, sequence=2))
        is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    assert append(log, b"b", pid=9, epoch=0, sequence=1).base_offset == 1


def test_an_unknown_producer_may_begin_anywhere(world: World) -> None:
    assert append(world.create(), b"a", pid=9, epoch=3, sequence=77).base_offset == 0


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one(world: World) -> None:
    log = world.create()
    append(log, b"a", pid=9, epoch=1, sequence=0)
    assert (
        refusal(lambda: append(log, b"b", pid=9, epoch=2, sequence=1))
        is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    assert append(log, b"b", pid=9, epoch=2, sequence=0).base_offset == 1
    assert refusal(lambda: append(log, b"c", pid=9, epoch=1, sequence=1)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_wrap_to_zero(world: World) -> None:
    log = world.create()
    append(log, b"a", pid=9, epoch=0, sequence=SEQUENCE_MAX - 1)
    append(log, b"b", b"c", b"d", pid=9, epoch=0, sequence=SEQUENCE_MAX)
    assert append(log, b"b", b"c", b"d", pid=9, epoch=0, sequence=SEQUENCE_MAX).duplicate
    assert append(log, b"e", pid=9, epoch=0, sequence=2).base_offset == 4


@given(sequence=st.integers(0, SEQUENCE_MAX), step=st.integers(0, 100_000))
def test_advancing_and_going_back_are_inverse(sequence: int, step: int) -> None:
    assert advance_sequence(advance_sequence(sequence, step), -step) == sequence


@pytest.mark.parametrize("clean", [True, False])
def test_duplicates_are_known_after_a_restart(world: World, clean: bool) -> None:
    log = world.create()
    for sequence in range(20):
        append(log, b"x" * 50, pid=9, epoch=4, sequence=sequence)
    if clean:
        log.close()
    else:
        world.crash(log)
    log = world.open(clean=clean)
    again = append(log, b"x" * 50, pid=9, epoch=4, sequence=19)
    assert (again.base_offset, again.duplicate) == (19, True)
    assert append(log, b"y", pid=9, epoch=4, sequence=20).base_offset == 20


@pytest.mark.parametrize("crashes", [1, 2])
@pytest.mark.parametrize("count", [3, 5, 8, 20])
def test_every_batch_that_may_be_sent_again_is_known_after_a_crash(
    world: World, count: int, crashes: int
) -> None:
    log = world.create()
    append(log, b"x", b"y", pid=7, epoch=0, sequence=0)
    for sequence in range(count):
        append(log, b"x" * 50, pid=9, epoch=4, sequence=sequence)
    for _ in range(crashes):
        # The start after the first crash leaves a snapshot at the end of the log.
        world.crash(log)
        log = world.open()
    in_flight = range(max(count - 5, 0), count)
    for sequence in in_flight:
        again = append(log, b"x" * 50, pid=9, epoch=4, sequence=sequence)
        assert (again.base_offset, again.duplicate) == (2 + sequence, True)
    assert append(log, b"x", b"y", pid=7, epoch=0, sequence=0).duplicate
    assert append(log, b"y", pid=9, epoch=4, sequence=count).base_offset == 2 + count


def test_a_producers_earlier_epoch_is_not_remembered_after_a_crash(world: World) -> None:
    log = world.create()
    append(log, b"x", pid=9, epoch=4, sequence=0)
    append(log, b"y", pid=9, epoch=5, sequence=0)
    world.crash(log)
    log = world.open()
    with pytest.raises(ApiError) as refused:
        append(log, b"x", pid=9, epoch=4, sequence=0)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert append(log, b"y", pid=9, epoch=5, sequence=0).duplicate


def test_producers_are_known_after_their_records_are_gone(world: World) -> None:
    log = world.create()
    for sequence in range(20):
        append(log, b"x" * 50, pid=9, epoch=4, sequence=sequence)
    log.delete_old_segments(NOW + log.config.retention_ms + 1000)
    assert log.log_start_offset == 20
    assert append(log, b"x" * 50, pid=9, epoch=4, sequence=19).duplicate
    log.close()
    log = world.open(clean=True)
    assert append(log, b"x" * 50, pid=9, epoch=4, sequence=19).duplicate


def test_truncation_takes_the_producers_back(world: World) -> None:
    log = world.create()
    for sequence in range(20):
        append(log, b"x" * 50, pid=9, epoch=4, sequence=sequence)
    log.truncate_to(13)
    assert append(log, b"y", pid=9, epoch=4, sequence=13).base_offset == 13


def test_silent_producers_expire_but_not_those_with_an_open_transaction(world: World) -> None:
    log = world.create()
    append(log, b"a", pid=1, epoch=0, sequence=0)
    append(log, b"b", pid=2, epoch=0, sequence=0, transactional=True)
    day = 86_400_000
    assert log.expire_producers(NOW + day - 1) == 0
    assert log.expire_producers(NOW + day) == 1
    assert list(log.producers.entries) == [2]


def test_a_follower_never_refuses_what_the_leader_accepted(world: World) -> None:
    log = world.create()
    log.append_as_follower(stored(batch([b"a"], pid=9, epoch=5, sequence=7), 0))
    log.append_as_follower(stored(batch([b"a"], pid=9, epoch=4, sequence=0), 1))
    log.append_as_follower(stored(batch([b"a"], pid=9, epoch=4, sequence=9), 2))
    assert log.producers.entries[9].last_sequence == 9


def test_the_last_stable_offset_waits_for_open_transactions(world: World) -> None:
    log = world.create()
    append(log, b"plain")
    append(log, b"a", pid=1, epoch=0, sequence=0, transactional=True)
    append(log, b"b", pid=2, epoch=0, sequence=0, transactional=True)
    append(log, b"plain")
    assert (log.high_watermark, log.last_stable_offset) == (4, 1)
    end_transaction(log, 1, 0, committed=True)
    assert log.last_stable_offset == 2
    end_transaction(log, 2, 0, committed=False)
    assert log.last_stable_offset == log.high_watermark == 6
    assert [(each.producer_id, *each[1:3]) for each in log.aborted_transactions(0, 6)] == [(2, 2, 5)]
    assert log.aborted_transactions(0, 2) == []


def test_a_marker_counts_only_when_it_is_replicated(world: World) -> None:
    log = world.create()
    append(log, b"a", pid=1, epoch=0, sequence=0, transactional=True)
    end_transaction(log, 1, 0, committed=True, high_watermark=1)
    assert (log.high_watermark, log.last_stable_offset) == (1, 0)
    log.set_high_watermark(2)
    assert log.last_stable_offset == 2


def test_a_marker_sets_the_last_time_of_its_producer_also_back(world: World) -> None:
    log = world.create()
    append(log, b"a", pid=1, epoch=0, sequence=0, transactional=True, timestamp=NOW + 500)
    assert log.producers.entries[1].last_timestamp == NOW + 500
    end_transaction(log, 1, 0, committed=True)
    assert log.producers.entries[1].last_timestamp == NOW


def test_a_plain_batch_inside_an_open_transaction_is_refused(world: World) -> None:
    log = world.create()
    append(log, b"a", pid=1, epoch=0, sequence=0, transactional=True)
    assert refusal(lambda: append(log, b"b", pid=1, epoch=0, sequence=1)) is ErrorCode.INVALID_TXN_STATE
    assert append(log, b"b", pid=1, epoch=0, sequence=1, transactional=True).base_offset == 1


def test_markers_of_old_epochs_and_old_coordinators_are_refused(world: World) -> None:
    log = world.create()
    append(log, b"a", pid=1, epoch=5, sequence=0, transactional=True)
    assert refusal(lambda: end_transaction(log, 1, 4, committed=True)) is ErrorCode.INVALID_PRODUCER_EPOCH
    end_transaction(log, 1, 5, committed=True, coordinator_epoch=7)
    assert (
        refusal(lambda: end_transaction(log, 1, 5, committed=True, coordinator_epoch=6))
        is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    )
    # A marker without a transaction is written but leaves no trace in the index.
    end_transaction(log, 1, 5, committed=False, coordinator_epoch=8)
    assert log.aborted_transactions(0, 10) == []


@pytest.mark.parametrize("clean", [True, False])
def test_transactions_survive_a_restart(world: World, clean: bool) -> None:
    log = world.create()
    for turn in range(8):
        append(log, b"x" * 80, pid=1, epoch=0, sequence=2 * turn, transactional=True)
        append(log, b"x" * 80, pid=1, epoch=0, sequence=2 * turn + 1, transactional=True)
        end_transaction(log, 1, 0, committed=turn % 2 == 0)
    append(log, b"open", pid=1, epoch=0, sequence=16, transactional=True)
    aborted = log.aborted_transactions(0, log.log_end_offset)
    assert len(aborted) == 4
    if clean:
        log.close()
    else:
        world.crash(log)
        for path in world.paths(".txnindex"):
            path.write_bytes(b"damaged")
    log = world.open(clean=clean)
    log.set_high_watermark(log.log_end_offset)
    assert log.aborted_transactions(0, log.log_end_offset) == aborted
    assert log.last_stable_offset == log.log_end_offset - 1
    log.truncate_to(aborted[2].last_offset)
    log.set_high_watermark(log.log_end_offset)
    assert log.aborted_transactions(0, log.log_end_offset) == aborted[:2]
    assert log.last_stable_offset == aborted[2].first_offset


entries = st.builds(
    lambda pid, epoch, first, count, offset, timestamp, coordinator, transaction: _entry(
        pid, epoch, first, count, offset, timestamp, coordinator, transaction
    ),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.integers(0, SEQUENCE_MAX),
    st.integers(1, 1000),
    st.integers(0, 2**62),
    st.integers(-1, 2**62),
    st.integers(-1, 2**31 - 1),
    st.integers(-1, 2**62),
)


def _entry(
    pid: int,
    epoch: int,
    first: int,
    count: int,
    offset: int,
    timestamp: int,
    coordinator: int,
    transaction: int,
) -> ProducerEntry:
    entry = ProducerEntry(pid)
    entry.add(
        ProducerBatch(
            pid,
            epoch,
            first,
            advance_sequence(first, count - 1),
            offset,
            offset + count - 1,
            timestamp,
            False,
        )
    )
    entry.coordinator_epoch = coordinator
    entry.transaction_first_offset = transaction
    return entry


def _fields(entry: ProducerEntry) -> list[object]:
    """All of it; a compiled class has no slots, but descriptors too."""
    names = [name for name, one in vars(ProducerEntry).items() if inspect.isdatadescriptor(one)]
    assert {*names} > {"producer_id", "batches"}
    return [getattr(entry, name) for name in names]


@given(kept=st.lists(entries, max_size=5))
def test_a_snapshot_gives_back_what_it_took(kept: list[ProducerEntry]) -> None:
    assert list(map(_fields, decode_snapshot(encode_snapshot(kept)))) == list(map(_fields, kept))


@given(kept=st.lists(entries, min_size=1, max_size=3), data=st.data())
def test_a_damaged_snapshot_is_refused(kept: list[ProducerEntry], data: st.DataObject) -> None:
    encoded = bytearray(encode_snapshot(kept))
    place = data.draw(st.integers(0, len(encoded) - 1))
    encoded[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(StorageError):
        decode_snapshot(bytes(encoded))


@given(junk=st.binary(max_size=100))
def test_junk_is_no_snapshot(junk: bytes) -> None:
    with pytest.raises(StorageError):
        decode_snapshot(junk)


def test_the_bytes_are_those_of_kafka() -> None:
    # Taken from a log of Apache Kafka 3.9.1: one producer, 20 records in its last transaction's batch.
    recorded = bytes.fromhex(
        "0001483305670000000100000000000000050000" + "0000022f000000000000024a00000013000001a1fc0f105f"
        "00000000ffffffffffffffff"
    )
    (entry,) = decode_snapshot(recorded)
    assert (entry.producer_id, entry.producer_epoch, entry.last_sequence) == (5, 0, 0x22F)
    assert (entry.last_data_offset, entry.batches[0].first_offset) == (586, 567)
    assert encode_snapshot([entry]) == recorded
