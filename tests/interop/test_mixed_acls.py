"""Apache Kafka and pkafka in one cluster with an authorizer: a rule made at either counts at both.

Broker 0 is Kafka, broker 1 is pkafka. A rule lets the brokers' own address do everything, ClusterAction included, as
an operator would let brokers; the client comes from another.
"""

from collections.abc import Iterator

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.messages import metadata
from pkafka.protocol.messages.create_acls import CreateAclsRequest
from pkafka.security.acl import Acl, Operation, PatternType, Permission, ResourceType
from tests.acl_rules import AUTHORIZER, OTHER, SUBJECT, Rule, add_rules, set_rules
from tests.interop.guarded import open_store
from tests.interop.test_mixed_cluster import KAFKA, NAMES, PKAFKA, Mixed
from tests.raw_client import RawClient, new_topic_name
from tests.talk import talking, wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


@pytest.fixture(
    scope="module",
    params=(pytest.param(KAFKA, marks=pytest.mark.nightly), PKAFKA),
    ids=lambda one: f"{NAMES[one]}-controller",
)
def cluster(
    request: pytest.FixtureRequest,
    zookeeper: ZooKeeper,
    kafka_classpath: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mixed]:
    directory = tmp_path_factory.mktemp("mixed")
    made = Mixed(directory, zookeeper.connect, request.param, {"authorizer.class.name": AUTHORIZER})
    server, _, chroot = made.zookeeper_connect.partition("/")
    open_store(server, f"/{chroot}", tuple(ResourceType))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(params=(KAFKA, PKAFKA), ids=lambda one: f"at-{NAMES[one]}")
def place(request: pytest.FixtureRequest) -> int:
    """The broker at which rules are made."""
    found: int = request.param
    return found


def code_at(cluster: Mixed, broker: int, topic: str) -> ErrorCode:
    """What the client hears about a topic from a broker."""
    request = metadata.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    with RawClient(cluster.brokers[broker].bootstrap, source=SUBJECT, timeout_s=30) as client:
        [found] = client.call(request, 9).topics
        return ErrorCode(found.error_code)


def rules_at(cluster: Mixed, broker: int) -> list[Acl]:
    """All rules as a broker tells them."""
    with talking(cluster.brokers[broker].bootstrap) as talk:
        return sorted(talk.admin.describe_acls())


def test_a_rule_made_at_one_broker_counts_at_both(cluster: Mixed, place: int) -> None:
    topic = new_topic_name()
    cluster.create_topic(topic, replicas=2)
    address = cluster.brokers[place].bootstrap

    def wait_for_code(code: ErrorCode) -> None:
        for broker in (KAFKA, PKAFKA):
            wait_for(lambda: code_at(cluster, broker, topic) is code, what=f"{code.name} at {NAMES[broker]}")  # noqa: B023 - called at once
        # A broker that has heard of this may have yet to hear of a rule before it that is gone.
        wait_for(lambda: rules_at(cluster, KAFKA) == rules_at(cluster, PKAFKA), what="the same rules at both")

    set_rules(address, [])
    wait_for_code(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    for rule in (
        Rule(TOPIC, topic, Operation.READ),
        Rule(TOPIC, topic[:-2], Operation.ALTER, kind=PatternType.PREFIXED),
        Rule(TOPIC, "*", Operation.DESCRIBE),
        Rule(TOPIC, topic, Operation.ALL, principal="User:*"),
    ):
        set_rules(address, [rule])
        wait_for_code(ErrorCode.NONE)
        with RawClient(address, timeout_s=30) as admin:
            add_rules(admin, [Rule(TOPIC, topic, Operation.DESCRIBE, Permission.DENY)])
        wait_for_code(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    # What one broker made the other takes away.
    set_rules(cluster.brokers[1 - place].bootstrap, [Rule(TOPIC, topic, Operation.READ)])
    wait_for_code(ErrorCode.NONE)


def test_both_change_one_resource_at_once(cluster: Mixed) -> None:
    set_rules(cluster.brokers[KAFKA].bootstrap, [])
    wait_for(lambda: rules_at(cluster, KAFKA) == rules_at(cluster, PKAFKA))
    before = rules_at(cluster, KAFKA)
    wanted = []
    clients = [RawClient(one.bootstrap, timeout_s=60) for one in cluster.brokers]
    try:
        for number in range(20):
            for broker, client in enumerate(clients):
                rule = Rule(GROUP, "g", Operation.READ, principal=f"User:{broker}-{number}", host=OTHER)
                client.send(CreateAclsRequest(creations=[rule.creation()]), 3)
                wanted.append(rule)
            for client in clients:
                assert [one.error_code for one in client.receive().results] == [0]
    finally:
        for client in clients:
            client.close()
    for broker in (KAFKA, PKAFKA):
        wait_for(lambda: len(rules_at(cluster, broker)) == len(before) + len(wanted), what=NAMES[broker])  # noqa: B023 - called at once
    assert rules_at(cluster, KAFKA) == rules_at(cluster, PKAFKA)
    set_rules(cluster.brokers[PKAFKA].bootstrap, [])


@pytest.mark.parametrize("leader", [KAFKA, PKAFKA], ids=lambda one: f"{NAMES[one]}-leads")
def test_brokers_that_may_replicate_each_other(cluster: Mixed, leader: int) -> None:
    topic = new_topic_name()
    cluster.create_topic(topic, assignment={0: (leader, 1 - leader)})
    with cluster.producer(acks="all") as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number, partition=0)
        producer.flush()
    assert cluster.state(topic).leader == leader
    cluster.wait_for_isr(topic, KAFKA, PKAFKA)
    cluster.assert_same_logs(topic)
