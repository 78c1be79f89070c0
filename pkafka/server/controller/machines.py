"""What the deciding parts of a controller share during one term of office."""

from typing import NamedTuple

from pkafka.server.controller.batch import RequestBatch
from pkafka.server.controller.context import ControllerContext
from pkafka.server.controller.partition_state import PartitionStates
from pkafka.server.controller.replica_state import ReplicaStates
from pkafka.server.controller.state_store import StateStore


class Machines(NamedTuple):
    """Holds the context, the access to the store, the batch of requests, which the caller sends, and both machines."""

    context: ControllerContext
    states: StateStore
    batch: RequestBatch
    partitions: PartitionStates
    replicas: ReplicaStates
