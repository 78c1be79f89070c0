"""The configuration of every client: Kafka's keys, types, defaults and limits (3.9), as immutable values.

A field is the key with ``_`` for ``.``: ``batch.size`` is ``ProducerConfig.batch_size``. A key that Kafka has
and pkafka does not act on yet is accepted in silence (``_ACCEPTED``), one that nobody knows is warned about
once, and a bad value is refused with the key, the value and what is allowed.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, NoReturn, Self, dataclass_transform, get_type_hints

from pkafka.errors import ConfigError

_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1

# Keys of Kafka's own clients that have no effect here: Java class names of metrics, or features that come later.
_ACCEPTED_PREFIXES = ("sasl.", "ssl.", "metric.", "metrics.", "security.", "auto.include.")
_ACCEPTED = frozenset(
    {
        "client.dns.lookup",
        "key.serializer",
        "value.serializer",
        "key.deserializer",
        "value.deserializer",
        "interceptor.classes",
        "partition.assignment.strategy",
        "enable.metrics.push",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "enable.auto.commit",
        "auto.commit.interval.ms",
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "default.api.timeout.ms",
        "allow.auto.create.topics",
        "exclude.internal.topics",
        "bootstrap.controllers",
        "partitioner.class",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "metadata.max.idle.ms",
        "metadata.recovery.strategy",
        "transactional.id",
        "transaction.timeout.ms",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "internal.leave.group.on.close",
    }
)


class _Option(NamedTuple):
    default: Any
    at_least: int | None
    at_most: int
    choices: tuple[str, ...]


def _option(
    default: Any,  # noqa: ANN401 - options are typed where they stand
    *,
    at_least: int | None = None,
    at_most: int = _INT_MAX,
    choices: Iterable[str] = (),
) -> Any:  # noqa: ANN401 - stands in the place of the value
    return _Option(default, at_least, at_most, tuple(choices))


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False, field_specifiers=(_option,))
class _Options:
    """What a dataclass would do here; making three of those takes as long as everything else that a tool imports."""

    _options: ClassVar[dict[str, _Option]] = {}

    def __init_subclass__(cls) -> None:
        own = {name: each for name, each in vars(cls).items() if isinstance(each, _Option)}
        cls._options = {**cls._options, **own}
        for name, option in own.items():
            setattr(cls, name, option.default)

    def __init__(self, **values: object) -> None:
        unknown = values.keys() - self._options.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no option {', '.join(sorted(unknown))}")
        vars(self).update(values)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"
        )


class ClientConfig(_Options):
    """What all clients share; also the whole configuration of the admin client."""

    bootstrap_servers: tuple[str, ...] = _option(())
    client_id: str = _option("")
    security_protocol: str = _option("PLAINTEXT", choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))
    request_timeout_ms: int = _option(30_000, at_least=0)
    default_api_timeout_ms: int = _option(60_000, at_least=0)
    retry_backoff_ms: int = _option(100, at_least=0)
    retry_backoff_max_ms: int = _option(1_000, at_least=0)
    retries: int = _option(_INT_MAX, at_least=0)
    reconnect_backoff_ms: int = _option(50, at_least=0)
    reconnect_backoff_max_ms: int = _option(1_000, at_least=0)
    metadata_max_age_ms: int = _option(300_000, at_least=0)
    connections_max_idle_ms: int = _option(540_000, at_least=-1)
    socket_connection_setup_timeout_ms: int = _option(10_000, at_least=0)
    socket_connection_setup_timeout_max_ms: int = _option(30_000, at_least=0)
    send_buffer_bytes: int = _option(131_072, at_least=-1)
    receive_buffer_bytes: int = _option(65_536, at_least=-1)

    @classmethod
    def from_properties(cls, values: Mapping[str, object]) -> Self:
        """Make a configuration of Kafka's dotted keys.

        Args:
            values: key to value; text is parsed, Python values of the right type are taken as they are.

        Raises:
            ConfigError: a value has the wrong type or lies outside its limits.
        """
        types = get_type_hints(cls)
        chosen: dict[str, Any] = {}
        for key, value in values.items():
            name = key.replace(".", "_")
            option = cls._options.get(name) if "_" not in key else None
            if option is None:
                _note_unknown(key)
                continue
            chosen[name] = _parse(key, value, types[name], option)
        config = cls(**chosen)
        config.check()
        return config

    def check(self) -> None:
        """Look at the values together.

        Raises:
            ConfigError: two values contradict each other, or a needed one is missing.
        """
        if not self.bootstrap_servers:
            raise ConfigError("bootstrap.servers", "is missing; name at least one broker as host:port")
        if self.security_protocol != "PLAINTEXT":
            raise ConfigError(
                "security.protocol", "only PLAINTEXT is supported by this version", self.security_protocol
            )


class ProducerConfig(ClientConfig):
    """The producer's keys; ``enable.idempotence`` follows Kafka: on unless another key rules it out."""

    acks: int = _option(-1)
    batch_size: int = _option(16_384, at_least=0)
    buffer_memory: int = _option(33_554_432, at_least=0, at_most=_LONG_MAX)
    compression_type: str = _option("none", choices=("none", "gzip", "snappy", "lz4", "zstd"))
    linger_ms: int = _option(0, at_least=0)
    delivery_timeout_ms: int = _option(120_000, at_least=0)
    max_block_ms: int = _option(60_000, at_least=0)
    max_request_size: int = _option(1_048_576, at_least=0)
    max_in_flight_requests_per_connection: int = _option(5, at_least=1)
    enable_idempotence: bool = _option(True)
    partitioner_ignore_keys: bool = _option(False)

    @classmethod
    def from_properties(cls, values: Mapping[str, object]) -> Self:
        """As the base class; without an explicit ``enable.idempotence`` a conflicting key turns it off (KIP-679)."""
        values = dict(values)
        if "enable.idempotence" not in values and _rules_out_idempotence(values):
            values["enable.idempotence"] = "false"
        request_ms = int(str(values.get("request.timeout.ms", 30_000)))
        linger_ms = int(str(values.get("linger.ms", 0)))
        if "delivery.timeout.ms" not in values and request_ms + linger_ms > 120_000:
            values["delivery.timeout.ms"] = request_ms + linger_ms
        return super().from_properties(values)

    def check(self) -> None:
        super().check()
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ConfigError(
                "delivery.timeout.ms",
                "should be equal to or larger than linger.ms + request.timeout.ms",
                self.delivery_timeout_ms,
            )
        if not self.enable_idempotence:
            return
        if self.acks != -1:
            raise ConfigError("acks", "must be all when enable.idempotence is true", self.acks)
        if self.retries == 0:
            raise ConfigError("retries", "must be above 0 when enable.idempotence is true", 0)
        if self.max_in_flight_requests_per_connection > 5:
            raise ConfigError(
                "max.in.flight.requests.per.connection",
                "must be at most 5 when enable.idempotence is true",
                self.max_in_flight_requests_per_connection,
            )


class ConsumerConfig(ClientConfig):
    """The consumer's keys, as far as one without a group has use for them."""

    auto_offset_reset: str = _option("latest", choices=("latest", "earliest", "none"))
    fetch_min_bytes: int = _option(1, at_least=0)
    fetch_max_wait_ms: int = _option(500, at_least=0)
    fetch_max_bytes: int = _option(52_428_800, at_least=0)
    max_partition_fetch_bytes: int = _option(1_048_576, at_least=0)
    max_poll_records: int = _option(500, at_least=1)
    check_crcs: bool = _option(True)
    isolation_level: str = _option("read_uncommitted", choices=("read_uncommitted", "read_committed"))
    client_rack: str = _option("")
    allow_auto_create_topics: bool = _option(True)


def _rules_out_idempotence(values: Mapping[str, object]) -> bool:
    acks = str(values.get("acks", "all"))
    in_flight = str(values.get("max.in.flight.requests.per.connection", 5))
    return (
        acks not in {"all", "-1"}
        or str(values.get("retries", 1)) == "0"
        or (in_flight.isdigit() and int(in_flight) > 5)
    )


_warned: set[str] = set()


def _note_unknown(key: str) -> None:
    if key in _ACCEPTED or key.startswith(_ACCEPTED_PREFIXES) or key in _warned:
        return
    # A producer's file is often given to the admin client too: a key of another client is not a typo.
    if any(key.replace(".", "_") in cls._options for cls in (ProducerConfig, ConsumerConfig)):
        return
    _warned.add(key)
    import logging

    logging.getLogger(__name__).warning("the configuration %r is not known to this client", key)


def _parse(key: str, value: object, kind: object, option: _Option) -> object:
    if key == "acks":
        value = {"all": -1}.get(str(value), value)
    parsed = _PARSERS[kind](key, value)
    low = option.at_least
    if low is not None and isinstance(parsed, int) and not low <= parsed <= option.at_most:
        raise ConfigError(key, f"must be between {low} and {option.at_most}", value)
    if option.choices and parsed not in option.choices:
        raise ConfigError(key, f"must be one of {', '.join(option.choices)}", value)
    if key == "acks" and parsed not in (-1, 0, 1):
        raise ConfigError(key, "must be all, -1, 0 or 1", value)
    return parsed


def _parse_int(key: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return int(str(value).strip())
    except ValueError:
        raise ConfigError(key, "must be a whole number", value) from None


def _parse_bool(key: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in {"true", "false"}:
        raise ConfigError(key, "must be true or false", value)
    return text == "true"


def _parse_str(key: str, value: object) -> str:
    return str(value).strip()


def _parse_list(key: str, value: object) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, Iterable):
        raise ConfigError(key, "must be a list", value)
    return tuple(text for item in items if (text := str(item).strip()))


_PARSERS: dict[object, Callable[[str, object], object]] = {
    int: _parse_int,
    bool: _parse_bool,
    str: _parse_str,
    tuple[str, ...]: _parse_list,
}
