"""Clients that go away while the broker works, or waits, for them."""

import psutil
import pytest

from pkafka.errors import ErrorCode
from pkafka.testing import Broker
from tests.faults.family import family
from tests.faults.wire import Wire, eventually, produce_when_possible

AN_HOUR_MS = 3_600_000


def connections(broker: Broker) -> list[str]:
    """The states of the connections that clients have to the workers."""
    return [
        connection.status
        for name, process in family(broker).items()
        if name.startswith("worker")
        for connection in process.net_connections(kind="tcp")
        if connection.status != psutil.CONN_LISTEN
    ]


@pytest.mark.parametrize("partitions", [[0], [1], [0, 1]])
def test_long_polls_of_dead_clients_are_forgotten(broker: Broker, partitions: list[int]) -> None:
    with Wire(broker.bootstrap) as wire:
        assert wire.create_topic("t", 2) == ErrorCode.NONE
    for partition in range(2):
        produce_when_possible(broker.bootstrap, "t", partition, [b"x"])
    clients = [Wire(broker.bootstrap) for _ in range(20)]
    for client in clients:
        client.poll("t", partitions, 1, max_wait_ms=AN_HOUR_MS)
    eventually(lambda: len(connections(broker)) == 20)
    for client in clients:
        client.close()
    eventually(lambda: connections(broker) == [])
