"""How librdkafka writes a record twice although it is idempotent, on Apache Kafka as on pkafka.

Its epoch is one for all partitions. When a partition refuses a request and takes the one behind it for out of order,
librdkafka waits for what is on its way, begins the next epoch, and numbers anew all that it still has to send: what
another broker has written whose answer was lost, too. To a broker that is another record.
"""

import contextlib
import logging
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaError, Message, Producer

from pkafka.clients.admin.results import AlterOp, ConfigChange, ConfigResource, ResourceType
from pkafka.errors import ErrorCode
from pkafka.records.batch import iter_headers
from pkafka.records.reading import read_records
from tests.cluster import Cluster, kill_all_processes
from tests.faults.wire import Wire
from tests.interop.kafka import OracleUnavailableError, jars
from tests.sockets import free_port
from tests.talk import good, wait_for
from tests.zookeeper import ZooKeeper

PRODUCE: Final = 0
WAIT_S: Final = 60.0
_SIZE: Final = struct.Struct(">i")
_REQUEST: Final = struct.Struct(">hhi")
_CORRELATION: Final = struct.Struct(">i")


class Proxy:
    """Passes frames between clients and a broker; what it does with produce requests, its kinds say.

    Args:
        target: the broker's port.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.released = threading.Event()
        self._sockets: list[socket.socket] = []
        self._begin(self._accept)

    def _begin(self, work: object, *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def takes_clients(self) -> bool:
        return True

    def before_request(self) -> None:
        """A produce request is about to be passed on."""

    def before_answer(self) -> bool:
        """An answer to one is; False closes the connection instead."""
        return True

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                self._sockets.append(client)
                broker = self._to_broker() if self.takes_clients() else None
                if broker is None:
                    client.close()
                    continue
                self._sockets.append(broker)
                produces: set[int] = set()
                self._begin(self._pass, client, broker, produces, True)
                self._begin(self._pass, broker, client, produces, False)

    def _to_broker(self) -> socket.socket | None:
        try:
            return socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            return None

    def _pass(self, source: socket.socket, target: socket.socket, produces: set[int], asks: bool) -> None:
        with contextlib.suppress(OSError, struct.error), source.makefile("rb") as frames:
            while True:
                (size,) = _SIZE.unpack(frames.read(_SIZE.size))
                body = frames.read(size)
                if asks:
                    key, _, correlation = _REQUEST.unpack_from(body)
                    if key == PRODUCE:
                        produces.add(correlation)
                        self.before_request()
                elif _CORRELATION.unpack_from(body)[0] in produces and not self.before_answer():
                    break
                target.sendall(_SIZE.pack(size) + body)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.released.set()
        for one in (self._server, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class LosesAnswer(Proxy):
    """Of the first produce request the answer is lost with the connection; then nobody gets through for a while."""

    def __init__(self, target: int) -> None:
        self.lost = threading.Event()
        super().__init__(target)

    def takes_clients(self) -> bool:
        return not self.lost.is_set() or self.released.is_set()

    def before_answer(self) -> bool:
        if self.released.is_set():
            return True
        self.lost.set()
        return False


class HoldsSecond(Proxy):
    """Once it is armed, the second produce request waits, and with it the answer to the first."""

    def __init__(self, target: int) -> None:
        self.armed = threading.Event()
        self.answered = threading.Event()
        self.second_came = threading.Event()
        self._count = 0
        super().__init__(target)

    def before_request(self) -> None:
        self._count += self.armed.is_set()
        if self._count > 1:
            self.second_came.set()
            self.released.wait(WAIT_S)

    def before_answer(self) -> bool:
        if self.armed.is_set():
            self.answered.set()
            self.released.wait(WAIT_S)
        return True


class Said(logging.Handler):
    """What librdkafka says."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def has(self, text: str) -> bool:
        return any(text in line for line in self.lines)


@contextlib.contextmanager
def behind_proxies(
    directory: Path, zookeeper: str, kinds: str
) -> Iterator[tuple[Cluster, LosesAnswer, HoldsSecond]]:
    """Each behind a proxy for clients; what brokers say to each other does not go through it."""
    own, behind = ([free_port() for _ in kinds] for _ in range(2))
    first, second = LosesAnswer(behind[0]), HoldsSecond(behind[1])
    proxies = first, second, Proxy(behind[2])

    def settings(number: int) -> dict[str, object]:
        return {
            "listeners": f"PLAINTEXT://127.0.0.1:{own[number]},CLIENT://127.0.0.1:{behind[number]}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{own[number]},"
            f"CLIENT://127.0.0.1:{proxies[number].port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }

    patient = {"zookeeper.session.timeout.ms": 6_000}
    try:
        with Cluster(directory, zookeeper, kinds=kinds, overrides=patient, overrides_of=settings) as cluster:
            yield cluster, first, second
    finally:
        for proxy in proxies:
            proxy.close()


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "kinds", ["ppp", pytest.param("kkk", marks=[pytest.mark.oracle, pytest.mark.nightly])]
)
def test_librdkafka_writes_a_record_twice_after_another_partition_has_skipped_sequences(
    zookeeper: ZooKeeper, tmp_path: Path, kinds: str
) -> None:
    if "k" in kinds:
        try:
            jars("kafka")
        except OracleUnavailableError as missing:
            pytest.skip(str(missing))
    said = Said()
    logger = logging.Logger("librdkafka")
    logger.addHandler(said)
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    with behind_proxies(tmp_path, zookeeper.connect, kinds) as (cluster, first, second):
        cluster.create_topic("first", assignment={0: (0,)})
        cluster.create_topic("second", assignment={0: (1, 2)}, configs={"min.insync.replicas": "2"})
        producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{second.port}",
                "enable.idempotence": True,
                "linger.ms": 0,
                "log_level": 7,
                "debug": "eos,msg",
            },
            logger=logger,
        )

        def wait(happened: Callable[[], bool], what: str) -> None:
            def polled() -> bool:
                producer.poll(0.01)
                return happened()

            wait_for(polled, timeout_s=WAIT_S, what=what)

        # Who has never written to a partition may begin with any sequence.
        producer.produce("second", b"begin", on_delivery=delivered)
        assert producer.flush(WAIT_S) == 0
        kill_all_processes(cluster.brokers[2])
        # What is appended before would wait for two in sync until its time is over.
        wait_for(lambda: len(cluster.state("second").isr) == 1, timeout_s=WAIT_S, what="one in sync")
        probe(cluster, "second", ErrorCode.NOT_ENOUGH_REPLICAS)
        second.armed.set()
        producer.produce("first", b"once", on_delivery=delivered)
        wait(first.lost.is_set, "an answer that is lost")
        producer.produce("second", b"refused", on_delivery=delivered)
        wait(second.answered.is_set, "a refusal")
        producer.produce("second", b"behind it", on_delivery=delivered)
        wait(second.second_came.is_set, "the one behind it")
        take_one_in_sync(cluster, "second")
        probe(cluster, "second", ErrorCode.NONE)
        second.released.set()
        wait(lambda: said.has("skipped sequence numbers"), "a new epoch")
        first.released.set()
        assert producer.flush(WAIT_S) == 0
        assert errors == []
        written = written_to(cluster, 0, "first")
        assert [value for value, _ in written] == [b"once", b"once"]
        (one, epoch), (other, next_epoch) = (name for _, name in written)
        assert one == other
        assert next_epoch == epoch + 1
        # Of the partition that started it nothing is there twice: none of it was written before.
        assert [value for value, _ in written_to(cluster, 1, "second") if value != b"probe"] == [
            b"begin",
            b"refused",
            b"behind it",
        ]


def take_one_in_sync(cluster: Cluster, topic: str) -> None:
    """One replica in sync is enough."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    change = ConfigChange("min.insync.replicas", AlterOp.SET, "1")
    with cluster.admin() as admin:
        good(admin.alter_configs({resource: [change]})[resource])


def probe(cluster: Cluster, topic: str, expected: ErrorCode) -> None:
    """Wait until broker 1 answers so to a record with acks=all.

    One that it appends before it has heard that too few are in sync waits until its time is over.
    """
    with Wire(cluster.brokers[1].bootstrap) as wire:

        def answered() -> bool:
            return wire.produce(topic, 0, [b"probe"], timeout_ms=500)[0] == expected

        wait_for(answered, timeout_s=WAIT_S, what=expected.name)


def written_to(cluster: Cluster, broker: int, topic: str) -> list[tuple[bytes, tuple[int, int]]]:
    """The values of a partition's records with the id and the epoch of their producer."""
    found = []
    data = cluster.log_bytes(broker, f"{topic}-0")
    for position, header in iter_headers(data):
        for record in read_records(data[position : position + header.size_bytes]):
            found.append((record.value or b"", (header.producer_id, header.producer_epoch)))
    return found
