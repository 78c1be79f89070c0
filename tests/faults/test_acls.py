"""Rules of clients while the broker's processes, its session or its ZooKeeper go away: nobody is let in meanwhile."""

import contextlib
import threading
import uuid
from collections.abc import Iterator

import pytest

from pkafka.coordination.store import CreateOp
from pkafka.coordination.znodes_security import AclChange, AclEntry, ResourceAcls
from pkafka.coordination.zookeeper import ZooKeeperStore
from pkafka.errors import ErrorCode
from pkafka.security.acl import Operation, Permission, ResourceType
from pkafka.testing import Broker
from tests.acl_rules import ANONYMOUS, AUTHORIZER, SUBJECT, Rule, add_rules, open_to_admin
from tests.faults.conftest import MakeBroker
from tests.faults.family import kill, replaced
from tests.faults.wire import eventually
from tests.faults.zookeeper_faults import expire_session
from tests.raw_client import RawClient, create_topic, fetch_request, fetched
from tests.talk import talking
from tests.zookeeper import ZooKeeper

SESSION_MS = 10_000
TOPIC = ResourceType.TOPIC
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
SETTINGS = {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}


@pytest.fixture
def guarded(make_broker: MakeBroker) -> Broker:
    broker = make_broker(**SETTINGS)
    broker.start()
    open_to_admin(broker.bootstrap)
    return broker


def read_code(broker: Broker, topic: str) -> ErrorCode:
    """What a new connection of the client is answered, wherever it ends up."""
    with RawClient(broker.bootstrap, source=SUBJECT) as client:
        response = client.call(fetch_request({(topic, 0): 0}, max_wait_ms=0), 12)
        if response.error_code:
            return ErrorCode(response.error_code)
        [part] = fetched(response).values()
        return ErrorCode(part.error_code)


def read_codes(broker: Broker, topic: str) -> set[ErrorCode]:
    """What several connections are answered: the kernel spreads them over the workers."""
    return {read_code(broker, topic) for _ in range(8)}


@pytest.mark.parametrize("name", ["control", "worker-0", "worker-1"])
def test_rules_outlive_every_process(guarded: Broker, name: str) -> None:
    open_one, closed_one = create_topic(guarded.bootstrap), create_topic(guarded.bootstrap)
    with RawClient(guarded.bootstrap) as admin:
        add_rules(admin, [Rule(TOPIC, open_one, Operation.READ)])
    victim = kill(guarded, name)
    seen: set[ErrorCode] = set()

    def is_read() -> bool:
        # A worker that has just begun knows no leaders, but who may read what; and so does one without control.
        with contextlib.suppress(OSError):
            seen.add(read_code(guarded, closed_one))
            return read_code(guarded, open_one) is ErrorCode.NONE
        return False

    eventually(is_read)
    replaced(guarded, victim, name)
    eventually(lambda: read_codes(guarded, open_one) == {ErrorCode.NONE})
    assert seen | read_codes(guarded, closed_one) == {DENIED}
    with RawClient(guarded.bootstrap) as admin:
        add_rules(admin, [Rule(TOPIC, open_one, Operation.READ, Permission.DENY)])
    assert read_codes(guarded, open_one) == {DENIED}


def test_rules_that_were_acknowledged_hold_when_control_dies(guarded: Broker) -> None:
    topics = [create_topic(guarded.bootstrap) for _ in range(4)]
    acknowledged: set[tuple[str, str]] = set()
    stop = threading.Event()

    def add(writer: int) -> None:
        for number in range(100_000):
            if stop.is_set():
                return
            user, topic = f"User:{writer}-{number}", topics[number % len(topics)]
            with contextlib.suppress(OSError, AssertionError), RawClient(guarded.bootstrap) as admin:
                add_rules(admin, [Rule(TOPIC, topic, Operation.READ, principal=user)])
                acknowledged.add((topic, user))

    threads = [threading.Thread(target=add, args=[number]) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            before = len(acknowledged)
            eventually(lambda: len(acknowledged) > before + 10)  # noqa: B023 - called at once
            replaced(guarded, kill(guarded, "control"), "control")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert acknowledged <= known_rules(guarded)
    # And the next process reads the same.
    replaced(guarded, kill(guarded, "control"), "control")
    replaced(guarded, kill(guarded, "worker-0"), "worker-0")
    assert acknowledged <= known_rules(guarded)


def known_rules(broker: Broker) -> set[tuple[str, str]]:
    """The topics and principals of all rules, as a worker knows them."""
    with talking(broker.bootstrap) as talk:
        return {(one.pattern.name, one.entry.principal) for one in talk.admin.describe_acls()}


# -- on ZooKeeper --


@pytest.fixture
def chroot(zookeeper: ZooKeeper) -> str:
    return f"{zookeeper.connect}/{uuid.uuid4().hex}"


@pytest.fixture
def store(chroot: str, on_zookeeper: Broker) -> Iterator[ZooKeeperStore]:
    with ZooKeeperStore(chroot, 10_000) as store:
        yield store


@pytest.fixture
def on_zookeeper(make_broker: MakeBroker, chroot: str) -> Broker:
    settings = {"zookeeper.connect": chroot, "zookeeper.session.timeout.ms": SESSION_MS, "broker.id": 1}
    broker = make_broker(**SETTINGS, **settings)
    broker.start()
    open_to_admin(broker.bootstrap)
    return broker


def put_rule(store: ZooKeeperStore, topic: str) -> None:
    """Another broker adds a rule that lets the client read a topic."""
    entry = AclEntry(ANONYMOUS, "Allow", SUBJECT, "Read")
    note = AclChange("Topic", topic)
    store.multi(
        [
            CreateOp(ResourceAcls.path("Topic", topic), ResourceAcls((entry,)).encode()),
            CreateOp(note.create_path(), note.encode(), sequential=True),
        ]
    )


def test_what_others_change_while_a_session_is_over_counts(
    on_zookeeper: Broker, store: ZooKeeperStore, zookeeper: ZooKeeper
) -> None:
    topics = [create_topic(on_zookeeper.bootstrap) for _ in range(3)]
    path = "/brokers/ids/1"
    for topic in topics:
        assert read_codes(on_zookeeper, topic) == {DENIED}
        before = store.get(path)[1]
        expire_session(("127.0.0.1", zookeeper.port), before.ephemeral_owner)
        put_rule(store, topic)
        eventually(lambda: read_codes(on_zookeeper, topic) == {ErrorCode.NONE})  # noqa: B023 - called at once

        def is_back(epoch: int = before.czxid) -> bool:
            stat = store.exists(path)
            return stat is not None and stat.czxid > epoch

        eventually(is_back)
        assert read_codes(on_zookeeper, topic) == {ErrorCode.NONE}
