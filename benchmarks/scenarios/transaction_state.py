"""The state of transactional ids: how long a new leader takes to load it, and what it takes of memory.

The records are written by a client that calls itself Kafka's admin client, which both systems let write to internal
topics: one batch each, as a coordinator writes them.
"""

import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import islice
from typing import Final, NamedTuple

from benchmarks import wire
from benchmarks.clusters import SIZE, Cluster, running_cluster
from benchmarks.model import Figure, Scenario, Settings
from benchmarks.systems import Target
from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import ElectionType
from pkafka.errors import ErrorCode
from pkafka.model import TRANSACTION_STATE_TOPIC, TopicPartition
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.describe_transactions import DescribeTransactionsRequest
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.records.builder import build_batch
from pkafka.records.checksum import crc32c
from pkafka.server.coordinator.keyed_topic import partition_of
from pkafka.server.transactions.records import encode_key, encode_value
from pkafka.server.transactions.states import TransactionState
from pkafka.server.transactions.transaction import Facts
from tests.talk import good, wait_for

_PARTITIONS: Final = 50
"""Of the topic, by default."""
_RECORDS: Final = 1_000_000
_LOADED: Final = 0
"""The partition that is loaded."""
_NAME: Final = "a-transactional-id-%07d"
_DIGITS: Final = b"0000000"
_CLIENT: Final = "__admin_client"
_WRITERS: Final = 4
_PIPELINED: Final = 500
_CRC_POSITION: Final = 17
_CHECKED_FROM: Final = 21
_PATIENCE_S: Final = 300.0
_POLL_S: Final = 0.002
_LIFE: Final[Sequence[tuple[TransactionState, Sequence[tuple[str, int]]]]] = (
    (TransactionState.EMPTY, ()),
    (TransactionState.ONGOING, (("orders", 3),)),
    (TransactionState.PREPARE_COMMIT, (("orders", 3),)),
    (TransactionState.COMPLETE_COMMIT, ()),
)
"""The records of an id that has committed one transaction."""


class _Frame(NamedTuple):
    """A request that writes one record; the digits of its id are yet to be set."""

    data: bytearray
    digits: int
    batch: int
    batch_end: int

    def of(self, number: int) -> bytes:
        """The request for one id."""
        self.data[self.digits : self.digits + len(_DIGITS)] = b"%07d" % number
        checked = memoryview(self.data)[self.batch + _CHECKED_FROM : self.batch_end]
        struct.pack_into(">I", self.data, self.batch + _CRC_POSITION, crc32c(checked))
        return bytes(self.data)


def _frame(partition: int, state: TransactionState, partitions: Sequence[tuple[str, int]]) -> _Frame:
    now = int(time.time() * 1000)
    facts = Facts(state, 1_000, 0, 60_000, tuple(partitions), now, now)
    batch = bytes(build_batch([(now, encode_key(_NAME % 0), encode_value(facts), ())]))
    data = bytearray(
        wire.produce_frame(TRANSACTION_STATE_TOPIC, partition, batch, 0, acks=1, client_id=_CLIENT)
    )
    at = data.index(batch)
    return _Frame(data, data.index(_DIGITS, at), at, at + len(batch))


def _requests(partition: int, ids: range, states: Sequence[int]) -> Iterator[bytes]:
    frames = [_frame(partition, *_LIFE[state]) for state in states]
    for number in ids:
        for frame in frames:
            yield frame.of(number)


def _write(address: tuple[str, int], requests: Iterator[bytes]) -> None:
    """Have all requests of one connection answered.

    Raises:
        RuntimeError: one was refused.
    """
    size, error_at = wire.produce_answer_layout(TRANSACTION_STATE_TOPIC)
    with (
        socket.create_connection(address, wire.TIMEOUT_S) as connection,
        connection.makefile("rb") as answers,
    ):
        while sent := list(islice(requests, _PIPELINED)):
            connection.sendall(b"".join(sent))
            for _ in sent:
                answer = answers.read(size)
                (error,) = struct.unpack_from(">h", answer, error_at)
                if error:
                    raise RuntimeError(f"a record of an id was refused: {ErrorCode(error).name}")


def _fill(address: tuple[str, int], partition: int, ids: int, states: Sequence[int]) -> None:
    """Write the records of so many ids to one partition, by several connections."""
    shares = [range(number, ids, _WRITERS) for number in range(_WRITERS)]
    with ThreadPoolExecutor(_WRITERS) as threads:
        list(threads.map(lambda share: _write(address, _requests(partition, share, states)), shares))


def _make_topic(address: tuple[str, int]) -> None:
    deadline = time.monotonic() + wire.TIMEOUT_S
    with wire.Link(address) as link:
        request = FindCoordinatorRequest(key="any", key_type=1)
        while link.call(ApiKey.FIND_COORDINATOR, 1, request).error_code:
            if time.monotonic() > deadline:
                raise TimeoutError("transactional ids have no coordinator")
            time.sleep(0.1)


def _name_in(partition: int) -> str:
    """An id of a partition, which no record has."""
    names = (f"unknown-{number}" for number in range(10_000))
    return next(name for name in names if partition_of(name, _PARTITIONS) == partition)


def _loading_s(address: tuple[str, int], partition: int, begin: Callable[[], object]) -> float:
    """How long a broker answers that it is loading a partition.

    Args:
        begin: has the broker lead the partition.
    """
    request = DescribeTransactionsRequest(transactional_ids=[_name_in(partition)])
    deadline = time.monotonic() + _PATIENCE_S
    with wire.Link(address) as link, ThreadPoolExecutor(1) as thread:
        if not _state_of(link, request):
            raise RuntimeError("the broker leads the partition already")
        election = thread.submit(begin)
        last_led = time.perf_counter()
        while refused := _state_of(link, request):
            if refused != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                last_led = time.perf_counter()
            if time.monotonic() > deadline:
                raise TimeoutError("the partition is not loaded")
            time.sleep(_POLL_S)
        took_s = time.perf_counter() - last_led
        election.result()
    return took_s


def _state_of(link: wire.Link, request: DescribeTransactionsRequest) -> int:
    """Why a broker knows nothing of an id; 0 when it has loaded its partition."""
    code = int(link.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, request).transaction_states[0].error_code)
    return 0 if code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND else code


# -- a change of leadership --


def _beside(target: Target) -> AbstractContextManager[Cluster]:
    directory = target.broker.log_dir.parent / f"cluster-{time.monotonic_ns():x}"
    # A compaction in the middle would leave fewer records than the figure is about.
    return running_cluster(target.name, directory, shares_cores=True, more={"log.cleaner.enable": "false"})


def _cluster_of(target: Target) -> Cluster:
    assert isinstance(target.beside, Cluster)
    return target.beside


def _prepare_load(target: Target, settings: Settings) -> None:
    cluster = _cluster_of(target)
    _make_topic(cluster.addresses[0])
    for address in cluster.addresses:
        # A broker that knows who leads has been told before what it leads itself.
        wire.wait_for_leaders(address, TRANSACTION_STATE_TOPIC, _PARTITIONS)
    ids = settings.scaled(_RECORDS, 20_000) // len(_LIFE)
    _fill(
        cluster.addresses[cluster.leader_of(TRANSACTION_STATE_TOPIC, _LOADED)],
        _LOADED,
        ids,
        range(len(_LIFE)),
    )
    wait_for(lambda: cluster.in_sync(TRANSACTION_STATE_TOPIC), timeout_s=_PATIENCE_S)
    if target.name == "kafka":
        for _ in range(1 if settings.quick else 2 * SIZE):
            _measure_load(target, settings)


def _measure_load(target: Target, _settings: Settings) -> dict[str, float]:
    """Have the next broker lead the partition."""
    cluster = _cluster_of(target)
    partition = TopicPartition(TRANSACTION_STATE_TOPIC, _LOADED)
    leader = (cluster.leader_of(*partition) + 1) % SIZE
    with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
        order = [(leader + number) % SIZE for number in range(SIZE)]
        good(admin.alter_partition_reassignments({partition: order})[partition])
        wait_for(lambda: not admin.list_partition_reassignments([partition]))
        cpu = cluster.cpu_s()
        took_s = _loading_s(
            cluster.addresses[leader],
            _LOADED,
            lambda: good(admin.elect_leaders(ElectionType.PREFERRED, [partition])[partition]),
        )
        return {"load": took_s, "brokers' CPU": cluster.cpu_s() - cpu}


# -- memory --


def _measure_memory(target: Target, settings: Settings) -> dict[str, float]:
    """Write ids that have no transaction to another partition each time, and start again."""
    ids = settings.scaled(_RECORDS, 20_000)
    partition = int(target.notes.get("partition", -1)) + 1
    target.notes["partition"] = partition
    _make_topic(target.address)
    target.broker.restart()
    wire.wait_for_leaders(target.address, TRANSACTION_STATE_TOPIC, _PARTITIONS)
    before = target.pss_mb()
    _fill(target.address, partition, ids, [len(_LIFE) - 1])
    target.broker.restart()
    request = DescribeTransactionsRequest(transactional_ids=[_name_in(partition)])
    with wire.Link(target.address) as link:
        wait_for(lambda: not _state_of(link, request), timeout_s=_PATIENCE_S)
    more = target.pss_mb() - before
    return {"memory": more, "an id": more * 1e6 / ids}


SCENARIOS = (
    Scenario(
        name="transaction_state_load",
        about=f"three brokers, RF 3: {_RECORDS:,} records of {_RECORDS // len(_LIFE):,} ids in one partition of"
        " __transaction_state, a batch each: how long the broker that is elected answers COORDINATOR_LOAD_IN_PROGRESS",
        figures=(
            Figure("load", "s", more_is_better=False, bar=0.5),
            Figure("brokers' CPU", "s", more_is_better=False),
        ),
        measure=_measure_load,
        started=False,
        warm_up=False,
        prepare=_prepare_load,
        beside=_beside,
    ),
    Scenario(
        name="transactional_ids_memory",
        about=f"{_RECORDS:,} transactional ids without a transaction, loaded at the start: PSS over that without any",
        figures=(
            Figure("memory", "MB", more_is_better=False),
            Figure("an id", "bytes", more_is_better=False),
        ),
        measure=_measure_memory,
        warm_up=False,
    ),
)
