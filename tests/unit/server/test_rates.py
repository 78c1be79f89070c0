"""The rate that limits, against what Apache Kafka 3.9.1's sensors answered to the same events."""

import random

import pytest

from pkafka.server.rates import SampledRate

# Samples, seconds a window, limit; pauses before each event in ms; waits that the reference asked for.
ASKED = [
    pytest.param(
        (11, 1, 1),
        [0] * 13 + [500, 1000, 700, 100],
        [0] * 10 + [1000] * 7,
        id="a burst of ten seconds' worth",
    ),
    pytest.param(
        (3, 2, 2),
        [0, 300, 0, 5, 1, 0, 5, 1, 50, 50, 0, 0, 5, 50, 50, 1, 1],
        [0, 0, 0, 0, 0, 0, 0, 0, 138, 588, 1088, 1588, 2000, 2000, 2000, 2000, 2000],
        id="three windows",
    ),
    pytest.param(
        (2, 1, 5),
        [300, 50, 50, 0, 1100, 5, 300, 0, 50, 300, 5, 1100, 50, 1, 0, 1, 1100, 0, 5, 0],
        [0, 0, 0, 0, 0, 0, 0, 95, 245, 145, 340, 0, 0, 189, 389, 588, 48, 248, 443, 643],
        id="two windows",
    ),
]


def rate(samples: int, seconds: int) -> SampledRate:
    memory = memoryview(bytearray(8 * SampledRate.cells(samples))).cast("q")
    return SampledRate(memory, samples=samples, window_ms=seconds * 1000)


@pytest.mark.parametrize(("shape", "pauses", "waits"), ASKED)
def test_it_asks_for_the_waits_that_the_reference_asks_for(
    shape: tuple[int, int, int], pauses: list[int], waits: list[int]
) -> None:
    samples, seconds, limit = shape
    measured, now, asked = rate(samples, seconds), 1_000_000, []
    for pause in pauses:
        now += pause
        measured.record(now)
        asked.append(measured.throttle_ms(limit, now))
    assert asked == waits


def test_nothing_recorded_and_nothing_allowed() -> None:
    measured = rate(11, 1)
    assert measured.throttle_ms(5, 0) == 0
    measured.record(0)
    assert measured.throttle_ms(0, 0) == 1000
    single = rate(1, 1)
    single.record(0)
    assert single.throttle_ms(5, 0) == 1000


def test_who_waits_as_asked_comes_at_the_rate() -> None:
    choice, measured, now, limit = random.Random(3), rate(5, 1), 0, 20
    times = []
    for _ in range(2_000):
        now += choice.choice([0, 1, 5])
        measured.record(now)
        now += measured.throttle_ms(limit, now)
        times.append(now)
    # After the burst of four windows, no five seconds hold more than theirs.
    for first, last in zip(times, times[5 * limit + limit :], strict=False):
        assert last - first >= 4_000
    assert 0.9 * limit < 1000 * len(times) / now < 1.2 * limit
