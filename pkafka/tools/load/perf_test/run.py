"""One load test, from its topic to its last record: starts generators, adds up what they see, knows when it is over."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from pkafka.clients.errors import ClientTimeoutError, Stage
from pkafka.errors import ApiError, ErrorCode, PkafkaError
from pkafka.model import EARLIEST, LATEST, TopicPartition
from pkafka.tools.load.perf_test.fleet import Fleet, GeneratorError, Processes, Said
from pkafka.tools.load.perf_test.histogram import Histogram
from pkafka.tools.load.perf_test.measuring import Clock, Window, window_of_json
from pkafka.tools.load.perf_test.payload import Keys, Values
from pkafka.tools.load.perf_test.plan import NS, Plan, Task, is_hopeless, shared_out

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin

T = TypeVar("T")

_LISTEN_S: Final = 0.1
_ASK_AGAIN_S: Final = 0.5
_SETTLED_AFTER: Final = 10
READ_COMMITTED: Final = "read_committed"
SERIES_PERCENTS: Final = (50.0, 99.0, 99.9)
_START_NS: Final = 300_000_000
"""So long after all are told: longer than a consumer waits that has nothing to read yet."""

_TELLING_NS: Final = 300_000_000
"""How much later than its end a window is complete: processes tell of it when it is over."""


@dataclass(slots=True)
class Seen:
    """What was seen from the beginning of a test to its end."""

    measured: Window = field(default_factory=Window)
    """All windows but those of the warm-up."""

    everything: Window = field(default_factory=Window)
    """Counts of all windows, those of the warm-up included; no times."""

    last_ns: int = 0
    cpu_s: float = 0.0
    error: str | None = None

    def add(self, number: int, window: Window) -> None:
        """Count what a generator saw in a window."""
        self.everything.count(window)
        if number >= 0:
            self.measured.add(window)


@dataclass(slots=True)
class Part(Seen):
    """What one generator saw, and where."""

    host: str = ""
    pid: int = 0
    late_ns: int = 0
    """How much later than agreed it began."""

    clock_error_ns: int = 0
    """How far its clock may be from the leader's, after its times were put right."""


@dataclass(slots=True)
class Side(Seen):
    """What the producers, or the consumers, of a test saw."""

    windows: dict[int, Window] = field(default_factory=dict)
    parts: dict[int, Part] = field(default_factory=dict)
    """By number of generator."""

    _percentiles_ms: dict[int, dict[float, float]] = field(default_factory=dict)

    def part(self, number: int) -> Part:
        """Of one generator."""
        return self.parts.setdefault(number, Part())

    def window(self, number: int) -> Window:
        """A window, empty where nothing was seen."""
        return self.windows.setdefault(number, Window())

    def add(self, number: int, window: Window) -> None:
        """Count what a generator saw in a window."""
        self.window(number).add(window)
        Seen.add(self, number, window)

    def percentiles_ms(self, number: int) -> Mapping[float, float]:
        """The percentiles of a window that the series has; none where no times are known."""
        known = self._percentiles_ms.get(number)
        if known is None and number in self.windows and self.windows[number].latency.total:
            found = self.windows[number].latency.percentiles_us(SERIES_PERCENTS)
            known = {percent: us / 1000 for percent, us in zip(SERIES_PERCENTS, found, strict=True)}
        return known or {}

    def settle(self, number: int) -> None:
        """Keep of a window that is long over what the series needs: its histograms are in the sum of all."""
        window = self.windows.get(number)
        if window is not None:
            self._percentiles_ms[number] = dict(self.percentiles_ms(number))
            window.latency, window.lag, window.ending = Histogram(), Histogram(), Histogram()


@dataclass(slots=True)
class Outcome:
    """What came of a load test."""

    plan: Plan
    clock: Clock
    began: datetime
    produced: Side = field(default_factory=Side)
    consumed: Side = field(default_factory=Side)
    status: str = "complete"
    """"complete"; "interrupted", by its user; "failed": too many records failed, or the cluster does not answer."""

    error: str | None = None
    missed: int = 0
    """How many records were due and never handed over."""

    partitions: int | None = None
    """Of the topic, when the test began."""

    is_caught_up: bool = False
    is_log_append_time: bool = False
    hides_aborted: bool = False
    """Whether the consumers read committed records alone."""

    @property
    def readable(self) -> int:
        """How many acknowledged records the consumers are to find."""
        seen = self.produced.everything
        return seen.records - (seen.aborted_records if self.hides_aborted else 0)

    @property
    def missing(self) -> int:
        """How many acknowledged records the consumers did not find."""
        if not self.is_caught_up or not self.plan.consumers or self.plan.is_until_end:
            return 0
        return max(0, self.readable - self.consumed.everything.records)

    def seconds_in(self, number: int) -> float:
        """How much of a window belongs to the test, which may end in the middle of it."""
        begin_ns = self.clock.measured_ns + number * self.clock.interval_ns
        last_ns = max(self.produced.last_ns, self.consumed.last_ns)
        return min(self.clock.interval_ns, max(0, last_ns - begin_ns)) / NS

    def seconds_of(self, seen: Seen) -> float:
        """From the end of the warm-up to the last record."""
        return max(0, seen.last_ns - self.clock.measured_ns) / NS


class Progress(NamedTuple):
    """How far a test is: a window that is over."""

    number: int
    plan: Plan
    produced: Window
    consumed: Window


class Clients(NamedTuple):
    """The configurations of the clients."""

    producer: Mapping[str, object]
    consumer: Mapping[str, object]


@contextmanager
def topic_for(
    admin: "Admin",
    plan: Plan,
    *,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    is_kept: bool,
    on_left: Callable[[str], None],
) -> Iterator[None]:
    """Make the topic where it is missing, for the length of a ``with`` block unless it is kept.

    Args:
        partitions, replication_factor: -1 leaves it to the broker.
        on_left: told why the topic is still there, where it could not be deleted.

    Raises:
        ApiError, ClientError: it could not be made; or it is missing, and there is no producer to write to it.
    """
    from pkafka.clients.admin.results import NewTopic

    is_missing = all(each.name != plan.topic for each in admin.list_topics())
    if is_missing:
        if plan.is_until_end:
            text = f"The topic {plan.topic} does not exist, and without producers there is nothing to read"
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        new = NewTopic(plan.topic, partitions, replication_factor, configs=configs or None)
        made = admin.create_topics([new])[plan.topic]
        if isinstance(made, ApiError):
            raise made
    try:
        yield
    finally:
        if is_missing and not is_kept:
            error = _delete(admin, plan.topic)
            if error is not None:
                on_left(str(error))


def _delete(admin: "Admin", topic: str) -> PkafkaError | None:
    # What the test has found out is not lost because the cluster is.
    try:
        return admin.delete_topics([topic])[topic]
    except PkafkaError as error:
        return error


def mean_record_bytes(plan: Plan) -> float:
    """What a record is about to hold, for rates in bytes; also finds out whether payloads and keys can be made.

    Raises:
        PlanError, OSError: they cannot.
    """
    keys = Keys(plan.key, 0).take(100)
    return Values(plan, 0).mean_bytes + (0 if keys is None else sum(map(len, keys)) / len(keys))


def run(
    plan: Plan,
    clients: Clients,
    admin: "Admin",
    *,
    on_progress: Callable[[Progress], None],
    is_interrupted: Callable[[], bool],
    fleet_for: Callable[[Sequence[Task]], AbstractContextManager[Fleet]] = Processes,
) -> Outcome:
    """Run a load test on a topic that exists.

    Args:
        admin: finds where the partitions begin and end.
        on_progress: called with every window, soon after it is over.
        is_interrupted: asked ten times a second; from then on the test comes to its end.
        fleet_for: starts the generators.

    Raises:
        GeneratorError: a generator failed, or was not ready in time.
        ApiError, ClientError: the cluster does not say where the partitions are.
    """
    partitions = _partitions(admin, plan)
    offsets = _offsets(admin, plan, partitions, at_end=not plan.is_until_end)
    with fleet_for(_tasks(plan, clients, offsets)) as fleet:
        _wait_until_ready(fleet, plan, len(partitions), is_interrupted)
        start_ns = time.monotonic_ns() + _START_NS
        measured_ns = start_ns + int(plan.warmup_s * NS)
        end_ns = None if plan.duration_s is None else measured_ns + int(plan.duration_s * NS)
        epoch_ns = time.time_ns() + start_ns - time.monotonic_ns()
        clock = Clock(start_ns, measured_ns, end_ns, int(plan.interval_s * NS), epoch_ns)
        outcome = Outcome(plan, clock, datetime.now(UTC), partitions=len(partitions))
        outcome.hides_aborted = clients.consumer.get("isolation.level") == READ_COMMITTED
        test = _Test(fleet, admin, outcome, on_progress)
        fleet.tell("start", clock=list(clock))
        if plan.is_until_end:
            ends = _offsets(admin, plan, partitions, at_end=True)
            fleet.tell("until", role="consume", ends=ends)
        test.drive(is_interrupted)
        return test.outcome


class _Test:
    """A test that has begun."""

    def __init__(
        self, fleet: Fleet, admin: "Admin", outcome: Outcome, on_progress: Callable[[Progress], None]
    ) -> None:
        self.outcome = outcome
        self._plan = outcome.plan
        self._fleet = fleet
        self._admin = admin
        self._on_progress = on_progress
        self._sides = {"produce": outcome.produced, "consume": outcome.consumed}
        self._next_shown = outcome.clock.window_of(outcome.clock.start_ns)
        self._behind = set(range(self._plan.consumers))
        self._read: dict[int, int] = {}
        """How many records each consumer had read when it had caught up."""

        self._asked_at: float | None = None
        self._stopped: set[str] = set()
        self._moved = time.monotonic()

    def drive(self, is_interrupted: Callable[[], bool]) -> None:
        """Listen until all processes are done."""
        try:
            while self._fleet.working:
                for said in self._fleet.listen(_LISTEN_S):
                    self._hear(said)
                self._show(time.monotonic_ns() - _TELLING_NS)
                if is_interrupted() and self.outcome.status == "complete":
                    self.outcome.status = "interrupted"
                    self._stop("produce", "consume")
                self._decide()
        except PkafkaError as error:
            # What was seen until now is still worth a report.
            self._fail(str(error))
        self._show(None)
        self.outcome.is_caught_up = not self._behind and self.outcome.status == "complete"

    def _hear(self, said: Said) -> None:
        side, message = self._sides[said.task.role], said.message
        part = side.part(said.task.number)
        if said.kind == "started":
            part.host, part.pid = message["host"], message["pid"]
            part.late_ns, part.clock_error_ns = message["late_ns"], message["clock_error_ns"]
        elif said.kind == "window":
            window = window_of_json(message["window"])
            for each in (side, part):
                each.add(message["number"], window)
                each.error = each.error or message["error"]
            if window.records or window.failed:
                self._moved = time.monotonic()
        elif said.kind == "caught_up":
            self._behind.discard(said.task.number)
            self._read[said.task.number] = message["records"]
        elif said.kind == "done":
            for each in (side, part):
                each.last_ns = max(each.last_ns, self.outcome.clock.start_ns + message["last_ns"])
                each.cpu_s += message["cpu_s"]
                each.error = each.error or message["error"]
            self.outcome.missed += message.get("missed", 0)
            self.outcome.is_log_append_time |= message.get("log_append_time", False)

    def _decide(self) -> None:
        plan, outcome = self._plan, self.outcome
        failed = outcome.produced.everything.failed
        if failed and is_hopeless(plan, failed) and outcome.status == "complete":
            self._fail(None)
        if self._fleet.is_working("produce") or "consume" in self._stopped:
            return
        if not plan.is_until_end:
            self._look_for_the_end()
        is_enough = (
            plan.is_until_end
            and plan.records is not None
            and outcome.consumed.everything.records >= plan.records
        )
        if self._is_all_read() or is_enough or time.monotonic() - self._moved > self._silence_max_s():
            self._stop("consume")

    def _look_for_the_end(self) -> None:
        """Tell the consumers where the partitions end, now that all outcomes are known."""
        now = time.monotonic()
        if self._asked_at is None:
            self._moved = now
        elif self._behind or self._is_all_read() or now - self._asked_at < _ASK_AGAIN_S:
            return
        # Records without acknowledgement (acks=0) may come after their producer is done.
        self._asked_at = now
        self._behind = set(range(self._plan.consumers))
        ends = _offsets(self._admin, self._plan, _partitions(self._admin, self._plan), at_end=True)
        self._fleet.tell("until", role="consume", ends=ends)

    def _is_all_read(self) -> bool:
        if self._behind:
            return False
        is_reading_only = self._plan.is_until_end or not self._plan.consumers
        return is_reading_only or sum(self._read.values()) >= self.outcome.readable

    def _silence_max_s(self) -> float:
        # Windows are told when they are over.
        return self._plan.timeout_s + self._plan.interval_s

    def _fail(self, error: str | None) -> None:
        self.outcome.status = "failed"
        self.outcome.error = error
        self._stop("produce", "consume")

    def _stop(self, *roles: str) -> None:
        for role in roles:
            if role not in self._stopped:
                self._stopped.add(role)
                self._fleet.tell("stop", role=role)

    def _show(self, now_ns: int | None) -> None:
        known = [*self.outcome.produced.windows, *self.outcome.consumed.windows]
        end = (
            max(known, default=self._next_shown - 1) + 1
            if now_ns is None
            else self.outcome.clock.window_of(now_ns)
        )
        last_ns = self.outcome.clock.end_ns
        if last_ns is not None:
            # What arrives after the end, as its last records do, is no window of its own to a person.
            end = min(end, self.outcome.clock.window_of(last_ns - 1) + 1)
        while self._next_shown < end:
            number = self._next_shown
            self._next_shown += 1
            produced, consumed = (side.window(number) for side in self._sides.values())
            self._on_progress(Progress(number, self._plan, produced, consumed))
            for side in self._sides.values():
                side.settle(number - _SETTLED_AFTER)


def _tasks(plan: Plan, clients: Clients, offsets: Mapping[int, int]) -> list[Task]:
    run_id = secrets.token_hex(8)
    producers = [Task("produce", number, plan, clients.producer, run_id) for number in range(plan.producers)]
    shares = shared_out(offsets, plan.consumers)
    consumers = [
        Task(
            "consume", number, plan, clients.consumer, run_id, tuple((each, offsets[each]) for each in share)
        )
        for number, share in enumerate(shares)
    ]
    return producers + consumers


def _wait_until_ready(fleet: Fleet, plan: Plan, partitions: int, is_interrupted: Callable[[], bool]) -> None:
    deadline = time.monotonic() + fleet.ready_s
    producers: set[int] = set()
    held: dict[int, Sequence[int]] = {}
    while (
        len(producers) < plan.producers
        or len(held) < plan.consumers
        or (
            plan.consumers
            and sorted(each for share in held.values() for each in share) != [*range(partitions)]
        )
    ):
        if is_interrupted():
            raise KeyboardInterrupt  # nothing is measured yet
        if time.monotonic() > deadline:
            raise GeneratorError(fleet.not_ready())
        for said in fleet.listen(_LISTEN_S):
            if said.kind == "ready" and said.task.role == "produce":
                producers.add(said.task.number)
            elif said.kind == "ready":
                held[said.task.number] = said.message["partitions"]


def _partitions(admin: "Admin", plan: Plan) -> list[int]:
    """The partitions of the topic; of one that was made just now, as soon as brokers know of it."""
    return _patiently(
        plan,
        lambda: [
            each.partition for each in _good(admin.describe_topics([plan.topic])[plan.topic]).partitions
        ],
    )


def _offsets(admin: "Admin", plan: Plan, partitions: Sequence[int], *, at_end: bool) -> dict[int, int]:

    wanted = {TopicPartition(plan.topic, each): LATEST if at_end else EARLIEST for each in partitions}
    return _patiently(
        plan,
        lambda: {where.partition: _good(found).offset for where, found in admin.list_offsets(wanted).items()},
    )


def _good(outcome: T | ApiError) -> T:
    if isinstance(outcome, ApiError):
        raise outcome
    return outcome


def _patiently(plan: Plan, ask: Callable[[], T]) -> T:
    """Ask again while brokers only begin to know of a topic."""
    deadline = time.monotonic() + plan.timeout_s
    while True:
        try:
            return ask()
        except ApiError as error:
            if not error.code.retriable:
                raise
            if time.monotonic() > deadline:
                text = f"the partitions of {plan.topic} cannot be found: {error.message}"
                raise ClientTimeoutError(Stage.METADATA, text) from None
            time.sleep(_LISTEN_S)
