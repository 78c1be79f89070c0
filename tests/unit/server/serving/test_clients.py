"""Connections move between the workers of a broker."""

import asyncio
import socket
from pathlib import Path

from pkafka.errors import ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import decode_response, encode_request
from pkafka.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from pkafka.server.processes.worker import Worker
from pkafka.server.serving.connection_state import ConnectionState
from tests.unit.server.workers import Family, until, with_family


class Client:
    """A client that the kernel has given to one of the workers.

    Args:
        worker: that one.
    """

    def __init__(self, worker: Worker) -> None:
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        theirs.setblocking(False)
        worker.clients.admit("PLAINTEXT", "127.0.0.1")
        worker.clients.accept("PLAINTEXT", theirs, "127.0.0.1")

    async def end_transaction(self, transactional_id: str) -> int:
        """The code that the client hears."""
        loop = asyncio.get_running_loop()
        request = encode_request(
            ApiKey.END_TXN, 1, 1, "c", EndTxnRequest(transactional_id=transactional_id, producer_id=1)
        )
        await loop.sock_sendall(self.socket, request)
        answer = await asyncio.wait_for(loop.sock_recv(self.socket, 1_000), 20)
        response = decode_response(ApiKey.END_TXN, 1, answer[4:])[1]
        assert isinstance(response, EndTxnResponse)
        return response.error_code


def id_of(worker: Worker) -> str:
    """A transactional id that a worker coordinates."""
    owner_of = worker.transaction_routing.owner_of
    return next(name for name in map(str, range(100)) if owner_of(name) == worker.index)


def test_a_producer_moves_to_the_coordinator_of_its_id_and_stays(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        first, second = family.workers
        client = Client(first)
        assert await client.end_transaction(id_of(second)) == ErrorCode.NOT_COORDINATOR
        await until(lambda: not first.clients.connections)
        (connection,) = second.clients.connections
        # An id of the first one goes by a frame: an admin client has many ids, and would move at every request.
        assert await client.end_transaction(id_of(first)) == ErrorCode.NOT_COORDINATOR
        # Neither do records bring it back.
        assert second.clients.hand_over(connection, first.index) is None
        assert second.clients.connections == {connection}
        client.socket.close()
        await until(lambda: not second.clients.connections)

    with_family(tmp_path, body)


def test_a_producer_that_moved_for_its_records_moves_to_its_coordinator_once_more(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        first, second = family.workers
        client = Client(first)
        (connection,) = first.clients.connections
        assert isinstance(connection.state, ConnectionState)
        connection.state.moves = 3
        assert first.clients.hand_over(connection, second.index) is None
        assert await client.end_transaction(id_of(second)) == ErrorCode.NOT_COORDINATOR
        assert len(second.clients.connections) == 1
        client.socket.close()
        await until(lambda: not second.clients.connections)

    with_family(tmp_path, body)
