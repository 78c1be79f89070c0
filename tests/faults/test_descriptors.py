"""Too many open files: what is open goes on, what comes later waits, and nobody dies."""

import contextlib
import socket

import psutil

from pkafka.errors import ErrorCode
from pkafka.server.replicas.partitions import owner_of
from pkafka.testing import Broker
from tests.faults.family import family
from tests.faults.wire import Wire, eventually, read_all

SPARE = 12


def limit(process: psutil.Process, descriptors: int) -> None:
    process.rlimit(psutil.RLIMIT_NOFILE, (descriptors, process.rlimit(psutil.RLIMIT_NOFILE)[1]))


def test_idle_connections_take_every_descriptor(broker: Broker) -> None:
    before = {name: child.pid for name, child in family(broker).items()}
    workers = [child for name, child in family(broker).items() if name.startswith("worker")]
    with Wire(broker.bootstrap) as wire, Wire(broker.bootstrap) as other:
        assert wire.create_topic("t", 2) == ErrorCode.NONE
        for partition, settled in enumerate((wire, other)):
            # A connection that asks for one partition only has moved to its owner after this.
            for number in range(10):
                eventually(
                    lambda: settled.produce("t", partition, [b"x"]) == (ErrorCode.NONE, number)  # noqa: B023
                )
        for worker in workers:
            limit(worker, worker.num_fds() + SPARE)
        with contextlib.ExitStack() as idle:
            for _ in range(8 * SPARE):
                idle.enter_context(socket.create_connection((broker.host, broker.port)))
            eventually(lambda: "Cannot accept connections" in broker.log_tail())
            for number in range(10, 20):
                for partition, settled in enumerate((wire, other)):
                    assert settled.produce("t", partition, [b"x"]) == (ErrorCode.NONE, number)
    # Room again: the connections in the queue were closed by now, new ones are taken.
    for partition in range(2):
        assert len(read_all(broker.bootstrap, "t", partition)) == 20
    assert {name: child.pid for name, child in family(broker).items()} == before


def test_a_lent_file_that_found_no_room_is_lent_again(broker: Broker) -> None:
    """A worker that cannot take the descriptor of a segment must not believe for ever that it has it."""
    with Wire(broker.bootstrap) as wire:
        assert wire.create_topic("t", 2) == ErrorCode.NONE
        for partition in range(2):
            eventually(lambda: wire.produce("t", partition, [b"x"])[0] == ErrorCode.NONE)  # noqa: B023
        readers = {index: family(broker)[f"worker-{index}"] for index in range(2)}
        for worker in readers.values():
            limit(worker, worker.num_fds())
        # Whichever worker has this connection, one of the partitions is the other's.
        outcomes = [wire.fetch("t", partition, 0) for partition in range(2)]
        assert sorted(bool(records) for _error, records in outcomes) in ([False, True], [True, True])
        for worker in readers.values():
            limit(worker, worker.num_fds() + 100)
        for partition in range(2):
            assert owner_of("t", partition, 2) in readers
            assert wire.fetch("t", partition, 0)[1][0].value == b"x"
