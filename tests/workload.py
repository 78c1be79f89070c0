"""Load on a cluster under faults, and the laws that hold for it whatever happens.

Idempotent producers write to all partitions of a topic, several records under way at a time; a reader follows every
partition; members of a group share them and commit. At the end:

- what was acknowledged is there, once, at the offset that was said, and in the order in which it was sent;
- nothing is there that was not sent, and nothing that was definitely refused;
- what the reader was ever given is what everybody reads at that offset: nothing delivered has vanished;
- the group was given all of it, in order between two rebalances, and has committed that;
- a copy that is made in transactions, read committed, is the original, and no transaction is open (tests/copier.py);
- all replicas that are in sync are the same byte for byte.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from types import TracebackType
from typing import Final, NamedTuple

from pkafka.clients.admin import Admin
from pkafka.clients.consumer import Consumer
from pkafka.clients.consumer.records import ConsumerRecords
from pkafka.clients.errors import ClientError
from pkafka.clients.producer import Producer
from pkafka.clients.producer.record_metadata import RecordMetadata
from pkafka.errors import ApiError, ErrorCode, PkafkaError
from pkafka.model import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from tests.cluster import SETTINGS, Cluster
from tests.copier import Copier
from tests.talk import wait_for

PACE_S: Final = 0.005
UNDER_WAY_MAX: Final = 20
# Of refusals, those after which the records are certainly not in the log, if nothing was sent again.
REFUSED: Final = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.INVALID_RECORD,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
PATIENT: Final = {
    "request.timeout.ms": 3_000,
    "retry.backoff.max.ms": 200,
    "reconnect.backoff.max.ms": 200,
    "socket.connection.setup.timeout.ms": 1_000,
    "socket.connection.setup.timeout.max.ms": 2_000,
    "metadata.max.age.ms": 5_000,
}
"""Clients that give a silent broker up after seconds, and try again soon."""


class Place(NamedTuple):
    """Of a record."""

    partition: int
    offset: int


class Writer:
    """0, 1, 2, ... round the partitions.

    Args:
        name: goes into every value, before the number.
        settings: of the producer.
    """

    def __init__(self, cluster: Cluster, topic: str, partitions: int, name: str, **settings: object) -> None:
        self.name = name
        self.acknowledged: dict[int, Place] = {}
        self.refused: dict[int, Exception] = {}
        self.sent = 0
        self.times_s: list[float] = []
        """When each acknowledgement came."""
        self._topic = topic
        self._partitions = partitions
        self._settings = {"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, **PATIENT, **settings}
        self._ended = threading.Event()
        self._room = threading.Semaphore(UNDER_WAY_MAX)
        self._thread = threading.Thread(target=self._run, name=f"writer {name}")
        self._thread.start()

    def _run(self) -> None:
        with Producer(self._settings) as producer:
            while not self._ended.wait(PACE_S):
                if not self._room.acquire(timeout=0.2):
                    continue
                number, self.sent = self.sent, self.sent + 1
                producer.send(
                    self._topic,
                    b"%s %d" % (self.name.encode(), number),
                    partition=number % self._partitions,
                    callback=lambda found, error, number=number: self._done(number, found, error),  # type: ignore[misc]
                )
            producer.flush()

    def _done(self, number: int, found: RecordMetadata, error: Exception | None) -> None:
        self._room.release()
        if error is not None:
            self.refused[number] = error
        else:
            self.acknowledged[number] = Place(found.partition, found.offset)
            self.times_s.append(time.monotonic())

    def end(self) -> None:
        self._ended.set()

    def join(self) -> None:
        self._thread.join(150)  # delivery.timeout.ms and then some
        assert not self._thread.is_alive()

    def longest_gap_s(self, since_s: float = 0.0) -> float:
        """Between two acknowledgements."""
        times = [one for one in self.times_s if one >= since_s]
        return max(later - earlier for earlier, later in pairwise(times))


class Reader:
    """Reads every partition from its beginning, as long as it is let."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self.seen: dict[Place, bytes] = {}
        self.wrong: list[str] = []
        self._next = dict.fromkeys(range(partitions), 0)
        self._topic = topic
        self._settings = {"bootstrap.servers": cluster.bootstrap, "auto.offset.reset": "none", **PATIENT}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader")
        self._thread.start()

    def _run(self) -> None:
        with Consumer(self._settings) as consumer:
            partitions = [TopicPartition(self._topic, index) for index in self._next]
            consumer.assign(partitions)
            for partition in partitions:
                consumer.seek(partition, 0)
            while not self._ended.is_set():
                try:
                    records = consumer.poll(100)
                except (ApiError, ClientError) as error:  # no offset may ever be out of range
                    self.wrong.append(repr(error))
                    return
                for one in records:
                    if one.offset != self._next[one.partition]:
                        self.wrong.append(
                            f"{one.partition}: {one.offset} in place of {self._next[one.partition]}"
                        )
                    self._next[one.partition] = one.offset + 1
                    self.seen[Place(one.partition, one.offset)] = one.value or b""

    def end(self) -> None:
        self._ended.set()
        self._thread.join(90)
        assert not self._thread.is_alive()


class Member:
    """One of a group; commits what it was given after each poll."""

    def __init__(self, cluster: Cluster, topic: str, group: str) -> None:
        self.seen: set[bytes] = set()
        self.wrong: list[str] = []
        self._topic = topic
        self._settings = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 500,
            **PATIENT,
        }
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="member")
        self._thread.start()

    def _run(self) -> None:
        with Consumer(self._settings) as consumer:
            consumer.subscribe([self._topic])
            while not self._ended.is_set():
                try:
                    self._take(consumer.poll(100))
                    consumer.commit_sync(timeout_ms=5_000)
                except (ApiError, ClientError):
                    continue  # somebody else has the partitions now, or nobody answers: poll and see

    def _take(self, records: ConsumerRecords) -> None:
        last: dict[int, int] = {}
        for one in records:
            if one.offset <= last.get(one.partition, -1):
                self.wrong.append(f"{one.partition}: {one.offset} after {last[one.partition]}")
            last[one.partition] = one.offset
            self.seen.add(one.value or b"")

    def end(self) -> None:
        self._ended.set()
        self._thread.join(90)
        assert not self._thread.is_alive()


class Workload:
    """All of them on one topic that exists, started on entering.

    Args:
        cluster: which runs.
        topic: its name.
        partitions: how many it has.
        writers: how many.
        members: how many the group has.
        settings: of the producers.
        copies: a topic of as many partitions that gets a copy in transactions; there is no copy when it is empty.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partitions: int,
        *,
        writers: int = 2,
        members: int = 0,
        settings: dict[str, object] | None = None,
        copies: str = "",
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partitions = [TopicPartition(topic, index) for index in range(partitions)]
        self._counts = writers, members
        self._settings = settings or {}
        self.writers: list[Writer] = []
        self._members: list[Member] = []
        self._reader: Reader | None = None
        self._copies = copies
        self._copier: Copier | None = None
        self._group = f"group-of-{topic}"

    def __enter__(self) -> "Workload":
        writers, members = self._counts
        count = len(self._partitions)
        self._reader = Reader(self._cluster, self._topic, count)
        self._members = [Member(self._cluster, self._topic, self._group) for _ in range(members)]
        self.writers = [
            Writer(self._cluster, self._topic, count, f"w{number}", **self._settings)
            for number in range(writers)
        ]
        if self._copies:
            self._copier = Copier(self._cluster, self._topic, self._copies, count, PATIENT)
        try:
            wait_for(
                lambda: all(len(writer.acknowledged) > 10 for writer in self.writers),
                timeout_s=60,
                what="a first ten",
            )
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, type_: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            if type_ is None:
                self._end_writers()
                self._wait_for_readers()
        finally:
            self._end()

    def _end_writers(self) -> None:
        for writer in self.writers:
            writer.end()
        for writer in self.writers:
            writer.join()

    def _end(self) -> None:
        self._end_writers()
        if self._reader is not None:
            self._reader.end()
        for member in self._members:
            member.end()
        if self._copier is not None:
            self._copier.end()

    def goes_on(self, timeout_s: float = 60.0) -> None:
        """Every writer has more acknowledged than until now, in all partitions."""
        before = [len(writer.acknowledged) for writer in self.writers]
        more = 4 * len(self._partitions) + UNDER_WAY_MAX

        def do() -> bool:
            return all(
                len(writer.acknowledged) > count + more
                for writer, count in zip(self.writers, before, strict=True)
            )

        try:
            wait_for(do, timeout_s=timeout_s, what="more acknowledgements")
        except AssertionError as error:
            error.add_note(self._how_it_is(before))
            raise

    def copies_go_on(self, timeout_s: float = 60.0) -> None:
        """More is copied than until now, where there is a copy."""
        if self._copier is not None:
            self._copier.goes_on(timeout_s)

    def _how_it_is(self, before: list[int]) -> str:
        """Of each writer since there were so many acknowledgements, and of each partition."""
        lines = [
            f"{writer.name}: sent {writer.sent}, acknowledged {count} and then {len(writer.acknowledged) - count}, "
            f"refused {len(writer.refused)}, under way "
            f"{sorted(set(range(writer.sent)) - set(writer.acknowledged) - set(writer.refused))[:UNDER_WAY_MAX]}; "
            f"the last refusal: {next(reversed(writer.refused.values()), None)!r}"
            for writer, count in zip(self.writers, before, strict=True)
        ]
        return "\n".join([*lines, *self._states()])

    def _states(self) -> list[str]:
        """What was decided of each partition."""
        try:
            return [
                f"{partition}: {self._cluster.state(self._topic, partition.partition)}"
                for partition in self._partitions
            ]
        except PkafkaError as error:
            return [f"ZooKeeper: {error}"]

    def longest_gap_s(self) -> float:
        return max(writer.longest_gap_s() for writer in self.writers)

    def _wait_for_readers(self) -> None:
        ends = self._ends()
        assert self._reader is not None
        reader = self._reader
        last = [Place(partition.partition, end - 1) for partition, end in ends.items() if end]
        wait_for(
            lambda: reader.wrong or all(place in reader.seen for place in last),
            timeout_s=60,
            what="the reader",
        )
        if self._members:
            with Consumer(self._settings_of_group()) as consumer:

                def is_committed() -> bool:
                    try:
                        found = consumer.committed(self._partitions, timeout_ms=5_000)
                    except PkafkaError:
                        return False
                    return all(
                        (offsets := found[partition]) is not None and offsets.offset == end
                        for partition, end in ends.items()
                    )

                wait_for(is_committed, timeout_s=60, what="the group")
        if self._copier is not None:
            copier = self._copier
            wait_for(
                lambda: copier.defect or copier.reaches(ends),
                timeout_s=120,
                what=f"the copy, after {copier.failures[-3:]}",
            )

    def _settings_of_group(self) -> dict[str, object]:
        return {"bootstrap.servers": self._cluster.bootstrap, "group.id": self._group, **PATIENT}

    def _ends(self) -> dict[TopicPartition, int]:
        with Consumer({"bootstrap.servers": self._cluster.bootstrap, **PATIENT}) as consumer:
            try:
                return consumer.end_offsets(self._partitions)
            except PkafkaError as error:
                error.add_note(self._what_brokers_say())
                raise

    def _what_brokers_say(self) -> str:
        """What each of them knows of the topic, and what was decided."""
        lines = []
        for address in self._cluster.bootstrap.split(","):
            with Admin({"bootstrap.servers": address, "request.timeout.ms": 5_000}) as admin:
                try:
                    lines.append(f"{address}: {admin.describe_topics([self._topic])[self._topic]}")
                except PkafkaError as error:
                    lines.append(f"{address}: {error}")
        return "\n".join([*lines, *self._states()])

    def check(self, *, errors_expected: bool = False, may_repeat: bool = False) -> None:
        """All laws; the load is over, and everybody is in sync again.

        Args:
            errors_expected: the writers' own time may have run out, or they do not try again.
            may_repeat: a leader of Apache Kafka was killed, so what it had not acknowledged may be there again. Its
                snapshots have one batch of each producer; started again it takes those before, sent again, for out of
                order, and a producer can but send them once more under another epoch. pkafka remembers all that may be
                in flight.
        """
        log = self._read_all()
        values = {log[place]: place for place in sorted(log)}
        twice = {value: [place, values[value]] for place, value in log.items() if values[value] != place}
        assert may_repeat or not twice, f"something is there twice: {twice}"
        expected: set[bytes] = set()
        for writer in self.writers:
            if not errors_expected:
                assert not writer.refused, f"refused: {list(writer.refused.items())[:5]}"
            name = writer.name.encode()
            expected |= {b"%s %d" % (name, number) for number in range(writer.sent)}
            lost = [n for n in writer.acknowledged if b"%s %d" % (name, n) not in values]
            assert not lost, f"acknowledged and lost: {lost[:20]} of {len(lost)}"
            for number, place in writer.acknowledged.items():
                is_at = values[b"%s %d" % (name, number)].offset
                assert place.offset in (-1, is_at), f"acknowledged at {place}, and is at {is_at}"
            kept = [
                number
                for number, error in writer.refused.items()
                if isinstance(error, ApiError) and error.code in REFUSED
                if b"%s %d" % (name, number) in values
            ]
            assert not kept, f"refused and there: {kept[:20]}"
            self._check_order(name, {place: value for value, place in values.items()})
        assert set(values) <= expected, f"nobody sent {sorted(set(values) - expected)[:5]}"
        assert self._reader is not None
        assert not self._reader.wrong, f"the reader was told {self._reader.wrong}"
        vanished = {place: value for place, value in self._reader.seen.items() if log.get(place) != value}
        assert not vanished, f"delivered, and then not there: {list(vanished.items())[:5]} of {len(vanished)}"
        if self._members:
            wrong = [one.wrong for one in self._members if one.wrong]
            assert not wrong, f"the group was told {wrong}"
            assert set(values) <= set.union(*(one.seen for one in self._members)), "the group has missed some"
        if self._copier is not None:
            original: dict[int, list[bytes]] = {one.partition: [] for one in self._partitions}
            for place in sorted(log):
                original[place.partition].append(log[place])
            self._copier.check(original)
        for partition in self._partitions:
            wait_for(
                lambda: self._cluster.same_logs(self._topic, partition.partition),  # noqa: B023 - called at once
                timeout_s=60,
                what=f"the same bytes of {partition} everywhere",
            )

    def _check_order(self, name: bytes, log: dict[Place, bytes]) -> None:
        numbers: dict[int, list[int]] = defaultdict(list)
        for place in sorted(log):
            writer, _, number = log[place].partition(b" ")
            if writer == name:
                numbers[place.partition].append(int(number))
        for partition, found in numbers.items():
            assert found == sorted(found), f"{name!r} is out of order in partition {partition}"

    def _read_all(self) -> dict[Place, bytes]:
        log: dict[Place, bytes] = {}
        with Consumer({"bootstrap.servers": self._cluster.bootstrap, **PATIENT}) as consumer:
            consumer.assign(self._partitions)
            consumer.seek_to_beginning(self._partitions)
            ends = consumer.end_offsets(self._partitions)
            while any(consumer.position(partition) < end for partition, end in ends.items()):
                for one in consumer.poll(100):
                    log[Place(one.partition, one.offset)] = one.value or b""
        return log


def make_offsets_topic(cluster: Cluster, topic: str) -> None:
    """To be done before ZooKeeper is out of reach: a broker of Apache Kafka 3.9.1 that is told of a new partition while
    it cannot read its topic's configuration from there answers no LeaderAndIsr request, or refuses every one with that
    partition until it is started anew."""
    with Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"}) as consumer:
        place = TopicPartition(topic, 0)
        wait_for(lambda: has_answer(lambda: consumer.committed([place])), what="a coordinator")
    wait_for_replicas(cluster, CONSUMER_OFFSETS_TOPIC, int(str(SETTINGS["offsets.topic.num.partitions"])))


def make_transactions_topic(cluster: Cluster, partitions: int) -> None:
    """The same for the coordinators of transactions."""
    keys = {"bootstrap.servers": cluster.bootstrap, "transactional.id": "makes-the-topic"}
    with Producer(keys) as producer:
        producer.init_transactions()
    wait_for_replicas(cluster, TRANSACTION_STATE_TOPIC, partitions)


def wait_for_replicas(cluster: Cluster, topic: str, partitions: int) -> None:
    """Wait until all brokers have all partitions of a topic, in sync."""
    wait_for(
        lambda: all(
            len(cluster.state(topic, index).isr) == len(cluster.brokers)
            and is_hosted_everywhere(cluster, f"{topic}-{index}")
            for index in range(partitions)
        ),
        what=f"replicas of {topic}",
    )


def has_answer(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except PkafkaError:
        return False
    return True


def is_hosted_everywhere(cluster: Cluster, partition: str) -> bool:
    """The ISR says what was decided, not who has heard of it."""
    return all(
        any((directory / partition).is_dir() for directory in cluster.log_dirs(number))
        for number in range(len(cluster.brokers))
    )
