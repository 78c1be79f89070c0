"""Offsets that may be committed while records are completed in any order."""

from hypothesis import given
from hypothesis import strategies as st

from pkafka.clients.consumer import ConsumerRecord
from pkafka.clients.consumer.progress import Progress
from pkafka.clients.offsets import OffsetAndMetadata


def record(offset: int, epoch: int = 3) -> ConsumerRecord:
    return ConsumerRecord("t", 0, offset, 0, 0, None, b"", (), epoch)


def test_only_what_has_nothing_open_before_it_may_be_committed() -> None:
    progress = Progress()
    progress.hand_out(map(record, (5, 6, 9, 10)))
    assert progress.offset is None
    progress.complete(record(6))
    progress.complete(record(10))
    assert progress.offset is None
    assert progress.outstanding == 4
    progress.complete(record(5))
    assert progress.offset == OffsetAndMetadata(7, "", 3)
    assert progress.outstanding == 2
    progress.complete(record(9))
    assert progress.offset == OffsetAndMetadata(11, "", 3)
    assert progress.outstanding == 0


def test_an_epoch_that_is_not_known_is_not_committed() -> None:
    progress = Progress()
    progress.hand_out([record(1, epoch=-1)])
    progress.complete(record(1))
    assert progress.offset == OffsetAndMetadata(2, "", None)


@given(st.permutations(range(12)))
def test_in_every_order(order: list[int]) -> None:
    progress = Progress()
    progress.hand_out(map(record, range(12)))
    done: set[int] = set()
    for offset in order:
        progress.complete(record(offset))
        done.add(offset)
        first_open = next(each for each in range(13) if each not in done)
        assert progress.outstanding == 12 - first_open
        assert (progress.offset.offset if progress.offset else 0) == first_open
