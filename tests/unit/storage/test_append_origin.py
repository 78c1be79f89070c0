"""Batches that a coordinator writes for producers, beside those of the producers themselves; verifications."""

from pathlib import Path

import pytest

from pkafka.errors import ApiError, ErrorCode
from pkafka.records.builder import build_batch
from pkafka.records.control import build_end_marker
from pkafka.records.validation import trust
from pkafka.storage.log import Log
from pkafka.storage.log_values import AppendOrigin, AppendResult
from tests.unit.storage.makers import NOW, World


@pytest.fixture
def log(world: World) -> Log:
    return world.create()


def append(
    log: Log,
    *,
    epoch: int = 0,
    sequence: int = 0,
    producer_id: int = 1,
    records: int = 1,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    transactional: bool = True,
) -> AppendResult:
    data = build_batch(
        [(NOW, b"k", b"v", ())] * records,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return log.append_as_leader(trust(data), leader_epoch=0, now_ms=NOW, origin=origin)


def mark(log: Log, *, epoch: int = 0, producer_id: int = 1, committed: bool = True) -> None:
    data = build_end_marker(
        committed=committed,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=0,
        timestamp_ms=NOW,
    )
    log.append_as_leader(trust(data), leader_epoch=0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)


def test_offsets_of_one_epoch_with_the_same_sequence_are_all_written(log: Log) -> None:
    """Each TxnOffsetCommit begins with sequence 0, however many there are in an epoch."""
    results = [append(log, origin=AppendOrigin.COORDINATOR) for _ in range(3)]
    mark(log)
    results.append(append(log, origin=AppendOrigin.COORDINATOR, records=2))
    assert [(one.base_offset, one.duplicate) for one in results] == [
        (0, False),
        (1, False),
        (2, False),
        (4, False),
    ]
    # A producer that sent the same itself would be taken for one that repeats it.
    assert append(log, records=2).duplicate


def test_offsets_of_an_old_epoch_are_refused(log: Log) -> None:
    append(log, epoch=3, origin=AppendOrigin.COORDINATOR)
    with pytest.raises(ApiError) as refused:
        append(log, epoch=2, origin=AppendOrigin.COORDINATOR)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.log_end_offset == 1


def test_offsets_outside_a_transaction_are_refused_while_one_is_open(log: Log) -> None:
    append(log, origin=AppendOrigin.COORDINATOR)
    with pytest.raises(ApiError) as refused:
        append(log, origin=AppendOrigin.COORDINATOR, transactional=False)
    assert refused.value.code == ErrorCode.INVALID_TXN_STATE


def test_a_verification_lasts_until_the_transaction_begins(log: Log) -> None:
    verification = log.producers.verify(1, 0, 0, NOW)
    assert log.producers.verify(1, 0, 0, NOW) is verification
    append(log)
    assert not log.producers.verifications
    assert log.producers.has_open_transaction(1, 0)
    assert not log.producers.has_open_transaction(1, 1), "a later epoch has not begun"
    mark(log)
    assert not log.producers.has_open_transaction(1, 0)


@pytest.mark.parametrize("committed", [True, False])
def test_any_marker_ends_a_verification_of_its_producer_only(log: Log, *, committed: bool) -> None:
    log.producers.verify(1, 0, 0, NOW)
    other = log.producers.verify(2, 0, 0, NOW)
    mark(log, committed=committed)
    assert log.producers.verifications == {2: other}


def test_a_marker_that_comes_from_the_leader_ends_a_verification(log: Log, tmp_path: Path) -> None:
    mark(log)
    (tmp_path / "follower").mkdir()
    follower = World(tmp_path / "follower").create()
    follower.producers.verify(1, 0, 0, NOW)
    found = log.read(0, bytes_max=1000, min_one_batch=True, upper_bound=1)
    follower.append_as_follower(found.segment.read_bytes(found.position, found.length))
    assert not follower.producers.verifications


def test_no_batch_comes_before_one_that_waits_for_its_verification(log: Log) -> None:
    """An unknown producer may begin with any sequence, but not ahead of a batch that it is known to have sent."""
    log.producers.verify(1, 0, 5, NOW)
    log.producers.verify(1, 0, 7, NOW)
    with pytest.raises(ApiError) as refused:
        append(log, sequence=6)
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, sequence=5).base_offset == 0
    assert append(log, sequence=6).base_offset == 1


def test_a_new_epoch_begins_with_its_own_sequence(log: Log) -> None:
    log.producers.verify(1, 0, 5, NOW)
    log.producers.verify(1, 1, 0, NOW)
    log.producers.verify(1, 0, 4, NOW)
    assert append(log, epoch=1).base_offset == 0


def test_verifications_that_came_to_nothing_are_forgotten(log: Log) -> None:
    log.producers.verify(1, 0, 0, NOW)
    log.producers.verify(2, 0, 0, NOW + 1)
    log.producers.expire(NOW + 1000, 1000)
    assert set(log.producers.verifications) == {2}


def test_an_open_transaction_is_late_when_its_producer_was_silent_for_long(log: Log) -> None:
    """That of the oldest one, as in Kafka."""

    def is_late(after_ms: int) -> bool:
        return log.producers.has_late_transaction(NOW + after_ms, 1000)

    assert not is_late(10_000)
    append(log)
    append(log, producer_id=2)
    assert (is_late(1000), is_late(1001)) == (False, True)
    mark(log)
    mark(log, producer_id=2)
    assert not is_late(10_000)
