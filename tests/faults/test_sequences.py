"""An idempotent producer's requests on one connection, of which one waits for a replica and one is refused."""

import time
from pathlib import Path
from typing import Final

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pkafka.records.builder import build_batch
from tests.cluster import Cluster, hanging, kill_all_processes
from tests.faults.wire import PRODUCE_VERSION, Wire
from tests.interop.kafka import OracleUnavailableError, jars
from tests.raw_client import produce_request
from tests.talk import wait_for
from tests.zookeeper import running_zookeeper

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

SIZE: Final = 3
_SET: Final = 0
_TOPIC: Final = 2
SESSION_MS: Final = 18_000
"""So long a broker that hangs stays in sync, and whoever waits for it has no answer."""


def numbered(sequence: int) -> bytes:
    """A batch of one record; no broker asks where a producer has its id from."""
    records = [(int(time.time() * 1000), None, b"%d" % sequence, ())]
    return bytes(build_batch(records, producer_id=1_000, producer_epoch=0, base_sequence=sequence))


def send(wire: Wire, topic: str, data: bytes) -> None:
    wire.send(produce_request({(topic, 0): data}), PRODUCE_VERSION)


def received(wire: Wire) -> ErrorCode:
    (error, _offset) = wire.produced()[0]
    return error


@pytest.mark.parametrize(
    "kinds", ["ppp", pytest.param("kkk", marks=[pytest.mark.oracle, pytest.mark.nightly])]
)
def test_nothing_is_out_of_order_behind_a_refusal_that_was_not_answered_yet(
    tmp_path: Path, kinds: str
) -> None:
    if "k" in kinds:
        try:
            jars("kafka")
        except OracleUnavailableError as missing:
            pytest.skip(str(missing))
    overrides = {"zookeeper.session.timeout.ms": SESSION_MS, "replica.lag.time.max.ms": 120_000}
    with (
        running_zookeeper(tick_time_ms=3000) as zookeeper,  # the others' allow only shorter sessions
        Cluster(tmp_path, zookeeper.connect, kinds=kinds, overrides=overrides) as cluster,
    ):
        leader = cluster.controller()
        hung, dead = ((leader + turn) % SIZE for turn in (1, 2))
        cluster.create_topic("waits", assignment={0: (leader, hung)})
        cluster.create_topic("refuses", assignment={0: (leader, dead)}, configs={"min.insync.replicas": "2"})
        address = cluster.brokers[leader].bootstrap
        with Wire(address, timeout_s=60.0) as wire, Wire(address) as other:
            send(wire, "refuses", numbered(0))
            assert received(wire) == ErrorCode.NONE
            kill_all_processes(cluster.brokers[dead])
            # What is appended before would wait for two in sync until its time is over.
            wait_for(lambda: len(cluster.state("refuses").isr) == 1, timeout_s=60, what="one in sync")
            probe(other, ErrorCode.NOT_ENOUGH_REPLICAS)
            with hanging(cluster.brokers[hung]):
                send(wire, "waits", numbered(0))
                send(wire, "refuses", numbered(1))
                time.sleep(0.5)
                take_one_in_sync(other)
                probe(other, ErrorCode.NONE)
                send(wire, "refuses", numbered(2))
                time.sleep(0.5)
            assert received(wire) == ErrorCode.NONE
            codes = [received(wire), received(wire)]
            assert codes in ([ErrorCode.NONE] * 2, [ErrorCode.NOT_ENOUGH_REPLICAS] * 2)
            for sequence in (1, 2, 3):
                send(wire, "refuses", numbered(sequence))
            assert [received(wire) for _ in range(3)] == [ErrorCode.NONE] * 3
            _, found = other.fetch("refuses", 0, 0)
            assert [one.value for one in found if one.value != b"probe"] == [b"0", b"1", b"2", b"3"]


def take_one_in_sync(wire: Wire) -> None:
    """One replica in sync is enough for the topic that refuses; asked of its leader, since others may be away."""
    change = AlterableConfig(name="min.insync.replicas", config_operation=_SET, value="1")
    resource = AlterConfigsResource(resource_type=_TOPIC, resource_name="refuses", configs=[change])
    answer = wire.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0


def probe(wire: Wire, expected: ErrorCode) -> None:
    """Wait until a record with acks=all is answered so."""
    wait_for(
        lambda: wire.produce("refuses", 0, [b"probe"], timeout_ms=500)[0] == expected, what=expected.name
    )
