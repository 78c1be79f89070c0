"""Requests beside those of test_every_api that show what ACLs hide: ids, filters, rights in answers, records."""

from collections.abc import Callable
from typing import Any, Final

from pkafka.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pkafka.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from pkafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pkafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pkafka.protocol.messages.describe_acls import DescribeAclsRequest
from pkafka.protocol.messages.describe_cluster import DescribeClusterRequest
from pkafka.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pkafka.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from pkafka.protocol.messages.describe_transactions import DescribeTransactionsRequest
from pkafka.protocol.messages.elect_leaders import ElectLeadersRequest
from pkafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.incremental_alter_configs import (
    AlterableConfig as IncrementalConfig,
)
from pkafka.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from pkafka.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest
from pkafka.protocol.messages.list_groups import ListGroupsRequest
from pkafka.protocol.messages.list_transactions import ListTransactionsRequest
from pkafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from pkafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pkafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pkafka.protocol.schema import Message
from pkafka.records.builder import build_batch
from tests.group_requests import offset_fetch_request
from tests.interop.conftest import System
from tests.interop.test_every_api import GROUP, MISSING, NOON, THERE, ask
from tests.raw_client import RawClient
from tests.talk import wait_for

OPEN_ID: Final = "a-transactional-id"
"""A transaction of this id has a partition of THERE and one of HIDDEN."""
HIDDEN: Final = "hidden-topic"
"""A topic that has no rules of its own."""
NOT_THERE: Final = "every-api-new"
"""A topic that would be created automatically."""
_UNKNOWN_ID: Final = bytes(15) + b"\x09"
_BROKER, _TOPIC, _LOGGER = 4, 2, 8


class Ids:
    """The ids of the topics of one system.

    Args:
        system: that has the topics.
    """

    def __init__(self, system: System) -> None:
        answer: MetadataResponse = ask(system, MetadataRequest(topics=None), 12)
        self._ids = {topic.name: topic.topic_id for topic in answer.topics}

    def of(self, name: str) -> bytes:
        """The id of a topic."""
        return self._ids[name]


def prepare(system: System) -> None:
    """Make the other topic, and begin a transaction with partitions of both."""
    # Its records are of long ago: each broker would delete them at a moment of its own.
    forever = CreatableTopicConfig(name="retention.ms", value="-1")
    topics = [CreatableTopic(name=HIDDEN, num_partitions=1, replication_factor=1, configs=[forever])]
    ask(system, CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
    wait_for(lambda: not _first_error(ask(system, _produce_to(HIDDEN), 8)))
    find = FindCoordinatorRequest(key_type=1, key=OPEN_ID)
    wait_for(lambda: not ask(system, find, 1).error_code)
    init = InitProducerIdRequest(transactional_id=OPEN_ID, transaction_timeout_ms=600_000)
    with RawClient(system.bootstrap) as client:
        wait_for(lambda: not client.call(init, 4).error_code)
        producer = client.call(init, 4)
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=OPEN_ID,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in (THERE, HIDDEN)
            ],
        )

        def is_added() -> bool:
            [*topics] = client.call(add, 3).results_by_topic_v3_and_below
            return not topics[0].results_by_partition[0].partition_error_code

        wait_for(is_added)


def _first_error(answer: Any) -> int:
    return int(answer.responses[0].partition_responses[0].error_code)


def _produce_to(*names: str, acks: int = -1, transactional_id: str | None = None) -> Message:
    flags: dict[str, Any] = {}
    if transactional_id is not None:
        flags = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    records = bytes(build_batch([(NOON, b"k", b"v", ())], **flags))
    parts = [PartitionProduceData(index=0, records=records)]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=5_000,
        topic_data=[TopicProduceData(name=name, partition_data=list(parts)) for name in names],
    )


def _metadata(*names: str | bytes, **values: Any) -> Message:
    topics = [
        MetadataRequestTopic(name=None, topic_id=name)
        if isinstance(name, bytes)
        else MetadataRequestTopic(name=name)
        for name in names
    ]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False, **values)


_WITH_RIGHTS: Final = {
    "include_cluster_authorized_operations": True,
    "include_topic_authorized_operations": True,
}


def metadata_with_rights(*names: str) -> Message:
    """Ask what the client may do to topics, whether they exist, and to the cluster."""
    return _metadata(*names, **_WITH_RIGHTS)


def _fetch(*topics: FetchTopic, replica_id: int = -1) -> Message:
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=100_000,
        session_epoch=-1,
        topics=list(topics),
    )


def _part() -> list[FetchPartition]:
    return [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)]


def _create(name: str) -> Message:
    config = CreatableTopicConfig(name="retention.ms", value="5")
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=[config])
    return CreateTopicsRequest(topics=[topic], timeout_ms=5_000, validate_only=True)


def _configs(kind: int, name: str, key: str) -> Message:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[key])
    return DescribeConfigsRequest(resources=[resource])


def _increments(kind: int, name: str, key: str, value: str) -> Message:
    config = IncrementalConfig(name=key, config_operation=0, value=value)
    resource = IncrementalResource(resource_type=kind, resource_name=name, configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


def _replacement(kind: int, name: str, key: str, value: str) -> Message:
    config = AlterableConfig(name=key, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    return AlterConfigsRequest(resources=[resource], validate_only=True)


def _markers() -> Message:
    topics = [WritableTxnMarkerTopic(name=name, partition_indexes=[0, 9]) for name in (MISSING, HIDDEN)]
    return WriteTxnMarkersRequest(
        markers=[WritableTxnMarker(producer_id=number, topics=[]) for number in (7, 8)]
        + [WritableTxnMarker(producer_id=9, topics=topics[:1])]
    )


Build = Callable[[Ids], tuple[Message, int]]
BOTH: Final = (THERE, HIDDEN, MISSING)

REQUESTS: Final[dict[str, Build]] = {
    "metadata with rights v8": lambda _: (_metadata(*BOTH, **_WITH_RIGHTS), 8),
    "metadata with rights v10": lambda _: (_metadata(*BOTH, **_WITH_RIGHTS), 10),
    "metadata with rights v12": lambda _: (
        _metadata(*BOTH, include_topic_authorized_operations=True),
        12,
    ),
    "metadata by id": lambda ids: (
        _metadata(ids.of(THERE), ids.of(HIDDEN), _UNKNOWN_ID, include_topic_authorized_operations=True),
        12,
    ),
    "metadata of internal topics": lambda _: (_metadata("__consumer_offsets"), 9),
    "all metadata": lambda _: (MetadataRequest(topics=None), 12),
    "all metadata v0": lambda _: (MetadataRequest(topics=[]), 0),
    "cluster with rights": lambda _: (
        DescribeClusterRequest(include_cluster_authorized_operations=True),
        1,
    ),
    "fetch by name": lambda _: (
        _fetch(*(FetchTopic(topic=name, partitions=_part()) for name in BOTH)),
        12,
    ),
    "fetch by id": lambda ids: (
        _fetch(
            *(
                FetchTopic(topic_id=one, partitions=_part())
                for one in (ids.of(THERE), ids.of(HIDDEN), _UNKNOWN_ID)
            )
        ),
        16,
    ),
    "fetch of a follower": lambda _: (
        _fetch(*(FetchTopic(topic=name, partitions=_part()) for name in BOTH), replica_id=7),
        11,
    ),
    "produce to several": lambda _: (_produce_to(*BOTH), 9),
    "produce in a transaction": lambda _: (_produce_to(*BOTH, transactional_id="no such id"), 9),
    "create with settings": lambda _: (_create("new"), 7),
    "create there": lambda _: (_create(THERE), 5),
    "delete by id": lambda ids: (
        DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=_UNKNOWN_ID)], timeout_ms=1_000),
        6,
    ),
    "describe transactions": lambda _: (
        DescribeTransactionsRequest(transactional_ids=[OPEN_ID, "no such id"]),
        0,
    ),
    "list transactions": lambda _: (ListTransactionsRequest(), 1),
    "list groups": lambda _: (ListGroupsRequest(), 4),
    "all offsets": lambda _: (offset_fetch_request([(GROUP, None)], 5), 5),
    "all offsets of groups": lambda _: (
        offset_fetch_request([(GROUP, None), ("other", None), (GROUP, {HIDDEN: [0]})], 8),
        8,
    ),
    "offsets in zookeeper": lambda _: (offset_fetch_request([(GROUP, {THERE: [0], MISSING: [0]})], 0), 0),
    "find transactions": lambda _: (
        FindCoordinatorRequest(key_type=1, coordinator_keys=["no such id", OPEN_ID]),
        4,
    ),
    "find a transaction": lambda _: (FindCoordinatorRequest(key_type=1, key="no such id"), 2),
    "init producer": lambda _: (
        InitProducerIdRequest(transactional_id="no such id", transaction_timeout_ms=0),
        4,
    ),
    "init producer of no name": lambda _: (
        InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1_000),
        4,
    ),
    "broker configs": lambda _: (_configs(_BROKER, "0", "log.retention.hours"), 4),
    "logger configs": lambda _: (_configs(_LOGGER, "0", "no.such.logger"), 4),
    "configs of another broker": lambda _: (_configs(_BROKER, "5", "log.retention.hours"), 4),
    "alter topic": lambda _: (_increments(_TOPIC, THERE, "retention.ms", "5"), 1),
    "alter broker": lambda _: (_increments(_BROKER, "0", "log.retention.ms", "500000"), 1),
    "alter brokers": lambda _: (_increments(_BROKER, "", "log.retention.ms", "500000"), 1),
    "alter another broker": lambda _: (_increments(_BROKER, "5", "log.retention.ms", "500000"), 1),
    "alter logger": lambda _: (_increments(_LOGGER, "0", "kafka.controller.KafkaController", "INFO"), 1),
    "replace topic": lambda _: (_replacement(_TOPIC, THERE, "retention.ms", "5"), 2),
    "replace broker": lambda _: (_replacement(_BROKER, "0", "log.retention.ms", "500000"), 2),
    "elect all": lambda _: (ElectLeadersRequest(topic_partitions=None, timeout_ms=5_000), 2),
    "elect all v0": lambda _: (ElectLeadersRequest(topic_partitions=None, timeout_ms=5_000), 0),
    "log dirs": lambda _: (DescribeLogDirsRequest(topics=[]), 4),
    "write markers": lambda _: (_markers(), 1),
    "describe rules": lambda _: (
        DescribeAclsRequest(
            resource_type_filter=2,
            resource_name_filter=THERE,
            pattern_type_filter=2,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        ),
        3,
    ),
}
