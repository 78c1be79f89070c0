"""Offsets in transactions, legal and not, at every version: Apache Kafka and pkafka answer the same to each script."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol import registry
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pkafka.protocol.messages.delete_groups import DeleteGroupsRequest
from pkafka.protocol.messages.describe_transactions import DescribeTransactionsRequest
from pkafka.protocol.messages.end_txn import EndTxnRequest
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest
from pkafka.protocol.messages.leave_group import LeaveGroupRequest
from pkafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pkafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.differences import differences
from tests.group_requests import subscription
from tests.interop.conftest import System
from tests.interop.test_group_requests import Script
from tests.raw_client import RawClient
from tests.talk import talking, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TOPIC: Final = "txn-offsets"
GONE: Final = "txn-offsets-gone"
MISSING: Final = "txn-offsets-missing"
VERSIONS: Final = registry.versions(ApiKey.TXN_OFFSET_COMMIT)
WITH_MEMBERS: Final = 3
_OVER: Final = ("Empty", "CompleteCommit", "CompleteAbort")
_PASSING: Final = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class Writer(NamedTuple):
    """A producer with a transactional id."""

    transactional_id: str
    producer_id: int
    epoch: int


class TransactionScript(Script):
    """One connection to one system, for producers and for groups, and all that was answered on it."""

    def init(self, transactional_id: str) -> Writer:
        """A producer; what its predecessor left is aborted."""
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=600_000)
        found: list[Any] = []

        def is_there() -> bool:
            found[:] = [self.client.call(request, 4)]
            return not found[0].error_code

        wait_for(is_there, what="a producer id")
        return Writer(transactional_id, found[0].producer_id, found[0].producer_epoch)

    def begin(self, writer: Writer, group: str) -> None:
        """Put the offsets of a group into the writer's transaction."""
        request = AddOffsetsToTxnRequest(
            transactional_id=writer.transactional_id,
            producer_id=writer.producer_id,
            producer_epoch=writer.epoch,
            group_id=group,
        )
        wait_for(lambda: self.client.call(request, 3).error_code not in _PASSING, what="the last transaction")

    def store(
        self,
        writer: Writer,
        group: str,
        offsets: Mapping[tuple[str, int], Any],
        version: int = 3,
        **member: Any,
    ) -> Any:
        """TxnOffsetCommit."""
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for (topic, index), offset in offsets.items():
            value, metadata = offset if isinstance(offset, tuple) else (offset, "")
            one = TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=value, committed_metadata=metadata
            )
            topics.setdefault(
                topic, TxnOffsetCommitRequestTopic(name=topic, partitions=[])
            ).partitions.append(one)
        request = TxnOffsetCommitRequest(
            transactional_id=writer.transactional_id,
            group_id=group,
            producer_id=writer.producer_id,
            producer_epoch=writer.epoch,
            topics=[*topics.values()],
            **member,
        )
        return self.ask(request, version)

    def end(self, writer: Writer, *, commit: bool = True) -> None:
        """End the transaction, and wait until its markers are written."""
        request = EndTxnRequest(
            transactional_id=writer.transactional_id,
            producer_id=writer.producer_id,
            producer_epoch=writer.epoch,
            committed=commit,
        )
        self.ask(request, 3)
        describe = DescribeTransactionsRequest(transactional_ids=[writer.transactional_id])
        wait_for(
            lambda: self.client.call(describe, 0).transaction_states[0].transaction_state in _OVER,
            what="the end of the transaction",
        )

    def fetch_all(self, group: str) -> None:
        """What there is, for readers that want stable offsets and for others, at several versions."""
        for stable in (False, True):
            for version in (1, 5, 6, 7, 8, 9):
                if stable and version < 7:
                    continue
                for wanted in (None, {TOPIC: [0, 1, 2, 9], MISSING: [0]}):
                    if wanted is None and version < 2:
                        continue
                    self.ask(_fetch_request(group, wanted, version, stable=stable), version)


def _fetch_request(
    group: str, wanted: Mapping[str, list[int]] | None, version: int, *, stable: bool
) -> OffsetFetchRequest:
    topics: Any = None
    if wanted is not None:
        topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=parts) for name, parts in wanted.items()
        ]
    if version >= 8:
        groups = [OffsetFetchRequestGroup(group_id=group, topics=topics)]
        return OffsetFetchRequest(groups=groups, require_stable=stable)
    return OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable)


def every_version(script: TransactionScript, group: str) -> None:
    """From AddOffsetsToTxn to the marker, with partitions that there are and that there are not."""
    writer = script.init(group)
    for version in VERSIONS:
        for commit in (True, False):
            script.begin(writer, group)
            offset = 100 * version + int(commit)
            script.store(
                writer,
                group,
                {(TOPIC, 0): (offset, "m"), (TOPIC, 9): 1, (MISSING, 0): 1, (TOPIC, 2): (offset, None)},
                version,
            )
            script.fetch_all(group)
            script.store(writer, group, {(TOPIC, 0): (offset + 1, "n")}, version)
            script.store(writer, group, {(MISSING, 0): 1}, version)
            script.store(writer, group, {}, version)
            script.end(writer, commit=commit)
            script.fetch_all(group)


def without_a_transaction(script: TransactionScript, group: str) -> None:
    """The group's partition was not added: before the first, after the last, and in another group's transaction."""
    writer = script.init(group)
    for version in VERSIONS:
        script.store(writer, group, {(TOPIC, 0): 1}, version)
    script.describe(group)
    script.list(prefix=group)
    script.begin(writer, group)
    script.store(writer, group, {(TOPIC, 0): 2})
    script.end(writer)
    for version in VERSIONS:
        script.store(writer, group, {(TOPIC, 0): 3, (MISSING, 0): 1}, version)
    script.fetch_all(group)


def strangers(script: TransactionScript, group: str) -> None:
    """Producers that the coordinator does not know, or knows with another id or epoch."""
    writer = script.init(group)
    for begun in (False, True):
        if begun:
            script.begin(writer, group)
            script.store(writer, group, {(TOPIC, 0): 1})
        for version in VERSIONS:
            for other in (
                writer._replace(transactional_id=f"{group}-unknown"),
                writer._replace(transactional_id=""),
                writer._replace(producer_id=writer.producer_id + 5_000_000),
                writer._replace(producer_id=-1, epoch=-1),
                writer._replace(epoch=writer.epoch + 1) if not begun else writer,
            ):
                script.store(other, group, {(TOPIC, 1): 2}, version)
        script.fetch_all(group)
    script.end(writer)
    script.fetch_all(group)


def zombies(script: TransactionScript, group: str) -> None:
    """A producer whose successor has begun, before and after the successor writes.

    The last offsets of the zombie are those of another partition: in Kafka they take the successor's away, although
    they are refused (GroupMetadata.failPendingTxnOffsetCommit); after a restart the successor's are back.
    """
    zombie = script.init(group)
    script.begin(zombie, group)
    script.store(zombie, group, {(TOPIC, 0): 1})
    writer = script.init(group)
    for version in VERSIONS:
        script.store(zombie, group, {(TOPIC, 0): 2}, version)
    script.fetch_all(group)
    script.begin(writer, group)
    for version in VERSIONS:
        script.store(zombie, group, {(TOPIC, 0): 3}, version)
    script.store(writer, group, {(TOPIC, 0): 4})
    for version in VERSIONS:
        script.store(zombie, group, {(TOPIC, 1): 5}, version)
    script.end(writer)
    script.fetch_all(group)


def members(script: TransactionScript, group: str) -> None:
    """The group has a member: who may store offsets for it (KIP-447)."""
    member, generation = script.settle(group, metadata=subscription(TOPIC))
    writer = script.init(group)
    script.begin(writer, group)
    place = {(TOPIC, 0): 5}
    for version in VERSIONS:
        script.store(writer, group, place, version)
        if version < WITH_MEMBERS:
            continue
        script.store(writer, group, place, version, member_id=member, generation_id=generation)
        script.store(writer, group, place, version, member_id=member, generation_id=generation + 1)
        script.store(writer, group, place, version, member_id="nobody", generation_id=generation)
        script.store(writer, group, place, version, member_id=member)
        script.store(writer, group, place, version, generation_id=generation)
        script.store(
            writer, group, place, version, member_id=member, generation_id=generation, group_instance_id="i"
        )
    script.ask(DeleteGroupsRequest(groups_names=[group]), 1)
    script.delete_offsets(group, (TOPIC, 0))
    script.ask(LeaveGroupRequest(group_id=group, member_id=member), 1)
    script.store(writer, group, place, member_id=member, generation_id=generation)
    script.store(writer, group, {(TOPIC, 1): 6})
    script.end(writer)
    script.fetch_all(group)
    script.describe(group)


def empty_group(script: TransactionScript, group: str) -> None:
    """The group without a name, which plain commits know."""
    writer = script.init(group)
    script.coordinate("")
    script.begin(writer, "")
    for version in VERSIONS:
        script.store(writer, "", {(TOPIC, 0): 1}, version)
    script.end(writer, commit=False)


def beside_plain_commits(script: TransactionScript, group: str) -> None:
    """The record that comes last wins, however late its transaction ends."""
    first, second = script.init(f"{group}-1"), script.init(f"{group}-2")
    for writer in (first, second):
        script.begin(writer, group)
    script.store(first, group, {(TOPIC, 0): 1, (TOPIC, 1): 1, (TOPIC, 2): 1})
    script.store(second, group, {(TOPIC, 1): 2})
    script.commit(group, {(TOPIC, 2): 3})
    script.fetch_all(group)
    script.end(second)
    script.fetch_all(group)
    script.end(first)
    script.fetch_all(group)


def large_metadata(script: TransactionScript, group: str) -> None:
    """What is refused leaves nothing pending."""
    writer = script.init(group)
    script.begin(writer, group)
    for version in VERSIONS:
        # The last one is longer than any string that Kafka reads; versions before cannot name it.
        for size in (4_097, 32_767, 32_768)[: 2 if version < WITH_MEMBERS else 3]:
            script.store(writer, group, {(TOPIC, 0): (1, "x" * size)}, version)
        script.fetch_all(group)
    script.store(writer, group, {(TOPIC, 0): (1, "\U0001f600" * 2049), (TOPIC, 1): (1, "\U0001f600" * 2048)})
    script.fetch_all(group)
    script.end(writer)
    script.fetch_all(group)


def deleting(script: TransactionScript, group: str) -> None:
    """Offsets and groups that are deleted while a transaction is open."""
    writer = script.init(group)
    for is_whole_group in (False, True):
        script.commit(group, {(TOPIC, 0): 1})
        script.begin(writer, group)
        script.store(writer, group, {(TOPIC, 0): 2, (TOPIC, 1): 2})
        if is_whole_group:
            script.ask(DeleteGroupsRequest(groups_names=[group]), 2)
        else:
            script.delete_offsets(group, (TOPIC, 0), (TOPIC, 1), (TOPIC, 2))
        script.fetch_all(group)
        script.describe(group)
        script.end(writer)
        script.fetch_all(group)
        script.list(prefix=group)


def topic_goes(script: TransactionScript, group: str) -> None:
    """The offsets of a deleted topic go, also those of an open transaction."""
    writer = script.init(group)
    script.begin(writer, group)
    with talking(script.bootstrap) as talk:
        talk.create(GONE)
        script.store(writer, group, {(GONE, 0): 1, (TOPIC, 0): 1})
        script.commit(group, {(GONE, 0): 1})
        talk.delete(GONE)
        request = OffsetFetchRequest(group_id=group, topics=None)
        wait_for(lambda: not script.client.call(request, 5).topics, what="the end of the offsets")
    script.end(writer)
    script.fetch_all(group)


def finding(script: TransactionScript, group: str) -> None:
    """Coordinators of transactional ids, one and several at a time (KIP-699), by version."""
    names = [group, group, "", "x" * 10_000, "\u00fc\U0001f600", "a/b"]
    for version in registry.versions(ApiKey.FIND_COORDINATOR):
        if version < 1:
            continue  # there are only groups
        if version >= 4:
            script.ask(FindCoordinatorRequest(coordinator_keys=names, key_type=1), version)
            script.ask(FindCoordinatorRequest(coordinator_keys=[], key_type=1), version)
            continue
        for name in names:
            script.ask(FindCoordinatorRequest(key=name, key_type=1), version)


SCRIPTS: Final[list[Callable[[TransactionScript, str], None]]] = [
    every_version,
    without_a_transaction,
    strangers,
    zombies,
    members,
    empty_group,
    beside_plain_commits,
    large_metadata,
    deleting,
    topic_goes,
    finding,
]


@pytest.fixture(scope="module")
def systems(kafka: System | None, pkafka: System | None) -> list[System]:
    """Both, with the topic that the scripts name, and the topics of groups and of transactions."""
    found = [system for system in (kafka, pkafka) if system is not None]
    for system in found:
        with talking(system.bootstrap) as talk, RawClient(system.bootstrap) as client:
            talk.create(TOPIC, 3)
            for key_type in (0, 1):
                _find_first(client, key_type)
    return found


def _find_first(client: RawClient, key_type: int) -> None:
    request = FindCoordinatorRequest(key="g", key_type=key_type)
    wait_for(lambda: not client.call(request, 1).error_code, what="a coordinator")


@pytest.mark.parametrize("play", SCRIPTS, ids=[script.__name__ for script in SCRIPTS])
def test_kafka_and_pkafka_answer_the_same(
    systems: list[System], play: Callable[[TransactionScript, str], None]
) -> None:
    outcomes = []
    for system in systems:
        script = TransactionScript(system.bootstrap)
        name = f"txn-{play.__name__}"
        script.coordinate(name)
        play(script, name)
        script.client.close()
        outcomes.append(script.answers)
    for other in outcomes[1:]:
        found = list(differences(outcomes[0], other))
        assert not found, "\n".join(found)
