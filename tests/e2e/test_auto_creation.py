"""Topics that are made by being asked for, whichever broker of a cluster is asked."""

from collections.abc import Iterator
from functools import partial

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.cluster import Cluster
from tests.raw_client import RawClient, at_once
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

METADATA_VERSION = 9
COORDINATOR_VERSION = 4


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"zookeeper.session.timeout.ms": 10_000}  # nobody dies here
    with Cluster(tmp_path_factory.mktemp("auto"), zookeeper.connect, overrides=settings) as started:
        yield started


def test_any_broker_has_topics_made(cluster: Cluster) -> None:
    for number, broker in enumerate(cluster.brokers):
        name = f"asked-of-{number}"
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
        with RawClient(broker.bootstrap) as client:

            def is_led(client: RawClient = client, request: MetadataRequest = request) -> bool:
                [topic] = client.call(request, METADATA_VERSION).topics
                return bool(topic.error_code == ErrorCode.NONE and topic.partitions[0].leader_id >= 0)

            wait_for(is_led, what=f"{name} (controller: {cluster.controller()})")


def test_a_topic_that_all_brokers_make_at_once_is_made_once(cluster: Cluster) -> None:
    """The name has a dot, so that each of them looks for others that it would collide with."""
    codes: set[int] = set()
    for number in range(12):
        name = f"made.at.once.{number}"
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)

        def ask(address: str, request: MetadataRequest = request) -> None:
            with RawClient(address) as client:
                codes.update(topic.error_code for topic in client.call(request, METADATA_VERSION).topics)

        at_once([partial(ask, broker.bootstrap) for broker in cluster.brokers for _ in range(2)])
    assert codes <= {ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE}


def test_a_topic_that_several_clients_create_at_once_is_created_once(cluster: Cluster) -> None:
    controller = cluster.brokers[cluster.controller()].bootstrap
    for number in range(4):
        new = CreatableTopic(name=f"created.at.once.{number}", num_partitions=1, replication_factor=3)
        request = CreateTopicsRequest(topics=[new], timeout_ms=60_000)
        codes: list[int] = []

        def ask(request: CreateTopicsRequest = request, codes: list[int] = codes) -> None:
            with RawClient(controller) as client:
                codes.extend(topic.error_code for topic in client.call(request, 7).topics)

        at_once([ask] * 4)
        assert sorted(codes) == [ErrorCode.NONE, *[ErrorCode.TOPIC_ALREADY_EXISTS] * 3]


def test_any_broker_has_the_topic_of_groups_made(cluster: Cluster) -> None:
    other = next(number for number in range(3) if number != cluster.controller())
    with RawClient(cluster.brokers[other].bootstrap) as client:

        def is_known() -> bool:
            answer = client.call(FindCoordinatorRequest(coordinator_keys=["g"]), COORDINATOR_VERSION)
            return bool(answer.coordinators[0].error_code == ErrorCode.NONE)

        wait_for(is_known, what="a coordinator")
