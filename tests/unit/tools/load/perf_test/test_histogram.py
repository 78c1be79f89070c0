"""HdrHistogram's buckets: what its own implementations say, and laws that hold for all times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.tools.load.perf_test.histogram import (
    HIGHEST_US,
    Histogram,
    HistogramError,
    bucket_of,
    decode,
    highest_of,
    lowest_of,
)

TIMES = st.integers(0, HIGHEST_US)
SAMPLES = st.lists(st.tuples(TIMES, st.integers(1, 10**12)), max_size=50)

# Written by the hdrhistogram package 0.10.8 of PyPI, HdrHistogram(1, 3600000000, 3), of these times and counts.
OTHERS_SAMPLES = ((1, 1), (250, 10), (999, 3), (2500, 1), (2503, 1), (1_000_000, 2), (61_000_000, 1))
OTHERS_TEXT = "HISTFAAAADJ4nJNpmSzMwMAAwiDADKUZQcS1yUsY7D9ABZjeM4tc52b7LMzE9LOLkeVoHBMA4UQKQg=="
# Written by HdrHistogram 2.2.2 in Java, which reads what is written here as well.
JAVAS_SAMPLES = ((250, 10), (61_000_000, 1))
JAVAS_TEXT = "HISTFAAAACd4nJNpmSzMwMDAzgABzFCaEURcm7yEwf4DROAzs8jkTiYmAHyrBrg="

OTHERS_PERCENTILES = {50: 250, 90: 1_000_447, 99: 61_014_015, 100: 61_014_015}
OTHERS_MEAN = 3316237.789473684


def histogram(samples: tuple[tuple[int, int], ...] | list[tuple[int, int]]) -> Histogram:
    made = Histogram()
    for microseconds, count in samples:
        made.record(microseconds, count)
    return made


def test_percentiles_and_mean_are_those_of_hdrhistogram() -> None:
    made = histogram(OTHERS_SAMPLES)
    assert {each: made.percentile_us(each) for each in OTHERS_PERCENTILES} == OTHERS_PERCENTILES
    assert made.mean_us() == pytest.approx(OTHERS_MEAN)


def test_what_hdrhistogram_wrote_is_read() -> None:
    assert decode(OTHERS_TEXT).counts == histogram(OTHERS_SAMPLES).counts
    assert decode(JAVAS_TEXT).counts == histogram(JAVAS_SAMPLES).counts


def test_what_is_written_differs_by_no_more_than_the_compression() -> None:
    import base64
    import zlib

    def inflated(text: str) -> bytes:
        return zlib.decompress(base64.b64decode(text)[8:])

    assert inflated(histogram(OTHERS_SAMPLES).encode()) == inflated(OTHERS_TEXT)


@given(TIMES)
def test_a_bucket_holds_its_times_to_three_digits(microseconds: int) -> None:
    bucket = bucket_of(microseconds)
    assert lowest_of(bucket) <= microseconds <= highest_of(bucket)
    assert highest_of(bucket) - lowest_of(bucket) <= microseconds / 1000
    assert bucket_of(highest_of(bucket) + 1) == bucket + 1


@given(SAMPLES)
def test_decode_inverts_encode(samples: list[tuple[int, int]]) -> None:
    made = histogram(samples)
    assert decode(made.encode()).counts == made.counts


@given(SAMPLES, SAMPLES)
def test_what_two_saw_adds_up(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    together = histogram(some)
    together.add(histogram(others))
    everything = histogram([*some, *others])
    assert (together.counts, together.total) == (everything.counts, everything.total)


@given(st.lists(TIMES, min_size=1, max_size=100), st.floats(0.1, 100))
def test_a_percentile_is_a_time_with_so_many_below(times: list[int], percent: float) -> None:
    made = histogram([(each, 1) for each in times])
    found = made.percentile_us(percent)
    rank = max(1, int(percent / 100 * len(times) + 0.5))
    assert bucket_of(found) == bucket_of(sorted(times)[rank - 1])
    assert found <= made.max_us()


def test_percentiles_at_once_are_those_one_by_one() -> None:
    made = histogram(OTHERS_SAMPLES)
    percents = (1.0, 50.0, 50.0, 90.0, 99.99)
    assert made.percentiles_us(percents) == [made.percentile_us(each) for each in percents]


def test_nothing_and_what_is_out_of_range() -> None:
    nothing = Histogram()
    assert (nothing.percentile_us(50), nothing.max_us(), nothing.total) == (0, 0, 0)
    assert nothing.mean_us() != nothing.mean_us()
    assert decode(nothing.encode()).counts == {}
    nothing.record(-5)
    nothing.record(10 * HIGHEST_US)
    assert nothing.percentile_us(1) == 0
    assert bucket_of(nothing.max_us()) == bucket_of(HIGHEST_US)


@pytest.mark.parametrize("text", ["", "HIST", "AAAA", "AAAAAAAAAAAA", "HISTFAAAAAA=", "no base64!"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(HistogramError, match="no histogram"):
        decode(text)
