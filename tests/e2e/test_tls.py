"""A broker with TLS at a listener: every client gets in that should, and what travels is what was sent."""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import confluent_kafka
import pytest

from pkafka.clients.aio import AsyncProducer
from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.model import TopicPartition
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import encode_request
from pkafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pkafka.records.builder import build_batch
from pkafka.testing import Broker, BrokerStartError, running_broker
from tests.certificates import Authority
from tests.faults.family import family
from tests.raw_client import new_topic_name
from tests.sockets import free_port
from tests.talk import talking, wait_for

LARGE: Final = 700_000


class Secured(NamedTuple):
    """A running broker, the addresses of its listeners, and what its clients trust."""

    broker: Broker
    plain: str
    tls: str
    authority: Path

    def keys(self, **more: object) -> dict[str, object]:
        """A client's configuration."""
        return {
            "bootstrap.servers": self.tls,
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
            **{key.replace("_", "."): value for key, value in more.items()},
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("tls")
    authority = Authority()
    signed = authority.signed("broker", ["127.0.0.1", "localhost"])
    (directory / "ca.pem").write_bytes(authority.pem)
    (directory / "broker.pem").write_bytes(signed.key_pem() + signed.chain_pem)
    plain, tls = free_port(), free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{tls}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": directory / "broker.pem",
        "pkafka.workers": 2,
    }
    with running_broker(directory / "broker", settings) as broker:
        yield Secured(broker, f"127.0.0.1:{plain}", f"127.0.0.1:{tls}", directory / "ca.pem")


def test_records_arrive_as_they_were_sent(secured: Secured) -> None:
    topic = new_topic_name()
    values = [os.urandom(size) for size in (1, 100, 20_000, LARGE)] * 5
    with Producer(secured.keys()) as producer:
        for value in values:
            producer.send(topic, value, partition=0)
        producer.flush()
    with Consumer(secured.keys(group_id=topic, auto_offset_reset="earliest")) as consumer:
        consumer.subscribe([topic])
        found: list[bytes | None] = []
        while len(found) < len(values):
            found += [record.value for record in consumer.poll(5_000)]
    assert found == values


def test_a_producer_of_coroutines_sends_over_tls(secured: Secured) -> None:
    """Its loop takes answers in, of which OpenSSL may have more than the socket shows."""
    topic = new_topic_name()
    values = [os.urandom(size) for size in (1, 100, 20_000)] * 200

    async def main() -> None:
        async with AsyncProducer(secured.keys()) as producer:
            await producer.send_and_wait(topic, b"first", partition=0)
            outcomes = [await producer.send(topic, value, partition=0) for value in values]
            found = await asyncio.gather(*outcomes)
            assert [each.offset for each in found] == list(range(1, len(values) + 1))
            assert (await producer.send_and_wait(topic, b"last", partition=0)).offset == len(values) + 1

    asyncio.run(main())


def test_librdkafka_produces_and_consumes(secured: Secured) -> None:
    topic = new_topic_name()
    keys: dict[str, Any] = {
        "bootstrap.servers": secured.tls,
        "security.protocol": "SSL",
        "ssl.ca.location": str(secured.authority),
    }
    producer = confluent_kafka.Producer(keys)
    values = [os.urandom(20_000) for _ in range(200)]
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(120) == 0
    consumer = confluent_kafka.Consumer({**keys, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    while len(found) < len(values):
        message = consumer.poll(120)
        assert message is not None
        assert message.error() is None
        found.append(message.value())
    consumer.close()
    assert found == values


def test_a_plain_client_is_closed_without_a_byte(secured: Secured) -> None:
    host, _, port = secured.tls.partition(":")
    with socket.create_connection((host, int(port)), 60) as client:
        client.sendall(b"\0\0\0\x10\0\x12\0\0\0\0\0\1\0\0\0\0\0\0\0\0")
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(100) == b""
    line = "Failed authentication with 127.0.0.1 (SSL handshake failed): the client does not speak TLS"
    wait_for(lambda: line in secured.broker.log_file.read_text())


def test_what_a_client_without_acknowledgements_wrote_before_it_left_is_kept(secured: Secured) -> None:
    """It reads nothing: were there a ticket to read, its end would be a reset, and what it wrote last would be lost."""
    topic = new_topic_name()
    with talking(secured.plain) as talk:
        talk.create(topic, retention_ms=-1)  # its records are of long ago
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(secured.authority)
        batch = build_batch([(0, None, os.urandom(50_000), ())])
        data = PartitionProduceData(index=0, records=batch)
        request = ProduceRequest(
            acks=0, timeout_ms=1_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
        )
        host, _, port = secured.tls.partition(":")
        for _ in range(10):
            with (
                socket.create_connection((host, int(port)), 60) as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
            ):
                for number in range(20):
                    client.sendall(encode_request(ApiKey.PRODUCE, 9, number, "c", request))
    partition = TopicPartition(topic, 0)
    with Consumer(secured.keys()) as consumer:
        wait_for(lambda: consumer.end_offsets([partition])[partition] == 200)


def test_clients_go_on_when_a_worker_or_the_control_process_dies(secured: Secured) -> None:
    topic = new_topic_name()
    with Producer(secured.keys(acks="all", linger_ms=0)) as producer:
        for number in range(200):
            sent = producer.send(topic, b"%d" % number)
            if number in (50, 100, 150):
                family(secured.broker)[{50: "worker-0", 100: "worker-1", 150: "control"}[number]].kill()
            sent.result(60)
    with Consumer(secured.keys(auto_offset_reset="earliest")) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        found: list[int] = []
        while len(found) < 200:
            found += [int(record.value or b"") for record in consumer.poll(5_000)]
    assert found == list(range(200))


def test_a_client_that_trusts_another_authority_is_told_and_noted(secured: Secured) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=Authority().pem.decode())
    host, _, port = secured.tls.partition(":")
    with (
        socket.create_connection((host, int(port)), 60) as client,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        context.wrap_socket(client, server_hostname="127.0.0.1")


def test_the_operator_is_told_of_a_certificate_that_is_over(tmp_path: Path) -> None:
    authority = Authority()
    signed = authority.signed("broker", ["127.0.0.1"], days=-1)
    (tmp_path / "broker.pem").write_bytes(signed.key_pem() + signed.chain_pem)
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()},SSL://127.0.0.1:{free_port()}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": tmp_path / "broker.pem",
    }
    with running_broker(tmp_path / "broker", settings) as broker:
        wait_for(lambda: "The certificate of the listener SSL ended on" in broker.log_file.read_text())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ssl.keystore.location": "/none"}, "ssl.keystore.location=/none: cannot be read"),
        ({"ssl.keystore.location": ""}, "ssl.keystore.location: is missing: the listener SSL asks for SSL"),
        ({"ssl.truststore.password": "x"}, "ssl.truststore.password: is set, and"),
        (
            {"listener.name.ssl.ssl.cipher.suites": "NO"},
            "listener.name.ssl.ssl.cipher.suites=NO: has no suite",
        ),
        (
            {"security.inter.broker.protocol": "SSL"},
            "ssl.truststore.location: brokers could not reach each other",
        ),
    ],
)
def test_wrong_settings_are_refused_at_the_start_in_one_line(
    tmp_path: Path, settings: dict[str, str], said: str
) -> None:
    signed = Authority().signed("broker", ["127.0.0.1"])
    (tmp_path / "broker.pem").write_bytes(signed.key_pem() + signed.chain_pem)
    wanted = {
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()},SSL://127.0.0.1:{free_port()}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "broker.pem"),
    }
    with pytest.raises(BrokerStartError) as refused:
        Broker(tmp_path / "broker", {**wanted, **settings}).start()
    assert refused.value.reason.startswith(said)
