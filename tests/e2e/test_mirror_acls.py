"""MirrorMaker 2's source connector copies ACLs of topics, so that who may read a topic may read its copy."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.clients.admin import Admin
from pkafka.connect.mirror.records import OffsetSync
from pkafka.security.acl import Acl, Entry, Operation, Pattern, PatternType, Permission, ResourceType
from pkafka.testing import Broker, running_broker
from tests.connect_workers import ConnectWorker, standalone
from tests.mirrors import WORKER, connector
from tests.raw_client import new_topic_name
from tests.talk import good, talking, wait_for

GUARDED = {
    "broker.id": 0,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    return dict(GUARDED)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("source"), GUARDED) as broker:
        yield broker


@pytest.fixture
def worker(broker: Broker, tmp_path: Path) -> Iterator[ConnectWorker]:
    with standalone(tmp_path / "worker", broker.bootstrap, WORKER) as worker:
        yield worker


def rule(
    topic: str,
    operation: Operation,
    permission: Permission = Permission.ALLOW,
    kind: PatternType = PatternType.LITERAL,
) -> Acl:
    return Acl(Pattern(ResourceType.TOPIC, topic, kind), Entry("User:u", "*", operation, permission))


def test_rules_of_topics_are_copied_and_none_lets_write(
    worker: ConnectWorker, source: Broker, broker: Broker
) -> None:
    topic = new_topic_name()
    given = [
        rule(topic, Operation.ALL),
        rule(topic, Operation.WRITE),
        rule(topic, Operation.DELETE, Permission.DENY),
        rule(topic, Operation.READ, kind=PatternType.PREFIXED),
    ]
    with talking(source.bootstrap) as talk:
        talk.create(topic)
    with (
        Admin({"bootstrap.servers": source.bootstrap}) as there,
        Admin({"bootstrap.servers": broker.bootstrap}) as here,
    ):
        for outcome in there.create_acls(given).values():
            good(outcome)
        worker.create(connector("Source", source.bootstrap, broker.bootstrap, {"topics": topic}))
        copy = f"A.{topic}"
        wanted = {rule(copy, Operation.READ), rule(copy, Operation.DELETE, Permission.DENY)}
        wait_for(lambda: set(here.describe_acls()) == wanted)
        # One more, with the next look.
        good(there.create_acls([rule(topic, Operation.DESCRIBE)])[rule(topic, Operation.DESCRIBE)])
        wait_for(lambda: set(here.describe_acls()) == {*wanted, rule(copy, Operation.DESCRIBE)})


def test_the_topic_of_syncs_can_be_on_the_target(
    worker: ConnectWorker, source: Broker, broker: Broker
) -> None:
    topic = new_topic_name()
    more = {"topics": topic, "offset-syncs.topic.location": "target"}
    with talking(source.bootstrap) as a, talking(broker.bootstrap) as b:
        a.create(topic)
        a.send(topic, b"1", b"2")
        worker.create(connector("Source", source.bootstrap, broker.bootstrap, more))

        def synced() -> list[tuple[int, int]]:
            found = [OffsetSync.of(each.key, each.value) for each in b.read("mm2-offset-syncs.A.internal")]
            return [(each.upstream, each.downstream) for each in found if each.partition.topic == topic]

        wait_for(lambda: synced()[-1:] == [(1, 1)])
        with Admin({"bootstrap.servers": source.bootstrap}) as admin:
            assert not any(each.name.startswith("mm2-") for each in admin.list_topics())
