"""Transactions over raw sockets: small ones of one producer, and those of many producers over many partitions."""

import heapq
import selectors
import socket
import struct
import time
from collections.abc import Generator
from statistics import quantiles
from typing import Any, Final, NamedTuple

from benchmarks import wire
from benchmarks.model import Figure, Scenario, Settings
from benchmarks.systems import Target
from pkafka.errors import ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import decode_response, encode_request
from pkafka.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pkafka.protocol.messages.end_txn import EndTxnRequest
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest
from pkafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pkafka.protocol.schema import Message
from pkafka.records.builder import build_batch

_IDS: Final = 50
_PARTITIONS: Final = 100
_PARTITIONS_OF_ONE: Final = 4
_AGAIN_S: Final = 0.001
"""The pause before a producer asks again. Kafka's own pauses longer, so that what is measured would be the pause."""
_COORDINATOR_S: Final = 60.0
_VALUE: Final = bytes(100)
_PASSING: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)


class _Asked(NamedTuple):
    """A request of a producer, and its version."""

    key: ApiKey
    version: int
    message: Message


_Script = Generator[_Asked, Any, None]
"""What a producer asks, one after the other; it gets the answers."""


class _Producer:
    """A transactional id that commits one transaction after the other.

    Args:
        name: its transactional id.
        topic: that it writes to.
        partitions: those that each of its transactions writes to.
    """

    def __init__(self, name: str, topic: str, partitions: list[int]) -> None:
        self.name = name
        self.committed = 0
        self.refused = 0
        """How often it had to ask again."""
        self.commit_s: list[float] = []
        """From the first EndTxn of a transaction to its answer."""
        self._topic = topic
        self._partitions = partitions
        self._identity = -1, -1
        self._sequence = 0

    def run(self) -> _Script:
        """Begin, and go on until nothing is asked any more."""
        init = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        while (answer := (yield _Asked(ApiKey.INIT_PRODUCER_ID, 4, init))).error_code:
            self._refused(answer.error_code)
        self._identity = answer.producer_id, answer.producer_epoch
        while True:
            yield from self._transaction()

    def _transaction(self) -> _Script:
        producer_id, epoch = self._identity
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self._topic, partitions=self._partitions)],
        )
        while error := _added((yield _Asked(ApiKey.ADD_PARTITIONS_TO_TXN, 3, add))):
            self._refused(error)
        batch = bytes(
            build_batch(
                [(int(time.time() * 1000), None, _VALUE, ())],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=self._sequence,
                transactional=True,
            )
        )
        self._sequence += 1
        produce = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                TopicProduceData(
                    name=self._topic,
                    partition_data=[
                        PartitionProduceData(index=index, records=batch) for index in self._partitions
                    ],
                )
            ],
        )
        while error := _produced((yield _Asked(ApiKey.PRODUCE, 9, produce))):
            self._refused(error)
        end = EndTxnRequest(
            transactional_id=self.name, producer_id=producer_id, producer_epoch=epoch, committed=True
        )
        began = time.perf_counter()
        while error := (yield _Asked(ApiKey.END_TXN, 3, end)).error_code:
            self._refused(error)
        self.commit_s.append(time.perf_counter() - began)
        self.committed += 1

    def _refused(self, error: int) -> None:
        if error not in _PASSING:
            raise RuntimeError(f"{self.name} was refused: {ErrorCode(error).name}")
        self.refused += 1


def _added(answer: Any) -> int:
    codes = [
        one.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for one in topic.results_by_partition
    ]
    return next(filter(None, codes), 0)


def _produced(answer: Any) -> int:
    codes = [one.error_code for topic in answer.responses for one in topic.partition_responses]
    return next(filter(None, codes), 0)


class _Connection:
    """One producer's connection: one request at a time."""

    def __init__(self, address: tuple[str, int], producer: _Producer) -> None:
        self.socket = socket.create_connection(address, wire.TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.producer = producer
        self._script = producer.run()
        self._asked = next(self._script)
        self._received = bytearray()

    def send(self) -> None:
        """Ask what is next."""
        key, version, message = self._asked
        self.socket.sendall(encode_request(key, version, 1, wire.CLIENT_ID, message))

    def take(self) -> float | None:
        """Read what is there; the pause before the next request, once an answer is whole."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the broker closed the connection")
        self._received += data
        if len(self._received) < 4 or len(self._received) - 4 < struct.unpack_from(">i", self._received)[0]:
            return None
        key, version, _message = self._asked
        answer = decode_response(key, version, bytes(self._received[4:]))[1]
        self._received.clear()
        refused = self.producer.refused
        self._asked = self._script.send(answer)
        return _AGAIN_S if self.producer.refused > refused else 0.0


def _run(address: tuple[str, int], producers: list[_Producer], seconds: float) -> float:
    """Have producers commit transactions for so long; returns how long it took."""
    connections = [_Connection(address, producer) for producer in producers]
    waiting: list[tuple[float, int, _Connection]] = []
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            connection.send()
        began = time.perf_counter()
        while (now := time.perf_counter()) < began + seconds:
            while waiting and waiting[0][0] <= now:
                heapq.heappop(waiting)[2].send()
            patience_s = max(min(waiting[0][0] - now, 0.1), 0) if waiting else 0.1
            for key, _events in selector.select(patience_s):
                pause_s = key.data.take()
                if pause_s == 0.0:
                    key.data.send()
                elif pause_s is not None:
                    heapq.heappush(waiting, (time.perf_counter() + pause_s, id(key.data), key.data))
        took_s = time.perf_counter() - began
    for connection in connections:
        connection.socket.close()
    return took_s


def _prepare(target: Target, _settings: Settings) -> None:
    deadline = time.monotonic() + _COORDINATOR_S
    with wire.Link(target.address) as link:
        request = FindCoordinatorRequest(key="any", key_type=1)
        while link.call(ApiKey.FIND_COORDINATOR, 1, request).error_code:
            if time.monotonic() > deadline:
                raise TimeoutError("transactional ids have no coordinator")
            time.sleep(0.1)


def _measured(target: Target, settings: Settings, producers: list[_Producer]) -> dict[str, float]:
    cpu = target.cpu_s()
    took_s = _run(target.address, producers, settings.seconds)
    cpu = target.cpu_s() - cpu
    committed = sum(one.committed for one in producers)
    commit_s = [one for producer in producers for one in producer.commit_s]
    return {
        "rate": committed / took_s,
        "commit p50": quantiles(commit_s, n=100)[49] * 1000,
        "commit p99": quantiles(commit_s, n=100)[98] * 1000,
        "asked again": sum(one.refused for one in producers) / committed,
        "server CPU": cpu / committed * 1e6,
    }


def _measure_small(target: Target, settings: Settings) -> dict[str, float]:
    topic = f"small-{time.time_ns():x}"
    wire.create_topic(target.address, topic, 1)
    try:
        return _measured(target, settings, [_Producer(f"one-{topic}", topic, [0])])
    finally:
        wire.delete_topic(target.address, topic)


def _measure_many(target: Target, settings: Settings) -> dict[str, float]:
    topic = f"many-{time.time_ns():x}"
    wire.create_topic(target.address, topic, _PARTITIONS)
    producers = [
        _Producer(
            f"{number}-{topic}",
            topic,
            [
                (number * 2 + step * _PARTITIONS // _PARTITIONS_OF_ONE) % _PARTITIONS
                for step in range(_PARTITIONS_OF_ONE)
            ],
        )
        for number in range(_IDS)
    ]
    try:
        return _measured(target, settings, producers)
    finally:
        wire.delete_topic(target.address, topic)


def _figures(bar: float) -> tuple[Figure, ...]:
    return (
        Figure("rate", "transactions/s", more_is_better=True, bar=bar),
        Figure("commit p50", "ms", more_is_better=False),
        Figure("commit p99", "ms", more_is_better=False, bar=1.0),
        Figure("asked again", "per transaction", more_is_better=False),
        Figure("server CPU", "us/transaction", more_is_better=False),
    )


SCENARIOS = (
    Scenario(
        name="transactions_small",
        about="one producer over one raw socket: AddPartitionsToTxn, a record of 100 B with acks=all, EndTxn; it asks"
        " again after 1 ms",
        figures=_figures(1.5),
        measure=_measure_small,
        prepare=_prepare,
    ),
    Scenario(
        name="transactions_many",
        about=f"{_IDS} producers over raw sockets, each transaction with a record of 100 B in {_PARTITIONS_OF_ONE} of"
        f" {_PARTITIONS} partitions, acks=all; they ask again after 1 ms",
        figures=_figures(1.0),
        measure=_measure_many,
        prepare=_prepare,
    ),
)
