"""The statistics of the load tool."""

from pkafka.tools.perf import LatencyStats, payloads


def test_failures_stay_out_of_the_latencies() -> None:
    stats = LatencyStats(3, lambda _: None)
    stats.record(0.0, 100, ValueError("no"))
    result = stats.result()
    assert (result.records, result.failures, result.first_error) == (0, 1, "no")


def test_payloads_are_the_same_in_every_run() -> None:
    assert next(payloads(10, None)) == next(payloads(10, None))
    assert len(next(payloads(10, None))) == 10
    assert next(payloads(None, [b"x"])) == b"x"
    counting = payloads(None, None, monotonic=True)
    assert [next(counting), next(counting)] == [b"0", b"1"]
