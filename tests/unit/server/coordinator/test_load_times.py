"""How long loading took, in the last minute."""

from pkafka.server.coordinator.load_times import LoadTimes


def test_what_is_older_than_a_minute_does_not_count() -> None:
    times = LoadTimes()
    assert times.figures(0) == (0, 0, 0)
    times.record(100, 1_000)
    times.record(20, 2_000)
    assert times.figures(60_999) == (2, 120, 100)
    assert times.figures(61_000) == (1, 20, 20)
    assert times.figures(62_000) == (0, 0, 0)
