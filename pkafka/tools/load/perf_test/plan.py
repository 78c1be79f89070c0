"""What a load test is asked to do, and which generator does which part when. Decides only: no clock, no socket."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Final, NamedTuple

from pkafka.errors import PkafkaError

NS: Final = 1_000_000_000
TICKS_PER_S: Final = 1_000
"""Faster schedules have records due in groups, so often a second: nothing wakes up a hundred thousand times."""


class PlanError(PkafkaError):
    """What is asked for makes no sense; the text says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A load test.

    Args:
        topic: exists when the test begins.
        producers, consumers: how many processes; without producers the consumers read what is there.
        duration_s: how long is measured, after the warm-up; None where ``records`` alone end the test.
        records: how many to send in all, those of the warm-up included.
        rate: records per second of all producers together; None for as fast as possible.
        warmup_s: seconds at the beginning that no figure has.
        interval_s: the length of an entry of the time series.
        record_size, payload_file, payload_template, key: see :mod:`payload`.
        headers: of every record.
        group: the consumers' group; without one, each is given partitions.
        max_error_rate: the share of records that may fail.
        timeout_s: how long nothing may happen before the test is given up.
        transaction_records: the records of each transaction; None for none.
        abort_share: the share of transactions that are aborted.
    """

    topic: str
    producers: int = 1
    consumers: int = 1
    duration_s: float | None = None
    records: int | None = None
    rate: float | None = None
    warmup_s: float = 0.0
    interval_s: float = 1.0
    record_size: str = "100"
    payload_file: str | None = None
    payload_template: str | None = None
    key: str = "none"
    headers: tuple[tuple[str, str], ...] = ()
    group: str | None = None
    max_error_rate: float = 0.0
    timeout_s: float = 10.0
    transaction_records: int | None = None
    abort_share: float = 0.0

    def check(self) -> None:
        """Look at all of it together.

        Raises:
            PlanError: it makes no sense.
        """
        if self.producers < 0 or self.consumers < 0 or self.producers + self.consumers == 0:
            raise PlanError("a load test needs a producer or a consumer")
        if self.duration_s is None and self.records is None:
            raise PlanError("a load test needs an end: a duration or a number of records")
        if self.records is not None and self.records < max(1, self.producers):
            raise PlanError("there are fewer records than producers")
        if (
            (self.duration_s is not None and self.duration_s <= 0)
            or self.warmup_s < 0
            or self.interval_s <= 0
        ):
            raise PlanError("times have to be positive")
        if self.rate is not None and self.rate <= 0:
            raise PlanError("a rate has to be positive")
        if not 0 <= self.max_error_rate <= 1:
            raise PlanError("the rate of errors is a share of all records, between 0 and 1")
        if self.payload_file is not None and self.payload_template is not None:
            raise PlanError("payloads come from a file or from a template, not from both")
        if self.transaction_records is not None and self.transaction_records < 1:
            raise PlanError("a transaction needs a record")
        if not 0 <= self.abort_share <= 1:
            raise PlanError("a share of transactions is between 0 and 1")
        if self.abort_share and self.transaction_records is None:
            raise PlanError("without transactions there is nothing to abort")
        if self.transaction_records is not None and not self.producers:
            raise PlanError("transactions need a producer")

    def at_rate(self, rate: float) -> "Plan":
        """The same test at another rate."""
        return replace(self, rate=rate)

    @property
    def is_until_end(self) -> bool:
        """Whether consumers read what is there already, and no more."""
        return self.producers == 0

    def records_of(self, producer: int) -> int | None:
        """How many records one producer sends; None without a limit."""
        if self.records is None:
            return None
        return self.records // self.producers + (producer < self.records % self.producers)

    def records_expected(self) -> int | None:
        """How many records are sent in all, where that is known before."""
        if self.duration_s is None or self.rate is None:
            return self.records
        by_rate = int((self.warmup_s + self.duration_s) * self.rate)
        return by_rate if self.records is None else min(by_rate, self.records)

    def schedule_of(self, producer: int) -> "Schedule | None":
        """When the records of one producer are due; None for as fast as possible."""
        if self.rate is None:
            return None
        rate = Fraction(self.rate).limit_denominator(1_000_000) / self.producers
        return Schedule(rate, stagger=Fraction(producer, self.producers))


class Group(NamedTuple):
    """Records that are due together."""

    due_ns: int
    """From the beginning of the test on."""

    records: int


class Schedule:
    """When records are due, at a fixed rate, whatever becomes of the records before.

    Latency counts from there. So it includes the wait of records that a stalled broker kept from being sent
    (coordinated omission).

    Args:
        rate: records per second.
        stagger: the part of a step by which this schedule begins later than that of the first producer.
    """

    def __init__(self, rate: Fraction, *, stagger: Fraction = Fraction(0)) -> None:
        self.rate = rate
        records, seconds = rate.as_integer_ratio()
        # The slower of the two steps: from record to record, or a tick with what is due in it. In whole numbers, so
        # that nothing is rounded twice.
        is_ticking = rate > TICKS_PER_S
        self._step_ns = (NS, TICKS_PER_S) if is_ticking else (seconds * NS, records)
        self._step_records = (records, seconds * TICKS_PER_S) if is_ticking else (1, 1)
        self._offset_ns = int(stagger * Fraction(*self._step_ns))

    def group(self, number: int) -> Group:
        """The ``number``-th group, from 0 on."""
        over, under = self._step_ns
        return Group(
            self._offset_ns + number * over // under, self._records(number + 1) - self._records(number)
        )

    def due_by(self, elapsed_ns: int) -> int:
        """How many records are due when so much time has passed."""
        over, under = self._step_ns
        passed_ns = elapsed_ns - self._offset_ns
        return 0 if passed_ns < 0 else self._records(((passed_ns + 1) * under - 1) // over + 1)

    def _records(self, groups: int) -> int:
        over, under = self._step_records
        return groups * over // under


class Task(NamedTuple):
    """The part of one process.

    Args:
        role: "produce" or "consume".
        number: of the process among those of its role.
        properties: of its client; in a test with transactions, ``transactional.id`` is what the ids of all producers
            begin with.
        run_id: eight bytes that no other run has, as hexadecimal digits.
        offsets: for a consumer without a group: the partitions that it reads, and from where.
    """

    role: str
    number: int
    plan: Plan
    properties: Mapping[str, object]
    run_id: str
    offsets: tuple[tuple[int, int], ...] = ()

    def to_json(self) -> str:
        """One line that :func:`task_of` reads."""
        return json.dumps({**self._asdict(), "plan": asdict(self.plan)})


def task_of(text: str) -> Task:
    """What :meth:`Task.to_json` wrote."""
    values = json.loads(text)
    plan = values["plan"]
    plan["headers"] = tuple((name, value) for name, value in plan["headers"])
    values["offsets"] = tuple((partition, offset) for partition, offset in values["offsets"])
    return Task(**{**values, "plan": Plan(**plan)})


def shared_out(partitions: Iterable[int], consumers: int) -> list[list[int]]:
    """Which partitions each consumer reads, where no group decides it: every one in turn."""
    every = sorted(partitions)
    return [every[number::consumers] for number in range(consumers)]


def is_hopeless(plan: Plan, failed: int) -> bool:
    """Whether so many failed that the test has failed, whatever is still to come."""
    expected = plan.records_expected()
    if expected is None:
        return failed > 0 and plan.max_error_rate == 0
    return failed > plan.max_error_rate * expected


def is_too_many(plan: Plan, failed: int, records: int) -> bool:
    """Whether the share of failed records among all is higher than the plan allows."""
    return failed > plan.max_error_rate * records
