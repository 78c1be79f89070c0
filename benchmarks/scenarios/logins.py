"""Clients that connect, log in by SCRAM and leave: what a login costs."""

import base64
import hashlib
import hmac
import socket
import struct
import threading
import time
from collections.abc import Mapping
from typing import Final

from benchmarks.model import Figure, Scenario, Settings
from benchmarks.systems import Target, free_port
from pkafka.clients.admin import Admin
from pkafka.clients.admin.scram import ScramUpsertion
from pkafka.net.scram import ScramMechanism, keys_of, salted_password
from pkafka.protocol.headers import decode_response, encode_request
from pkafka.protocol.messages.api_versions import ApiVersionsRequest
from pkafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pkafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from pkafka.protocol.schema import Message

MECHANISM: Final = ScramMechanism.SCRAM_SHA_256
MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
PASSWORD: Final = b"of the benchmark"
CONNECTIONS: Final = 4
PORT: Final = "SASL_PLAINTEXT://127.0.0.1:"
_SIZE: Final = struct.Struct(">i")


def _settings() -> Mapping[str, object]:
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()},{PORT}{free_port()}",
        "sasl.enabled.mechanisms": MECHANISM.mechanism_name,
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": MODULE,
    }


def _prepare(target: Target, _settings: Settings) -> None:
    with Admin({"bootstrap.servers": target.broker.bootstrap}) as admin:
        upsertion = ScramUpsertion(user="u", mechanism=MECHANISM, password=PASSWORD)
        if admin.alter_user_scram_credentials([upsertion]) != {"u": None}:
            raise RuntimeError("the password could not be set")
    deadline_s = time.monotonic() + 30
    while True:
        try:
            _Client(_port(target)).log_in()
            return
        except (OSError, RuntimeError):
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.1)


def _port(target: Target) -> int:
    return int(str(target.settings["listeners"]).rpartition(":")[2])


class _Client:
    """Logs in again and again; its salted password is made once."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._salted: dict[tuple[bytes, int], bytes] = {}
        self._socket = socket.socket()
        self.count = 0

    def log_in(self) -> None:
        """One login on a connection of its own."""
        with socket.create_connection(("127.0.0.1", self._port), 30) as self._socket:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._ask(ApiVersionsRequest(), 0)
            self._ask(SaslHandshakeRequest(mechanism=MECHANISM.mechanism_name), 1)
            bare = f"n=u,r={self.count:020d}"
            challenge = self._prove(f"n,,{bare}").decode()
            parts = dict(part.split("=", 1) for part in challenge.split(","))
            without_proof = f"c=biws,r={parts['r']}"
            proof = self._proof(parts, f"{bare},{challenge},{without_proof}".encode())
            self._prove(f"{without_proof},p={proof}")
        self.count += 1

    def _proof(self, parts: Mapping[str, str], message: bytes) -> str:
        key = base64.b64decode(parts["s"]), int(parts["i"])
        if key not in self._salted:
            self._salted[key] = salted_password(MECHANISM, PASSWORD, *key)
        salted = self._salted[key]
        client_key = hmac.digest(salted, b"Client Key", hashlib.sha256)
        signature = hmac.digest(keys_of(MECHANISM, salted).stored_key, message, hashlib.sha256)
        return base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()

    def _prove(self, token: str) -> bytes:
        response = self._ask(SaslAuthenticateRequest(auth_bytes=token.encode()), 1)
        if not isinstance(response, SaslAuthenticateResponse) or response.error_code:
            raise RuntimeError("the login failed")
        return response.auth_bytes

    def _ask(self, request: Message, version: int) -> Message:
        assert request.__api_key__ is not None
        self._socket.sendall(encode_request(request.__api_key__, version, 1, "bench", request))
        (size,) = _SIZE.unpack(self._socket.recv(4, socket.MSG_WAITALL))
        return decode_response(request.__api_key__, version, self._socket.recv(size, socket.MSG_WAITALL))[1]


def _measure(target: Target, settings: Settings) -> dict[str, float]:
    clients = [_Client(_port(target)) for _ in range(CONNECTIONS)]
    cpu_s, begun_s = target.cpu_s(), time.perf_counter()
    end_s = begun_s + settings.seconds

    def log_in_until_the_end(client: _Client) -> None:
        while time.perf_counter() < end_s:
            client.log_in()

    threads = [threading.Thread(target=log_in_until_the_end, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s, count = time.perf_counter() - begun_s, sum(client.count for client in clients)
    if not count:
        raise RuntimeError("no login succeeded")
    return {"rate": count / took_s, "server CPU": (target.cpu_s() - cpu_s) / count * 1e6}


SCENARIOS = (
    Scenario(
        name="sasl_logins",
        about=f"connect, ask for versions, log in by SCRAM-SHA-256, leave; {CONNECTIONS} clients at a time",
        figures=(
            Figure("rate", "logins/s", more_is_better=True),
            Figure("server CPU", "us/login", more_is_better=False, floor=1_000),
        ),
        measure=_measure,
        prepare=_prepare,
        settings=_settings,
    ),
)
