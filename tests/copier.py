"""A copy from topic to topic in transactions while a test does things to the brokers, and the law that holds for it.

At the end the copy, read committed, is the original: all of it, once, and in order. Nothing that was aborted is there,
and nothing is open any more.
"""

import random
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from pkafka.clients.consumer import Consumer, ConsumerRecords
from pkafka.clients.errors import ClientError
from pkafka.clients.producer import Producer
from pkafka.errors import ApiError, PkafkaError
from pkafka.model import LATEST, TopicPartition
from tests.cluster import Cluster
from tests.talk import good, wait_for
from tests.transaction_load import state_of

_ABORTED: Final = 0.25
"""The share of transactions that are aborted, and copied once more."""


class Copier:
    """Copies what it is given in transactions, with the offsets of its group; aborts some of them. Started at once.

    A producer or consumer that fails has a successor with the same transactional id and group.

    Args:
        cluster: which runs.
        source: the topic that is copied.
        target: gets the copy, partition by partition.
        partitions: how many each of them has.
        settings: of the producer and the consumer, beside what it sets.
    """

    def __init__(
        self, cluster: Cluster, source: str, target: str, partitions: int, settings: Mapping[str, object]
    ) -> None:
        self.committed: set[int] = set()
        """The numbers of transactions that were told to be committed."""
        self.aborted: set[int] = set()
        self.failures: list[str] = []
        """Why producers or consumers were given up."""
        self.defect: BaseException | None = None
        """What should never happen."""
        self.patience_s = 60.0
        """How long the reckoning waits for the last marker."""
        self._cluster = cluster
        self._source = [TopicPartition(source, index) for index in range(partitions)]
        self._target = target
        self._settings = {"bootstrap.servers": cluster.bootstrap, **settings}
        self._name = f"copier-of-{source}"
        self._number = 0
        self._chance = random.Random(source)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self._name)
        self._thread.start()

    def goes_on(self, timeout_s: float) -> None:
        """Some more transactions are committed than until now."""
        before = len(self.committed)
        wait_for(
            lambda: len(self.committed) > before + 2 or self.defect,
            timeout_s=timeout_s,
            what=f"more copies, after {self.failures[-3:]}",
        )
        assert self.defect is None, self.defect

    def reaches(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether all is copied up to these offsets of the source, and the offsets of the group say so."""
        with Consumer({**self._settings, "group.id": self._name}) as consumer:
            try:
                found = consumer.committed(list(ends), timeout_ms=5_000)
            except PkafkaError:
                return False
        return all((one := found[key]) is not None and one.offset == end for key, end in ends.items() if end)

    def end(self) -> None:
        """Copy no more."""
        self._ended.set()
        self._thread.join(150)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                try:
                    self._live()
                except (ApiError, ClientError) as error:
                    self.failures.append(f"{self._number}: {error!r}")
        except BaseException as error:
            self.defect = error
            raise

    def _live(self) -> None:
        """Copy until something fails, or the end."""
        producer_keys = {"transactional.id": self._name, "transaction.timeout.ms": 10_000, "linger.ms": 0}
        consumer_keys = {
            "group.id": self._name,
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
        with (
            Producer({**self._settings, **producer_keys}) as producer,
            Consumer({**self._settings, **consumer_keys}) as consumer,
        ):
            producer.init_transactions()
            consumer.assign(self._source)
            while not self._ended.is_set():
                records = consumer.poll(100)
                if records:
                    self._copy(producer, consumer, records)

    def _copy(self, producer: Producer, consumer: Consumer, records: ConsumerRecords) -> None:
        number, self._number = self._number, self._number + 1
        begins: dict[TopicPartition, int] = {}
        ends: dict[TopicPartition, int] = {}
        producer.begin_transaction()
        for one in records:
            key = TopicPartition(one.topic, one.partition)
            begins.setdefault(key, one.offset)
            ends[key] = one.offset + 1
            producer.send(self._target, one.value, b"%d" % number, partition=one.partition)
        producer.send_offsets_to_transaction(ends, self._name)
        if self._chance.random() < _ABORTED:
            producer.flush()
            producer.abort_transaction()
            self.aborted.add(number)
            for key, offset in begins.items():
                consumer.seek(key, offset)
        else:
            producer.commit_transaction()
            self.committed.add(number)

    # -- the reckoning --

    def check(self, original: Mapping[int, Sequence[bytes]]) -> None:
        """The law of the copy; it has reached the end of the original, and all brokers run.

        Args:
            original: the values of each partition, in order.
        """
        assert self.defect is None, self.defect
        wait_for(lambda: state_of(self._cluster, self._name).startswith("Complete"), what="the last end")
        for index, values in original.items():
            place = TopicPartition(self._target, index)
            self._wait_for_end(place)
            found = self._read_committed(place)
            numbers = {number for number, _ in found}
            assert not numbers & self.aborted, f"aborted, and there: {sorted(numbers & self.aborted)[:10]}"
            copied = [value for _, value in found]
            assert copied == list(values), (
                f"{place}: {len(copied)} of {len(values)}, {len(set(copied))} different"
            )

    def _wait_for_end(self, place: TopicPartition) -> None:
        wait_for(lambda: not self._is_open(place), timeout_s=self.patience_s, what=f"nothing open in {place}")

    def _is_open(self, place: TopicPartition) -> bool:
        with self._cluster.admin() as admin:
            stable = good(admin.list_offsets({place: LATEST}, read_committed=True)[place]).offset
            return stable < good(admin.list_offsets({place: LATEST})[place]).offset

    def _read_committed(self, place: TopicPartition) -> list[tuple[int, bytes]]:
        """The number of its transaction and the value of each committed record."""
        keys = {**self._settings, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        found: list[tuple[int, bytes]] = []
        with Consumer(keys) as consumer:
            consumer.assign([place])
            end = consumer.end_offsets([place])[place]
            while consumer.position(place) < end:
                found += [(int(one.key or b"-1"), one.value or b"") for one in consumer.poll(100)]
        return found
