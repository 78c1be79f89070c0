"""Records of a topic as files: of Parquet in S3, as the documentation has it, and of JSON in a directory."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pkafka.clients.producer import Producer
from pkafka.testing import Broker
from tests.connect_fixtures import new_topic, waiting_worker
from tests.connect_workers import ConnectWorker, connector_file
from tests.connector_docs import example
from tests.sockets import free_port
from tests.talk import Talk, wait_for

__all__ = ["new_topic", "waiting_worker"]

SOON_DEAD = {"consumer.override.session.timeout.ms": "1000", "consumer.override.heartbeat.interval.ms": "200"}
"""So that the group of a killed worker goes on soon."""


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    return {"pkafka.workers": 1, "group.min.session.timeout.ms": 500}


class Store:
    """A server of S3, with a bucket, asked by a process of its own: its client makes warnings and threads."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.ask("client.create_bucket(Bucket='archive')")

    def ask(self, expression: str) -> Any:
        program = (
            "import boto3, io, json, sys, pyarrow.parquet as parquet\n"
            f"client = boto3.client('s3', endpoint_url={self.url!r}, region_name='us-east-1',"
            " aws_access_key_id='k', aws_secret_access_key='s')\n"
            f"print(json.dumps({expression}, default=str))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def names(self) -> list[str]:
        """Of all files."""
        return [
            each["Key"] for each in self.ask("client.list_objects_v2(Bucket='archive')").get("Contents", [])
        ]

    def rows(self, name: str) -> list[Any]:
        """Those of a file of Parquet."""
        body = f"client.get_object(Bucket='archive', Key={name!r})['Body'].read()"
        found: list[Any] = self.ask(f"parquet.ParquetFile(io.BytesIO({body})).read().to_pylist()")
        return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    port = free_port()
    program = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (tmp_path / "s3.log").open("wb") as log, subprocess.Popen(program, stdout=log, stderr=log) as server:
        try:
            wait_for(lambda: _listens(port))
            yield Store(f"http://127.0.0.1:{port}")
        finally:
            server.kill()


def _listens(port: int) -> bool:
    import socket

    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def test_the_example_writes_parquet_to_s3(
    worker: ConnectWorker, broker: Broker, talk: Talk, topic: str, store: Store
) -> None:
    schema = {"type": "struct", "fields": [{"field": "id", "type": "int32"}]}
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(7):
        producer.send(topic, json.dumps({"schema": schema, "payload": {"id": number}}).encode())
    producer.close(60)
    configs = (
        example(
            "orders-files",
            {
                "topics": topic,
                "s3.endpoint.url": store.url,
                "s3.secret.key": "secret",
                "s3.region": "us-east-1",
            },
        )
        | SOON_DEAD
    )
    worker.start()
    checked = worker.rest.call("PUT", "/connector-plugins/FilesSink/config/validate", configs)
    assert checked.body["error_count"] == 0
    worker.create(configs)
    wait_for(lambda: len(store.names()) == 2)
    prefix = f"orders/{topic}/partition=0/{topic}+0+"
    assert store.names() == [f"{prefix}{offset:020}.parquet" for offset in (0, 3)]
    assert store.rows(f"{prefix}{3:020}.parquet") == [{"id": number} for number in (3, 4, 5)]

    def committed() -> int:
        found = worker.rest.call("GET", "/connectors/orders-files/offsets").body["offsets"]
        return found[0]["offset"]["kafka_offset"] if found else 0

    wait_for(lambda: committed() == 6)
    # The seventh record is in no file, and read again by whoever comes next.
    worker.kill()
    worker.start()
    worker.create({**configs, "rotate.records": "1"})
    wait_for(lambda: f"{prefix}{6:020}.parquet" in store.names())
    assert len(store.names()) == 3


def test_each_record_is_in_one_file_through_kills(
    worker: ConnectWorker, talk: Talk, topic: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    configs = {
        "name": topic,
        "connector.class": "FilesSink",
        "topics": topic,
        "files.url": str(out),
        "rotate.records": "300",
        "rotate.wait.ms": "300",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        **SOON_DEAD,
    }
    file = connector_file(tmp_path / "files.properties", configs)

    def values() -> list[int]:
        return [
            int(json.loads(line)) for path in out.rglob("*.json") for line in path.read_text().splitlines()
        ]

    sent = 0
    for _ in range(3):
        worker.start(file)
        talk.send(topic, *(b"%d" % number for number in range(sent, sent + 1000)))
        sent += 1000
        wait_for(lambda: len(values()) > sent - 900)  # noqa: B023 - called at once
        worker.kill()
    worker.start(file)
    wait_for(lambda: len(values()) == sent)
    assert sorted(values()) == list(range(sent))
