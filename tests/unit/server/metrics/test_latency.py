"""Histograms: what they keep of the values, and how near their percentiles are."""

from hypothesis import example, given
from hypothesis import strategies as st

from pkafka.server.metrics.latency import PERCENTILES, Histogram

VALUES = st.integers(0, 2**45)


def histogram_of(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


def test_an_empty_histogram_has_no_percentiles() -> None:
    assert Histogram().percentiles() == [0] * len(PERCENTILES)


@given(st.lists(VALUES, min_size=1, max_size=200))
@example([7, 8, 15, 16, 17])
def test_percentiles_lie_within_an_eighth_above_the_exact_ones(values: list[int]) -> None:
    histogram = histogram_of(values)
    ordered = sorted(values)
    for fraction, found in zip(PERCENTILES, histogram.percentiles(), strict=True):
        exact = ordered[max(-(-int(fraction * 1000 * len(ordered)) // 1000) - 1, 0)]
        assert exact <= found <= exact * 9 / 8 + 1
    assert histogram.count == len(values)
    assert histogram.total == sum(values)


@given(st.lists(VALUES, max_size=50), st.lists(VALUES, max_size=50))
def test_adding_histograms_counts_all_their_values(one: list[int], other: list[int]) -> None:
    added = histogram_of(one)
    added.add(histogram_of(other).export())
    assert added.export() == histogram_of(one + other).export()
