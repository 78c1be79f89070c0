"""The login of one broker at another: its steps, what goes wrong, and the renewal before its session ends."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from pkafka.errors import ErrorCode
from pkafka.net.channel import ChannelError
from pkafka.net.scram import ScramMechanism, keys_of, salted_password
from pkafka.protocol.api import ApiKey
from pkafka.protocol.codec import decode_request
from pkafka.protocol.headers import decode_request_header, encode_response
from pkafka.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from pkafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pkafka.protocol.messages.sasl_handshake import SaslHandshakeResponse
from pkafka.protocol.registry import request_class
from pkafka.protocol.schema import Message
from pkafka.security import kerberos
from pkafka.security.kerberos import Krb5Options
from pkafka.security.sasl import SaslError, ServerExchange
from pkafka.security.sasl.gssapi import GssError
from pkafka.security.sasl.plain import PlainServerExchange
from pkafka.security.sasl.scram import ScramServerExchange, ScramUser
from pkafka.server.cluster.broker_link import BrokerLink
from pkafka.server.cluster.broker_login import PasswordLogin, own_login
from pkafka.server.cluster.metadata import Endpoint
from pkafka.server.config.broker_config import BrokerConfig
from tests.secured_cluster import between_brokers

SHA_256 = ScramMechanism.SCRAM_SHA_256


class OtherBroker:
    """Lets its one client in by a mechanism, and then answers ControlledShutdown."""

    def __init__(self, *, lifetime_ms: int = 0, password: str = "a,b=c", offers: str = "") -> None:
        keys = keys_of(SHA_256, salted_password(SHA_256, password.encode(), b"salt", 4096))
        self._user = ScramUser(b"salt", keys.stored_key, keys.server_key, 4096, "admin")
        self._password = password
        self._lifetime_ms = lifetime_ms
        self._offers = offers
        self._exchange: ServerExchange | None = None
        self.seen: list[str] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                header, position = decode_request_header(frame)
                self.seen.append(ApiKey(header.api_key).name)
                request = decode_request(request_class(header.api_key), header.api_version, frame[position:])
                answer = self._answer(request)
                writer.write(
                    encode_response(header.api_key, header.api_version, header.correlation_id, answer)
                )
        except asyncio.IncompleteReadError:
            writer.close()

    def _answer(self, request: Message) -> Message:
        if isinstance(request, ControlledShutdownRequest):
            return ControlledShutdownResponse()
        if isinstance(request, SaslAuthenticateRequest):
            return self._authenticated(request.auth_bytes)
        mechanism = request.mechanism  # type: ignore[attr-defined]
        if self._offers:
            return SaslHandshakeResponse(error_code=33, mechanisms=[self._offers])
        self._exchange = (
            PlainServerExchange({"admin": self._password}.get)
            if mechanism == "PLAIN"
            else ScramServerExchange(SHA_256, lambda _name, _is_token: self._user, "N")
        )
        return SaslHandshakeResponse(mechanisms=[mechanism])

    def _authenticated(self, token: bytes) -> Message:
        assert self._exchange is not None
        try:
            answer = self._exchange.answer(token)
        except SaslError:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message="Authentication failed: so there",
            )
        lifetime_ms = self._lifetime_ms if self._exchange.is_complete else 0
        return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms)


def linked(other: OtherBroker, mechanism: str, play: Callable[[BrokerLink], Awaitable[None]]) -> None:
    """Play with the link to another broker."""

    async def run() -> None:
        server = await asyncio.start_server(other.serve, "127.0.0.1", 0)
        endpoint = Endpoint("SASL_PLAINTEXT", "127.0.0.1", server.sockets[0].getsockname()[1])
        settings = {
            "broker.id": "0",
            "listeners": "SASL_PLAINTEXT://127.0.0.1:1",
            **{key: str(value) for key, value in between_brokers(mechanism).items()},
        }
        config = BrokerConfig(settings)
        link = BrokerLink(lambda: endpoint, "0", lambda: config, connect_timeout_ms=10_000)
        try:
            await play(link)
        finally:
            link.close()
            server.close()
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(run(), 90))


async def ask(link: BrokerLink) -> None:
    await link.ask(ControlledShutdownRequest(), 3, ControlledShutdownResponse, timeout_s=60)


@pytest.mark.parametrize(("mechanism", "tokens"), [("PLAIN", 1), ("SCRAM-SHA-256", 2)])
def test_it_logs_in_before_anything_else_and_once(mechanism: str, tokens: int) -> None:
    other = OtherBroker()

    async def play(link: BrokerLink) -> None:
        await asyncio.gather(ask(link), ask(link))
        await ask(link)

    linked(other, mechanism, play)
    login = ["SASL_HANDSHAKE", *["SASL_AUTHENTICATE"] * tokens]
    assert other.seen == [*login, *["CONTROLLED_SHUTDOWN"] * 3]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_another_password_is_told_with_the_others_words(mechanism: str) -> None:
    async def play(link: BrokerLink) -> None:
        with pytest.raises(
            ChannelError, match="does not let this one in as admin: Authentication failed: so there"
        ):
            await ask(link)

    linked(OtherBroker(password="another"), mechanism, play)


def test_a_mechanism_that_the_other_does_not_have() -> None:
    async def play(link: BrokerLink) -> None:
        with pytest.raises(ChannelError, match=r"does not take PLAIN .* it has GSSAPI"):
            await ask(link)

    linked(OtherBroker(offers="GSSAPI"), "PLAIN", play)


@pytest.mark.parametrize(
    ("lifetime_ms", "is_renewed"), [(1_400, True), (100, False)], ids=["long enough", "too short to renew"]
)
def test_a_session_is_followed_by_another_before_it_ends(lifetime_ms: int, is_renewed: bool) -> None:
    other = OtherBroker(lifetime_ms=lifetime_ms)

    async def play(link: BrokerLink) -> None:
        await ask(link)
        deadline_s = asyncio.get_running_loop().time() + 60
        while other.seen.count("SASL_HANDSHAKE") < 2 and asyncio.get_running_loop().time() < deadline_s:
            # One at a time where a connection is given up whose question may be on its way still, after 100 ms.
            await asyncio.gather(*(ask(link) for _ in range(2 if is_renewed else 1)))

    linked(other, "SCRAM-SHA-256", play)
    names = "".join({"SASL_HANDSHAKE": "<", "SASL_AUTHENTICATE": "="}.get(name, ".") for name in other.seen)
    assert names.startswith("<==.")
    assert all(part.startswith("==.") for part in names.split("<")[1:]), names
    assert (other.connections == 1) is is_renewed


KERBEROS = {
    "broker.id": "0",
    "listeners": "SASL_PLAINTEXT://127.0.0.1:1",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.kerberos.service.name": "kafka",
    "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
        ' keyTab="/etc/k" principal="kafka/me@R";'
    ),
}


def test_a_ticket_for_the_other_broker_is_waited_for_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, str, bool]] = []

    def refuse(options: Krb5Options, service: str, host: str) -> None:
        asked.append(
            (options.principal, service, host, threading.current_thread() is threading.main_thread())
        )
        raise GssError("Server not found in Kerberos database")

    monkeypatch.setattr("pkafka.server.cluster.broker_login.client_context", refuse)
    monkeypatch.setattr(kerberos, "find_spec", lambda name: name)
    login = own_login(BrokerConfig(KERBEROS), "SASL_PLAINTEXT", "other.host")
    assert login is not None
    with pytest.raises(ChannelError, match=r"no ticket for kafka@other.host, .* Server not found"):
        asyncio.run(login.exchange())
    assert asked == [("kafka/me@R", "kafka", "other.host", False)]


def test_no_repr_shows_the_password() -> None:
    settings = {"broker.id": "0", "listeners": "SASL_PLAINTEXT://127.0.0.1:1"}
    config = BrokerConfig(
        {**settings, **{key: str(value) for key, value in between_brokers("PLAIN").items()}}
    )
    assert own_login(config, "SASL_PLAINTEXT") == PasswordLogin("PLAIN", "admin", "a,b=c")
    assert repr(own_login(config, "SASL_PLAINTEXT")) == "PasswordLogin('PLAIN', 'admin')"
    assert own_login(BrokerConfig({"broker.id": "0"}), "PLAINTEXT") is None
