"""The APIs that this broker serves, written out: ApiVersions lists exactly these keys.

Consumer groups, transactions, security and the requests between brokers are not here yet.
"""

from typing import Final

from pkafka.protocol.api import ApiKey
from pkafka.server.dispatch import FrameApi, MessageApi
from pkafka.server.handlers import (
    api_versions,
    cluster_metadata,
    delete_records,
    describe_log_dirs,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)

FRAME_APIS: Final[dict[int, FrameApi]] = {
    ApiKey.PRODUCE: produce.handle,
    ApiKey.FETCH: fetch.handle,
}
"""Served by the workers from bytes to bytes."""

MESSAGE_APIS: Final[dict[int, MessageApi]] = {
    ApiKey.LIST_OFFSETS: list_offsets.handle,
    ApiKey.METADATA: cluster_metadata.handle,
    ApiKey.API_VERSIONS: api_versions.handle,
    ApiKey.DELETE_RECORDS: delete_records.handle,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs.handle,
}
"""Served by the workers, message by message."""

CONTROL_APIS: Final[frozenset[int]] = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.DESCRIBE_CLUSTER,
    }
)
"""Served by the control process (:mod:`pkafka.server.control_apis`)."""
