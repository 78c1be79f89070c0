"""Quotas of clients hold through the death of each process that has a part in them."""

import pytest

from pkafka.protocol.messages.metadata import MetadataRequest
from tests.faults.conftest import MeasuredBroker
from tests.faults.family import kill, replaced
from tests.faults.wire import eventually
from tests.raw_client import RawClient
from tests.talk import talking

_CLIENT = "slow"
_CONNECTIONS = 12
"""So many come to both workers, but for one time in two thousand."""


def _set(broker: MeasuredBroker, **quotas: float | None) -> None:
    entity = frozenset({("client-id", _CLIENT)})
    with talking(broker.bootstrap) as talk:
        (outcome,) = talk.admin.alter_client_quotas({entity: quotas}).values()
    assert outcome is None


def _throttled_ms(broker: MeasuredBroker) -> list[int]:
    """For how long the client is slowed down at each of a few connections of its own."""
    clients = [RawClient(broker.bootstrap) for _ in range(_CONNECTIONS)]
    try:
        for client in clients:
            client.send(MetadataRequest(topics=[]), 9, client_id=_CLIENT)
        return [int(client.receive().throttle_time_ms) for client in clients]
    finally:
        for client in clients:
            client.close()


def test_a_worker_in_the_place_of_a_dead_one_knows_quotas_and_use(broker: MeasuredBroker) -> None:
    _set(broker, request_percentage=0.0001)
    eventually(lambda: all(_throttled_ms(broker)))
    victim = kill(broker, "worker-0")
    replaced(broker, victim, "worker-0")
    # Not from scratch: what the client has used is in memory that does not die with a worker.
    assert all(_throttled_ms(broker))
    victim = kill(broker, "worker-1")
    replaced(broker, victim, "worker-1")
    assert all(_throttled_ms(broker))


@pytest.mark.parametrize("changes", [{"request_percentage": None}, {"request_percentage": 10_000_000.0}])
def test_without_control_quotas_stay_and_its_successor_tells_of_changes(
    broker: MeasuredBroker, changes: dict[str, float | None]
) -> None:
    _set(broker, request_percentage=0.0001)
    eventually(lambda: all(_throttled_ms(broker)))
    victim = kill(broker, "control")
    assert all(_throttled_ms(broker))
    replaced(broker, victim, "control")
    assert all(_throttled_ms(broker))
    _set(broker, **changes)
    eventually(lambda: not any(_throttled_ms(broker)))
