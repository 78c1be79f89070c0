"""Topics: list, describe, create, delete, grow."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from pkafka.clients.admin.connected import ConnectedAdmin
from pkafka.clients.admin.outcomes import Outcome, outcome_of
from pkafka.clients.admin.quotas import until_allowed
from pkafka.clients.admin.topic_results import (
    CreatedTopic,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicListing,
)
from pkafka.clients.cluster import Cluster, PartitionView, To, TopicView, controller_moved
from pkafka.clients.errors import UnsupportedApiError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import NO_TOPIC_ID, TopicId, topic_id_text

if TYPE_CHECKING:
    from pkafka.protocol.messages.create_topics import CreatableTopic
    from pkafka.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsResponseTopic

_NAMES_PER_REQUEST: Final = 2_000


class TopicsAdmin:
    """Lists and changes topics; a part of :class:`pkafka.clients.admin.Admin`, and all of :class:`TopicsClient`."""

    cluster: Cluster

    def list_topics(self) -> list[TopicListing]:
        """All topics that this client may see, internal ones included, in the broker's order.

        Raises:
            ClientError: the cluster cannot be asked.
        """
        view = self.cluster.refresh(None)
        return [TopicListing(topic.name, topic.topic_id, topic.is_internal) for topic in view.topics.values()]

    def describe_topics(
        self, names: Iterable[str], *, partitions_per_response: int = 2_000
    ) -> dict[str, Outcome[TopicDescription]]:
        """Describe topics by name; a missing one is an UNKNOWN_TOPIC_OR_PARTITION outcome.

        Args:
            partitions_per_response: the page size where the broker has the paged request (KIP-966).
        """
        wanted = list(dict.fromkeys(names))
        try:
            return self._describe_paged(wanted, partitions_per_response)
        except UnsupportedApiError:
            found: dict[str, Outcome[TopicDescription]] = {}
            for start in range(0, len(wanted), _NAMES_PER_REQUEST):
                view = self.cluster.refresh(wanted[start : start + _NAMES_PER_REQUEST])
                found.update({name: _described(topic) for name, topic in view.topics.items()})
            return found

    def describe_topic_id(self, topic_id: TopicId) -> Outcome[TopicDescription]:
        """Describe one topic by its id; a missing one is an UNKNOWN_TOPIC_ID outcome."""
        # One request for all works on brokers that cannot look an id up (before 3.1), and the tool is not hot.
        for topic in self.cluster.refresh(None).topics.values():
            if topic.topic_id == topic_id:
                return self.describe_topics([topic.name])[topic.name]
        return ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id_text(topic_id)}")

    def create_topics(
        self,
        topics: Iterable[NewTopic],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
        retry_on_quota_violation: bool = True,
    ) -> dict[str, Outcome[CreatedTopic]]:
        """Create topics, or only check whether that would work.

        Args:
            timeout_ms: how long the brokers may take until the topics are complete.
            retry_on_quota_violation: ask again for what a quota of changes refuses, when its time has come (KIP-599).
        """
        wanted = {topic.name: topic for topic in topics}

        def ask(names: list[str], left_ms: int | None) -> dict[str, Outcome[CreatedTopic]]:
            return self._create([wanted[name] for name in names], validate_only, left_ms)

        if not retry_on_quota_violation:
            return ask(list(wanted), timeout_ms)
        return until_allowed(self.cluster, ask, wanted, timeout_ms)

    def _create(
        self, topics: Iterable[NewTopic], validate_only: bool, timeout_ms: int | None
    ) -> dict[str, Outcome[CreatedTopic]]:
        from pkafka.protocol.messages import create_topics as wire

        request = wire.CreateTopicsRequest()
        request.timeout_ms = self._timeout_ms(timeout_ms)
        request.validate_only = validate_only
        request.topics = [_creatable(topic) for topic in topics]
        response = self.cluster.request(
            request,
            wire.CreateTopicsResponse,
            to=To.CONTROLLER,
            timeout_ms=timeout_ms,
            try_again=lambda each: controller_moved(topic.error_code for topic in each.topics),
        )
        return {
            each.name: outcome_of(
                each.error_code,
                each.error_message,
                CreatedTopic(
                    each.name, each.topic_id or NO_TOPIC_ID, each.num_partitions, each.replication_factor
                ),
            )
            for each in response.topics
        }

    def delete_topics(
        self,
        names: Iterable[str],
        *,
        timeout_ms: int | None = None,
        retry_on_quota_violation: bool = True,
    ) -> dict[str, Outcome[None]]:
        """Delete topics with all their records.

        Args:
            retry_on_quota_violation: as in :meth:`create_topics`.
        """
        if not retry_on_quota_violation:
            return self._delete(list(names), timeout_ms)
        return until_allowed(self.cluster, self._delete, names, timeout_ms)

    def _delete(self, names: list[str], timeout_ms: int | None) -> dict[str, Outcome[None]]:
        from pkafka.protocol.messages import delete_topics as wire

        request = wire.DeleteTopicsRequest()
        request.timeout_ms = self._timeout_ms(timeout_ms)
        request.topic_names = names
        response = self.cluster.request(
            request,
            wire.DeleteTopicsResponse,
            to=To.CONTROLLER,
            timeout_ms=timeout_ms,
            max_version=5,  # by name; version 6 adds deletion by id, which needs another shape
            try_again=lambda answer: controller_moved(each.error_code for each in answer.responses),
        )
        return {
            each.name or "": outcome_of(each.error_code, each.error_message, None)
            for each in response.responses
        }

    def delete_topic_ids(
        self,
        topic_ids: Iterable[TopicId],
        *,
        timeout_ms: int | None = None,
        retry_on_quota_violation: bool = True,
    ) -> dict[TopicId, Outcome[None]]:
        """Delete topics by id: of several that had the same name one after the other, the one that is meant (KIP-516).

        Args:
            retry_on_quota_violation: as in :meth:`create_topics`.

        Raises:
            UnsupportedApiError: the broker is older than Kafka 2.8.
        """
        if not retry_on_quota_violation:
            return self._delete_ids(list(topic_ids), timeout_ms)
        return until_allowed(self.cluster, self._delete_ids, topic_ids, timeout_ms)

    def _delete_ids(self, topic_ids: list[TopicId], timeout_ms: int | None) -> dict[TopicId, Outcome[None]]:
        from pkafka.protocol.messages import delete_topics as wire

        request = wire.DeleteTopicsRequest()
        request.timeout_ms = self._timeout_ms(timeout_ms)
        request.topics = [wire.DeleteTopicState(name=None, topic_id=each) for each in topic_ids]
        response = self.cluster.request(
            request,
            wire.DeleteTopicsResponse,
            to=To.CONTROLLER,
            timeout_ms=timeout_ms,
            try_again=lambda answer: controller_moved(each.error_code for each in answer.responses),
        )
        return {
            each.topic_id: outcome_of(each.error_code, each.error_message, None)
            for each in response.responses
        }

    def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, list[tuple[int, ...]]] | None = None,
        validate_only: bool = False,
        timeout_ms: int | None = None,
        retry_on_quota_violation: bool = True,
    ) -> dict[str, Outcome[None]]:
        """Grow topics.

        Args:
            counts: topic to its new total number of partitions.
            assignments: topic to the brokers of each added partition, the leader first.
            retry_on_quota_violation: as in :meth:`create_topics`.
        """

        def ask(names: list[str], left_ms: int | None) -> dict[str, Outcome[None]]:
            return self._grow({name: counts[name] for name in names}, assignments, validate_only, left_ms)

        if not retry_on_quota_violation:
            return ask(list(counts), timeout_ms)
        return until_allowed(self.cluster, ask, counts, timeout_ms)

    def _grow(
        self,
        counts: Mapping[str, int],
        assignments: Mapping[str, list[tuple[int, ...]]] | None,
        validate_only: bool,
        timeout_ms: int | None,
    ) -> dict[str, Outcome[None]]:
        from pkafka.protocol.messages import create_partitions as wire

        request = wire.CreatePartitionsRequest()
        request.timeout_ms = self._timeout_ms(timeout_ms)
        request.validate_only = validate_only
        for name, count in counts.items():
            added = None if assignments is None else assignments.get(name)
            rows = None
            if added is not None:
                rows = [wire.CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in added]
            request.topics.append(wire.CreatePartitionsTopic(name=name, count=count, assignments=rows))
        response = self.cluster.request(
            request,
            wire.CreatePartitionsResponse,
            to=To.CONTROLLER,
            timeout_ms=timeout_ms,
            try_again=lambda each: controller_moved(topic.error_code for topic in each.results),
        )
        return {each.name: outcome_of(each.error_code, each.error_message, None) for each in response.results}

    def _timeout_ms(self, timeout_ms: int | None) -> int:
        return min(
            self.cluster.config.request_timeout_ms,
            self.cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms,
        )

    def _describe_paged(
        self, names: list[str], partitions_per_response: int
    ) -> dict[str, Outcome[TopicDescription]]:
        from pkafka.protocol.messages import describe_topic_partitions as wire

        found: dict[str, Outcome[TopicDescription]] = {}
        cursor = None
        left = sorted(names)
        while left:
            request = wire.DescribeTopicPartitionsRequest()
            request.topics = [wire.TopicRequest(name=name) for name in left]
            request.response_partition_limit = partitions_per_response
            request.cursor = cursor
            response = self.cluster.request(request, wire.DescribeTopicPartitionsResponse)
            for topic in response.topics:
                _merge_page(found, topic)
            after = response.next_cursor
            if after is None:
                break
            left = [name for name in left if name >= after.topic_name]
            cursor = wire.DescribeTopicPartitionsRequestCursor(
                topic_name=after.topic_name, partition_index=after.partition_index
            )
        return found


class TopicsClient(TopicsAdmin, ConnectedAdmin):
    """An admin client for topics alone: what the other requests need is not loaded."""


def _creatable(topic: NewTopic) -> "CreatableTopic":
    from pkafka.protocol.messages import create_topics as wire

    row = wire.CreatableTopic(
        name=topic.name, num_partitions=topic.partitions, replication_factor=topic.replication_factor
    )
    if topic.assignments is not None:
        row.num_partitions = row.replication_factor = -1
        row.assignments = [
            wire.CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in topic.assignments.items()
        ]
    row.configs = [
        wire.CreatableTopicConfig(name=name, value=value) for name, value in (topic.configs or {}).items()
    ]
    return row


def _described(topic: TopicView) -> Outcome[TopicDescription]:
    if topic.error:
        return ApiError(topic.error)
    return TopicDescription(
        topic.name,
        topic.topic_id,
        topic.is_internal,
        tuple(_partition_description(each) for each in topic.partitions),
    )


def _partition_description(view: PartitionView) -> PartitionDescription:
    leader = view.leader if view.leader >= 0 else None
    return PartitionDescription(view.partition, leader, tuple(view.replicas), tuple(view.isr))


def _merge_page(
    found: dict[str, Outcome[TopicDescription]], topic: "DescribeTopicPartitionsResponseTopic"
) -> None:
    """Add one topic of one page; a topic with many partitions comes in several pages."""
    name = topic.name or ""
    if topic.error_code:
        found[name] = ApiError(ErrorCode(topic.error_code))
        return
    rows = tuple(
        PartitionDescription(
            each.partition_index,
            each.leader_id if each.leader_id >= 0 else None,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
            tuple(each.eligible_leader_replicas or ()),
            tuple(each.last_known_elr or ()),
        )
        for each in topic.partitions
    )
    before = found.get(name)
    if isinstance(before, TopicDescription):
        rows = before.partitions + rows
    found[name] = TopicDescription(name, topic.topic_id, topic.is_internal, rows)
