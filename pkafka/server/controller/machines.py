"""What the parts of a controller that decide something work on together, for one term of office."""

from typing import NamedTuple

from pkafka.server.controller.batch import RequestBatch
from pkafka.server.controller.context import ControllerContext
from pkafka.server.controller.partition_state import PartitionStates
from pkafka.server.controller.replica_state import ReplicaStates
from pkafka.server.controller.state_store import StateStore


class Machines(NamedTuple):
    """The knowledge, the store's side, the requests to brokers that the caller sends, and both state machines."""

    context: ControllerContext
    states: StateStore
    batch: RequestBatch
    partitions: PartitionStates
    replicas: ReplicaStates
