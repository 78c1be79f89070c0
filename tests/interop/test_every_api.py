"""Every API that pkafka lists, at its lowest, a middle and its highest version: the same answer as Apache Kafka's.

Requests are small and mostly about what does not exist, where error codes and the shape of answers differ most easily.
What must differ between two brokers (addresses, ids, sizes, times) is masked.
"""

import itertools
import struct
from collections.abc import Callable
from typing import Any, Final

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol import registry
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pkafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pkafka.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from pkafka.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from pkafka.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
)
from pkafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pkafka.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pkafka.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from pkafka.protocol.messages.api_versions import ApiVersionsRequest
from pkafka.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pkafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pkafka.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from pkafka.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from pkafka.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from pkafka.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pkafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pkafka.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pkafka.protocol.messages.delete_groups import DeleteGroupsRequest
from pkafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pkafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pkafka.protocol.messages.describe_acls import DescribeAclsRequest
from pkafka.protocol.messages.describe_cluster import DescribeClusterRequest
from pkafka.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pkafka.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from pkafka.protocol.messages.describe_groups import DescribeGroupsRequest
from pkafka.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from pkafka.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from pkafka.protocol.messages.describe_transactions import DescribeTransactionsRequest
from pkafka.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from pkafka.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from pkafka.protocol.messages.end_txn import EndTxnRequest
from pkafka.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from pkafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from pkafka.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest
from pkafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from pkafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pkafka.protocol.messages.list_groups import ListGroupsRequest
from pkafka.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pkafka.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from pkafka.protocol.messages.list_transactions import ListTransactionsRequest
from pkafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pkafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pkafka.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pkafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pkafka.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from pkafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from pkafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from pkafka.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from pkafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pkafka.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from pkafka.protocol.messages.update_metadata import UpdateMetadataRequest
from pkafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pkafka.protocol.schema import Message
from pkafka.records.builder import build_batch
from pkafka.records.conversion import down_convert
from tests.differences import differences
from tests.group_requests import (
    commit_request,
    heartbeat_request,
    join_request,
    leave_request,
    offset_fetch_request,
    sync_request,
)
from tests.interop.conftest import System
from tests.interop.quota_questions import change_request, filter_request
from tests.raw_client import RawClient, ask_offsets
from tests.talk import wait_for

NOON: Final = 1_700_000_000_000
THERE: Final = "every-api"
MISSING: Final = "no-such-topic"
GROUP: Final = "every-api-group"
TRANSACTIONAL_ID: Final = "no such id"
_EVERYWHERE: Final = [str(number) for number in range(200)]
"""Names of groups and ids that nobody uses, some for each partition of the internal topics."""
_OWN_IDS: Final = (TRANSACTIONAL_ID, "another", "a third")
"""The transactional ids that the requests name."""
_TOPIC_RESOURCE: Final = 2
# Two brokers differ in these by nature, whatever the API.
MASKED: Final = frozenset(
    {
        "host",
        "port",
        "cluster_id",
        "topic_id",
        "producer_id",
        "log_append_time_ms",
        "log_dir",
        "total_bytes",
        "usable_bytes",
        "session_id",
        "throttle_time_ms",
    }
)
Build = Callable[[int], Message]


def _produce(version: int) -> Message:
    records = bytes(build_batch([(NOON, b"k", b"v", ())]))
    if version < 3:
        records = b"".join(down_convert(records, min(version, 1)))
    parts = [PartitionProduceData(index=index, records=records) for index in (0, 9)]
    topics = [TopicProduceData(name=name, partition_data=list(parts)) for name in (THERE, MISSING)]
    return ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics)


def _fetch(version: int) -> Message:
    wanted = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1_000) for index in (0, 9)]
    if version >= 13:
        topics = [FetchTopic(topic_id=bytes(15) + b"\x09", partitions=wanted)]
    else:
        topics = [FetchTopic(topic=name, partitions=list(wanted)) for name in (THERE, MISSING)]
        beyond = FetchPartition(partition=1, fetch_offset=99, partition_max_bytes=1_000)
        topics[0].partitions.append(beyond)
    return FetchRequest(max_wait_ms=10, min_bytes=0, max_bytes=10_000, session_epoch=-1, topics=topics)


def _list_offsets(version: int) -> Message:
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=-2) for index in (0, 9)]
    for entry in wanted if version == 0 else ():
        entry.max_num_offsets = 5
    if version >= 7:
        wanted.append(ListOffsetsPartition(partition_index=1, timestamp=-3))
    elif version >= 1:
        wanted.append(ListOffsetsPartition(partition_index=1, timestamp=NOON))
    topics = [ListOffsetsTopic(name=name, partitions=list(wanted)) for name in (THERE, MISSING)]
    return ListOffsetsRequest(replica_id=-1, topics=topics)


def _metadata(version: int) -> Message:
    topics = [MetadataRequestTopic(name=name) for name in (THERE, "not/legal")]
    return MetadataRequest(topics=topics)


def _create_topics(version: int) -> Message:
    def topic(name: str, partitions: int, replicas: int) -> CreatableTopic:
        return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)

    topics = [topic(THERE, 1, 1), topic("not/legal", 1, 1), topic("r", 1, 5), topic("p", -3, 1)]
    return CreateTopicsRequest(topics=topics, timeout_ms=5_000)


def _delete_topics(version: int) -> Message:
    if version >= 6:
        return DeleteTopicsRequest(topics=[DeleteTopicState(name=MISSING)], timeout_ms=5_000)
    return DeleteTopicsRequest(topic_names=[MISSING], timeout_ms=5_000)


def _delete_records(version: int) -> Message:
    wanted = [DeleteRecordsPartition(partition_index=0, offset=offset) for offset in (0,)]
    wanted.append(DeleteRecordsPartition(partition_index=9, offset=0))
    topics = [DeleteRecordsTopic(name=THERE, partitions=wanted)]
    return DeleteRecordsRequest(topics=topics, timeout_ms=1_000)


def _offset_for_leader_epoch(version: int) -> Message:
    wanted = [OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in (0, 9)]
    topics = [OffsetForLeaderTopic(topic=name, partitions=list(wanted)) for name in (THERE, MISSING)]
    return OffsetForLeaderEpochRequest(topics=topics)


def _describe_configs(version: int) -> Message:
    wanted = [
        DescribeConfigsResource(
            resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=["retention.ms"]
        )
        for name in (THERE, MISSING)
    ]
    return DescribeConfigsRequest(resources=wanted)


def _alter_configs(version: int) -> Message:
    return AlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=MISSING, configs=[])]
    )


def _incremental_alter_configs(version: int) -> Message:
    return IncrementalAlterConfigsRequest(
        resources=[IncrementalResource(resource_type=_TOPIC_RESOURCE, resource_name=MISSING, configs=[])]
    )


def _create_partitions(version: int) -> Message:
    topics = [CreatePartitionsTopic(name=name, count=1, assignments=None) for name in (THERE, MISSING)]
    return CreatePartitionsRequest(topics=topics, timeout_ms=5_000)


def _update_features(version: int) -> Message:
    def update(feature: str, level: int, kind: int = 1, *, downgrade: bool = False) -> FeatureUpdateKey:
        if version == 0:
            return FeatureUpdateKey(feature=feature, max_version_level=level, allow_downgrade=downgrade)
        return FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)

    return UpdateFeaturesRequest(
        feature_updates=[
            update("metadata.version", 15),
            update("metadata.version", 0, 3, downgrade=True),
            update("", 1),
            update("none", 0),
            update("gone", 0, 2, downgrade=True),
            update("lower", 1, 2, downgrade=True),
            update("minus", -1, 3, downgrade=True),
            update("odd", 1, 4),
        ]
    )


def _init_producer_id(version: int) -> Message:
    return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)


def _describe_log_dirs(version: int) -> Message:
    return DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=THERE, partitions=[0, 9])])


def _alter_replica_log_dirs(version: int) -> Message:
    """Nothing moves: how it does is another test's (test_directory_moves)."""
    topics = [AlterReplicaLogDirTopic(name=name, partitions=[0, 9]) for name in (THERE, MISSING, "t" * 249)]
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/nowhere", topics=topics)])


def _offset_commit(version: int) -> Message:
    commits = {(name, 0): (5, "m") for name in (THERE, MISSING)}
    commits |= {(name, 1): (6, "m" * 5_000) for name in (THERE, MISSING)}
    return commit_request(GROUP, commits | {(name, 9): (7, None) for name in (THERE, MISSING)})


def _offset_fetch(version: int) -> Message:
    wanted = {THERE: [0, 1, 9], MISSING: [0]}
    if version < 8:
        return offset_fetch_request([(GROUP, wanted)], version)
    groups = [(GROUP, wanted), (GROUP, None), ("no-such-group", None)]
    return offset_fetch_request(groups, version, require_stable=True)


def _offset_delete(version: int) -> Message:
    wanted = [OffsetDeleteRequestPartition(partition_index=index) for index in (1, 9)]
    topics = [OffsetDeleteRequestTopic(name=name, partitions=list(wanted)) for name in (THERE, MISSING)]
    return OffsetDeleteRequest(group_id=GROUP, topics=topics)


def _find_coordinator(version: int) -> Message:
    if version >= 4:
        return FindCoordinatorRequest(coordinator_keys=[GROUP, "no-such-group"])
    return FindCoordinatorRequest(key=GROUP)


def _join_group(version: int) -> Message:
    return join_request(GROUP, member="nobody")


def _sync_group(version: int) -> Message:
    request = sync_request(GROUP, "nobody", 1)
    if version >= 5:
        request.protocol_type, request.protocol_name = "consumer", "range"
    return request


def _leave_group(version: int) -> Message:
    if version >= 3:
        members = [MemberIdentity(member_id="nobody"), MemberIdentity(group_instance_id="no-instance")]
        return LeaveGroupRequest(group_id=GROUP, members=members)
    return leave_request(GROUP, "nobody")


def _describe_groups(version: int) -> Message:
    return DescribeGroupsRequest(
        groups=[GROUP, "no-such-group", ""], include_authorized_operations=version >= 3
    )


# Requests of a controller that is long gone: both have a newer one.


def _leader_and_isr(version: int) -> Message:
    state = LeaderAndIsrPartitionState(
        topic_name=THERE, partition_index=0, leader=0, leader_epoch=99, isr=[0], replicas=[0]
    )
    request = LeaderAndIsrRequest(controller_id=0, controller_epoch=0, live_leaders=[])
    if version < 2:
        request.ungrouped_partition_states = [state]
    else:
        request.topic_states = [LeaderAndIsrTopicState(topic_name=THERE, partition_states=[state])]
    return request


def _stop_replica(version: int) -> Message:
    request = StopReplicaRequest(controller_id=0, controller_epoch=0)
    if version == 0:
        request.ungrouped_partitions = [StopReplicaPartitionV0(topic_name=THERE, partition_index=0)]
    elif version < 3:
        request.topics = [StopReplicaTopicV1(name=THERE, partition_indexes=[0])]
    else:
        states = [StopReplicaPartitionState(partition_index=0, leader_epoch=99)]
        request.topic_states = [StopReplicaTopicState(topic_name=THERE, partition_states=states)]
    return request


def _alter_partition(version: int) -> Message:
    wanted = AlterPartitionRequestPartitionData(partition_index=0)
    topic = AlterPartitionRequestTopicData(partitions=[wanted])
    if version < 2:
        topic.topic_name = THERE
    return AlterPartitionRequest(broker_id=0, broker_epoch=12345678901, topics=[topic])


def _elect_leaders(version: int) -> Message:
    wanted = [TopicPartitions(topic=name, partitions=[0, 9]) for name in (THERE, MISSING)]
    return ElectLeadersRequest(election_type=min(version, 1), topic_partitions=wanted, timeout_ms=5_000)


def _alter_partition_reassignments(version: int) -> Message:
    def wanted(index: int, replicas: list[int] | None) -> ReassignablePartition:
        return ReassignablePartition(partition_index=index, replicas=replicas)

    there = [wanted(0, [0, 7]), wanted(1, [0, 0]), wanted(9, [0])]
    topics = [
        ReassignableTopic(name=THERE, partitions=there),
        ReassignableTopic(name=MISSING, partitions=[wanted(0, [0])]),
    ]
    return AlterPartitionReassignmentsRequest(topics=topics)


# Of what is about security; see also test_without_security and test_scram_credentials.


def _describe_user_scram_credentials(version: int) -> Message:
    return DescribeUserScramCredentialsRequest(users=[UserName(name="nobody"), UserName(name="")])


def _alter_user_scram_credentials(version: int) -> Message:
    deletions = [ScramCredentialDeletion(name=name, mechanism=1) for name in ("nobody", "")]
    return AlterUserScramCredentialsRequest(deletions=deletions)


def _describe_acls(version: int) -> Message:
    return DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


def _create_acls(version: int) -> Message:
    wanted = AclCreation(
        resource_type=2,
        resource_name=THERE,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )
    return CreateAclsRequest(creations=[wanted, wanted])


def _delete_acls(version: int) -> Message:
    wanted = DeleteAclsFilter(
        resource_type_filter=2,
        resource_name_filter=THERE,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    return DeleteAclsRequest(filters=[wanted, wanted])


def _create_delegation_token(version: int) -> Message:
    renewers = [CreatableRenewers(principal_type="User", principal_name="a")]
    return CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1)


def _describe_producers(version: int) -> Message:
    topics = [
        TopicRequest(name=name, partition_indexes=[0, 9, -1])
        for name in (THERE, MISSING, "not/legal", "", THERE)
    ]
    return DescribeProducersRequest(topics=topics)


def _consumer_group_heartbeat(version: int) -> Message:
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id="", subscribed_topic_names=[THERE])


def _add_partitions_to_txn(version: int) -> Message:
    topics = [AddPartitionsToTxnTopic(name=THERE, partitions=[0, 9]), AddPartitionsToTxnTopic(name=MISSING)]
    if version < 4:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTIONAL_ID,
            v3_and_below_producer_id=7,
            v3_and_below_topics=topics,
        )
    there = [AddPartitionsToTxnTopic(name=THERE, partitions=[1])]
    asked = [
        AddPartitionsToTxnTransaction(transactional_id=name, producer_id=7, topics=wanted, verify_only=verify)
        for name, wanted, verify in (
            (TRANSACTIONAL_ID, topics, True),
            ("another", there, True),
            ("a third", there, False),
        )
    ]
    return AddPartitionsToTxnRequest(transactions=asked)


def _txn_offset_commit(version: int) -> Message:
    offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata=None)
    elsewhere = TxnOffsetCommitRequestPartition(partition_index=9, committed_offset=5)
    topics = [
        TxnOffsetCommitRequestTopic(name=THERE, partitions=[offset, elsewhere]),
        TxnOffsetCommitRequestTopic(name=MISSING, partitions=[offset]),
    ]
    return TxnOffsetCommitRequest(
        transactional_id=TRANSACTIONAL_ID, group_id=GROUP, producer_id=7, topics=topics
    )


def _write_txn_markers(version: int) -> Message:
    topics = [
        WritableTxnMarkerTopic(name=name, partition_indexes=[0, 9]) for name in (MISSING, "not/legal", "")
    ]
    return WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=7, topics=topics)])


REQUESTS: Final[dict[ApiKey, Build]] = {
    ApiKey.WRITE_TXN_MARKERS: _write_txn_markers,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: lambda version: AddOffsetsToTxnRequest(
        transactional_id=TRANSACTIONAL_ID, producer_id=7, group_id=GROUP
    ),
    ApiKey.END_TXN: lambda version: EndTxnRequest(transactional_id=TRANSACTIONAL_ID, producer_id=7),
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.DESCRIBE_TRANSACTIONS: lambda version: DescribeTransactionsRequest(
        transactional_ids=[TRANSACTIONAL_ID, "", TRANSACTIONAL_ID]
    ),
    ApiKey.LIST_TRANSACTIONS: lambda version: ListTransactionsRequest(
        state_filters=["Ongoing", "Nonsense"], duration_filter=10**15 if version else -1
    ),
    ApiKey.SASL_HANDSHAKE: lambda version: SaslHandshakeRequest(mechanism="PLAIN"),
    ApiKey.SASL_AUTHENTICATE: lambda version: SaslAuthenticateRequest(auth_bytes=b"\0a\0b"),
    ApiKey.DESCRIBE_ACLS: _describe_acls,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.CREATE_DELEGATION_TOKEN: _create_delegation_token,
    ApiKey.RENEW_DELEGATION_TOKEN: lambda version: RenewDelegationTokenRequest(hmac=b"a", renew_period_ms=1),
    ApiKey.EXPIRE_DELEGATION_TOKEN: lambda version: ExpireDelegationTokenRequest(hmac=b"a"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: lambda version: DescribeDelegationTokenRequest(owners=None),
    ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda version: ConsumerGroupDescribeRequest(group_ids=["g", GROUP]),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda version: ListPartitionReassignmentsRequest(),
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.LEADER_AND_ISR: _leader_and_isr,
    ApiKey.STOP_REPLICA: _stop_replica,
    ApiKey.UPDATE_METADATA: lambda version: UpdateMetadataRequest(controller_id=0, controller_epoch=0),
    ApiKey.CONTROLLED_SHUTDOWN: lambda version: ControlledShutdownRequest(broker_id=77),
    ApiKey.ALTER_PARTITION: _alter_partition,
    ApiKey.ALLOCATE_PRODUCER_IDS: lambda version: AllocateProducerIdsRequest(broker_id=77),
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.METADATA: _metadata,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.HEARTBEAT: lambda version: heartbeat_request(GROUP, "nobody", 1),
    ApiKey.LEAVE_GROUP: _leave_group,
    ApiKey.SYNC_GROUP: _sync_group,
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.LIST_GROUPS: lambda version: ListGroupsRequest(states_filter=["EMPTY"] if version >= 4 else []),
    ApiKey.DELETE_GROUPS: lambda version: DeleteGroupsRequest(
        groups_names=["no-such-group", "no-such-group"]
    ),
    ApiKey.OFFSET_DELETE: _offset_delete,
    ApiKey.API_VERSIONS: lambda version: ApiVersionsRequest(
        client_software_name="test", client_software_version="1"
    ),
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: _describe_log_dirs,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_user_scram_credentials,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda version: filter_request((("user", 2, None),), strict=False),
    ApiKey.ALTER_CLIENT_QUOTAS: lambda version: change_request(
        (("user", "nobody"),), (("producer_byte_rate", 1.0),), validate_only=True
    ),
    ApiKey.UPDATE_FEATURES: _update_features,
    ApiKey.DESCRIBE_CLUSTER: lambda version: DescribeClusterRequest(),
}


def ask(system: System, request: Message, version: int) -> Any:
    """The answer of ``system``."""
    with RawClient(system.bootstrap) as client:
        return client.call(request, version)


def comparable(value: Any) -> Any:
    """A message as plain values, masked; lists of structs in an order that does not depend on the broker."""
    if isinstance(value, Message):
        return {
            field.name: "*" if field.name in MASKED else comparable(getattr(value, field.name))
            for field in value.__fields__
        }
    if isinstance(value, list):
        return sorted((comparable(item) for item in value), key=repr)
    if isinstance(value, memoryview):
        return _without_padding(bytes(value))
    return value


def _without_padding(records: bytes) -> bytes:
    """Whole messages only: after converting down, Kafka fills up to the size it had promised with a partial message."""
    position = 0
    while position + 12 <= len(records):
        offset, size = struct.unpack_from(">qi", records, position)
        if offset < 0:
            break
        position += 12 + size
    return records[:position]


def cases() -> list[Any]:
    """Lowest, middle and highest version of each API."""
    chosen = []
    for key in REQUESTS:
        all_of = registry.versions(key)
        for version in sorted({all_of[0], all_of[len(all_of) // 2], all_of[-1]}):
            chosen.append(pytest.param(key, version, id=f"{key.name.lower()}-v{version}"))
    return chosen


def prepare(system: System) -> None:
    """Make the topic and the group that the requests name, and wait until all coordinators serve."""
    # Its records are of long ago: half a minute after the start of a broker they would begin to go.
    forever = CreatableTopicConfig(name="retention.ms", value="-1")
    topic = CreatableTopic(name=THERE, num_partitions=2, replication_factor=1, configs=[forever])
    ask(system, CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
    # On a busy machine its leaders are there later than the answer.
    with RawClient(system.bootstrap) as client:
        ends = {(THERE, 0): -1, (THERE, 1): -1}
        wait_for(lambda: not any(code for code, _ in ask_offsets(client, ends).values()))
    # Kafka fetches its first block of producer ids when somebody asks for one, and has none to give until then.
    wait_for(lambda: not ask(system, _init_producer_id(0), 0).error_code)
    # Asking for a group's coordinator makes the topic in which it is kept; its partitions are then read.
    of_group = FindCoordinatorRequest(key=GROUP)
    wait_for(lambda: not ask(system, of_group, 0).error_code)
    fetch = offset_fetch_request([(GROUP, {THERE: [0]})], 2)
    wait_for(lambda: not ask(system, fetch, 2).error_code)
    groups = DescribeGroupsRequest(groups=_EVERYWHERE)
    wait_for(lambda: not any(one.error_code for one in ask(system, groups, 0).groups))
    ask(system, _offset_commit(2), 2)
    # The same for transactional ids.
    of_id = FindCoordinatorRequest(key_type=1, key=TRANSACTIONAL_ID)
    wait_for(lambda: not ask(system, of_id, 1).error_code)
    describe = DescribeTransactionsRequest(transactional_ids=[*_OWN_IDS, *_EVERYWHERE])
    passing = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}

    def errors() -> set[int]:
        return {one.error_code for one in ask(system, describe, 0).transaction_states}

    wait_for(lambda: not errors() & passing)
    # Two records share the highest timestamp, and one is older: which offset is it that has it?
    records = bytes(build_batch([(NOON + age, b"k", b"v", ()) for age in (-5, 0, 0, -1)]))
    data = TopicProduceData(name=THERE, partition_data=[PartitionProduceData(index=1, records=records)])
    answer = ask(system, ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[data]), 8)
    assert answer.responses[0].partition_responses[0].error_code == 0


@pytest.fixture(scope="module")
def both_with_topic(kafka: System, pkafka: System) -> list[System]:
    """Both systems with the topic that the requests name."""
    systems = [system for system in (kafka, pkafka) if system is not None]
    for system in systems:
        prepare(system)
    return systems


def _without_others(key: ApiKey, answer: dict[str, Any]) -> None:
    """Leave out what other tests have on these brokers: groups, transactions that they left open, quotas of users."""
    if key is ApiKey.LIST_GROUPS:
        answer["groups"] = [one for one in answer["groups"] if one["group_id"] == GROUP]
        assert answer["groups"]
    if key is ApiKey.LIST_TRANSACTIONS:
        listed = answer["transaction_states"]
        answer["transaction_states"] = [one for one in listed if one["transactional_id"] in _OWN_IDS]
    if key is ApiKey.DESCRIBE_CLIENT_QUOTAS:
        nobody = {"entity_type": "user", "entity_name": "nobody"}
        answer["entries"] = answer["entries"] and [
            one for one in answer["entries"] if nobody in one["entity"]
        ]


@pytest.mark.parametrize(("key", "version"), cases())
def test_the_answer_is_kafkas(both_with_topic: list[System], key: ApiKey, version: int) -> None:
    answers = [comparable(ask(system, REQUESTS[key](version), version)) for system in both_with_topic]
    if key is ApiKey.API_VERSIONS:
        # pkafka may list less, but nothing that Kafka does not.
        keys = [{repr(entry) for entry in answer.pop("api_keys")} for answer in answers]
        assert all(listed <= keys[0] for listed in keys)
    if key is ApiKey.UPDATE_FEATURES:
        for answer in answers:
            answer["results"].sort(key=str)  # Kafka's have no order
    for answer in answers:
        _without_others(key, answer)
    for one, other in itertools.pairwise(answers):
        assert list(differences(one, other)) == []


def test_every_listed_key_is_tested(both_with_topic: list[System]) -> None:
    system = both_with_topic[-1]
    listed = ask(system, REQUESTS[ApiKey.API_VERSIONS](3), 3)
    served = {entry.api_key for entry in listed.api_keys}
    if len(both_with_topic) == 1:
        pytest.skip("PKAFKA_INTEROP_SYSTEMS leaves one system out")
    assert served == {int(key) for key in REQUESTS}
