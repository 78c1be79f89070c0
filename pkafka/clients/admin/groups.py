"""Consumer groups: list, describe, delete them, read and change their offsets, and send members away."""

from collections.abc import Collection, Iterable, Mapping
from struct import Struct
from typing import TYPE_CHECKING, Final

from pkafka.clients.admin.coordinators import at_coordinators, is_moving
from pkafka.clients.admin.results import (
    BrokerInfo,
    GroupDescription,
    GroupList,
    GroupListing,
    GroupState,
    GroupType,
    MemberDescription,
    Outcome,
    error_outcome,
    outcome_of,
)
from pkafka.clients.cluster import Cluster
from pkafka.clients.errors import ClientError, UnsupportedApiError
from pkafka.clients.offsets import OffsetAndMetadata, offsets_to_store
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol import Buffer

if TYPE_CHECKING:
    from pkafka.protocol.messages import consumer_group_describe as new_wire
    from pkafka.protocol.messages import describe_groups as describe_wire
    from pkafka.protocol.messages import leave_group as leave_wire
    from pkafka.protocol.messages import list_groups as list_wire
    from pkafka.protocol.messages import offset_fetch as fetch_wire

CommittedOffsets = dict[TopicPartition, Outcome[OffsetAndMetadata | None]]

_LOADING: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE})
# What a coordinator answers that has no such group, or no groups of this kind.
_NOT_NEW: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})
_NO_GENERATION: Final = -1
# The highest version of OffsetFetch that asks for one group.
_ONE_GROUP_VERSION: Final = 7
_NO_OPERATIONS: Final = -(2**31)
_CONSUMER_PROTOCOL: Final = "consumer"
_ASSIGNMENT_VERSION_MAX: Final = 3
_VERSION: Final = Struct(">h")


class GroupsAdmin:
    """Lists, describes and changes groups; a part of :class:`pkafka.clients.admin.Admin`."""

    cluster: Cluster

    def list_groups(
        self,
        *,
        states: Collection[GroupState] = (),
        types: Collection[GroupType] = (),
        timeout_ms: int | None = None,
    ) -> GroupList:
        """The groups of all brokers, of every protocol; in no particular order.

        Args:
            states, types: only groups in one of these states, of one of these types; all when left out.

        Raises:
            UnsupportedApiError: a broker is too old for ``states`` or ``types``.
        """
        from pkafka.protocol.messages import list_groups as wire

        cluster = self.cluster
        wait_ms = cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = cluster.clock.monotonic_ms() + wait_ms
        request = wire.ListGroupsRequest()
        request.states_filter = [each.value for each in states]
        request.types_filter = [each.value for each in types]
        left = list(cluster.refresh(timeout_ms=wait_ms).brokers)
        groups: list[GroupListing] = []
        errors: dict[int, ApiError] = {}
        attempt = 0
        while True:
            left_ms = max(1, deadline_ms - cluster.clock.monotonic_ms())
            answers = cluster.request_each(
                dict.fromkeys(left, request), wire.ListGroupsResponse, timeout_ms=left_ms
            )
            for node, answer in answers.items():
                outcome = _listed(answer)
                if isinstance(outcome, ApiError):
                    errors[node] = outcome
                else:
                    errors.pop(node, None)
                    groups += outcome
            left = [node for node, error in errors.items() if error.code in _LOADING]
            if not left or cluster.clock.monotonic_ms() >= deadline_ms:
                return GroupList(tuple(groups), errors)
            cluster.pause(attempt, deadline_ms)
            attempt += 1

    def describe_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, Outcome[GroupDescription]]:
        """State and members of groups; one that does not exist is described as DEAD."""
        found = self._describe_classic(
            list(group_ids), include_operations=include_authorized_operations, timeout_ms=timeout_ms
        )
        # To the older request a group of the newer protocol does not exist.
        unknown = [
            group_id
            for group_id, outcome in found.items()
            if (isinstance(outcome, GroupDescription) and outcome.state is GroupState.DEAD)
            or (isinstance(outcome, ApiError) and outcome.code is ErrorCode.GROUP_ID_NOT_FOUND)
        ]
        if unknown:
            found |= self._describe_new(
                unknown, include_operations=include_authorized_operations, timeout_ms=timeout_ms
            )
        return found

    def _describe_new(
        self, group_ids: list[str], *, include_operations: bool, timeout_ms: int | None
    ) -> dict[str, Outcome[GroupDescription]]:
        """The groups among these whose partitions the coordinator assigns (KIP-848), if it knows such groups."""
        from pkafka.protocol.messages import consumer_group_describe as wire

        def ask(batch: list[str]) -> wire.ConsumerGroupDescribeRequest:
            return wire.ConsumerGroupDescribeRequest(
                group_ids=batch, include_authorized_operations=include_operations
            )

        def read(
            response: wire.ConsumerGroupDescribeResponse, _batch: list[str], broker: BrokerInfo
        ) -> dict[str, Outcome[GroupDescription]]:
            return {
                each.group_id: ApiError(ErrorCode(each.error_code), each.error_message)
                if each.error_code
                else _described_new(each, broker)
                for each in response.groups
            }

        try:
            found = at_coordinators(
                self.cluster,
                group_ids,
                wire.ConsumerGroupDescribeResponse,
                ask,
                read,
                timeout_ms=timeout_ms,
            )
        except UnsupportedApiError:
            return {}
        return {
            group_id: outcome
            for group_id, outcome in found.items()
            if not (isinstance(outcome, ApiError) and outcome.code in _NOT_NEW)
        }

    def _describe_classic(
        self, group_ids: list[str], *, include_operations: bool, timeout_ms: int | None
    ) -> dict[str, Outcome[GroupDescription]]:
        from pkafka.protocol.messages import describe_groups as wire

        def ask(batch: list[str]) -> wire.DescribeGroupsRequest:
            request = wire.DescribeGroupsRequest(groups=batch)
            request.include_authorized_operations = include_operations
            return request

        def read(
            response: wire.DescribeGroupsResponse, _batch: list[str], broker: BrokerInfo
        ) -> dict[str, Outcome[GroupDescription]]:
            return {
                each.group_id: ApiError(ErrorCode(each.error_code))
                if each.error_code
                else _described(each, broker)
                for each in response.groups
            }

        return at_coordinators(
            self.cluster, group_ids, wire.DescribeGroupsResponse, ask, read, timeout_ms=timeout_ms
        )

    def delete_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, Outcome[None]]:
        """Delete groups without members, with all their offsets."""
        from pkafka.protocol.messages import delete_groups as wire

        def ask(batch: list[str]) -> wire.DeleteGroupsRequest:
            return wire.DeleteGroupsRequest(groups_names=batch)

        def read(
            response: wire.DeleteGroupsResponse, _batch: list[str], _broker: BrokerInfo
        ) -> dict[str, Outcome[None]]:
            return {each.group_id: outcome_of(each.error_code, None, None) for each in response.results}

        return at_coordinators(
            self.cluster, group_ids, wire.DeleteGroupsResponse, ask, read, timeout_ms=timeout_ms
        )

    # -- offsets ------------------------------------------------------------------------------------------

    def list_group_offsets(
        self,
        groups: Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, Outcome[CommittedOffsets]]:
        """The offsets that groups have stored.

        Args:
            groups: group to the partitions to ask for; None for all that it has stored an offset of.
            require_stable: offsets of open transactions are UNSTABLE_OFFSET_COMMIT outcomes (KIP-447).

        Returns:
            Per group its partitions; None for one of them that has no offset. A group that does not exist has none.
        """
        wanted = {
            group: None if partitions is None else list(partitions) for group, partitions in groups.items()
        }
        try:
            return self._fetch_offsets(wanted, require_stable=require_stable, timeout_ms=timeout_ms)
        except UnsupportedApiError:
            found: dict[str, Outcome[CommittedOffsets]] = {}
            for group, partitions in wanted.items():
                found.update(
                    self._fetch_one(group, partitions, require_stable=require_stable, timeout_ms=timeout_ms)
                )
            return found

    def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, Outcome[None]]:
        """Store offsets for a group, which must have no members; makes the group when there is none.

        Args:
            offsets: of the next record to read, per partition.

        Raises:
            ValueError: an offset is negative.
        """
        from pkafka.protocol.messages import offset_commit as wire

        wanted = offsets_to_store(offsets)

        def ask(_batch: list[str]) -> wire.OffsetCommitRequest:
            request = wire.OffsetCommitRequest(group_id=group_id)
            request.generation_id_or_member_epoch = _NO_GENERATION
            for topic, indexes in _by_topic(wanted).items():
                row = wire.OffsetCommitRequestTopic(name=topic)
                for index in indexes:
                    at = wanted[TopicPartition(topic, index)]
                    epoch = -1 if at.leader_epoch is None else at.leader_epoch
                    row.partitions.append(
                        wire.OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=at.offset,
                            committed_leader_epoch=epoch,
                            committed_metadata=at.metadata,
                        )
                    )
                request.topics.append(row)
            return request

        def read(
            response: wire.OffsetCommitResponse, _batch: list[str], _broker: BrokerInfo
        ) -> dict[str, Outcome[dict[TopicPartition, Outcome[None]]]]:
            outcomes: dict[TopicPartition, Outcome[None]] = {
                TopicPartition(topic.name, each.partition_index): outcome_of(each.error_code, None, None)
                for topic in response.topics
                for each in topic.partitions
            }
            return {group_id: _group_error(outcomes) or outcomes}

        found = at_coordinators(
            self.cluster, [group_id], wire.OffsetCommitResponse, ask, read, timeout_ms=timeout_ms
        )
        return _spread(found[group_id], wanted)

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Outcome[None]]:
        """Delete offsets that a group has stored; its members may not subscribe to the topic (KIP-496)."""
        from pkafka.protocol.messages import offset_delete as wire

        wanted = list(partitions)

        def ask(_batch: list[str]) -> wire.OffsetDeleteRequest:
            request = wire.OffsetDeleteRequest(group_id=group_id)
            for topic, indexes in _by_topic(wanted).items():
                row = wire.OffsetDeleteRequestTopic(name=topic)
                row.partitions = [wire.OffsetDeleteRequestPartition(partition_index=each) for each in indexes]
                request.topics.append(row)
            return request

        def read(
            response: wire.OffsetDeleteResponse, _batch: list[str], _broker: BrokerInfo
        ) -> dict[str, Outcome[dict[TopicPartition, Outcome[None]]]]:
            if response.error_code:
                return {group_id: ApiError(ErrorCode(response.error_code))}
            return {
                group_id: {
                    TopicPartition(topic.name, each.partition_index): outcome_of(each.error_code, None, None)
                    for topic in response.topics
                    for each in topic.partitions
                }
            }

        found = at_coordinators(
            self.cluster, [group_id], wire.OffsetDeleteResponse, ask, read, timeout_ms=timeout_ms
        )
        return _spread(found[group_id], wanted)

    # -- members ------------------------------------------------------------------------------------------

    def remove_members(
        self,
        group_id: str,
        instance_ids: Iterable[str] | None = None,
        *,
        reason: str | None = None,
        timeout_ms: int | None = None,
    ) -> dict[str, Outcome[None]]:
        """Send members of a group away; the others share its partitions at once.

        Args:
            instance_ids: static members by ``group.instance.id``; None for all members of any kind.
            reason: for the coordinator's log (KIP-800).

        Returns:
            Outcomes by instance id, or by member id for members that have none.

        Raises:
            ApiError: the group cannot be described, where all members were meant.
        """
        from pkafka.protocol.messages import leave_group as wire

        if instance_ids is None:
            members = self._identities(group_id, timeout_ms)
        else:
            members = {each: wire.MemberIdentity(group_instance_id=each) for each in instance_ids}
        for each in members.values():
            each.reason = reason

        def ask(_batch: list[str]) -> wire.LeaveGroupRequest:
            return wire.LeaveGroupRequest(group_id=group_id, members=list(members.values()))

        def read(
            response: wire.LeaveGroupResponse, _batch: list[str], _broker: BrokerInfo
        ) -> dict[str, Outcome[dict[str, Outcome[None]]]]:
            if response.error_code:
                return {group_id: ApiError(ErrorCode(response.error_code))}
            return {
                group_id: {
                    each.group_instance_id or each.member_id: outcome_of(each.error_code, None, None)
                    for each in response.members
                }
            }

        if not members:
            return {}
        found = at_coordinators(
            self.cluster, [group_id], wire.LeaveGroupResponse, ask, read, timeout_ms=timeout_ms
        )[group_id]
        return dict.fromkeys(members, found) if isinstance(found, ApiError) else found

    # -- inside -------------------------------------------------------------------------------------------

    def _identities(self, group_id: str, timeout_ms: int | None) -> "dict[str, leave_wire.MemberIdentity]":
        from pkafka.protocol.messages.leave_group import MemberIdentity

        described = self.describe_groups([group_id], timeout_ms=timeout_ms)[group_id]
        if isinstance(described, ApiError):
            raise described
        return {
            each.group_instance_id or each.member_id: MemberIdentity(
                member_id="" if each.group_instance_id else each.member_id,
                group_instance_id=each.group_instance_id,
            )
            for each in described.members
        }

    def _fetch_offsets(
        self,
        groups: Mapping[str, list[TopicPartition] | None],
        *,
        require_stable: bool,
        timeout_ms: int | None,
    ) -> dict[str, Outcome[CommittedOffsets]]:
        from pkafka.protocol.messages import offset_fetch as wire

        def ask(batch: list[str]) -> wire.OffsetFetchRequest:
            request = wire.OffsetFetchRequest(require_stable=require_stable)
            for group in batch:
                row = wire.OffsetFetchRequestGroup(group_id=group, topics=None)
                partitions = groups[group]
                if partitions is not None:
                    row.topics = [
                        wire.OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
                        for topic, indexes in _by_topic(partitions).items()
                    ]
                request.groups.append(row)
            return request

        def read(
            response: wire.OffsetFetchResponse, _batch: list[str], _broker: BrokerInfo
        ) -> dict[str, Outcome[CommittedOffsets]]:
            return {
                each.group_id: ApiError(ErrorCode(each.error_code))
                if each.error_code
                else _committed(each.topics)
                for each in response.groups
            }

        return at_coordinators(
            self.cluster, groups, wire.OffsetFetchResponse, ask, read, timeout_ms=timeout_ms
        )

    def _fetch_one(
        self,
        group_id: str,
        partitions: list[TopicPartition] | None,
        *,
        require_stable: bool,
        timeout_ms: int | None,
    ) -> dict[str, Outcome[CommittedOffsets]]:
        """As :meth:`_fetch_offsets`, of one group, from a broker that knows only one at a time."""
        from pkafka.protocol.messages import offset_fetch as wire

        def ask(_batch: list[str]) -> wire.OffsetFetchRequest:
            request = wire.OffsetFetchRequest(group_id=group_id, require_stable=require_stable, topics=None)
            if partitions is not None:
                request.topics = [
                    wire.OffsetFetchRequestTopic(name=topic, partition_indexes=indexes)
                    for topic, indexes in _by_topic(partitions).items()
                ]
            return request

        def read(
            response: wire.OffsetFetchResponse, _batch: list[str], _broker: BrokerInfo
        ) -> dict[str, Outcome[CommittedOffsets]]:
            if response.error_code:
                return {group_id: ApiError(ErrorCode(response.error_code))}
            return {group_id: _committed(response.topics)}

        return at_coordinators(
            self.cluster,
            [group_id],
            wire.OffsetFetchResponse,
            ask,
            read,
            timeout_ms=timeout_ms,
            max_version=_ONE_GROUP_VERSION,
        )


def _listed(answer: "list_wire.ListGroupsResponse | ClientError") -> Outcome[list[GroupListing]]:
    if isinstance(answer, ClientError):
        return error_outcome(answer)
    if answer.error_code:
        return ApiError(ErrorCode(answer.error_code))
    return [
        GroupListing(
            each.group_id,
            each.protocol_type,
            GroupState.parse(each.group_state),
            GroupType.parse(each.group_type),
        )
        for each in answer.groups
    ]


def _described(group: "describe_wire.DescribedGroup", coordinator: BrokerInfo) -> GroupDescription:
    allowed = group.authorized_operations
    return GroupDescription(
        group.group_id,
        group.protocol_type,
        group.protocol_data,
        GroupState.parse(group.group_state),
        GroupType.CLASSIC,
        tuple(_member(each, group.protocol_type) for each in group.members),
        coordinator,
        None if allowed == _NO_OPERATIONS else allowed,
    )


def _described_new(group: "new_wire.DescribedGroup", coordinator: BrokerInfo) -> GroupDescription:
    allowed = group.authorized_operations
    return GroupDescription(
        group.group_id,
        _CONSUMER_PROTOCOL,
        group.assignor_name,
        GroupState.parse(group.group_state),
        GroupType.CONSUMER,
        tuple(
            MemberDescription(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                tuple(
                    TopicPartition(topic.topic_name, partition)
                    for topic in each.assignment.topic_partitions
                    for partition in topic.partitions
                ),
                b"",
                b"",
            )
            for each in group.members
        ),
        coordinator,
        None if allowed == _NO_OPERATIONS else allowed,
    )


def _member(member: "describe_wire.DescribedGroupMember", protocol_type: str) -> MemberDescription:
    assignment: tuple[TopicPartition, ...] = ()
    if protocol_type == _CONSUMER_PROTOCOL and member.member_assignment:
        assignment = _assigned(member.member_assignment)
    return MemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        assignment,
        bytes(member.member_metadata),
        bytes(member.member_assignment),
    )


def _assigned(data: Buffer) -> tuple[TopicPartition, ...]:
    """What consumers of any version are assigned; read here as the consumer itself takes long to import."""
    from pkafka.protocol.codec import decode_prefix
    from pkafka.protocol.messages.records.consumer_protocol import ConsumerProtocolAssignment

    (version,) = _VERSION.unpack_from(data)
    known = max(0, min(version, _ASSIGNMENT_VERSION_MAX))
    message, _ = decode_prefix(ConsumerProtocolAssignment, known, data, _VERSION.size)
    return tuple(
        TopicPartition(topic.topic, partition)
        for topic in message.assigned_partitions
        for partition in topic.partitions
    )


def _committed(
    topics: "Iterable[fetch_wire.OffsetFetchResponseTopic | fetch_wire.OffsetFetchResponseTopics]",
) -> CommittedOffsets:
    return {
        TopicPartition(topic.name, each.partition_index): _position(each)
        for topic in topics
        for each in topic.partitions
    }


def _position(
    row: "fetch_wire.OffsetFetchResponsePartition | fetch_wire.OffsetFetchResponsePartitions",
) -> Outcome[OffsetAndMetadata | None]:
    if row.error_code:
        return ApiError(ErrorCode(row.error_code))
    if row.committed_offset < 0:  # a client may commit any number; Kafka's tools take a negative one for none
        return None
    epoch = row.committed_leader_epoch
    return OffsetAndMetadata(row.committed_offset, row.metadata or "", None if epoch < 0 else epoch)


def _group_error(outcomes: Mapping[TopicPartition, Outcome[None]]) -> ApiError | None:
    """An error that says that another broker coordinates the group now; OffsetCommit has it at each partition."""
    return next((each for each in outcomes.values() if is_moving(each)), None)


def _spread(
    found: Outcome[dict[TopicPartition, Outcome[None]]], partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Outcome[None]]:
    """Outcomes per partition, also where the whole group has one error."""
    return dict.fromkeys(partitions, found) if isinstance(found, ApiError) else found


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics
