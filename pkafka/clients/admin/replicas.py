"""Replicas: which one leads, which brokers they are on, and in which directory of a broker they lie."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pkafka.clients.admin.leaders import by_topic
from pkafka.clients.admin.results import ElectionType, Outcome, Reassignment, error_outcome, outcome_of
from pkafka.clients.cluster import Cluster, To, controller_moved
from pkafka.clients.errors import ClientError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition, TopicPartitionReplica


class _Row(Protocol):
    """What answers say of a partition."""

    error_code: int
    error_message: str | None


def _outcome(row: _Row) -> Outcome[None]:
    return outcome_of(row.error_code, row.error_message, None)


class ReplicasAdmin:
    """Moves replicas and elects leaders; a part of :class:`pkafka.clients.admin.Admin`."""

    cluster: Cluster

    def elect_leaders(
        self,
        kind: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, Outcome[None]]:
        """Have the controller elect leaders (KIP-460).

        Args:
            kind: which replicas may lead.
            partitions: of which; None for all, and then the answer has only those where something happened or failed.

        Returns:
            By partition None for a new leader, or why there is none; ELECTION_NOT_NEEDED where the old one is right.

        Raises:
            ApiError: it may not be asked.
            UnsupportedApiError: the broker is older than 2.2, or than 2.4 for unclean elections.
        """
        from pkafka.protocol.messages import elect_leaders as wire

        request = wire.ElectLeadersRequest(election_type=kind.value, timeout_ms=self._wait_ms(timeout_ms))
        request.topic_partitions = None
        if partitions is not None:
            rows = by_topic(partitions).items()
            request.topic_partitions = [
                wire.TopicPartitions(topic=name, partitions=each) for name, each in rows
            ]
        response = self.cluster.request(
            request,
            wire.ElectLeadersResponse,
            to=To.CONTROLLER,
            timeout_ms=timeout_ms,
            try_again=lambda answer: controller_moved(
                [
                    answer.error_code,
                    *(
                        row.error_code
                        for each in answer.replica_election_results
                        for row in each.partition_result
                    ),
                ]
            ),
        )
        if response.error_code:
            raise ApiError(ErrorCode(response.error_code))
        return {
            TopicPartition(topic.topic, each.partition_id): _outcome(each)
            for topic in response.replica_election_results
            for each in topic.partition_result
        }

    def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, Outcome[None]]:
        """Begin to move partitions to other brokers, or give up moves (KIP-455).

        Args:
            targets: by partition the brokers, the preferred leader first; None gives up the move that is under way.

        Returns:
            By partition None where the move begins, or why it does not.

        Raises:
            ApiError: it may not be asked.
            UnsupportedApiError: the broker is older than 2.4.
        """
        from pkafka.protocol.messages import alter_partition_reassignments as wire

        request = wire.AlterPartitionReassignmentsRequest(timeout_ms=self._wait_ms(timeout_ms))
        for topic, indexes in by_topic(targets).items():
            row = wire.ReassignableTopic(name=topic)
            for index in indexes:
                brokers = targets[TopicPartition(topic, index)]
                row.partitions.append(
                    wire.ReassignablePartition(
                        partition_index=index, replicas=None if brokers is None else list(brokers)
                    )
                )
            request.topics.append(row)
        response = self.cluster.request(
            request,
            wire.AlterPartitionReassignmentsResponse,
            to=To.CONTROLLER,
            timeout_ms=timeout_ms,
            try_again=lambda answer: controller_moved(
                [answer.error_code, *(row.error_code for each in answer.responses for row in each.partitions)]
            ),
        )
        if response.error_code:
            raise ApiError(ErrorCode(response.error_code), response.error_message)
        return {
            TopicPartition(topic.name, each.partition_index): _outcome(each)
            for topic in response.responses
            for each in topic.partitions
        }

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The moves that are under way.

        Args:
            partitions: among these; None for all. One that does not move is not in the answer.

        Raises:
            UnsupportedApiError: the broker is older than 2.4.
            ApiError: it may not be asked.
        """
        from pkafka.protocol.messages import list_partition_reassignments as wire

        request = wire.ListPartitionReassignmentsRequest(timeout_ms=self._wait_ms(timeout_ms))
        if partitions is not None:
            row = wire.ListPartitionReassignmentsTopics
            request.topics = [
                row(name=name, partition_indexes=each) for name, each in by_topic(partitions).items()
            ]
        response = self.cluster.request(
            request,
            wire.ListPartitionReassignmentsResponse,
            to=To.CONTROLLER,
            timeout_ms=timeout_ms,
            try_again=lambda answer: controller_moved([answer.error_code]),
        )
        if response.error_code:
            raise ApiError(ErrorCode(response.error_code), response.error_message)
        return {
            TopicPartition(topic.name, each.partition_index): Reassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in response.topics
            for each in topic.partitions
        }

    def alter_replica_log_dirs(
        self, targets: Mapping[TopicPartitionReplica, str], *, timeout_ms: int | None = None
    ) -> dict[TopicPartitionReplica, Outcome[None]]:
        """Begin to move replicas to other log directories of their brokers (KIP-113).

        Args:
            targets: by replica the path of the directory, as the broker's configuration has it.

        Returns:
            By replica None where the move begins, or why it does not; REPLICA_NOT_AVAILABLE: the broker has none yet.

        Raises:
            UnsupportedApiError: a broker does not serve this request.
        """
        from pkafka.protocol.messages import alter_replica_log_dirs as wire

        view = self.cluster.known()
        outcomes: dict[TopicPartitionReplica, Outcome[None]] = {}
        messages: dict[int, wire.AlterReplicaLogDirsRequest] = {}
        for broker in sorted({each.broker for each in targets}):
            here = {each: path for each, path in targets.items() if each.broker == broker}
            if broker not in view.brokers:
                gone = ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker} is not part of the cluster")
                outcomes.update(dict.fromkeys(here, gone))
                continue
            messages[broker] = wire.AlterReplicaLogDirsRequest(
                dirs=[
                    wire.AlterReplicaLogDir(
                        path=path,
                        topics=[
                            wire.AlterReplicaLogDirTopic(name=topic, partitions=indexes)
                            for topic, indexes in by_topic(
                                each.topic_partition for each, wanted in here.items() if wanted == path
                            ).items()
                        ],
                    )
                    for path in sorted(set(here.values()))
                ]
            )
        answers = self.cluster.request_each(messages, wire.AlterReplicaLogDirsResponse, timeout_ms=timeout_ms)
        for broker, answer in answers.items():
            if isinstance(answer, ClientError):
                failed = error_outcome(answer)
                outcomes.update({each: failed for each in targets if each.broker == broker})
                continue
            for topic in answer.results:
                for row in topic.partitions:
                    replica = TopicPartitionReplica(topic.topic_name, row.partition_index, broker)
                    outcomes[replica] = outcome_of(row.error_code, None, None)
        return outcomes

    def _wait_ms(self, timeout_ms: int | None) -> int:
        return min(
            self.cluster.config.request_timeout_ms,
            self.cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms,
        )
