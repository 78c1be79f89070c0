"""The consumer's keys."""

from pkafka.clients.config.client import ClientConfig
from pkafka.clients.config.options import option


class ConsumerConfig(ClientConfig):
    """The consumer's keys, as far as one without a group has use for them."""

    auto_offset_reset: str = option("latest", choices=("latest", "earliest", "none"))
    fetch_min_bytes: int = option(1, at_least=0)
    fetch_max_wait_ms: int = option(500, at_least=0)
    fetch_max_bytes: int = option(52_428_800, at_least=0)
    max_partition_fetch_bytes: int = option(1_048_576, at_least=0)
    max_poll_records: int = option(500, at_least=1)
    check_crcs: bool = option(True)
    isolation_level: str = option("read_uncommitted", choices=("read_uncommitted", "read_committed"))
    client_rack: str = option("")
    allow_auto_create_topics: bool = option(True)
