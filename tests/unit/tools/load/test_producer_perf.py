"""The statistics of the load tool."""

import threading
import time

from pkafka.tools.load.producer_perf import LatencyStats, payloads


def test_failures_stay_out_of_the_latencies() -> None:
    stats = LatencyStats(3, lambda _: None)
    stats.record(0.0, 100, ValueError("no"))
    result = stats.result()
    assert (result.records, result.failures, result.first_error) == (0, 1, "no")


def test_records_of_a_chunk_count_as_many() -> None:
    one, many = LatencyStats(1_500_000, lambda _: None), LatencyStats(1_500_000, lambda _: None)
    now = time.perf_counter() + 100  # latencies below zero are as good as others, and the same for both
    for _ in range(10):
        one.record(now, 5, None)
    many.record(now, 35, None, records=7)
    many.record(now, 15, None, records=3)
    expected, found = one.result(), many.result()
    assert (found.records, found.percentiles_ms.keys()) == (expected.records, expected.percentiles_ms.keys())
    assert (one._samples, many._samples) == ([one._samples[0]] * 4, [many._samples[0]] * 4)


def test_payloads_are_the_same_in_every_run() -> None:
    assert next(payloads(10, None)) == next(payloads(10, None))
    assert len(next(payloads(10, None))) == 10
    assert next(payloads(None, [b"x"])) == b"x"
    counting = payloads(None, None, monotonic=True)
    assert [next(counting), next(counting)] == [b"0", b"1"]


def test_outcomes_that_come_after_the_flush_count() -> None:
    stats = LatencyStats(2, lambda _: None)
    stats.record(time.perf_counter(), 10, ValueError("no"))
    late = threading.Timer(0.05, stats.record, [time.perf_counter(), 10, None])
    late.start()
    stats.wait_for_all(30)
    late.join()
    assert (stats.result().records, stats.result().failures) == (1, 1)
