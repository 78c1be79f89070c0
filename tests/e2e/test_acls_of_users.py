"""Rules for users who log in: what each may do, and what their own clients do about it."""

import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import NewTopic
from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.errors import ApiError, ErrorCode
from pkafka.security.acl import (
    Acl,
    AclFilter,
    Entry,
    EntryFilter,
    Operation,
    Pattern,
    Permission,
    ResourceType,
)
from pkafka.testing import Broker
from tests.acl_rules import AUTHORIZER
from tests.e2e.conftest import WORKERS
from tests.interop.guarded import open_store
from tests.interop.secured_kafka import PLAIN, login
from tests.raw_client import new_topic_name
from tests.secured_cluster import SecuredCluster, check_replication
from tests.sockets import free_port
from tests.talk import code_of, good
from tests.zookeeper import ZooKeeper

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
RENEWAL_MS: Final = 1_500


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def metrics_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def broker_settings(port: int, metrics_port: int) -> dict[str, object]:
    users = " ".join(f'user_{name}="{name}"' for name in ("root", "alice", "bob", "carol"))
    return {
        "pkafka.workers": WORKERS,
        "pkafka.metrics.port": metrics_port,
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{PLAIN} username="root" password="root" {users};'
        ),
        "connections.max.reauth.ms": RENEWAL_MS,
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:root",
    }


def keys(port: int, user: str, **more: object) -> dict[str, object]:
    """The settings of a user's client; ``group_id=g`` is the setting ``group.id``."""
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        **login("PLAIN", user, user),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


@pytest.fixture(scope="module")
def root(broker: Broker, port: int) -> Iterator[Admin]:
    """A client that may do everything."""
    with Admin(keys(port, "root")) as admin:
        yield admin


def allow(root: Admin, user: str, *rights: tuple[ResourceType, str, Operation]) -> None:
    acls = [
        Acl(Pattern(kind, name), Entry(f"User:{user}", "*", operation, Permission.ALLOW))
        for kind, name, operation in rights
    ]
    for outcome in root.create_acls(acls).values():
        good(outcome)


def take_all(root: Admin, user: str) -> None:
    for outcome in root.delete_acls([AclFilter(entry=EntryFilter(principal=f"User:{user}"))]).values():
        good(outcome)


def write(producer: Producer, topic: str, *values: bytes) -> None:
    for value in values:
        producer.send(topic, value).result(60)


def test_each_user_has_its_own_rights(root: Admin, port: int) -> None:
    topic, group = new_topic_name(), new_topic_name("g")
    allow(root, "alice", (TOPIC, topic, Operation.WRITE), (TOPIC, topic, Operation.CREATE))
    allow(root, "bob", (TOPIC, topic, Operation.READ), (GROUP, group, Operation.READ))
    with Producer(keys(port, "alice")) as producer:
        write(producer, topic, b"1", b"2", b"3")
    reading = {"group_id": group, "auto_offset_reset": "earliest"}
    with Consumer(keys(port, "bob", **reading)) as consumer:
        consumer.subscribe([topic])
        values: list[bytes | None] = []
        while len(values) < 3:
            values += [record.value for record in consumer.poll(60_000)]
        consumer.commit_sync()
    assert values == [b"1", b"2", b"3"]
    with Consumer(keys(port, "alice", **reading)) as consumer:
        consumer.subscribe([topic])
        with pytest.raises(ApiError) as refused:
            consumer.poll(60_000)
    assert refused.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    # Who may write nowhere gets no producer id.
    for idempotence, code in (
        ("true", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ("false", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ):
        with (
            Producer(keys(port, "bob", enable_idempotence=idempotence)) as producer,
            pytest.raises(ApiError) as refused,
        ):
            write(producer, topic, b"4")
        assert refused.value.code is code


def test_rights_hold_through_renewals_and_no_longer_than_the_rules(root: Admin, port: int) -> None:
    topic = new_topic_name()
    allow(root, "alice", (TOPIC, topic, Operation.WRITE), (TOPIC, topic, Operation.CREATE))
    with Producer(keys(port, "alice", metadata_max_age_ms=200)) as producer:
        end = time.monotonic() + 3 * RENEWAL_MS / 1000
        while time.monotonic() < end:
            write(producer, topic, b"x")
        take_all(root, "alice")
        with pytest.raises(ApiError) as refused:
            write(producer, topic, b"y")
        assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_denials_are_counted_in_all_processes(port: int, metrics_port: int) -> None:
    with Admin(keys(port, "carol")) as admin:
        for partitions in range(1, 4):  # by the control process
            [outcome] = admin.create_topics([NewTopic(new_topic_name(), partitions, 1)]).values()
            assert code_of(outcome) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with pytest.raises(ApiError):
            admin.describe_acls()  # by a worker
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics") as page:
        lines = page.read().decode().splitlines()
    assert 'pkafka_authorizer_denials_total{principal="User:carol"} 4.0' in lines


def test_a_transaction_needs_its_id(root: Admin, port: int) -> None:
    topic, name = new_topic_name(), new_topic_name("id")
    allow(root, "alice", (TOPIC, topic, Operation.WRITE), (TOPIC, topic, Operation.CREATE))
    with Producer(keys(port, "alice", transactional_id=name)) as producer, pytest.raises(ApiError) as refused:
        producer.init_transactions()
    assert refused.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    allow(root, "alice", (ResourceType.TRANSACTIONAL_ID, name, Operation.WRITE))
    with Producer(keys(port, "alice", transactional_id=name)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"x")
        producer.commit_transaction()


@pytest.mark.timeout(300)
def test_brokers_are_super_users(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    """The clients of the test do not log in; what they may do to topics is a rule, and brokers need more than that."""
    guarded: Mapping[str, object] = {"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"}
    cluster = SecuredCluster(tmp_path, zookeeper.connect, "SCRAM-SHA-256", "ppp", guarded)
    server, _, chroot = cluster.zookeeper_connect.partition("/")
    open_store(server, f"/{chroot}", (TOPIC,))
    with cluster:
        check_replication(cluster)
