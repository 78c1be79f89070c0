"""What a group remembers of replayed letters, against a plain set of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.tools.dead_letters.replayed import Replayed, Replaying, TooManyGapsError


@given(
    st.lists(st.integers(0, 40), unique=True).map(sorted),
    st.lists(st.sets(st.integers(0, 40)), max_size=4),
    st.lists(st.integers(0, 41), min_size=4, max_size=4),
)
def test_each_run_remembers_what_all_runs_before_have_sent(
    letters: list[int], runs: list[set[int]], lengths: list[int]
) -> None:
    """A run reads from the first letter that is left, and may end before the last one."""
    sent: set[int] = set()
    known = Replayed.read(None)
    for wanted, length in zip(runs, lengths, strict=False):
        following = Replaying(known)
        for offset in [each for each in letters if each >= known.before and each <= length]:
            is_sent = offset in wanted and not known.has(offset)
            sent |= {offset} if is_sent else set()
            following.note(offset, is_replayed=is_sent)
        known = Replayed.read(following.replayed().stored())
        assert {each for each in letters if known.has(each)} == sent


@pytest.mark.parametrize("metadata", ["", "word", "1-", "-1", "1,,2", "1-2-3", "\u0661"])
def test_metadata_of_others_counts_for_nothing(metadata: str) -> None:
    assert Replayed.read(OffsetAndMetadata(7, metadata)) == Replayed(7)


def test_ranges_are_short() -> None:
    following = Replaying(Replayed())
    for offset, is_replayed in enumerate([True, False, True, True, True, False, True]):
        following.note(offset, is_replayed=is_replayed)
    assert following.replayed().stored() == OffsetAndMetadata(1, "2-4,6")


def test_more_gaps_than_a_broker_keeps_are_refused() -> None:
    following = Replaying(Replayed())
    for offset in range(3000):
        following.note(offset, is_replayed=offset % 2 == 1)
    with pytest.raises(TooManyGapsError, match="1500 times"):
        following.replayed().stored()
