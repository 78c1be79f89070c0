"""The request log: each answered request as one line of JSON, as Kafka's ``kafka.request.logger`` writes it.

It is off (WARN). DEBUG, which an operator may set while the broker runs, logs every request, INFO only those of
versions that are gone in Kafka 4. While it is off, a request costs one look at the level; while it is on, requests and
answers are decoded once more, which is not cheap.

Nothing here waits in a queue between reading and serving or between serving and sending, so those times are 0;
``localTimeMs`` is what the handler took before it answered or began to wait, ``remoteTimeMs`` the rest.
"""

import json
import logging
import socket
from collections.abc import Mapping
from typing import Any, Final

from pkafka.errors import ProtocolError
from pkafka.net.answers import Answer, FileRange
from pkafka.net.connection import ServerConnection
from pkafka.protocol.api import ApiKey
from pkafka.protocol.codec import decode_request
from pkafka.protocol.headers import RequestHeader, decode_response
from pkafka.protocol.json_form import json_form
from pkafka.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from pkafka.protocol.registry import request_class
from pkafka.protocol.schema import Message
from pkafka.server.config.dynamic import broker_key
from pkafka.server.config.keys import topic_keys
from pkafka.server.serving.connection_state import ConnectionState
from pkafka.server.serving.context import Caller

REQUEST_LOGGER: Final = "kafka.request.logger"
logger: Final = logging.getLogger(REQUEST_LOGGER)
logger.setLevel(logging.WARNING)

_HIDDEN: Final = "[hidden]"
_SECRET_BYTES: Final[Mapping[int, tuple[str, ...]]] = {
    ApiKey.SASL_AUTHENTICATE: ("auth_bytes",),
    ApiKey.RENEW_DELEGATION_TOKEN: ("hmac",),
    ApiKey.EXPIRE_DELEGATION_TOKEN: ("hmac",),
}
"""Fields that hold a password or something that serves as one."""
_TOPIC, _BROKER, _BROKER_LOGGER = 2, 4, 8
_LAST_DEPRECATED: Final[Mapping[int, int]] = {
    ApiKey.PRODUCE: 2,
    ApiKey.FETCH: 3,
    ApiKey.LIST_OFFSETS: 0,
    ApiKey.OFFSET_COMMIT: 1,
    ApiKey.OFFSET_FETCH: 0,
    ApiKey.JOIN_GROUP: 1,
    ApiKey.CREATE_TOPICS: 1,
    ApiKey.DELETE_TOPICS: 0,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 1,
    ApiKey.DESCRIBE_ACLS: 0,
    ApiKey.CREATE_ACLS: 0,
    ApiKey.DELETE_ACLS: 0,
    ApiKey.DESCRIBE_CONFIGS: 0,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 0,
    ApiKey.DESCRIBE_LOG_DIRS: 0,
    ApiKey.CREATE_DELEGATION_TOKEN: 0,
    ApiKey.RENEW_DELEGATION_TOKEN: 0,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 0,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 0,
}
"""The last versions that are gone in Kafka 4; the log shows which clients still use them."""
_NOTHING: Final = ""
"""What stands for a request that cannot be read again, and for an answer that is not sent."""


class LoggedRequest:
    """Keeps one request from the moment it is read until its line is written.

    Args:
        connection: where it came from.
        header: of the request.
        data: the frame, header included; it is decoded here, before the handler may change it.
        position: where the body begins.
    """

    __slots__ = ("_connection", "_header", "_peers", "_request")

    def __init__(
        self,
        connection: ServerConnection,
        header: RequestHeader,
        data: memoryview,
        position: int,
    ) -> None:
        self._connection = connection
        self._header = header
        self._peers = _peers(connection.sock)
        self._request = _request_form(header, data, position)

    def completed(self, answer: Answer, local_ns: int, whole_ns: int) -> None:
        """Write the line.

        Args:
            answer: what is about to be sent.
            local_ns: how long the request's handler took; afterwards the request waited for something else.
            whole_ns: how long it took from the whole frame to now.
        """
        response = _response_form(self._header, answer)
        caller, state = Caller.of(self._connection, self._header), self._connection.state
        software = state.software if isinstance(state, ConnectionState) else None
        session = state.session if isinstance(state, ConnectionState) else None
        number = state.number if isinstance(state, ConnectionState) else 0
        name, version = software or ("unknown", "unknown")
        line = {
            "isForwarded": False,
            "requestHeader": _header_form(self._header),
            "request": self._request,
            "response": response,
            "connection": f"{self._peers}-{number}",
            "totalTimeMs": _ms(whole_ns),
            "requestQueueTimeMs": 0.0,
            "localTimeMs": _ms(local_ns),
            "remoteTimeMs": _ms(whole_ns - local_ns),
            "throttleTimeMs": response.get("throttleTimeMs", 0) if isinstance(response, Mapping) else 0,
            "responseQueueTimeMs": 0.0,
            "sendTimeMs": 0.0,
            "securityProtocol": _security_protocol(self._connection, logs_in=session is not None),
            "principal": str(caller.principal),
            "listener": caller.listener,
            "clientInformation": {"softwareName": name, "softwareVersion": version},
        }
        text = json.dumps(line, separators=(",", ":"), ensure_ascii=False)
        logger.log(_level(self._header), "Completed request:%s", text)


def is_logged(header: RequestHeader) -> bool:
    """Whether a request is to be logged; call it only when the logger is at INFO or below."""
    return logger.isEnabledFor(_level(header))


def _level(header: RequestHeader) -> int:
    return logging.INFO if is_deprecated(header.api_key, header.api_version) else logging.DEBUG


def is_deprecated(api_key: int, version: int) -> bool:
    """Whether a version is gone in Kafka 4 (KIP-896)."""
    return version <= _LAST_DEPRECATED.get(api_key, -1)


def _ms(duration_ns: int) -> float:
    return round(duration_ns / 1e6, 3)


def _security_protocol(connection: ServerConnection, *, logs_in: bool) -> str:
    """How the client came in, by Kafka's name."""
    plain, login = ("SSL", "SASL_SSL") if connection.is_encrypted else ("PLAINTEXT", "SASL_PLAINTEXT")
    return login if logs_in else plain


def _peers(sock: socket.socket) -> str:
    """Both ends, as Kafka names a connection."""
    ends = []
    for ask in (sock.getsockname, sock.getpeername):
        try:
            host, port, *_ = ask()
        except OSError:
            host, port = "unknown", 0
        ends.append(f"{host}:{port}")
    return "-".join(ends)


def _header_form(header: RequestHeader) -> dict[str, Any]:
    form: dict[str, Any] = {
        "requestApiKey": header.api_key,
        "requestApiVersion": header.api_version,
        "correlationId": header.correlation_id,
        "clientId": header.client_id,
        "requestApiKeyName": ApiKey(header.api_key).name,
    }
    if is_deprecated(header.api_key, header.api_version):
        form["requestApiVersionDeprecated"] = True
    return form


def _request_form(header: RequestHeader, data: memoryview, position: int) -> dict[str, Any] | str:
    version = header.api_version
    try:
        request = decode_request(request_class(header.api_key), version, bytes(data[position:]))
    except (ProtocolError, KeyError, ValueError):
        return _NOTHING  # the handler will say what is wrong
    _hide_secrets(header.api_key, request)
    return json_form(request, version)


def _hide_secrets(api_key: int, request: Message) -> None:
    """Hide settings that are secret or may be, and credentials, before a request is logged."""
    for field in _SECRET_BYTES.get(api_key, ()):
        setattr(request, field, _HIDDEN.encode())
    if isinstance(request, AlterUserScramCredentialsRequest):
        for upsertion in request.upsertions:
            upsertion.salt = upsertion.salted_password = _HIDDEN.encode()
    if api_key not in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):
        return
    for resource in request.resources:  # type: ignore[attr-defined]
        for config in resource.configs:
            if _may_be_secret(resource.resource_type, config.name):
                config.value = _HIDDEN


def _may_be_secret(resource_type: int, name: str) -> bool:
    if resource_type == _BROKER_LOGGER:
        return False
    key = None
    if resource_type == _BROKER:
        key = broker_key(name)
    elif resource_type == _TOPIC:
        key = topic_keys().get(name)
    return key is None or key.sensitive


def _response_form(header: RequestHeader, answer: Answer) -> dict[str, Any] | str:
    # Parts that lie in files are records, of which only the size is logged.
    frame = b"".join(bytes(part.length) if isinstance(part, FileRange) else part for part in answer)
    if not frame:
        return _NOTHING
    try:
        _, response = decode_response(header.api_key, header.api_version, frame[4:])
    except (ProtocolError, KeyError, ValueError):
        return _NOTHING  # the answer to a version that is not served: ApiVersions in version 0
    return json_form(response, header.api_version)
