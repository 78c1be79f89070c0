"""What readers get from logs with transactions, open, committed and aborted: Apache Kafka and pkafka answer the same.

Fetch and ListOffsets of either isolation level at every version, and DescribeProducers, on logs of the same records.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol import registry
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pkafka.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from pkafka.protocol.messages.describe_transactions import DescribeTransactionsRequest
from pkafka.protocol.messages.end_txn import EndTxnRequest
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest
from pkafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pkafka.records.batch import iter_headers
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from tests.differences import differences
from tests.interop.conftest import System
from tests.interop.test_list_offsets import answers
from tests.raw_client import RawClient, batch, fetch_request, fetched, produce_to, topic_id
from tests.talk import talking, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

NOON: Final = 1_700_000_000_000
YEARS_MS: Final = 10**13
MIXED: Final = "txn-reading"
"""Every kind of transaction, in a few batches."""
LONG: Final = "txn-reading-long"
"""Many aborted transactions in several segments, and behind them an open one."""
FETCH_VERSIONS: Final = registry.versions(ApiKey.FETCH)
WITH_ISOLATION: Final = 4
WITH_IDS: Final = 13
LIST_VERSIONS: Final = registry.versions(ApiKey.LIST_OFFSETS)


class Writer:
    """A producer with a transactional id, whose batches are the same on both systems."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.client = RawClient(bootstrap)
        self.producer = -1, -1
        """Producer id and epoch."""
        self._next: dict[str, int] = {}

    def begin(self) -> None:
        """Get an identity."""
        find = FindCoordinatorRequest(key_type=1, key=self.transactional_id)
        wait_for(lambda: not self.client.call(find, 1).error_code, what="a coordinator")

        def given() -> bool:
            request = InitProducerIdRequest(
                transactional_id=self.transactional_id, transaction_timeout_ms=600_000
            )
            answer = self.client.call(request, 4)
            self.producer = answer.producer_id, answer.producer_epoch
            return not answer.error_code

        wait_for(given, what="a producer id")

    def open(self, topic: str) -> None:
        """Begin a transaction in the only partition of a topic."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )

        def is_open() -> bool:
            [found] = self.client.call(request, 3).results_by_topic_v3_and_below
            return not found.results_by_partition[0].partition_error_code

        wait_for(is_open, what="the end of the last transaction")

    def ended(self, *, commit: bool) -> None:
        """Commit or abort, and wait for the markers."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=commit,
        )
        assert self.client.call(request, 3).error_code == 0
        wait_for(lambda: self.is_over, what="the markers")
        # Each marker has a millisecond of its own, or two of them would have the largest timestamp on one system alone.
        written_ms = time.time_ns() // 1_000_000
        wait_for(lambda: time.time_ns() // 1_000_000 > written_ms, what="the next millisecond")

    @property
    def is_over(self) -> bool:
        """Whether no transaction is open or decided."""
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        [found] = self.client.call(request, 0).transaction_states
        return found.transaction_state in ("Empty", "CompleteCommit", "CompleteAbort")

    def write(self, topic: str, *values: bytes, at_ms: int = 0, codec: Codec = Codec.NONE) -> None:
        """Append a batch; ``at_ms``: behind noon."""
        first = self._next.get(topic, 0)
        self._next[topic] = first + len(values)
        data = build_batch(
            [(NOON + at_ms, b"k", value, ()) for value in values],
            codec=codec,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=first,
            transactional=True,
        )
        parts = [PartitionProduceData(index=0, records=bytes(data))]
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=topic, partition_data=parts)],
        )
        [answer] = self.client.call(request, 9).responses[0].partition_responses
        assert answer.error_code == 0, ErrorCode(answer.error_code)


class Log:
    """The writers of one system, and what a reader of it sees."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.client = RawClient(system.bootstrap)
        self.writers = [Writer(system.bootstrap, f"reading-{number}") for number in range(3)]
        for writer in self.writers:
            writer.begin()

    def close(self) -> None:
        for writer in self.writers:
            if not writer.is_over:
                writer.ended(commit=False)
            writer.client.close()
        self.client.close()

    def plain(self, topic: str, *values: bytes, at_ms: int = 0) -> None:
        code, _offset = produce_to(self.client, topic, batch(*values, timestamp=NOON + at_ms))
        assert code is ErrorCode.NONE

    def name_of(self, producer_id: int) -> int:
        """The number of a producer."""
        ids = [writer.producer[0] for writer in self.writers]
        return ids.index(producer_id) if producer_id in ids else producer_id

    def fetch(self, topic: str, offset: int, version: int, isolation: int, bytes_max: int) -> Any:
        """One fetch: all that the answer says, with batches for bytes."""
        place: Any = topic if version < WITH_IDS else topic_id(self.client, topic)
        request = fetch_request(
            {(place, 0): offset}, max_wait_ms=0, isolation_level=isolation, partition_max_bytes=bytes_max
        )
        [part] = fetched(self.client.call(request, version)).values()
        records = bytes(part.records or b"")
        headers = [header for _position, header in iter_headers(records)]
        named = part.aborted_transactions
        if named is not None:
            # Both name some that begin behind all that is returned, up to the next entry of the index; which entry that
            # is differs where one is just at the end, and Kafka's bound is not the last stable offset.
            end = headers[-1].next_offset if headers else offset
            named = [
                (self.name_of(one.producer_id), one.first_offset) for one in named if one.first_offset < end
            ]
        return {
            "code": part.error_code,
            "ends": (part.high_watermark, part.last_stable_offset, part.log_start_offset),
            "aborted": named,
            "size": len(records),
            "batches": [
                (header.base_offset, header.last_offset, self.name_of(header.producer_id), header.attributes)
                for header in headers
            ],
        }

    def ask_offset(self, topic: str, moment: int, version: int, isolation: int) -> Any:
        """What ListOffsets says."""
        [(*names, time, offset, epoch)] = answers(
            self.system, version, [(topic, 0, moment)], isolation=isolation
        )
        return [*names, _known(time), offset, epoch]

    def producers(self, topic: str) -> list[tuple[int, ...]]:
        """What DescribeProducers says."""
        request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
        [described] = self.client.call(request, 0).topics
        [part] = described.partitions
        assert part.error_code == 0
        return sorted(
            (
                self.name_of(one.producer_id),
                one.producer_epoch - self.writers[self.name_of(one.producer_id)].producer[1],
                one.last_sequence,
                one.coordinator_epoch,
                one.current_txn_start_offset,
                _known(one.last_timestamp),
            )
            for one in part.active_producers
        )


def _known(time: Any) -> Any:
    """A time; ``now`` for that of a marker, which is by the broker's clock."""
    return "now" if time > NOON + 1_000_000 else time


def write_mixed(log: Log) -> None:
    """One transaction after the other and in each other, compressed and not, the last one open."""
    one, two, three = log.writers
    log.plain(MIXED, b"a", b"b", at_ms=1)
    one.open(MIXED)
    one.write(MIXED, b"1a", b"1b", at_ms=2)
    two.open(MIXED)
    two.write(MIXED, b"2a" * 50, b"2b", at_ms=3, codec=Codec.GZIP)
    log.plain(MIXED, b"c", at_ms=4)
    one.write(MIXED, b"1c", at_ms=9)
    one.ended(commit=False)
    two.write(MIXED, b"2c", at_ms=5)
    one.open(MIXED)
    one.write(MIXED, b"1d", at_ms=6)
    two.ended(commit=True)
    one.ended(commit=False)
    two.open(MIXED)
    two.ended(commit=False)  # nothing was written
    log.plain(MIXED, b"d", at_ms=7)
    three.open(MIXED)
    three.write(MIXED, b"3a", b"3b", at_ms=8)
    one.open(MIXED)
    one.write(MIXED, b"1e", at_ms=10)
    one.ended(commit=False)
    log.plain(MIXED, b"e", at_ms=11)


def write_long(log: Log) -> None:
    one, two, three = log.writers
    two.open(LONG)
    two.write(LONG, b"begins first", at_ms=1)
    for number in range(40):
        one.open(LONG)
        one.write(LONG, bytes(900), at_ms=number)
        one.ended(commit=number % 4 == 3)
    two.ended(commit=False)
    log.plain(LONG, b"between", at_ms=50)
    three.open(LONG)
    three.write(LONG, b"open", at_ms=51)
    log.plain(LONG, b"behind", at_ms=52)


@pytest.fixture(scope="module")
def logs(kafka: System | None, pkafka: System | None) -> Iterator[Sequence[Log]]:
    if kafka is None or pkafka is None:
        pytest.skip("PKAFKA_INTEROP_SYSTEMS leaves one system out")
    made = []
    for system in (kafka, pkafka):
        with talking(system.bootstrap) as talk:
            # Markers have the time of today, and would each begin a segment of their own.
            talk.create(MIXED, retention_ms=-1, segment_ms=YEARS_MS)
            talk.create(
                LONG, retention_ms=-1, segment_ms=YEARS_MS, segment_bytes=10_000, index_interval_bytes=1_500
            )
        made.append(Log(system))
        write_mixed(made[-1])
        write_long(made[-1])
    yield made
    for log in made:
        log.close()


def same(logs: Sequence[Log], ask: Callable[..., Any], *question: Any, **more: Any) -> Any:
    """What both say to the same question."""
    theirs, ours = (ask(log, *question, **more) for log in logs)
    found = list(differences(theirs, ours))
    assert not found, "\n".join(found)
    return ours


@pytest.mark.parametrize("version", FETCH_VERSIONS[WITH_ISOLATION:])
def test_each_fetch_of_a_mixed_log(logs: Sequence[Log], version: int) -> None:
    """What older versions get is converted: test_old_fetches.py."""
    for isolation in (0, 1):
        for offset in range(-1, 25):
            for bytes_max in (1, 200, 1_000_000):
                same(logs, Log.fetch, MIXED, offset, version, isolation, bytes_max)


def test_readers_end_at_the_open_transaction(logs: Sequence[Log]) -> None:
    found = same(logs, Log.fetch, MIXED, 0, 12, 1, 1_000_000)
    assert found["ends"][1] < found["ends"][0]
    assert [number for number, _offset in found["aborted"]] == [0, 0]


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_the_aborted_transactions_near_what_was_read(logs: Sequence[Log], version: int) -> None:
    numbers = set()
    for offset in (0, 1, 2, 3, 17, 40, 60, 79, 80, 81, 82, 83):
        for bytes_max in (1, 1_000, 3_000, 1_000_000):
            found = same(logs, Log.fetch, LONG, offset, version, 1, bytes_max)
            numbers.add(len(found["aborted"]))
    assert len(numbers) > 3


@pytest.mark.parametrize("version", LIST_VERSIONS)
def test_ends_and_moments_of_either_isolation(logs: Sequence[Log], version: int) -> None:
    moments = (-1, -2, -3, -4, *(NOON + at_ms for at_ms in (*range(14), 49, 50, 51, 52, 53)))
    for isolation in (0, 1) if version >= 2 else (0,):
        for topic in (MIXED, LONG):
            for moment in moments:
                same(logs, Log.ask_offset, topic, moment, version, isolation)


def test_what_is_known_of_each_producer(logs: Sequence[Log]) -> None:
    for topic in (MIXED, LONG):
        found = same(logs, Log.producers, topic)
        assert [one[0] for one in found] == [0, 1, 2]
        assert found[2][4] >= 0, "the start of the open transaction"
