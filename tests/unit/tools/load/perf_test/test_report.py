"""The report of a test: figures without the warm-up, and nothing that is secret."""

import json
from dataclasses import replace

import pytest

from pkafka.tools.load.perf_test.histogram import decode
from pkafka.tools.load.perf_test.measuring import Window
from pkafka.tools.load.perf_test.plan import Plan
from pkafka.tools.load.perf_test.report import build, lines, progress_line, progress_row
from pkafka.tools.load.perf_test.run import Clients, Outcome, Progress, Side
from tests.unit.tools.load.perf_test.reports import outcome, report

PLAN = Plan("t", duration_s=2, warmup_s=1, rate=1000)


def test_the_warm_up_has_no_part_in_the_figures() -> None:
    made = report(PLAN)
    produced, consumed = made["results"]
    assert (produced["side"], consumed["side"]) == ("produce", "consume")
    assert (produced["records"], produced["warm_up_records"], produced["seconds"]) == (2000, 1000, 2.0)
    assert produced["records_per_s"] == 1000
    assert produced["cpu_us_per_record"] == round(0.01e6 / 3000, 3)
    assert produced["percentiles_ms"]["50"] == 2.491
    assert decode(made["histograms"]["produce"]).total == 2000
    assert [row["at_s"] for row in made["series"]] == [-1, 0, 1]
    assert [row["produce_p50_ms"] for row in made["series"]] == [None, 2.491, 2.491]


def test_it_is_json_and_says_on_what_it_was_measured() -> None:
    made = json.loads(json.dumps(report(PLAN), allow_nan=False))
    assert made["configuration"]["rate"] == 1000
    assert made["configuration"]["producer"] == {"acks": "all", "sasl.password": "[hidden]"}
    assert made["host"]["cores"] > 0
    assert made["versions"]["compatible_with_kafka"] == "3.9.1"
    assert made["end_to_end_clock"] == "value, in microseconds"
    assert report(replace(PLAN, rate=None))["end_to_end_clock"] == "timestamp, in milliseconds"


def test_lines_for_a_person() -> None:
    assert list(lines(report(PLAN, failed=3))) == [
        "produced 2000 records in 2.00 s, 1000.0 records/sec (0.10 MB/sec), 3 failed",
        "produce latency in ms: mean 2.496, 50% 2.491, 75% 2.741, 90% 2.891, 95% 2.941, 99% 2.981, 99.9% 2.991, "
        "99.99% 2.991, max 2.991",
        "consumed 2000 records in 2.00 s, 1000.0 records/sec (0.10 MB/sec)",
        "end-to-end latency in ms: mean 2.496, 50% 2.491, 75% 2.741, 90% 2.891, 95% 2.941, 99% 2.981, 99.9% 2.991, "
        "99.99% 2.991, max 2.991",
    ]


def test_transactions_are_told() -> None:
    assert report(PLAN)["transactions"] is None
    made = outcome(replace(PLAN, transaction_records=10))
    ended = Window()
    ended.committed, ended.aborted, ended.aborted_records = 9, 3, 30
    ended.ending.record(4000, 9)
    made.produced.add(0, ended)
    made.produced.add(-1, ended)  # the warm-up
    found = build(made, Clients({}, {}))
    assert found["transactions"] == {
        "committed": 9,
        "committed_per_s": 4.5,
        "aborted": 3,
        "aborted_records": 30,
        "commit_mean_ms": pytest.approx(4, rel=0.001),
        "commit_percentiles_ms": dict.fromkeys(
            ("50", "75", "90", "95", "99", "99.9", "99.99"), pytest.approx(4, rel=0.001)
        ),
        "commit_max_ms": pytest.approx(4, rel=0.001),
    }
    assert (
        list(lines(found))[4] == "committed 9 transactions, 4.5 transactions/sec, 3 aborted with 30 records"
    )
    assert made.missing == 0
    made.consumed.everything.records -= 60
    assert made.missing == 60
    made.hides_aborted = True
    assert made.missing == 0


def test_what_is_wrong_is_said() -> None:
    made = outcome(PLAN)
    made.missed = 7
    more = Window()
    more.records = 5
    made.produced.add(0, more)
    made.is_log_append_time = True
    said = build(made, Clients({}, {}))["remarks"]
    assert said == [
        "7 records were due and not sent: the rate of 1000 records/sec was not kept",
        "5 acknowledged records were not read",
        "no end-to-end latency: the topic has the brokers' time of appending (message.timestamp.type)",
    ]
    made.is_caught_up = False
    assert (
        "the consumers did not read to the end: nothing came for 10 s"
        in build(made, Clients({}, {}))["remarks"]
    )
    made.status = "interrupted"
    assert "interrupted: these are the figures until then" in build(made, Clients({}, {}))["remarks"]


@pytest.mark.parametrize(
    ("consumers", "said"),
    [
        (4, []),
        (6, ["2 of 6 consumers had nothing to read: each of the 4 partitions has one reader"]),
    ],
)
def test_consumers_past_the_number_of_partitions_are_idle(consumers: int, said: list[str]) -> None:
    made = outcome(replace(PLAN, consumers=consumers))
    made.partitions = 4
    assert build(made, Clients({}, {}))["remarks"] == said


@pytest.mark.parametrize(("late_us", "is_said"), [(9_000, False), (12_000, False), (16_000, True)])
def test_a_generator_that_is_half_of_the_latency_says_so(late_us: int, is_said: bool) -> None:
    made = outcome(PLAN, latency_us=30_000)
    late = Window()
    late.lag.record(late_us, 2000)
    made.produced.add(0, late)
    said = build(made, Clients({}, {}))["remarks"]
    assert said == (
        ["the generator was slow itself: 1% of all records were handed over 16.0 ms late or more"]
        if is_said
        else []
    )


def test_a_test_that_saw_nothing_has_a_report() -> None:
    made = outcome(PLAN)
    made.produced, made.consumed = Side(), Side()
    empty = json.loads(json.dumps(build(made, Clients({}, {})), allow_nan=False))
    assert empty["results"][0]["records_per_s"] == 0
    assert empty["results"][0]["percentiles_ms"] == {}
    assert empty["series"] == []
    assert next(lines(empty)) == "produced 0 records in 0.00 s, 0.0 records/sec (0.00 MB/sec), 0 failed"


def test_what_arrives_in_the_warm_up_only_is_not_measured() -> None:
    made = outcome(PLAN)
    made.produced, made.consumed = Side(), Side()
    window = Window()
    window.records = 5
    made.produced.add(-1, window)
    report = build(made, Clients({}, {}))
    assert "nothing was measured: all records arrived during the warm-up" in report["remarks"]
    assert report["results"][0]["warm_up_records"] == 5


def test_a_window_that_is_long_over_keeps_its_place_in_the_series() -> None:
    made, settled = outcome(PLAN), outcome(PLAN)
    for number in (-5, -1, 0, 1):
        settled.produced.settle(number)
    assert settled.produced.window(0).latency.counts == {}
    one, other = (build(each, Clients({}, {})) for each in (made, settled))
    assert one["series"] == other["series"]
    assert one["histograms"] == other["histograms"]


def test_progress() -> None:
    made = outcome(PLAN)
    row = progress_row(Progress(0, PLAN, made.produced.window(0), made.consumed.window(0)))
    assert progress_line(row) == (
        "1 s: sent/s 1000, sent MB/s 0.1, failed 0, ack p50 ms 2.491, ack p99 ms 2.981, read/s 1000, "
        "read MB/s 0.1, end-to-end p50 ms 2.491, end-to-end p99 ms 2.981"
    )
    only_sending = replace(PLAN, consumers=0)
    row = progress_row(Progress(-1, only_sending, Window(), Window()))
    assert progress_line(row) == "warm-up: sent/s 0, sent MB/s 0.0, failed 0"


def shared(made: Outcome) -> Outcome:
    """As if two producers had done it, the second of them late; their windows are those of all, twice."""
    for number, host in enumerate(("north", "south")):
        part = made.produced.part(number)
        part.host, part.pid, part.late_ns, part.clock_error_ns = (
            host,
            70 + number,
            number * 80_000_000,
            30_000,
        )
        part.last_ns, part.cpu_s = made.produced.last_ns, 0.01
        for window_number in (-1, 0, 1):
            part.add(window_number, made.produced.window(window_number))
    return made


def test_every_generator_has_a_row() -> None:
    report = build(shared(outcome(PLAN, failed=3)), Clients({}, {}), master="spark://north:7077")
    assert report["configuration"]["master"] == "spark://north:7077"
    first, second = report["generators"]
    assert (first["side"], first["number"], first["host"], first["pid"]) == ("produce", 0, "north", 70)
    assert (second["number"], second["late_ms"], second["clock_error_ms"]) == (1, 80.0, 0.03)
    (all_of_them, _) = report["results"]
    for name, value in all_of_them.items():
        assert name == "processes" or first[name] == value, name
    assert report["remarks"] == ["producer 1 on south began 80.0 ms late"]
    assert list(lines(report))[-3:] == [
        "producer 0 on north: 2000 records, 1000.0 records/sec (0.10 MB/sec), latency in ms: mean 2.496, 50% 2.491, "
        "99% 2.981",
        "producer 1 on south: 2000 records, 1000.0 records/sec (0.10 MB/sec), latency in ms: mean 2.496, 50% 2.491, "
        "99% 2.981",
        "producer 1 on south began 80.0 ms late",
    ]
    assert len(list(lines(build(shared(outcome(PLAN)), Clients({}, {}))))) == 5, "of Spark's tasks only"
