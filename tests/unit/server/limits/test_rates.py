"""The rate that limits, against what Apache Kafka 3.9.1's sensors answered to the same events."""

import multiprocessing
import random

import pytest

from pkafka.server.limits.rates import SampledRate, SharedRate

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

# Samples, seconds a window; pauses in ms and amounts (0: nothing happens); what the reference's SimpleRate measured.
# fmt: off
MEASURED = [
    pytest.param(
        (11, 1),
        [(1100, 0), (0, 400), (9000, 900), (300, 900), (2500, 700), (2500, 400), (300, 700), (9000, 400),
         (50, 200), (300, 400), (1100, 600), (9000, 0), (50, 500), (0, 200), (700, 100), (700, 0), (50, 500),
         (300, 200), (1100, 300), (1, 0), (50, 700), (1100, 0), (1100, 0), (50, 0)],
        [0.0, 400.0, 144.444, 236.559, 892.857, 547.17, 642.857, 161.29, 181.818, 217.617, 251.163, 153.11,
         200.0, 219.048, 214.286, 133.971, 180.952, 194.444, 620.69, 620.476, 847.17, 617.132, 485.343,
         480.677],
        id="eleven windows of a second",
    ),
    pytest.param(
        (3, 2),
        [(700, 0), (1100, 0), (1100, 200), (1, 800), (50, 200), (700, 200), (1, 800), (300, 400), (2500, 0),
         (2500, 400), (1, 500), (50, 100), (300, 900), (50, 0), (1, 200), (700, 500), (700, 900),
         (2500, 400), (700, 0), (700, 200), (1, 200), (300, 100), (1100, 100), (0, 0)],
        [0.0, 0.0, 90.909, 454.339, 533.096, 474.415, 745.257, 799.508, 452.017, 495.704, 578.226, 589.874,
         702.796, 697.35, 728.231, 1300.0, 1750.0, 906.555, 779.688, 719.046, 753.989, 732.967, 633.535,
         633.535],
        id="three of two seconds",
    ),
    pytest.param(
        (2, 1),
        [(2500, 100), (2500, 100), (1, 0), (300, 0), (50, 500), (1100, 800), (1, 0), (50, 0), (300, 0),
         (2500, 0), (2500, 300), (50, 200), (2500, 100), (50, 600), (300, 0), (700, 100), (50, 200),
         (0, 200), (700, 900), (50, 400), (1, 700), (700, 800), (300, 0), (2500, 0)],
        [100.0, 100.0, 100.0, 100.0, 600.0, 964.852, 964.187, 932.091, 776.915, 0.0, 300.0, 500.0, 100.0,
         700.0, 700.0, 761.905, 909.091, 1090.909, 1166.667, 1351.351, 1728.795, 2198.534, 1832.315, 0.0],
        id="two windows",
    ),
]
# fmt: on


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


@pytest.mark.parametrize(("shape", "events", "rates"), MEASURED)
def test_it_measures_what_the_reference_measures(
    shape: tuple[int, int], events: list[tuple[int, int]], rates: list[float]
) -> None:
    measured, now, found = rate(*shape), 1_000_000, []
    for pause, amount in events:
        now += pause
        if amount:
            measured.record(now, amount)
        found.append(measured.per_second(now))
    assert found == pytest.approx(rates, abs=0.001)


def test_processes_that_share_a_rate_measure_it_together() -> None:
    shared = SharedRate("a rate of tests", samples=3, window_ms=1000)
    assert not shared.has_begun

    def record() -> None:
        for _ in range(1000):
            shared.record(5000, 3)

    processes = [multiprocessing.get_context("fork").Process(target=record) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert shared.per_second(5000) == 6000


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
