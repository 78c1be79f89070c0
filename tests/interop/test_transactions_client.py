"""Transactions of pkafka's producer on both systems: what commits, aborts, zombies and restarts of brokers come to."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import psutil
import pytest

from pkafka.clients.admin.client import Admin
from pkafka.clients.admin.coordinators import CoordinatorType, find_coordinators
from pkafka.clients.admin.results import NewTopic
from pkafka.clients.consumer import Consumer
from pkafka.clients.errors import (
    ClientError,
    ClientTimeoutError,
    CommitFailedError,
    IllegalArgumentError,
    IllegalStateError,
)
from pkafka.clients.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from pkafka.clients.producer import (
    Producer,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionError,
)
from pkafka.errors import ApiError, ConfigError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from pkafka.testing import running_broker
from pkafka.tools.zookeeper.server import running_server
from tests.interop import kafka as oracle
from tests.interop.conftest import EITHER, JavaTool, System
from tests.interop.side_by_side import pk
from tests.talk import Talk, good, talking, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


class OwnBroker(System, Protocol):
    """A broker that a test may stop, kill and start again."""

    @property
    def pid(self) -> int: ...
    def start(self) -> None: ...
    def kill(self) -> None: ...
    def restart(self) -> None: ...


@pytest.fixture(scope="module", params=EITHER)
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnBroker]:
    """A broker of this module's own, which it may kill, and which ends transactions in time."""
    settings = {
        "broker.id": 0,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 5,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 5,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
        "group.initial.rebalance.delay.ms": 0,
        "zookeeper.session.timeout.ms": 6_000,
    }
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "pkafka":
        with running_broker(directory, {**settings, "pkafka.workers": 2}) as pkafka:
            yield pkafka
    else:
        request.getfixturevalue("kafka_classpath")  # skips where there is none
        with oracle.running_kafka(directory, overrides=settings) as kafka:
            yield kafka


@pytest.fixture
def talk(own: OwnBroker) -> Iterator[Talk]:
    with talking(own.bootstrap) as client:
        yield client


def made(system: System, transactional_id: str, **keys: object) -> Producer:
    """A producer; ``_`` in keys stands for ``.``."""
    dotted = {key.replace("_", "."): value for key, value in keys.items()}
    return Producer({"bootstrap.servers": system.bootstrap, "transactional.id": transactional_id, **dotted})


def values(system: System, topic: str, partitions: int = 1, *, committed: bool = True) -> list[bytes]:
    """What a reader that begins now finds, partition by partition."""
    level = "read_committed" if committed else "read_uncommitted"
    keys = {"bootstrap.servers": system.bootstrap, "isolation.level": level, "auto.offset.reset": "earliest"}
    found: list[bytes] = []
    with Consumer(keys) as consumer:
        for partition in [TopicPartition(topic, number) for number in range(partitions)]:
            consumer.assign([partition])
            end = consumer.end_offsets([partition])[partition]
            while consumer.position(partition) < end:
                found += [record.value or b"" for record in consumer.poll(1_000)]
    return found


def ended(talk: Talk, transactional_id: str) -> None:
    """Wait until the markers of the last transaction are written: a commit has an answer before that."""
    wait_for(
        lambda: state_of(talk, transactional_id) in ("CompleteCommit", "CompleteAbort", "Empty"),
        what="the end of the transaction",
    )


def freeze(broker: OwnBroker) -> list[int]:
    """Stop a broker, all of its processes and threads, until SIGCONT; returns their ids."""
    first = psutil.Process(broker.pid)
    pids = [first.pid, *(child.pid for child in first.children(recursive=True))]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    tasks = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    wait_for(lambda: all((each / "stat").read_text().rpartition(")")[2].split()[0] == "T" for each in tasks))
    return pids


def _starts(own: OwnBroker) -> bool:
    try:
        own.start()
    except RuntimeError as refused:
        if "NodeExists" not in str(refused):
            raise
        return False
    return True


def state_of(talk: Talk, transactional_id: str) -> str:
    """Of the last transaction, as its coordinator has it."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    answer = talk.admin.cluster.request(request, DescribeTransactionsResponse)
    return str(answer.transaction_states[0].transaction_state)


# -- commits and aborts -------------------------------------------------------------------------------------------


def test_a_transaction_is_seen_when_it_is_committed_and_not_before(
    own: OwnBroker, talk: Talk, topic: str
) -> None:
    talk.create(topic, 3)
    with made(own, topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        sent = [b"%d" % number for number in range(300)]
        futures = [producer.send(topic, value, partition=index % 3) for index, value in enumerate(sent)]
        producer.flush(30)
        assert all(each.exception(0) is None for each in futures)
        assert values(own, topic, 3) == []
        assert len(values(own, topic, 3, committed=False)) == 300
        producer.commit_transaction()
        ended(talk, topic)
        assert sorted(values(own, topic, 3)) == sorted(sent)
        with producer.transaction():
            producer.send_batch(topic, [b"bulk"] * 10_000)
        ended(talk, topic)
        assert values(own, topic, 3).count(b"bulk") == 10_000


def test_an_aborted_transaction_is_never_seen(own: OwnBroker, talk: Talk, topic: str) -> None:
    talk.create(topic, 2)
    with made(own, topic, linger_ms=3) as producer:
        producer.init_transactions()
        for number in range(20):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.send(topic, b"%d" % number, partition=partition)
            if number % 4 == 1:
                producer.flush(30)
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        with pytest.raises(ClientError, match="mine"):
            _begin_and_fail(producer, topic)
    ended(talk, topic)
    expected = [b"%d" % number for number in range(0, 20, 2)]
    assert values(own, topic, 2) == expected * 2
    assert b"never" in values(own, topic, 2, committed=False)


def _begin_and_fail(producer: Producer, topic: str) -> None:
    with producer.transaction():
        producer.send(topic, b"never").result(30)
        raise ClientError("mine")


def test_a_large_transaction_over_many_partitions(own: OwnBroker, talk: Talk, topic: str) -> None:
    talk.create(topic, 12)
    with made(own, topic, compression_type="lz4") as producer:
        producer.init_transactions()
        with producer.transaction():
            for start in range(0, 100_000, 10_000):
                keys = [b"%d" % number for number in range(start, start + 10_000)]
                producer.send_batch(topic, keys, keys)
    ended(talk, topic)
    found = values(own, topic, 12)
    assert len(found) == 100_000
    assert set(found) == {b"%d" % number for number in range(100_000)}


def test_offsets_are_a_part_of_the_transaction(own: OwnBroker, talk: Talk, topic: str) -> None:
    talk.create(topic, 2)
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    keys = {"bootstrap.servers": own.bootstrap, "group.id": f"g-{topic}", "enable.auto.commit": "false"}
    with made(own, topic) as producer, Consumer(keys) as consumer:
        consumer.subscribe([topic])
        wait_for(lambda: not consumer.poll(50) and set(consumer.assignment()) == {one, two})
        group = consumer.group_metadata()
        assert group.group_id == f"g-{topic}"
        assert group.generation_id == 1
        assert group.member_id.startswith("consumer-")
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({one: 5, two: OffsetAndMetadata(7, "note", 0)}, group)
        producer.abort_transaction()
        assert consumer.committed([one, two]) == {one: None, two: None}
        with producer.transaction():
            producer.send(topic, b"x")
            producer.send_offsets_to_transaction({one: 5}, group)
            producer.send_offsets_to_transaction({two: OffsetAndMetadata(7, "note", 0)}, group)
        ended(talk, topic)
        assert consumer.committed([one, two]) == {
            one: OffsetAndMetadata(5),
            two: OffsetAndMetadata(7, "note", 0),
        }


def test_a_member_that_was_thrown_out_cannot_store_offsets(own: OwnBroker, talk: Talk, topic: str) -> None:
    """Also when it knows already: else a zombie's offsets would pass for those of a consumer without a group."""
    talk.create(topic)
    partition = TopicPartition(topic, 0)
    keys = {
        "bootstrap.servers": own.bootstrap,
        "group.id": f"g-{topic}",
        "enable.auto.commit": "false",
        "heartbeat.interval.ms": 100,
    }
    with made(own, topic) as producer, Consumer(keys) as consumer:
        consumer.subscribe([topic])
        wait_for(lambda: not consumer.poll(50) and consumer.assignment())
        before = consumer.group_metadata()
        talk.admin.remove_members(f"g-{topic}")
        consumer.unsubscribe()
        assert consumer.group_metadata() == before
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(CommitFailedError, match="consumer group metadata mismatch"):
            producer.send_offsets_to_transaction({partition: 5}, consumer.group_metadata())
        with pytest.raises(TransactionError) as failed:
            producer.commit_transaction()
        assert failed.value.is_abortable
        producer.abort_transaction()
        assert consumer.committed([partition]) == {partition: None}
        with producer.transaction():
            producer.send(topic, b"next")
    ended(talk, topic)
    assert values(own, topic) == [b"next"]


# -- what fails ---------------------------------------------------------------------------------------------------


def test_a_zombie_is_fenced(own: OwnBroker, talk: Talk, topic: str) -> None:
    talk.create(topic)
    with made(own, topic) as zombie, made(own, topic) as successor:
        zombie.init_transactions()
        zombie.begin_transaction()
        zombie.send(topic, b"of the zombie").result(30)
        successor.init_transactions()
        successor.begin_transaction()
        zombie.send(topic, b"late")
        with pytest.raises((ProducerFencedError, ApiError)) as first:
            zombie.commit_transaction()
        assert first.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        with pytest.raises(ProducerFencedError):
            zombie.abort_transaction()
        with pytest.raises(ProducerFencedError, match="has been fenced by another producer"):
            zombie.begin_transaction()
        assert isinstance(zombie.send(topic, b"later").exception(0), ProducerFencedError)
        successor.send(topic, b"of the successor")
        successor.commit_transaction()
    ended(talk, topic)
    assert values(own, topic) == [b"of the successor"]
    assert values(own, topic, committed=False) == [b"of the zombie", b"of the successor"]


def test_a_batch_that_fails_leaves_nothing_but_an_abort_and_a_new_epoch(
    own: OwnBroker, talk: Talk, topic: str
) -> None:
    talk.create(topic, **{"max.message.bytes": 2_000})
    with made(own, topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        good = producer.send(topic, b"good")
        good.result(30)
        large = producer.send(topic, bytes(5_000))
        error = large.exception(30)
        assert isinstance(error, ApiError)
        assert error.code is ErrorCode.MESSAGE_TOO_LARGE
        for attempt in (
            lambda: producer.send(topic, b"more"),
            producer.commit_transaction,
            producer.begin_transaction,
        ):
            with pytest.raises(TransactionError) as failed:
                attempt()
            assert failed.value.__cause__ is error
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"again")
    ended(talk, topic)
    assert values(own, topic) == [b"again"]
    assert values(own, topic, committed=False) == [b"good", b"again"]


def test_a_call_that_timed_out_goes_on_when_it_is_made_again(own: OwnBroker, talk: Talk, topic: str) -> None:
    talk.create(topic)
    with made(own, topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"v").result(30)
        frozen = freeze(own)
        try:
            text = "Timeout expired after 300ms while awaiting commit_transaction"
            with pytest.raises(ClientTimeoutError, match=text):
                producer.commit_transaction(0.3)
            with pytest.raises(IllegalStateError, match="timed out and must be retried"):
                producer.abort_transaction()
            with pytest.raises(IllegalStateError, match="timed out and must be retried"):
                producer.send(topic, b"w")
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)
        producer.commit_transaction()
        with producer.transaction():
            producer.send(topic, b"w")
    ended(talk, topic)
    assert values(own, topic) == [b"v", b"w"]


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_transactions_outlive_their_coordinator(own: OwnBroker, talk: Talk, topic: str, how: str) -> None:
    talk.create(topic, 2)
    committed: list[bytes] = []
    stop = threading.Event()
    begun = threading.Event()
    errors: list[Exception] = []

    def work() -> None:
        number = 0
        try:
            with made(own, topic, reconnect_backoff_max_ms=200) as producer:
                producer.init_transactions()
                while not stop.is_set():
                    mine = [b"%d-%d" % (number, each) for each in range(20)]
                    producer.begin_transaction()
                    for index, value in enumerate(mine):
                        producer.send(topic, value, partition=index % 2)
                    if number % 5 == 4:
                        producer.abort_transaction()
                    else:
                        producer.commit_transaction()
                        committed.extend(mine)
                    number += 1
                    if number == 10:
                        begun.set()
        except Exception as error:  # noqa: BLE001 - told by the test
            errors.append(error)
            begun.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert begun.wait(60)
        before = len(committed)
        if how == "restart":
            own.restart()
        else:
            own.kill()
            wait_for(lambda: _starts(own), timeout_s=90, what="the end of the dead broker's session")
        wait_for(lambda: errors or len(committed) > before + 200, timeout_s=60)
    finally:
        stop.set()
        thread.join(60)
    assert not errors
    ended(talk, topic)
    assert sorted(values(own, topic, 2)) == sorted(committed)


def test_transactions_follow_a_coordinator_that_moves(kafka_classpath: str, tmp_path: Path) -> None:
    """Two brokers; the one that coordinates, and leads a partition, is stopped while transactions come and go."""
    settings = {
        "default.replication.factor": 2,
        "offsets.topic.replication.factor": 2,
        "offsets.topic.num.partitions": 2,
        "transaction.state.log.replication.factor": 2,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
    }
    flags = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    with running_server(tmp_path, jars=Path(kafka_classpath).parent) as (_, port):
        brokers = {
            number: oracle.KafkaBroker(
                kafka_classpath,
                f"127.0.0.1:{port}",
                tmp_path / f"broker-{number}",
                overrides={**settings, "broker.id": number},
                jvm_flags=flags,
            )
            for number in (0, 1)
        }
        try:
            for broker in brokers.values():
                broker.start()
            _move_the_coordinator(brokers)
        finally:
            for broker in brokers.values():
                broker.kill()


def _move_the_coordinator(brokers: dict[int, oracle.KafkaBroker]) -> None:
    bootstrap = ",".join(each.bootstrap for each in brokers.values())
    config = {"bootstrap.servers": bootstrap, "transactional.id": "moved", "linger.ms": 5}
    sent: list[bytes] = []
    with Admin({"bootstrap.servers": bootstrap}) as admin, Producer(config) as producer:
        good(admin.create_topics([NewTopic("t", assignments={0: (0, 1), 1: (1, 0)})])["t"])
        producer.init_transactions()

        def transact(count: int) -> None:
            for _ in range(count):
                values = [b"%d" % (len(sent) + number) for number in range(10)]
                with producer.transaction():
                    for number, value in enumerate(values):
                        producer.send("t", value, partition=number % 2)
                sent.extend(values)

        transact(5)
        found = find_coordinators(admin.cluster, ["moved"], CoordinatorType.TRANSACTION)["moved"]
        assert not isinstance(found, ApiError)
        stopping = threading.Thread(target=brokers[found.id].stop)
        producer.begin_transaction()
        producer.send("t", b"over the move", partition=0)
        stopping.start()
        producer.commit_transaction()
        sent.append(b"over the move")
        while stopping.is_alive():
            transact(1)
        transact(5)
        left = brokers[1 - found.id]
        with talking(left.bootstrap, broker_id=1 - found.id) as talk:
            ended(talk, "moved")
    assert sorted(values(left, "t", 2)) == sorted(sent)


def test_a_closed_producer_leaves_no_transaction_behind(own: OwnBroker, talk: Talk, topic: str) -> None:
    talk.create(topic)
    producer = made(own, topic, linger_ms=60_000)
    producer.init_transactions()
    producer.begin_transaction()
    future = producer.send(topic, b"v")
    producer.close(30)
    assert future.result(0).offset == 0  # as Kafka's: it is sent, and aborted
    assert state_of(talk, topic) in ("PrepareAbort", "CompleteAbort")
    wait_for(lambda: state_of(talk, topic) == "CompleteAbort")
    assert values(own, topic) == []


def test_the_performance_tool_sends_in_transactions(
    own: OwnBroker, talk: Talk, topic: str, java_tool: JavaTool
) -> None:
    talk.create(topic, 2)
    slowly = ("--throughput", "20000", "--transaction-duration-ms", "5")
    flags: tuple[str, ...]
    flags = ("--topic", topic, "--num-records", "2000", "--record-size", "50")
    flags += ("--producer-props", f"bootstrap.servers={own.bootstrap}")
    ours = pk("producer_perf_test", *flags, *slowly, "--transactional-id", f"{topic}-py")
    theirs = java_tool(
        "org.apache.kafka.tools.ProducerPerformance", *flags, *slowly, "--transactional-id", f"{topic}-java"
    ).stdout
    for said in (ours, theirs):  # behind what either says every five seconds
        assert said.splitlines()[-1].startswith("2000 records sent, ")
    for name in ("py", "java"):
        ended(talk, f"{topic}-{name}")
    assert len(values(own, topic, 2)) == 4_000
    markers = sum(talk.ends(topic, partition)[1] for partition in (0, 1)) - 4_000
    assert markers > 4, "several transactions"
    pk("producer_perf_test", *flags, "--throughput", "-1", "--transaction-duration-ms", "1")
    ended(talk, "performance-producer-default-transactional-id")
    assert len(values(own, topic, 2)) == 6_000


# -- Kafka's own client says the same -----------------------------------------------------------------------------


class Told:
    """The outcomes of TransactionOracle.java, of this producer."""

    def __init__(self, own: OwnBroker, talk: Talk, topic: str) -> None:
        self.own = own
        self.talk = talk
        self.topic = topic
        self.prefix = f"{topic}-py-"
        self.lines: dict[str, str] = {}

    def made(self, name: str, **keys: object) -> Producer:
        return made(self.own, name and f"{self.prefix}{name}", **keys)

    def say(self, name: str, step: Callable[[], object]) -> None:
        try:
            outcome = step()
            self.lines[name] = {None: "done", True: "true"}.get(outcome, str(outcome))  # type: ignore[call-overload]
        except Exception as error:  # noqa: BLE001 - to be compared
            self.lines[name] = self._shown(error)

    def send(self, producer: Producer, size: int) -> str | None:
        error = producer.send(self.topic, bytes(size), partition=0).exception(30)
        return "true" if error is None else f"later {self._shown(error)}"

    def send_offsets(self, producer: Producer, generation: int = -1, member: str = "") -> None:
        group = ConsumerGroupMetadata(f"{self.prefix}g", generation, member)
        producer.send_offsets_to_transaction({TopicPartition(self.topic, 0): 1}, group)

    def _shown(self, error: Exception) -> str:
        cause = f" <- {self._named(error.__cause__)}" if error.__cause__ is not None else ""
        return f"{self._named(error)}{cause}: {error}"

    def _named(self, error: BaseException) -> str:
        if isinstance(error, ApiError):
            return error.code.java_name
        return {
            TransactionError: "KafkaException",
            IllegalStateError: "IllegalStateException",
            CommitFailedError: "CommitFailedException",
            TransactionAbortedError: "TransactionAbortedException",
            ConfigError: "ConfigException",
            IllegalArgumentError: "IllegalArgumentException",
        }.get(type(error), type(error).__name__)

    def play(self) -> None:
        self._out_of_order()
        self._fenced()
        self._timed_out()
        self._failed_send()
        self._stale_member()
        self._dropped()

    def _out_of_order(self) -> None:
        say = self.say
        with Producer({"bootstrap.servers": self.own.bootstrap}) as plain:
            say("plain begin", plain.begin_transaction)
        with self.made("order") as producer:
            say("begin before init", producer.begin_transaction)
            say("commit before init", producer.commit_transaction)
            say("abort before init", producer.abort_transaction)
            say("send before init", lambda: self.send(producer, 1))
            say("init", producer.init_transactions)
            say("init again", producer.init_transactions)
            say("send before begin", lambda: self.send(producer, 1))
            say("offsets before begin", lambda: self.send_offsets(producer))
            say("commit before begin", producer.commit_transaction)
            say("abort before begin", producer.abort_transaction)
            say("begin", producer.begin_transaction)
            say("begin again", producer.begin_transaction)
            say("offsets without member", lambda: self.send_offsets(producer, 3))
            say("commit of nothing", producer.commit_transaction)
            say("begin anew", producer.begin_transaction)
            say("abort of nothing", producer.abort_transaction)
        with self.made("long", transaction_timeout_ms=2_000_000_000) as producer:
            say("init with a long time-out", producer.init_transactions)
            say("begin after that", producer.begin_transaction)
        say("without idempotence", lambda: self.made("x", enable_idempotence="false"))
        say("with acks=1", lambda: self.made("x", acks="1"))
        say("empty id", lambda: self.made(""))

    def _fenced(self) -> None:
        say = self.say
        with self.made("fenced") as old, self.made("fenced") as other:
            old.init_transactions()
            old.begin_transaction()
            self.send(old, 1)
            other.init_transactions()
            say("send when fenced", lambda: self.send(old, 1))
            say("commit when fenced", old.commit_transaction)
            say("abort when fenced", old.abort_transaction)
            say("abort again when fenced", old.abort_transaction)
            say("begin when fenced", old.begin_transaction)
            say("send after that", lambda: self.send(old, 1))
        with self.made("fenced2") as old, self.made("fenced2") as other:
            old.init_transactions()
            old.begin_transaction()
            self.send(old, 1)
            other.init_transactions()
            say("only commit when fenced", old.commit_transaction)
            say("commit again when fenced", old.commit_transaction)
        with self.made("fenced3") as old, self.made("fenced3") as other:
            old.init_transactions()
            other.init_transactions()
            old.begin_transaction()
            say("first send when fenced", lambda: self.send(old, 1))
            say("offsets when fenced", lambda: self.send_offsets(old))

    def _timed_out(self) -> None:
        say = self.say
        with self.made("late", transaction_timeout_ms=500) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            self.send(producer, 1)
            wait_for(lambda: state_of(self.talk, f"{self.prefix}late") == "CompleteAbort")
            say("send when late", lambda: self.send(producer, 1))
            say("commit when late", producer.commit_transaction)
            say("abort when late", producer.abort_transaction)
            say("begin when late", producer.begin_transaction)

    def _failed_send(self) -> None:
        say = self.say
        with self.made("failed", max_request_size=1_000) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            say("good send", lambda: self.send(producer, 1))
            say("large send", lambda: self.send(producer, 2_000))
            say("send after failure", lambda: self.send(producer, 1))
            say("offsets after failure", lambda: self.send_offsets(producer))
            say("commit after failure", producer.commit_transaction)
            say("begin after failure", producer.begin_transaction)
            say("abort after failure", producer.abort_transaction)
            say("begin after abort", producer.begin_transaction)
            say("send after abort", lambda: self.send(producer, 1))
            say("commit after abort", producer.commit_transaction)

    def _stale_member(self) -> None:
        say = self.say
        with self.made("stale") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            say("offsets of a stranger", lambda: self.send_offsets(producer, 3, "nobody"))
            say("commit after that stranger", producer.commit_transaction)
            say("abort after the stranger", producer.abort_transaction)
            producer.begin_transaction()
            say("offsets of anybody", lambda: self.send_offsets(producer))
            say("offsets of nothing", lambda: producer.send_offsets_to_transaction({}, f"{self.prefix}g"))
            say("commit with offsets", producer.commit_transaction)

    def _dropped(self) -> None:
        say = self.say
        producer = self.made("dropped", linger_ms=100_000, delivery_timeout_ms=200_000)
        producer.init_transactions()
        producer.begin_transaction()
        unsent = producer.send(self.topic, b"x", partition=0)
        say("abort with unsent", producer.abort_transaction)
        say("what was unsent", lambda: f"later {self._shown(unsent.exception(0) or AssertionError())}")
        producer.begin_transaction()
        closed = producer.send(self.topic, b"x", partition=0)
        say("close in a transaction", producer.close)
        say("what was sent before close", lambda: closed.result(0).offset >= 0)
        with self.made("dropped") as after:
            say("init after close", after.init_transactions)


@pytest.mark.nightly  # half a minute of Java
def test_kafkas_own_producer_says_the_same(
    own: OwnBroker, talk: Talk, topic: str, kafka_classpath: str, tmp_path: Path
) -> None:
    talk.create(topic)
    classes = oracle.compile_java(kafka_classpath, tmp_path / "classes", "TransactionOracle")
    logging = f"-Dlog4j.configuration=file:{oracle.JAVA_SOURCES / 'log4j.properties'}"
    prefix = f"{topic}-java-"
    command = [oracle.java_program("java"), "-cp", classes, logging, "TransactionOracle"]
    done = subprocess.run(
        [*command, own.bootstrap, topic, prefix], capture_output=True, text=True, timeout=120, check=True
    )
    theirs = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    assert theirs.pop("begin when closed").startswith("IllegalStateException")  # ClosedError here
    told = Told(own, talk, topic)
    told.play()
    assert theirs.keys() == told.lines.keys()
    for name, line in theirs.items():
        ours = _masked(told.lines[name], told.prefix)
        if " <- " not in line:
            ours = re.sub(r" <- \w+", "", ours)  # it may say more than Kafka's
        assert ours.startswith(_masked(line, prefix)), f"{name}: Kafka's says {line}, this one {ours}"


def _masked(line: str, prefix: str) -> str:
    """A line without what must differ: the names of things, numbers, the text where Java's depends on its threads."""
    line = re.sub(r"\s+", " ", line.replace(prefix, "").replace("initTransactions", "init_transactions"))
    line = re.sub(r"(Cannot add partition) \S+-\d+", r"\1", line)
    line = re.sub(r"producerId=\d+", "producerId=", line)
    line = re.sub(r"(Passed in group metadata ).*", r"\1", line)
    line = re.sub(r"^(InitProducer|ConfigException|InvalidProducerEpochException).*", r"\1", line)
    return line.replace("ConfigException: Invalid value ", "ConfigException")
