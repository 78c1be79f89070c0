"""What a worker counts of the rounds of its group."""

import math

from prometheus_client.core import CollectorRegistry

from pkafka.connect.distributed.group_metrics import InGroup, group_metrics
from pkafka.connect.distributed.rebalance_figures import RebalanceFigures, Rounds

PREFIX = "kafka_connect_connect_worker_rebalance_metrics_"


class Time:
    """Milliseconds, as a test says."""

    ms = 1_000.0

    def __call__(self) -> float:
        return self.ms


def test_before_the_first_round_there_is_nothing_to_tell() -> None:
    rounds = RebalanceFigures(Time()).rounds()
    assert (rounds.completed, rounds.is_under_way, rounds.since_last_ms) == (0, False, math.inf)
    assert math.isnan(rounds.avg_ms)
    assert math.isnan(rounds.max_ms)


def test_a_round_lasts_from_the_assignment_to_the_beginning_of_its_work() -> None:
    clock = Time()
    figures = RebalanceFigures(clock)
    for took_ms in (100, 300):
        figures.began()
        assert figures.rounds().is_under_way
        clock.ms += took_ms
        figures.ended()
    clock.ms += 5
    assert figures.rounds() == Rounds(2, False, 200, 300, 5)


def test_an_assignment_whose_work_is_never_begun_is_no_round_of_its_own() -> None:
    clock = Time()
    figures = RebalanceFigures(clock)
    figures.began()
    clock.ms += 1_000
    figures.began()
    clock.ms += 10
    figures.ended()
    assert figures.rounds() == Rounds(1, False, 10, 10, 0)


def test_average_and_maximum_forget_what_the_total_keeps() -> None:
    clock = Time()
    figures = RebalanceFigures(clock, window_ms=60_000)
    figures.began()
    clock.ms += 70
    figures.ended()
    clock.ms += 60_000
    rounds = figures.rounds()
    assert (rounds.completed, rounds.since_last_ms) == (1, 60_000)
    assert math.isnan(rounds.avg_ms)
    assert math.isnan(rounds.max_ms)


def test_the_names_are_those_of_kafka() -> None:
    registry = CollectorRegistry()
    rounds = Rounds(3, True, 2.5, 4, 7)
    metrics = group_metrics(InGroup("SESSIONED", "http://a:1/", 12, rounds))

    class Collector:
        def collect(self) -> object:
            return metrics

    registry.register(Collector())  # type: ignore[arg-type]
    for name, labels, value in (
        ("connect_protocol", {"connect_protocol": "SESSIONED"}, 1),
        ("leader_name", {"leader_name": "http://a:1/"}, 1),
        ("epoch", {}, 12),
        ("completed_rebalances_total", {}, 3),
        ("rebalancing", {}, 1),
        ("rebalance_avg_time_ms", {}, 2.5),
        ("rebalance_max_time_ms", {}, 4),
        ("time_since_last_rebalance_ms", {}, 7),
    ):
        assert registry.get_sample_value(PREFIX + name, labels) == value, name
