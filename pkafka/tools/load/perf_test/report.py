"""What a load test has found out, as the document that is kept and compared, and as lines for a person."""

import math
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from pkafka import KAFKA_VERSION, __version__
from pkafka.tools.load.perf_test.histogram import Histogram
from pkafka.tools.load.perf_test.measuring import Window
from pkafka.tools.load.perf_test.payload import has_room_for_stamps
from pkafka.tools.load.perf_test.plan import Plan
from pkafka.tools.load.perf_test.run import SERIES_PERCENTS, Clients, Outcome, Progress, Seen, Side
from pkafka.tools.secret_keys import HIDDEN, is_secret

FORMAT: Final = 1
"""Grows when a report can no longer be read as those before."""

MIB: Final = 1024 * 1024
PERCENTS: Final = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99)
_LATE_MS: Final = 10
"""What a busy machine may be late by; more of it, and half of all latency, is worth a remark."""

_BEGAN_LATE_MS: Final = 50
"""As above, of the beginning."""

Document = dict[str, Any]


def build(outcome: Outcome, clients: Clients, *, master: str | None = None) -> Document:
    """The report of a test: JSON values.

    Args:
        master: of Spark, where its executors were the generators.
    """
    plan = outcome.plan
    return {
        "tool": "pk-perf-test",
        "format": FORMAT,
        "status": outcome.status,
        "error": outcome.error or outcome.produced.error or outcome.consumed.error,
        "started_at": outcome.began.isoformat(timespec="milliseconds"),
        "results": list(_results(outcome)),
        "generators": list(_generators(outcome)),
        "missed": outcome.missed,
        "missing": outcome.missing,
        "schedule_lag": _times(outcome.produced.measured.lag),
        "transactions": _transactions(outcome),
        "remarks": list(_remarks(outcome)),
        "versions": {
            "pkafka": __version__,
            "compatible_with_kafka": KAFKA_VERSION,
            "python": platform.python_version(),
        },
        "host": _host(),
        "configuration": {
            **asdict(plan),
            "master": master,
            "producer": _without_secrets(clients.producer) if plan.producers else None,
            "consumer": _without_secrets(clients.consumer) if plan.consumers else None,
        },
        "end_to_end_clock": _end_to_end_clock(plan),
        "series": list(_series(outcome)),
        "histograms": {
            "produce": outcome.produced.measured.latency.encode(),
            "end_to_end": outcome.consumed.measured.latency.encode(),
        },
    }


def lines(report: Document) -> Iterator[str]:
    """The report in the form that a person reads, a few lines long."""
    for row in report["results"]:
        is_produce = row["side"] == "produce"
        failed = f", {row['failed']} failed" if is_produce else ""
        yield (
            f"{'produced' if is_produce else 'consumed'} {row['records']} records in {row['seconds']:.2f} s, "
            f"{row['records_per_s']:.1f} records/sec ({row['mib_per_s']:.2f} MB/sec){failed}"
        )
        if row["latency_mean_ms"] is not None:
            shares = ", ".join(f"{name}% {value:.3f}" for name, value in row["percentiles_ms"].items())
            yield (
                f"{'produce' if is_produce else 'end-to-end'} latency in ms: mean {row['latency_mean_ms']:.3f}, "
                f"{shares}, max {row['latency_max_ms']:.3f}"
            )
    if report["transactions"] is not None:
        yield from _transaction_lines(report["transactions"])
    if report["configuration"]["master"] is not None:
        yield from map(_generator_line, report["generators"])
    yield from report["remarks"]


def _transaction_lines(row: Document) -> Iterator[str]:
    yield (
        f"committed {row['committed']} transactions, {row['committed_per_s']:.1f} transactions/sec, "
        f"{row['aborted']} aborted with {row['aborted_records']} records"
    )
    if row["commit_mean_ms"] is not None:
        shares = ", ".join(f"{name}% {value:.3f}" for name, value in row["commit_percentiles_ms"].items())
        yield f"commit in ms: mean {row['commit_mean_ms']:.3f}, {shares}, max {row['commit_max_ms']:.3f}"


def _generator_line(row: Document) -> str:
    rates = f"{row['records_per_s']:.1f} records/sec ({row['mib_per_s']:.2f} MB/sec)"
    latency = ""
    if row["latency_mean_ms"] is not None:
        median, high = (row["percentiles_ms"][each] for each in ("50", "99"))
        latency = f", latency in ms: mean {row['latency_mean_ms']:.3f}, 50% {median:.3f}, 99% {high:.3f}"
    return f"{_name(row['side'], row['number'], row['host'])}: {row['records']} records, {rates}{latency}"


def _name(side: str, number: int, host: str) -> str:
    """A generator, for a person."""
    return f"{'producer' if side == 'produce' else 'consumer'} {number} on {host}"


def progress_row(progress: Progress) -> dict[str, object]:
    """A window that is over, for a person who waits."""
    plan, produced, consumed = progress.plan, progress.produced, progress.consumed
    seconds = plan.interval_s
    row: dict[str, object] = {"second": round((progress.number + 1) * seconds, 3)}
    if plan.producers:
        row |= {
            "sent/s": round(produced.records / seconds),
            "sent MB/s": round(produced.size_bytes / MIB / seconds, 2),
            "failed": produced.failed,
            "ack p50 ms": _ms(produced.latency, 50),
            "ack p99 ms": _ms(produced.latency, 99),
        }
    if plan.transaction_records is not None:
        row |= {
            "commits/s": round(produced.committed / seconds, 1),
            "commit p50 ms": _ms(produced.ending, 50),
            "commit p99 ms": _ms(produced.ending, 99),
        }
    if plan.consumers:
        row |= {
            "read/s": round(consumed.records / seconds),
            "read MB/s": round(consumed.size_bytes / MIB / seconds, 2),
        }
    if plan.consumers and plan.producers:
        row |= {
            "end-to-end p50 ms": _ms(consumed.latency, 50),
            "end-to-end p99 ms": _ms(consumed.latency, 99),
        }
    return row


def progress_line(row: Mapping[str, object]) -> str:
    """As :func:`progress_row`, in one line."""
    figures = ", ".join(
        f"{name} {value}" for name, value in row.items() if name != "second" and value is not None
    )
    second = row["second"]
    assert isinstance(second, float)
    return f"{'warm-up' if second <= 0 else f'{second:g} s'}: {figures}"


def _sides(outcome: Outcome) -> tuple[tuple[str, Side], ...]:
    return ("produce", outcome.produced), ("consume", outcome.consumed)


def _results(outcome: Outcome) -> Iterator[Document]:
    plan = outcome.plan
    if plan.producers:
        yield _result("produce", outcome, outcome.produced, plan.producers)
    if plan.consumers:
        yield _result("consume", outcome, outcome.consumed, plan.consumers)


def _result(name: str, outcome: Outcome, side: Side, processes: int) -> Document:
    return {"side": name, "processes": processes, **_figures(outcome, side)}


def _generators(outcome: Outcome) -> Iterator[Document]:
    for name, side in _sides(outcome):
        for number, part in sorted(side.parts.items()):
            yield {
                "side": name,
                "number": number,
                "host": part.host,
                "pid": part.pid,
                "late_ms": part.late_ns / 1e6,
                "clock_error_ms": part.clock_error_ns / 1e6,
                **_figures(outcome, part),
            }


def _figures(outcome: Outcome, seen: Seen) -> Document:
    total, seconds = seen.measured, outcome.seconds_of(seen)
    every = seen.everything.records
    times = _times(total.latency)
    return {
        "records": total.records,
        "size_bytes": total.size_bytes,
        "failed": seen.everything.failed,
        "warm_up_records": every - total.records,
        "seconds": round(seconds, 6),
        "records_per_s": round(_per_second(total.records, seconds), 3),
        "mib_per_s": round(_per_second(total.size_bytes / MIB, seconds), 6),
        "latency_mean_ms": times["mean_ms"],
        "percentiles_ms": times["percentiles_ms"],
        "latency_max_ms": times["max_ms"],
        "cpu_us_per_record": round(seen.cpu_s * 1e6 / every, 3) if every else None,
    }


def _transactions(outcome: Outcome) -> Document | None:
    """What became of transactions after the warm-up; None in a test without them."""
    if outcome.plan.transaction_records is None:
        return None
    seen, times = outcome.produced.measured, _times(outcome.produced.measured.ending)
    return {
        "committed": seen.committed,
        "committed_per_s": round(_per_second(seen.committed, outcome.seconds_of(outcome.produced)), 3),
        "aborted": seen.aborted,
        "aborted_records": seen.aborted_records,
        "commit_mean_ms": times["mean_ms"],
        "commit_percentiles_ms": times["percentiles_ms"],
        "commit_max_ms": times["max_ms"],
    }


def _times(histogram: Histogram) -> Document:
    mean = histogram.mean_us()
    return {
        "mean_ms": None if math.isnan(mean) else round(mean / 1000, 4),
        "percentiles_ms": {
            f"{percent:g}": us / 1000
            for percent, us in zip(PERCENTS, histogram.percentiles_us(PERCENTS), strict=True)
        }
        if histogram.total
        else {},
        "max_ms": histogram.max_us() / 1000 if histogram.total else None,
    }


def _series(outcome: Outcome) -> Iterator[Document]:
    produced, consumed = outcome.produced.windows, outcome.consumed.windows
    numbers = [*produced, *consumed]
    for number in range(min(numbers, default=0), max(numbers, default=-1) + 1):
        sent, read = produced.get(number, Window()), consumed.get(number, Window())
        sent_ms = outcome.produced.percentiles_ms(number)
        read_ms = outcome.consumed.percentiles_ms(number)
        yield {
            "at_s": round(number * outcome.plan.interval_s, 6),
            "seconds": round(outcome.seconds_in(number), 6),
            "produced": sent.records,
            "produced_mib": round(sent.size_bytes / MIB, 4),
            "failed": sent.failed,
            "consumed": read.records,
            "consumed_mib": round(read.size_bytes / MIB, 4),
            **{f"produce_p{each:g}_ms": sent_ms.get(each) for each in SERIES_PERCENTS},
            **{f"end_to_end_p{each:g}_ms": read_ms.get(each) for each in SERIES_PERCENTS},
        }


def _remarks(outcome: Outcome) -> Iterator[str]:
    plan = outcome.plan
    if outcome.missed:
        yield f"{outcome.missed} records were due and not sent: the rate of {plan.rate:.12g} records/sec was not kept"
    for name, side in _sides(outcome):
        for number, part in sorted(side.parts.items()):
            if part.late_ns / 1e6 > _BEGAN_LATE_MS:
                yield f"{_name(name, number, part.host)} began {part.late_ns / 1e6:.1f} ms late"
    late_ms = outcome.produced.measured.lag.percentile_us(99) / 1000
    if late_ms > _LATE_MS and late_ms > outcome.produced.measured.latency.percentile_us(99) / 2000:
        yield f"the generator was slow itself: 1% of all records were handed over {late_ms:.1f} ms late or more"
    if outcome.partitions is not None and plan.consumers > outcome.partitions:
        yield (
            f"{plan.consumers - outcome.partitions} of {plan.consumers} consumers had nothing to read: each of the "
            f"{outcome.partitions} partitions has one reader"
        )
    if outcome.missing:
        yield f"{outcome.missing} acknowledged records were not read"
    if plan.warmup_s and not outcome.produced.measured.records + outcome.consumed.measured.records:
        yield "nothing was measured: all records arrived during the warm-up"
    if plan.consumers and not outcome.is_caught_up and outcome.status == "complete" and not plan.is_until_end:
        yield f"the consumers did not read to the end: nothing came for {plan.timeout_s:g} s"
    if outcome.is_log_append_time:
        yield "no end-to-end latency: the topic has the brokers' time of appending (message.timestamp.type)"
    if outcome.status == "interrupted":
        yield "interrupted: these are the figures until then"


def _end_to_end_clock(plan: Plan) -> str | None:
    """Where a consumer sees when a record was due."""
    if plan.is_until_end or not plan.consumers:
        return None
    is_stamped = plan.rate is not None and has_room_for_stamps(plan)
    return "value, in microseconds" if is_stamped else "timestamp, in milliseconds"


def _per_second(amount: float, seconds: float) -> float:
    return amount / seconds if seconds else 0.0


def _ms(histogram: Histogram, percent: float) -> float | None:
    return histogram.percentile_us(percent) / 1000 if histogram.total else None


def _without_secrets(properties: Mapping[str, object]) -> dict[str, str]:
    return {name: HIDDEN if is_secret(name) else str(value) for name, value in sorted(properties.items())}


def _host() -> Document:
    memory: int | None = None
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        load: list[float] | None = [round(each, 2) for each in os.getloadavg()]
    except (OSError, ValueError):
        load = None
    return {
        "name": platform.node(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": memory,
        "load_average": load,
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
