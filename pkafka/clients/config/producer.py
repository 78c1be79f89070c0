"""The producer's keys."""

from collections.abc import Mapping
from typing import Self

from pkafka.clients.config.client import ClientConfig
from pkafka.clients.config.options import LONG_MAX, option, parse_int
from pkafka.errors import ConfigError


class ProducerConfig(ClientConfig):
    """The producer's keys; ``enable.idempotence`` follows Kafka: on unless another key rules it out."""

    acks: int = option(-1)
    batch_size: int = option(16_384, at_least=0)
    buffer_memory: int = option(33_554_432, at_least=0, at_most=LONG_MAX)
    compression_type: str = option("none", choices=("none", "gzip", "snappy", "lz4", "zstd"))
    linger_ms: int = option(0, at_least=0)
    delivery_timeout_ms: int = option(120_000, at_least=0)
    max_block_ms: int = option(60_000, at_least=0)
    max_request_size: int = option(1_048_576, at_least=0)
    max_in_flight_requests_per_connection: int = option(5, at_least=1)
    enable_idempotence: bool = option(True)
    transactional_id: str | None = option(None)
    transaction_timeout_ms: int = option(60_000)
    key_serializer: object = option(None)
    value_serializer: object = option(None)
    partitioner_class: object = option(None)
    partitioner_ignore_keys: bool = option(False)
    partitioner_adaptive_partitioning_enable: bool = option(True)
    partitioner_availability_timeout_ms: int = option(0, at_least=0, at_most=LONG_MAX)
    metadata_max_idle_ms: int = option(300_000, at_least=5_000, at_most=LONG_MAX)
    compression_gzip_level: int = option(-1, at_least=-1, at_most=9)
    compression_lz4_level: int = option(9, at_least=1, at_most=17)
    compression_zstd_level: int = option(3, at_least=-131_072, at_most=22)

    @classmethod
    def from_properties(cls, values: Mapping[str, object]) -> Self:
        """As the base class; without an explicit ``enable.idempotence`` a conflicting key turns it off (KIP-679)."""
        values = dict(values)
        if "enable.idempotence" not in values and _rules_out_idempotence(values):
            values["enable.idempotence"] = "false"
        request_ms = parse_int("request.timeout.ms", values.get("request.timeout.ms", 30_000))
        linger_ms = parse_int("linger.ms", values.get("linger.ms", 0))
        if "delivery.timeout.ms" not in values and request_ms + linger_ms > 120_000:
            values["delivery.timeout.ms"] = request_ms + linger_ms
        return super().from_properties(values)

    def check(self) -> None:
        super().check()
        if self.transactional_id == "":
            raise ConfigError("transactional.id", "String must be non-empty", "")
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ConfigError(
                "transactional.id", "cannot be set without also enabling idempotence", self.transactional_id
            )
        if self.compression_gzip_level == 0:
            raise ConfigError("compression.gzip.level", "must be -1, or between 1 and 9", 0)
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


def _rules_out_idempotence(values: Mapping[str, object]) -> bool:
    acks = str(values.get("acks", "all"))
    in_flight = str(values.get("max.in.flight.requests.per.connection", 5))
    return (
        acks not in {"all", "-1"}
        or str(values.get("retries", 1)) == "0"
        or (in_flight.isdecimal() and int(in_flight) > 5)
    )
