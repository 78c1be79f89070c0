"""The APIs that this broker serves, written out: ApiVersions lists exactly these keys.

Requests about delegation tokens are refused as a Kafka broker without them refuses them. Handlers ask for the rights of
their client before they look at anything.
"""

from typing import Final, Protocol

from pkafka.protocol.api import ApiKey
from pkafka.server.groups import routing as group_routing
from pkafka.server.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_replica_log_dirs,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    delete_records,
    describe_acls,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    produce_append,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from pkafka.server.ipc.peer import Handler
from pkafka.server.serving.dispatch import FrameApi, MessageApi
from pkafka.server.transactions import routing as transaction_routing


class Port(
    alter_replica_log_dirs.Port,
    api_versions.Port,
    delete_records.Port,
    describe_log_dirs.Port,
    describe_producers.Port,
    fetch.Port,
    find_coordinator.Port,
    init_producer_id.Port,
    list_offsets.Port,
    metadata.Port,
    offset_commit.Port,
    offset_fetch.Port,
    produce_append.Port,
    write_txn_markers.Port,
    Protocol,
):
    """What all handlers together ask of their worker."""


FRAME_APIS: Final[dict[int, FrameApi[Port]]] = {
    ApiKey.PRODUCE: produce.handle,
    ApiKey.FETCH: fetch.handle,
}
"""The workers serve these: the handler gets the bytes of the request and returns the bytes of the answer."""

MESSAGE_APIS: Final[dict[int, MessageApi[Port]]] = {
    ApiKey.LIST_OFFSETS: list_offsets.handle,
    ApiKey.METADATA: metadata.handle,
    ApiKey.OFFSET_COMMIT: offset_commit.handle,
    ApiKey.OFFSET_FETCH: offset_fetch.handle,
    ApiKey.FIND_COORDINATOR: find_coordinator.handle,
    ApiKey.JOIN_GROUP: join_group.handle,
    ApiKey.HEARTBEAT: heartbeat.handle,
    ApiKey.LEAVE_GROUP: leave_group.handle,
    ApiKey.SYNC_GROUP: sync_group.handle,
    ApiKey.DESCRIBE_GROUPS: describe_groups.handle,
    ApiKey.LIST_GROUPS: list_groups.handle,
    ApiKey.SASL_HANDSHAKE: sasl_handshake.handle,
    ApiKey.API_VERSIONS: api_versions.handle,
    ApiKey.DELETE_RECORDS: delete_records.handle,
    ApiKey.INIT_PRODUCER_ID: init_producer_id.handle,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn.handle,
    ApiKey.ADD_OFFSETS_TO_TXN: add_offsets_to_txn.handle,
    ApiKey.END_TXN: end_txn.handle,
    ApiKey.WRITE_TXN_MARKERS: write_txn_markers.handle,
    ApiKey.TXN_OFFSET_COMMIT: txn_offset_commit.handle,
    ApiKey.DESCRIBE_ACLS: describe_acls.handle,
    ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs.handle,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs.handle,
    ApiKey.SASL_AUTHENTICATE: sasl_authenticate.handle,
    ApiKey.DELETE_GROUPS: delete_groups.handle,
    ApiKey.OFFSET_DELETE: offset_delete.handle,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers.handle,
    ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions.handle,
    ApiKey.LIST_TRANSACTIONS: list_transactions.handle,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat.handle,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_group_describe.handle,
}
"""The workers serve these: the handler gets a decoded message and returns one."""

GROUP_APIS: Final[dict[int, group_routing.Serve]] = {
    ApiKey.OFFSET_COMMIT: offset_commit.serve,
    ApiKey.OFFSET_FETCH: offset_fetch.serve,
    ApiKey.JOIN_GROUP: join_group.serve,
    ApiKey.HEARTBEAT: heartbeat.serve,
    ApiKey.LEAVE_GROUP: leave_group.serve,
    ApiKey.SYNC_GROUP: sync_group.serve,
    ApiKey.DESCRIBE_GROUPS: describe_groups.serve,
    ApiKey.LIST_GROUPS: list_groups.serve,
    ApiKey.DELETE_GROUPS: delete_groups.serve,
    ApiKey.TXN_OFFSET_COMMIT: txn_offset_commit.serve,
    ApiKey.OFFSET_DELETE: offset_delete.serve,
}
"""Those of ``MESSAGE_APIS`` that the worker of the group serves."""

TRANSACTION_APIS: Final[dict[int, transaction_routing.Serve]] = {
    ApiKey.INIT_PRODUCER_ID: init_producer_id.serve,
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn.serve,
    ApiKey.ADD_OFFSETS_TO_TXN: add_offsets_to_txn.serve,
    ApiKey.END_TXN: end_txn.serve,
    ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions.serve,
    ApiKey.LIST_TRANSACTIONS: list_transactions.serve,
}
"""Those that the worker of the transactional id serves."""

CONTROL_APIS: Final[frozenset[int]] = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.ALTER_PARTITION,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    }
)
"""The control process serves these (:mod:`pkafka.server.control.apis`)."""


def operations(worker: Port) -> dict[str, Handler]:
    """What the handlers of other workers may ask of this one."""
    return {
        **produce.operations(worker),
        **list_offsets.operations(worker),
        **offset_for_leader_epoch.operations(worker),
        **delete_records.operations(worker),
        **describe_producers.operations(worker),
        **alter_replica_log_dirs.operations(worker),
        **describe_log_dirs.operations(worker),
    }
