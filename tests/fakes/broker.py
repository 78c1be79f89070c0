"""A broker of a few lines on a loopback port, scripted by the test: answers by API key, or misbehaves.

Built on the protocol room, so that what travels is real; knows nothing of logs.
"""

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from typing import Any, Self

from pkafka.protocol import registry
from pkafka.protocol.api import ApiKey
from pkafka.protocol.codec import decode
from pkafka.protocol.headers import decode_request_header, encode_response
from pkafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from pkafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pkafka.protocol.schema import Message

Answer = Message | None
Handler = Callable[[Message, int], Answer]
"""Request and version to response; None closes the connection without an answer."""

NO_ANSWER = MetadataResponse()
"""What a handler returns to leave a request unanswered with the connection open."""


class FakeBroker:
    """Listens from construction on; every connection has a thread of its own.

    Args:
        topics: topic to number of partitions, all led by this broker.
        versions: API key to its highest version; all known keys at their full range when left out.
        tls: certificates of a listener that is encrypted.
    """

    def __init__(
        self,
        topics: dict[str, int] | None = None,
        versions: dict[ApiKey, tuple[int, int]] | None = None,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._tls = tls
        self.topics = dict(topics or {})
        served: list[ApiKey] = list(registry.keys())
        served.remove(ApiKey.DESCRIBE_TOPIC_PARTITIONS)  # as a broker in ZooKeeper mode
        self.versions = versions or {key: (0, registry.versions(key)[-1]) for key in served}
        self.handlers: dict[ApiKey, Handler] = {ApiKey.METADATA: self._metadata}
        self.features: Mapping[str, Any] = {}  # fields of ApiVersionsResponse
        self.requests: list[tuple[ApiKey, int, Message]] = []
        self.first_bytes: bytes | None = None
        self.connections = 0
        self.controller_id = 1
        self.is_mute = False  # whether it takes connections and answers nothing
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and drop every connection."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for each in self._open:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in self._threads:
            thread.join(5)
        for each in self._open:
            each.close()

    def count(self, key: ApiKey) -> int:
        """How many requests of a kind came."""
        return sum(1 for each, _, _ in self.requests if each is key)

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(peer)
            thread = threading.Thread(target=self._serve, args=(peer,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, peer: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if self._tls is not None:
                peer = self._tls.wrap_socket(peer, server_side=True)
                self._open.append(peer)
            self._talk(peer)

    def _talk(self, peer: socket.socket) -> None:
        try:
            while (frame := _read_frame(peer)) is not None:
                if self.first_bytes is not None:
                    peer.sendall(self.first_bytes)
                    continue
                answer = self._answer(frame)
                if answer is None:
                    peer.shutdown(socket.SHUT_RDWR)
                    return
                if answer:
                    peer.sendall(answer)
        except OSError:
            return

    def _answer(self, frame: bytes) -> bytes | None:
        if self.is_mute:
            return b""
        header, position = decode_request_header(frame)
        key = ApiKey(header.api_key)
        if key is ApiKey.API_VERSIONS:
            return self._api_versions(header.api_version, header.correlation_id)
        message = decode(registry.request_class(key), header.api_version, frame, position)
        self.requests.append((key, header.api_version, message))
        handler = self.handlers.get(key)
        response = handler(message, header.api_version) if handler else None
        if response is NO_ANSWER:
            return b""
        if response is None:
            return None
        return encode_response(key, header.api_version, header.correlation_id, response)

    def _api_versions(self, version: int, correlation_id: int) -> bytes:
        rows = [
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.versions.items()
        ]
        low, high = self.versions.get(ApiKey.API_VERSIONS, (0, 4))
        if version > high:
            response = ApiVersionsResponse(
                error_code=35, api_keys=[ApiVersion(api_key=18, min_version=low, max_version=high)]
            )
            return encode_response(ApiKey.API_VERSIONS, 0, correlation_id, response)
        return encode_response(
            ApiKey.API_VERSIONS,
            version,
            correlation_id,
            ApiVersionsResponse(api_keys=rows, **self.features),
        )

    def _metadata(self, message: Message, version: int) -> Message:
        assert isinstance(message, MetadataRequest)
        names = list(self.topics) if message.topics is None else [each.name or "" for each in message.topics]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)],
            cluster_id="fake",
            controller_id=self.controller_id,
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.topics:
            return MetadataResponseTopic(error_code=3, name=name, partitions=[])
        rows = [
            MetadataResponsePartition(
                partition_index=index, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
            )
            for index in range(self.topics[name])
        ]
        return MetadataResponseTopic(name=name, topic_id=name.encode().ljust(16, b"\1")[:16], partitions=rows)


def _read_frame(peer: socket.socket) -> bytes | None:
    prefix = _read_exactly(peer, 4)
    return None if prefix is None else _read_exactly(peer, struct.unpack(">i", prefix)[0])


def _read_exactly(peer: socket.socket, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        chunk = peer.recv(count - len(data))
        if not chunk:
            return None
        data += chunk
    return data
