"""The requests by which a controller tells brokers what to do, and the versions in which they travel.

The same versions hold between brokers and between the control process of a broker and its workers.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

from pkafka.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from pkafka.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from pkafka.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

ControlRequest: TypeAlias = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
ControlResponse: TypeAlias = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse

VERSIONS: Final[Mapping[type[ControlRequest], int]] = {
    LeaderAndIsrRequest: 7,
    UpdateMetadataRequest: 8,
    StopReplicaRequest: 4,
}
"""The versions between brokers of 3.4 and newer (inter.broker.protocol.version)."""

RESPONSES: Final[Mapping[type[ControlRequest], type[ControlResponse]]] = {
    LeaderAndIsrRequest: LeaderAndIsrResponse,
    UpdateMetadataRequest: UpdateMetadataResponse,
    StopReplicaRequest: StopReplicaResponse,
}
