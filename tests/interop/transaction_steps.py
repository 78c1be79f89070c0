"""Transactional producers that take a test's steps: Kafka's own (``java/TransactionSteps.java``), and pkafka's."""

import subprocess
import threading
from typing import Final, Protocol, Self

from pkafka.clients.errors import ClientError
from pkafka.clients.offsets import ConsumerGroupMetadata
from pkafka.clients.producer import Producer
from pkafka.errors import ApiError
from pkafka.model import TopicPartition
from tests.interop.kafka import JAVA_SOURCES, java_program

STEP_TIMEOUT_S: Final = 90.0
DONE: Final = "done"


class Steps(Protocol):
    """Producers with names; those of one prefix share a group."""

    prefix: str

    def step(self, line: str) -> str:
        """Do "PRODUCER STEP ARGUMENTS"; returns "done", or what failed."""
        ...


class JavaSteps:
    """Kafka's own producers, in a JVM.

    Args:
        class_path: with the compiled program at its end.
    """

    def __init__(self, class_path: str, bootstrap: str, prefix: str) -> None:
        self.prefix = prefix
        logging = f"-Dlog4j.configuration=file:{JAVA_SOURCES / 'log4j.properties'}"
        flags = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", logging)
        self._jvm = subprocess.Popen(
            [java_program("java"), *flags, "-cp", class_path, "TransactionSteps", bootstrap, prefix],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._jvm.kill()
        self._jvm.communicate()

    def step(self, line: str) -> str:
        """As :meth:`Steps.step`; the error is the name of its class."""
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        end = threading.Timer(STEP_TIMEOUT_S, self._jvm.kill)
        end.start()
        try:
            self._jvm.stdin.write(f"{line}\n")
            self._jvm.stdin.flush()
            answer = self._jvm.stdout.readline().strip()
        finally:
            end.cancel()
        assert answer, f"the JVM has ended at {line}"
        return answer


class OwnSteps:
    """pkafka's producers."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.prefix = prefix
        self._bootstrap = bootstrap
        self._producers: dict[str, Producer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for each in self._producers.values():
            each.close(0)

    def step(self, line: str) -> str:
        """As :meth:`Steps.step`."""
        name, step, *rest = line.split(" ")
        producer = self._producers.get(name)
        if producer is None:
            producer = self._producers[name] = self._made(name)
        try:
            self._do(producer, step, rest)
        except (ApiError, ClientError) as error:
            return f"{type(error).__name__}: {error}"
        return DONE

    def _do(self, producer: Producer, step: str, rest: list[str]) -> None:
        match step:
            case "init":
                producer.init_transactions()
            case "begin":
                producer.begin_transaction()
            case "send":
                producer.send(rest[0], bytes(int(rest[1])), partition=0).result(STEP_TIMEOUT_S)
            case "offsets":
                group = f"{self.prefix}group"
                metadata = ConsumerGroupMetadata(group)
                if rest[2] != "-":
                    metadata = ConsumerGroupMetadata(group, 3, rest[2], None)
                producer.send_offsets_to_transaction({TopicPartition(rest[0], 0): int(rest[1])}, metadata)
            case "commit":
                producer.commit_transaction()
            case "abort":
                producer.abort_transaction()
            case "close":
                producer.close()
            case _:
                raise ValueError(step)

    def _made(self, name: str) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": f"{self.prefix}{name}",
                "client.id": f"{self.prefix}{name}",
                "max.block.ms": 30_000,
            }
        )
