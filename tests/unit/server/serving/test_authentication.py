"""Clients are let in at one worker, and what their login gave them moves to another worker with their connection."""

import asyncio
import json
import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from pkafka.errors import ConfigError
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import decode_response, encode_request
from pkafka.protocol.messages.api_versions import ApiVersionsRequest
from pkafka.protocol.messages.end_txn import EndTxnRequest
from pkafka.protocol.messages.list_groups import ListGroupsRequest
from pkafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from pkafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from pkafka.protocol.schema import Message
from pkafka.security.principal import ANONYMOUS, Principal
from pkafka.server.processes.worker import Worker
from pkafka.server.serving import authentication
from pkafka.server.serving.connection_state import ConnectionState
from pkafka.server.serving.request_log import logger as request_logger
from tests.unit.server.serving.test_clients import id_of
from tests.unit.server.workers import Family, until, with_family

ALICE = Principal("User", "alice")
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,INSIDE:PLAINTEXT",
    "listeners": "PLAINTEXT://localhost:0,INSIDE://localhost:1",
    "inter.broker.listener.name": "INSIDE",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": f'{PLAIN} user_alice="secret";',
    "connection.failed.authentication.delay.ms": "50",
    "sasl.server.max.receive.size": "300",
    "queued.max.request.bytes": "104857600",
}
LIMITED = {**SETTINGS, "connections.max.reauth.ms": "60000"}


class Client:
    """A client that the kernel has given to one of the workers."""

    def __init__(self, worker: Worker) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.socket = socket.create_connection(listening.getsockname())
            theirs, _ = listening.accept()
        self.socket.setblocking(False)
        theirs.setblocking(False)
        worker.clients.admit("PLAINTEXT", "127.0.0.1")
        self.connection = worker.clients.accept("PLAINTEXT", theirs, "127.0.0.1")
        self._loop = asyncio.get_running_loop()

    @property
    def state(self) -> ConnectionState:
        assert isinstance(self.connection.state, ConnectionState)
        return self.connection.state

    async def send(self, *frames: bytes) -> None:
        await self._loop.sock_sendall(self.socket, b"".join(frames))

    async def receive(self, key: int, version: int) -> Any:
        return decode_response(key, version, await self.frame())[1]

    async def frame(self) -> bytes:
        return await self._read(int.from_bytes(await self._read(4)))

    async def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = await asyncio.wait_for(self._loop.sock_recv(self.socket, size - len(data)), 20)
            if not chunk:
                raise ConnectionError("closed")
            data += chunk
        return data

    async def log_in(self) -> None:
        await self.send(HANDSHAKE)
        assert (await self.receive(ApiKey.SASL_HANDSHAKE, 1)).error_code == 0
        await self.send(PROOF)
        assert (await self.receive(ApiKey.SASL_AUTHENTICATE, 2)).error_code == 0

    async def is_closed(self) -> bool:
        return await asyncio.wait_for(self._loop.sock_recv(self.socket, 1), 20) == b""


def frame(request: Message, version: int) -> bytes:
    assert request.__api_key__ is not None
    return encode_request(request.__api_key__, version, 1, "c", request)


HANDSHAKE = frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
PROOF = frame(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2)
WRONG = frame(SaslAuthenticateRequest(auth_bytes=b"\0alice\0other"), 2)
LIST = frame(ListGroupsRequest(), 0)


@pytest.mark.parametrize("settings", [SETTINGS, LIMITED], ids=["without end", "limited"])
def test_a_login_moves_with_the_connection(tmp_path: Path, settings: dict[str, str]) -> None:
    async def body(family: Family) -> None:
        first, second = family.workers
        client = Client(first)
        assert (client.state.principal, client.state.session) == (ANONYMOUS, None)
        await client.log_in()
        session = client.state.session
        assert session is not None
        assert (session.who.principal, session.ends_s is None) == (ALICE, settings is SETTINGS)
        request = EndTxnRequest(transactional_id=id_of(second), producer_id=1)
        await client.send(frame(request, 1))
        await client.receive(ApiKey.END_TXN, 1)
        (moved,) = second.clients.connections
        assert isinstance(moved.state, ConnectionState)
        assert (moved.state.principal, moved.state.session) == (ALICE, session)
        client.socket.close()
        await until(lambda: not second.clients.connections)

    with_family(tmp_path, body, settings=settings)


def test_a_session_that_is_over_ends_the_connection_unless_it_is_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "_RENEWALS_APART_S", 30.0)

    async def body(family: Family) -> None:
        worker = family.workers[0]
        renewed, over = Client(worker), Client(worker)
        for client in (renewed, over):
            await client.log_in()
            session = client.state.session
            assert session is not None
            client.state.session = session._replace(ends_s=asyncio.get_running_loop().time() - 1)
        await renewed.log_in()
        await renewed.send(LIST)
        assert (await renewed.receive(ApiKey.LIST_GROUPS, 0)).error_code >= 0
        # So soon again is out of turn.
        await renewed.send(HANDSHAKE)
        assert (await renewed.receive(ApiKey.SASL_HANDSHAKE, 1)).error_code == 34
        await over.send(LIST)
        assert await over.is_closed()
        renewed.socket.close()
        over.socket.close()
        await until(lambda: not worker.clients.connections)

    with_family(tmp_path, body, settings=LIMITED)


def test_a_refusal_comes_late_and_nothing_behind_it_is_served(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        client = Client(family.workers[0])
        begun_s = asyncio.get_running_loop().time()
        await client.send(HANDSHAKE, WRONG, PROOF, LIST)
        assert (await client.receive(ApiKey.SASL_HANDSHAKE, 1)).error_code == 0
        assert (await client.receive(ApiKey.SASL_AUTHENTICATE, 2)).error_code == 58
        assert asyncio.get_running_loop().time() - begun_s >= 0.05
        assert await client.is_closed()
        client.socket.close()

    with_family(tmp_path, body, settings=SETTINGS)


def test_what_is_larger_than_a_stranger_may_send_is_served_right_behind_the_proof(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        worker = family.workers[0]
        client = Client(worker)
        long = encode_request(ApiKey.LIST_GROUPS, 0, 2, "x" * 1_000, ListGroupsRequest())
        await client.send(HANDSHAKE, PROOF, long, LIST)
        assert (await client.receive(ApiKey.SASL_HANDSHAKE, 1)).error_code == 0
        assert (await client.receive(ApiKey.SASL_AUTHENTICATE, 2)).error_code == 0
        for _ in range(2):
            await client.receive(ApiKey.LIST_GROUPS, 0)
        stranger = Client(worker)
        await stranger.send(long)
        assert await stranger.is_closed()
        client.socket.close()
        stranger.socket.close()

    with_family(tmp_path, body, settings=SETTINGS)


def test_strangers_take_nothing_of_the_memory_of_large_requests(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        worker = family.workers[0]
        arena = worker.peers.arena
        assert arena is not None
        free = arena.free_slots
        strangers = [Client(worker) for _ in range(30)]
        for each in strangers:
            await each.send((250).to_bytes(4) + b"\0")
        await asyncio.sleep(0)
        assert arena.free_slots == free
        for each in strangers:
            each.socket.close()
        await until(lambda: not worker.clients.connections)

    with_family(tmp_path, body, settings={**SETTINGS, "sasl.server.max.receive.size": "524288"})


def test_versions_are_told_before_the_login_and_the_request_log_names_the_user(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(family: Family) -> None:
        client = Client(family.workers[0])
        asked = ApiVersionsRequest(client_software_name="c", client_software_version="1")
        await client.send(frame(asked, 3))
        assert (await client.receive(ApiKey.API_VERSIONS, 3)).api_keys
        assert client.state.software == ("c", "1")
        await client.log_in()
        await client.send(LIST)
        await client.receive(ApiKey.LIST_GROUPS, 0)
        client.socket.close()

    with caplog.at_level(logging.DEBUG, request_logger.name):
        with_family(tmp_path, body, settings=SETTINGS)
    [line] = [record.message for record in caplog.records if record.name == request_logger.name]
    said = json.loads(line.partition(":")[2])
    assert (said["principal"], said["securityProtocol"]) == ("User:alice", "SASL_PLAINTEXT")
    assert "secret" not in caplog.text


def test_other_settings_count_for_the_next_login(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "listener.name.plaintext.plain.sasl.jaas.config"

    async def body(family: Family) -> None:
        worker = family.workers[0]
        before, begun = (Client(worker) for _ in range(2))
        await before.log_in()
        await begun.send(HANDSHAKE)
        await begun.receive(ApiKey.SASL_HANDSHAKE, 1)
        worker.doors.take(worker.config.replace({key: f'{PLAIN} user_alice="other";'}))
        await begun.send(PROOF)
        assert (await begun.receive(ApiKey.SASL_AUTHENTICATE, 2)).error_code == 0
        after = Client(worker)
        await after.send(HANDSHAKE, PROOF)
        await after.receive(ApiKey.SASL_HANDSHAKE, 1)
        assert (await after.receive(ApiKey.SASL_AUTHENTICATE, 2)).error_code == 58
        await before.send(LIST)
        assert (await before.receive(ApiKey.LIST_GROUPS, 0)).error_code >= 0

        def unreadable(*_: object) -> None:
            raise ConfigError(key, "names a keytab that cannot be read")

        monkeypatch.setattr("pkafka.server.serving.authentication.Exchanges", unreadable)
        worker.doors.take(worker.config.replace({key: f'{PLAIN} user_alice="third";'}))
        assert "goes on with the logins that it had" in caplog.text
        last = Client(worker)
        await last.send(HANDSHAKE, WRONG)
        await last.receive(ApiKey.SASL_HANDSHAKE, 1)
        assert (await last.receive(ApiKey.SASL_AUTHENTICATE, 2)).error_code == 0
        for client in (before, begun, after, last):
            client.socket.close()
        await until(lambda: not worker.clients.connections)

    with_family(tmp_path, body, settings=SETTINGS)
