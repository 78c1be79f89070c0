"""Offsets of open transactions in a log with which the other kind of broker goes on: each reads the other's."""

from pathlib import Path

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.group_requests import offset_fetch_request
from tests.interop.one_of_each import (
    STATE_PARTITIONS,
    TOPIC,
    one_of_each,
    prepare,
    wait_for_end_of_session,
)
from tests.interop.test_txn_offsets import TransactionScript, Writer
from tests.transaction_client import TransactionClient
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

UNSTABLE = int(ErrorCode.UNSTABLE_OFFSET_COMMIT)
GROUP, DELETED = "moved", "deleted"


def stable(script: TransactionScript, group: str) -> list[int]:
    """What a reader of stable offsets gets of three partitions: the offset, or minus the error."""
    request = offset_fetch_request([(group, {TOPIC: [0, 1, 2]})], 8, require_stable=True)
    [found] = script.client.call(request, 8).groups
    assert found.error_code == 0
    [topic] = found.topics
    places = sorted(topic.partitions, key=lambda one: one.partition_index)
    return [-one.error_code or one.committed_offset for one in places]


def leave(script: TransactionScript) -> list[Writer]:
    """Two open transactions over one group, a plain commit among them, and a group that was deleted in one of them."""
    writers = [script.init(f"writer-{number}") for number in range(2)]
    for group in (GROUP, DELETED):
        script.coordinate(group)
        for writer in writers:
            script.begin(writer, group)
    script.commit(GROUP, {(TOPIC, 0): 1, (TOPIC, 1): 1, (TOPIC, 2): 1})
    script.store(writers[0], GROUP, {(TOPIC, 0): 5, (TOPIC, 1): 5})
    script.store(writers[0], GROUP, {(TOPIC, 0): 6})
    script.store(writers[1], GROUP, {(TOPIC, 1): 7, (TOPIC, 2): 7})
    script.commit(GROUP, {(TOPIC, 2): 2})
    script.commit(DELETED, {(TOPIC, 0): 1})
    script.store(writers[0], DELETED, {(TOPIC, 0): 5, (TOPIC, 1): 5})
    [result] = script.client.call(DeleteGroupsRequest(groups_names=[DELETED]), 2).results
    assert result.error_code == 0
    return writers


@pytest.mark.parametrize("first", ["kafka", "pkafka"])
def test_the_other_broker_goes_on(
    kafka_classpath: str, zookeeper: ZooKeeper, tmp_path: Path, first: str
) -> None:
    made = one_of_each(kafka_classpath, zookeeper.connect, tmp_path, shared=True)
    one, other = made.brokers if first == "kafka" else made.brokers[::-1]
    try:
        one.start()
        prepare(one.bootstrap, made.connects[0])
        with TransactionScript(one.bootstrap) as script:
            writers = leave(script)
            assert stable(script, GROUP) == [-UNSTABLE] * 3
        one.kill()
        wait_for_end_of_session(made.connects[0])
        other.start()
        with TransactionClient(other.bootstrap) as client:
            client.coordinate(STATE_PARTITIONS)
        with TransactionScript(other.bootstrap) as script:
            for group in (GROUP, DELETED):
                script.coordinate(group)
            assert stable(script, GROUP) == [-UNSTABLE] * 3
            script.store(writers[1], GROUP, {(TOPIC, 0): 8})
            script.end(writers[0])
            assert stable(script, GROUP) == [-UNSTABLE] * 3
            script.end(writers[1], commit=False)
            assert stable(script, GROUP) == [6, 5, 2]
            # Kafka writes no tombstones for what is deleted in a transaction, so it comes back.
            assert stable(script, DELETED) == ([-1, -1, -1] if first == "pkafka" else [5, 5, -1])
    finally:
        made.kill()
