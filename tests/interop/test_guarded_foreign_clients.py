"""Clients of others come in by each secured way and do what their rules allow, on Apache Kafka and on pkafka alike."""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import aiokafka
import aiokafka.abc
import aiokafka.errors
import aiokafka.helpers
import confluent_kafka
import kafka as kafka_python
import kafka.errors as kafka_python_errors
import pytest
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

from tests.bearer_tokens import claims, unsigned
from tests.interop.conftest import JavaTool
from tests.interop.guarded_doors import OPEN, SHUT, USER, WAYS, WORD, Doors, Way, guarded_doors

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(120)]

RECORDS: Final = 50
VALUES: Final = [b"value %d" % number for number in range(RECORDS)]
WAIT_S: Final = 30.0
Told = dict[str, object]
"""What became of each thing that a client tried."""


@pytest.fixture(scope="module")
def sides(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[Doors]]:
    with guarded_doors(tmp_path_factory.mktemp("doors")) as doors:
        for each in doors:
            each.make(SHUT)
        yield doors


class KafkaPythonTokens(KafkaPythonTokenProvider):  # type: ignore[misc]
    """Gives kafka-python her token."""

    def token(self) -> str:
        return unsigned(claims(sub=USER))


class AioKafkaTokens(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
    """Gives aiokafka her token."""

    async def token(self) -> str:
        return unsigned(claims(sub=USER))


def by_confluent(doors: Doors, way: Way, topic: str) -> Told:
    keys: dict[str, Any] = {
        "bootstrap.servers": doors.listeners[way.listener],
        "security.protocol": way.protocol,
        "ssl.ca.location": str(doors.files / "ca.pem"),
        "linger.ms": 5,
    }
    if way.listener == "mtls":
        own = str(doors.files / f"{USER}.pem")
        keys |= {"ssl.certificate.location": own, "ssl.key.location": own}
    elif way.mechanism == "OAUTHBEARER":
        keys |= {"sasl.mechanism": way.mechanism, "enable.sasl.oauthbearer.unsecure.jwt": "true"}
        keys["sasl.oauthbearer.config"] = f"principal={USER}"
    else:
        keys |= {"sasl.mechanism": way.mechanism, "sasl.username": USER, "sasl.password": WORD}

    def send(name: str, **more: Any) -> str:
        said: list[str] = []
        producer = confluent_kafka.Producer({**keys, **more})
        for value in VALUES:
            producer.produce(
                name, value, on_delivery=lambda error, _: said.append(error.name() if error else "sent")
            )
        assert producer.flush(WAIT_S) == 0
        return ",".join(sorted(set(said)))

    def transact(name: str, *, commit: bool) -> str:
        producer = confluent_kafka.Producer({**keys, "transactional.id": name})
        try:
            producer.init_transactions(WAIT_S)
            producer.begin_transaction()
            producer.produce(topic, b"committed" if commit else b"aborted")
            assert producer.flush(WAIT_S) == 0
            (producer.commit_transaction if commit else producer.abort_transaction)(WAIT_S)
        except confluent_kafka.KafkaException as error:
            return str(error.args[0].name())
        return "done"

    def read(name: str, group: str, count: int) -> object:
        more = {"group.id": group, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        del keys["linger.ms"]
        consumer = confluent_kafka.Consumer({**keys, **more})
        keys["linger.ms"] = 5
        found: list[bytes | None] = []
        try:
            consumer.subscribe([name])
            end_s = time.monotonic() + WAIT_S
            while len(found) < count and time.monotonic() < end_s:
                for message in consumer.consume(count, timeout=0.2):
                    error = message.error()
                    if error is not None:
                        return error.name()
                    found.append(message.value())
            consumer.commit(asynchronous=False)
            return found
        finally:
            consumer.close()

    return {
        "sends": send(topic),
        "sends idempotently": send(topic, **{"enable.idempotence": True}),
        "aborts": transact(topic, commit=False),
        "commits": transact(topic, commit=True),
        "reads": read(topic, topic, 2 * RECORDS + 1),
        "sends where it may not": send(SHUT),
        "reads where it may not": read(SHUT, topic, 1),
        "joins where it may not": read(topic, SHUT, 1),
        "transacts where it may not": transact(SHUT, commit=True),
    }


def by_kafka_python(doors: Doors, way: Way, topic: str) -> Told:
    keys: dict[str, Any] = {
        "bootstrap_servers": doors.listeners[way.listener],
        "security_protocol": way.protocol,
        "ssl_cafile": str(doors.files / "ca.pem"),
    }
    if way.listener == "mtls":
        keys |= {name: str(doors.files / f"{USER}.pem") for name in ("ssl_certfile", "ssl_keyfile")}
    else:
        keys |= {"sasl_mechanism": way.mechanism, "sasl_oauth_token_provider": KafkaPythonTokens()}
        keys |= {"sasl_plain_username": USER, "sasl_plain_password": WORD}

    def send(name: str, *, idempotent: bool) -> str:
        producer = kafka_python.KafkaProducer(
            **keys, enable_idempotence=idempotent, linger_ms=5, max_block_ms=10_000
        )
        try:
            for future in [producer.send(name, value) for value in VALUES]:
                future.get(WAIT_S)
        except kafka_python_errors.KafkaError as error:
            return type(error).__name__
        finally:
            producer.close(timeout=1)
        return "sent"

    def transact(name: str, *, commit: bool) -> str:
        producer = kafka_python.KafkaProducer(**keys, transactional_id=name, max_block_ms=10_000)
        try:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"committed" if commit else b"aborted").get(WAIT_S)
            (producer.commit_transaction if commit else producer.abort_transaction)()
        except kafka_python_errors.KafkaError as error:
            return type(error).__name__
        finally:
            producer.close(timeout=1)
        return "done"

    def read(name: str, group: str, count: int) -> object:
        consumer = kafka_python.KafkaConsumer(
            name, **keys, group_id=group, auto_offset_reset="earliest", isolation_level="read_committed"
        )
        found: list[bytes | None] = []
        try:
            end_s = time.monotonic() + WAIT_S
            while len(found) < count and time.monotonic() < end_s:
                for records in consumer.poll(timeout_ms=200).values():
                    found += [record.value for record in records]
            consumer.commit()
        except kafka_python_errors.KafkaError as error:
            return type(error).__name__
        finally:
            consumer.close(autocommit=False)
        return found

    return {
        "sends": send(topic, idempotent=False),
        "sends idempotently": send(topic, idempotent=True),
        "aborts": transact(topic, commit=False),
        "commits": transact(topic, commit=True),
        "reads": read(topic, topic, 2 * RECORDS + 1),
        "sends where it may not": send(SHUT, idempotent=False),
        # Its consumer waits in silence for a topic that it may not see.
        "joins where it may not": read(topic, SHUT, 1),
        "transacts where it may not": transact(SHUT, commit=True),
    }


def by_aiokafka(doors: Doors, way: Way, topic: str) -> Told:
    own = str(doors.files / f"{USER}.pem") if way.listener == "mtls" else None
    context = aiokafka.helpers.create_ssl_context(
        cafile=str(doors.files / "ca.pem"), certfile=own, keyfile=own
    )
    keys: dict[str, Any] = {
        "bootstrap_servers": doors.listeners[way.listener],
        "security_protocol": way.protocol,
        "ssl_context": context if "SSL" in way.protocol else None,
        "request_timeout_ms": 10_000,
    }
    if way.mechanism:
        keys |= {"sasl_mechanism": way.mechanism, "sasl_oauth_token_provider": AioKafkaTokens()}
        keys |= {"sasl_plain_username": USER, "sasl_plain_password": WORD}

    async def send(name: str, *, idempotent: bool) -> str:
        producer = aiokafka.AIOKafkaProducer(**keys, enable_idempotence=idempotent, linger_ms=5)
        await producer.start()
        try:
            await asyncio.gather(*[await producer.send(name, value) for value in VALUES])
        except aiokafka.errors.KafkaError as error:
            return type(error).__name__
        finally:
            await producer.stop()
        return "sent"

    async def transact(name: str, *, commit: bool) -> str:
        producer = aiokafka.AIOKafkaProducer(**keys, transactional_id=name)
        try:
            await producer.start()
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"committed" if commit else b"aborted")
            await (producer.commit_transaction if commit else producer.abort_transaction)()
        except aiokafka.errors.KafkaError as error:
            return type(error).__name__
        finally:
            await producer.stop()
        return "done"

    async def read(name: str, group: str, count: int) -> object:
        consumer = aiokafka.AIOKafkaConsumer(
            name, **keys, group_id=group, auto_offset_reset="earliest", isolation_level="read_committed"
        )
        try:
            await consumer.start()
            found = [(await consumer.getone()).value for _ in range(count)]
            await consumer.commit()
        except aiokafka.errors.KafkaError as error:
            return type(error).__name__
        finally:
            await consumer.stop()
        return found

    async def session() -> Told:
        return {
            "sends": await send(topic, idempotent=False),
            "sends idempotently": await send(topic, idempotent=True),
            "aborts": await transact(topic, commit=False),
            "commits": await transact(topic, commit=True),
            "reads": await read(topic, topic, 2 * RECORDS + 1),
            "sends where it may not": await send(SHUT, idempotent=False),
            "reads where it may not": await read(SHUT, topic, 1),
            "joins where it may not": await read(topic, SHUT, 1),
            "transacts where it may not": await transact(SHUT, commit=True),
        }

    return asyncio.run(asyncio.wait_for(session(), 4 * WAIT_S))


CLIENTS: Final[Mapping[str, Callable[[Doors, Way, str], Told]]] = {
    "confluent-kafka": by_confluent,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
}
REFUSALS: Final[Mapping[str, Sequence[str]]] = {
    "confluent-kafka": (
        *("TOPIC_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"),
        *("GROUP_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    ),
    "kafka-python": (
        "TopicAuthorizationFailedError",
        "GroupAuthorizationFailedError",
        "TransactionalIdAuthorizationFailedError",
    ),
    "aiokafka": (
        *("TopicAuthorizationFailedError", "TopicAuthorizationFailedError"),
        *("GroupAuthorizationFailedError", "TransactionalIdAuthorizationFailed"),
    ),
}


@pytest.mark.usefixtures("sockets_of_kafka_python")
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_of_pythons(sides: Sequence[Doors], client: str, way: Way) -> None:
    topic = f"{OPEN}-{uuid.uuid4().hex[:8]}"
    told = []
    for doors in sides:
        doors.make(topic)
        told.append(CLIENTS[client](doors, way, topic))
    kafkas, ours = told
    assert ours == kafkas
    assert ours.pop("reads") == [*VALUES, *VALUES, b"committed"]
    assert list(ours.values()) == [*["sent"] * 2, *["done"] * 2, *REFUSALS[client]]


SEEN_BY_JAVA: Final = f"""\
sends: sent
sends idempotently: sent
aborts: done
commits: done
reads: {2 * RECORDS + 1}, the last of them committed
sends where it may not: TopicAuthorizationException
reads where it may not: TopicAuthorizationException
joins where it may not: GroupAuthorizationException
transacts where it may not: TransactionalIdAuthorizationException
"""


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("clients", ["3.9", "4.1"])
def test_the_clients_of_java(
    sides: Sequence[Doors],
    java_tool: JavaTool,
    java_tool_4: JavaTool,
    tmp_path: Path,
    clients: str,
    way: Way,
) -> None:
    tool = java_tool if clients == "3.9" else java_tool_4
    topic = f"{OPEN}-{uuid.uuid4().hex[:8]}"
    for doors in sides:
        doors.make(topic)
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in doors.java(way).items()))
        done = tool("GuardedSession", file, topic, SHUT, RECORDS)
        assert (done.stdout, done.returncode) == (SEEN_BY_JAVA, 0), done.stderr
