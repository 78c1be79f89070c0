"""The way of a client into a secured cluster, stage by stage: TCP, TLS, host name, mechanism, login, rights.

A real client goes there with the settings that are asked about: what it says of a failure is what any command
says. What is added is what a client does not look at: the names in a certificate, the mechanisms of a listener,
days to the end.
"""

import ssl
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from pkafka.clients import connect_failures
from pkafka.clients.cluster import parse_address
from pkafka.clients.config import ClientConfig
from pkafka.clients.connection import Address, Connection, Pending
from pkafka.clients.errors import ClientError, Stage, UnsupportedApiError
from pkafka.clients.network import Network
from pkafka.clock import Clock
from pkafka.errors import ErrorCode
from pkafka.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from pkafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from pkafka.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from pkafka.protocol.schema import Message

EXPIRY_WARNING_DAYS: Final = 14
_DAY_S: Final = 86_400
_NAME_TIMEOUT_S: Final = 3.0
_OPERATIONS: Final = {
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
    13: "CREATE_TOKENS",
    14: "DESCRIBE_TOKENS",
}
"""Kafka's AclOperation, which is the number of the bit as well."""
_NOT_TOLD: Final = -(2**31)


class Part(Enum):
    """The stages of the way, in their order."""

    TCP = "TCP"
    TLS = "TLS"
    HOST_NAME = "host name"
    MECHANISM = "mechanism"
    LOGIN = "login"
    RIGHTS = "rights"


class Verdict(Enum):
    """What is said of a stage."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNUSED = "not used"
    """The settings do not ask for it."""
    UNREACHED = "not reached"


class Finding(NamedTuple):
    """One stage of the way to one address."""

    address: str
    part: Part
    verdict: Verdict
    detail: str
    hint: str | None = None


_PARTS: Final = {
    Stage.RESOLVE: Part.TCP,
    Stage.CONNECT: Part.TCP,
    Stage.TLS: Part.TLS,
    Stage.HOST_NAME: Part.HOST_NAME,
    Stage.HANDSHAKE: Part.MECHANISM,
    Stage.MECHANISM: Part.MECHANISM,
    Stage.AUTHENTICATE: Part.LOGIN,
}
"""Where a failure of a connection belongs; ApiVersions, behind TLS and before the login, goes with the mechanism."""


class SecurityCheck:
    """Goes the way to brokers and says how far it is open.

    Args:
        config: the client's settings.
        clock: for time-outs, and for the days to the end of certificates.

    Raises:
        ConfigError: the settings contradict each other, or a store cannot be read.
    """

    def __init__(self, config: ClientConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._brokers: list[Address] = []
        Network(
            config, clock
        ).close()  # what is wrong with the settings themselves is told before anything is tried

    def walk(self, topics: Sequence[str] = ()) -> Iterator[Finding]:
        """Every stage to each bootstrap server, and then to each broker by the address that it tells clients.

        Args:
            topics: whose rights are looked at too.
        """
        first = [parse_address(each) for each in self._config.bootstrap_servers]
        for address in first:
            yield from self._findings(address, topics)
        for address in [each for each in self._brokers if each not in first]:
            yield from self._findings(address, ())

    def _findings(self, address: Address, topics: Sequence[str]) -> Iterator[Finding]:
        visit = _Visit(self._config, self._clock, address)
        try:
            yield from visit.findings(topics)
            self._brokers += [each for each in visit.brokers if each not in self._brokers]
        finally:
            visit.close()


class _Visit:
    """The way to one address."""

    def __init__(self, config: ClientConfig, clock: Clock, address: Address) -> None:
        self._config = config
        self._clock = clock
        self._address = address
        self._network = Network(config, clock)
        self._connection: Connection | None = None
        self.brokers: list[Address] = []

    def close(self) -> None:
        """Close the connection."""
        self._network.close()

    def findings(self, topics: Sequence[str]) -> Iterator[Finding]:
        """All stages, the last ones not reached where one failed."""
        error = self._get_in()
        failed = None if error is None else _part_of(error)
        for part in Part:
            if part is failed:
                assert error is not None
                yield self._found(part, Verdict.FAILED, self._explained(error), error.hint)
                break
            if part is Part.RIGHTS:
                yield from self._rights(topics)
            else:
                yield self._passed(part)
        if failed is not None:
            for part in list(Part)[list(Part).index(failed) + 1 :]:
                yield self._found(part, Verdict.UNREACHED, "")

    def _get_in(self) -> ClientError | None:
        """Connect, and log in where the settings say so; what went wrong."""
        if self._config.logs_in:
            return self._ask(DescribeClusterRequest(), on_ready=True)[1]
        # A listener with SASL answers this with its mechanisms before a login, and closes at anything else.
        response, error = self._ask(SaslHandshakeRequest(mechanism=""), on_ready=True)
        if isinstance(response, SaslHandshakeResponse):
            return connect_failures.wants_login(self._address, response, self._config.security_protocol)
        return error

    def _ask(self, message: Message, *, on_ready: bool = False) -> tuple[Message | None, ClientError | None]:
        deadline_ms = self._clock.monotonic_ms() + self._config.default_api_timeout_ms
        pending: Pending = self._network.send(
            self._address, message, timeout_ms=self._config.default_api_timeout_ms
        )
        if on_ready:
            self._connection = self._network.connection(self._address)
        self._network.wait([pending], deadline_ms=deadline_ms + 50)
        error = pending.error
        if isinstance(error, UnsupportedApiError):
            error = None  # the broker is older: the way to it is open all the same
        return pending.response, error

    # -- what is said of a stage ---------------------------------------------------------------------------

    def _passed(self, part: Part) -> Finding:
        say: dict[Part, Callable[[], Finding]] = {
            Part.TCP: lambda: self._found(part, Verdict.OK, "connected"),
            Part.TLS: self._tls,
            Part.HOST_NAME: self._host_name,
            Part.MECHANISM: self._mechanism,
            Part.LOGIN: self._login,
        }
        return say[part]()

    def _tls(self) -> Finding:
        stream = None if self._connection is None else self._connection.tls
        if stream is None:
            return self._found(Part.TLS, Verdict.UNUSED, "the connection is not encrypted")
        text = f"{stream.version}, {stream.cipher}"
        end = stream.peer_certificate().get("notAfter")
        if end is None:
            return self._found(Part.TLS, Verdict.OK, text)
        days = int((ssl.cert_time_to_seconds(end) - self._clock.now_ms() / 1_000) // _DAY_S)
        verdict = Verdict.WARNING if days < EXPIRY_WARNING_DAYS else Verdict.OK
        hint = "the broker needs a new certificate soon" if verdict is Verdict.WARNING else None
        return self._found(Part.TLS, verdict, f"{text}; the certificate ends in {days} days", hint)

    def _host_name(self) -> Finding:
        if not self._config.is_encrypted:
            return self._found(Part.HOST_NAME, Verdict.UNUSED, "there is no certificate")
        if self._config.ssl_endpoint_identification_algorithm.lower() != "https":
            hint = "any server with a trusted certificate can take the broker's place"
            return self._found(Part.HOST_NAME, Verdict.WARNING, "not checked", hint)
        stream = None if self._connection is None else self._connection.tls
        names = _names(stream.peer_certificate()) if stream is not None else ""
        return self._found(
            Part.HOST_NAME, Verdict.OK, f"{self._address.host} is in the certificate ({names})"
        )

    def _mechanism(self) -> Finding:
        if not self._config.logs_in:
            return self._found(Part.MECHANISM, Verdict.UNUSED, "the listener asks for no login")
        return self._found(Part.MECHANISM, Verdict.OK, self._config.sasl_mechanism)

    def _login(self) -> Finding:
        if not self._config.logs_in:
            return self._found(Part.LOGIN, Verdict.UNUSED, "the client does not log in")
        return self._found(Part.LOGIN, Verdict.OK, "the broker let this client in")

    def _rights(self, topics: Sequence[str]) -> Iterator[Finding]:
        message = DescribeClusterRequest(include_cluster_authorized_operations=True)
        response, error = self._ask(message)
        if error is not None:
            yield self._found(Part.RIGHTS, Verdict.FAILED, error.message, error.hint)
            return
        if isinstance(response, DescribeClusterResponse):
            self.brokers = [Address(each.host, each.port) for each in response.brokers]
            yield self._cluster_rights(response)
        else:
            yield self._found(Part.RIGHTS, Verdict.UNUSED, "the broker is too old to say")
        if topics:
            yield from self._topic_rights(topics)

    def _cluster_rights(self, response: DescribeClusterResponse) -> Finding:
        if response.error_code:
            text = response.error_message or ErrorCode(response.error_code).message
            return self._found(Part.RIGHTS, Verdict.FAILED, f"cluster: {text}")
        allowed = _operations(response.cluster_authorized_operations)
        return self._found(Part.RIGHTS, Verdict.OK, f"cluster: {allowed}")

    def _topic_rights(self, topics: Sequence[str]) -> Iterator[Finding]:
        message = MetadataRequest(
            topics=[MetadataRequestTopic(name=each) for each in topics],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        response, error = self._ask(message)
        if not isinstance(response, MetadataResponse):
            yield self._found(
                Part.RIGHTS, Verdict.FAILED, "topics: no answer" if error is None else error.message
            )
            return
        for topic in response.topics:
            text = f"topic {topic.name}: "
            if topic.error_code:
                code = ErrorCode(topic.error_code)
                hint = "the broker says so too of a topic that this client must not see"
                yield self._found(Part.RIGHTS, Verdict.FAILED, text + code.message, hint)
            else:
                yield self._found(
                    Part.RIGHTS, Verdict.OK, text + _operations(topic.topic_authorized_operations)
                )

    def _explained(self, error: ClientError) -> str:
        if getattr(error, "stage", None) is not Stage.HOST_NAME:
            return error.message
        names = self._names_in_certificate()
        return f"{error.message}; it is one for {names}" if names else error.message

    def _names_in_certificate(self) -> str:
        """The names that the certificate has, by a connection that trusts it and looks at no name."""
        import socket

        assert self._network.security is not None
        context = self._network.security.context()
        context.check_hostname = False
        target = (self._address.host, self._address.port)
        try:
            with (
                socket.create_connection(target, _NAME_TIMEOUT_S) as connection,
                context.wrap_socket(connection, server_hostname=self._address.host) as secured,
            ):
                return _names(secured.getpeercert() or {})
        except OSError:
            return ""

    def _found(self, part: Part, verdict: Verdict, detail: str, hint: str | None = None) -> Finding:
        return Finding(str(self._address), part, verdict, detail, hint)


def _part_of(error: ClientError) -> Part:
    stage = getattr(error, "stage", None)
    return Part.RIGHTS if stage is None else _PARTS.get(stage, Part.RIGHTS)


def _names(certificate: Any) -> str:  # noqa: ANN401 - a mapping of nested tuples
    names = [value for _kind, value in certificate.get("subjectAltName", ())]
    if not names:
        names = [
            value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"
        ]
    return ", ".join(names)


def _operations(bits: int) -> str:
    """The operations that a broker allows, by the field that it tells them in (KIP-430)."""
    if bits == _NOT_TOLD:
        return "the broker does not say"
    return ", ".join(name for bit, name in _OPERATIONS.items() if bits & (1 << bit)) or "no rights"
