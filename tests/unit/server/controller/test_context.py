"""What the controller's context answers about what it holds."""

from pkafka.model import TopicPartition
from pkafka.server.controller.context import Assignment, ControllerContext, Replica, ReplicaState


def test_what_is_left_to_delete_is_counted() -> None:
    context = ControllerContext(1)
    for topic in ("gone", "waits", "stays"):
        context.assign(TopicPartition(topic, 0), Assignment((1, 2)))
    context.being_deleted = {"gone", "waits"}
    context.deletion_ineligible = {"waits"}
    context.replica_states[Replica(TopicPartition("gone", 0), 1)] = ReplicaState.DELETION_SUCCESSFUL
    context.replica_states[Replica(TopicPartition("gone", 0), 2)] = ReplicaState.DELETION_STARTED
    context.replica_states[Replica(TopicPartition("waits", 0), 2)] = ReplicaState.DELETION_INELIGIBLE
    assert context.deletion_counts().by_name() == {
        "TopicsToDeleteCount": 2,
        "ReplicasToDeleteCount": 3,
        "TopicsIneligibleToDeleteCount": 1,
        "ReplicasIneligibleToDeleteCount": 1,
    }
