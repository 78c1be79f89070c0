"""Connections move between the workers of a broker."""

import asyncio
import contextlib
import logging
import socket
import ssl
from pathlib import Path

import pytest

from pkafka.errors import ErrorCode
from pkafka.net.tls import TlsStream
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import decode_response, encode_request
from pkafka.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from pkafka.security.principal import Principal
from pkafka.server.processes.worker import Worker
from pkafka.server.security.authorizer import ACL_AUTHORIZER, AclAuthorizer
from pkafka.server.serving.connection_state import ConnectionState
from tests.unit.server.security.stores import AUTHORITY, Stores
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


def shaking_hands(directory: Path, **settings: str) -> tuple[dict[str, str], ssl.SSLContext]:
    """Settings of a broker with TLS that wants certificates, and the context of a client that has one."""
    stores = Stores(directory)
    (directory / "family").mkdir()
    originals = stores.config(ssl_client_auth="required", **settings).originals
    keys = {key: text for key, text in originals.items() if key.startswith("ssl.")}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=AUTHORITY.pem.decode())
    context.load_cert_chain(directory / "own.pem")
    return {"listener.security.protocol.map": "PLAINTEXT:SSL", **keys}, context


async def shaken(worker: Worker, context: ssl.SSLContext) -> tuple[socket.socket, TlsStream]:
    """A client that has shaken hands with a worker."""
    ours, theirs = socket.socketpair()
    for sock in (ours, theirs):
        sock.setblocking(False)
    worker.clients.admit("PLAINTEXT", "127.0.0.1")
    worker.clients.take_in("PLAINTEXT", theirs, "127.0.0.1")
    assert worker.clients.count_by_listener() == {"PLAINTEXT": 1}
    stream = TlsStream(ours, context, "one.example")
    await until(stream.handshake)
    return ours, stream


def test_a_client_is_known_by_its_certificate_and_does_not_move(tmp_path: Path) -> None:
    settings, context = shaking_hands(tmp_path)

    async def body(family: Family) -> None:
        first, second = family.workers
        ours, _ = await shaken(first, context)
        await until(lambda: bool(first.clients.connections))
        (connection,) = first.clients.connections
        state = connection.state
        assert isinstance(state, ConnectionState)
        assert state.principal == Principal("User", "CN=broker")
        assert first.clients.hand_over(connection, second.index) is None
        assert first.clients.settle(connection, second.index) is None
        ours.close()
        await until(lambda: not first.clients.connections)

    with_family(tmp_path / "family", body, settings=settings)


def test_a_client_for_whose_certificate_there_is_no_rule_is_disconnected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings, context = shaking_hands(tmp_path, ssl_principal_mapping_rules="RULE:O=.*/x/")

    async def body(family: Family) -> None:
        (worker,) = family.workers
        ours, stream = await shaken(worker, context)
        await until(lambda: not worker.clients.count_by_listener())
        with contextlib.suppress(BlockingIOError):
            stream.recv_into(memoryview(bytearray(10)))  # what came with the end of the handshake: nothing
        await until(stream.has_ended)
        ours.close()

    with caplog.at_level(logging.INFO):
        with_family(tmp_path / "family", body, workers=1, settings=settings)
    assert "Failed authentication with 127.0.0.1" in caplog.text
    assert "no rule of ssl.principal.mapping.rules is for 'CN=broker'" in caplog.text


def test_who_moves_to_a_worker_without_the_rules_waits_for_them(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        first, second = family.workers
        client = Client(first)
        asked = asyncio.ensure_future(client.end_transaction(id_of(second)))
        await until(lambda: not first.clients.connections)
        # What comes as a frame is refused as if the worker were not there; by then the connection has come too.
        other = Client(first)
        (connection,) = first.clients.connections
        assert isinstance(connection.state, ConnectionState)
        connection.state.is_settled = True
        assert await other.end_transaction(id_of(second)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert not asked.done()
        assert not second.clients.connections
        assert isinstance(second.authorizer, AclAuthorizer)
        second.authorizer.replace({})
        second.clients.take_held()
        assert await asked == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert await other.end_transaction(id_of(second)) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        for one in (client, other):
            one.socket.close()
        await until(lambda: not second.clients.connections | first.clients.connections)

    with_family(tmp_path, body, settings={"authorizer.class.name": ACL_AUTHORIZER})
