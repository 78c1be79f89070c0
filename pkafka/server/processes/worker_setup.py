"""What a worker is told before it is forked."""

import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.limits.connection_limits import LimitSettings, SharedCounts
from pkafka.server.limits.rate_table import RateTable
from pkafka.server.limits.rates import SharedRate
from pkafka.server.limits.replication_quota import SharedReplicationRates
from pkafka.server.replication.directory_moves import move_rate
from pkafka.server.security.encryption import Encryption
from pkafka.storage.log_directory import LogDirectory


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """What a worker is told before it is forked."""

    config: BrokerConfig
    index: int
    workers: int
    listeners: Sequence[tuple[str, Sequence[socket.socket]]]
    """Their names, and the listening socket of each worker."""
    connection_counts: SharedCounts
    limits: LimitSettings
    directories: Sequence[LogDirectory]
    unusable: Sequence[Path]
    """Log directories that could not even be locked; their replicas stay offline."""
    clean: Mapping[Path, bool]
    """Whether the directory was closed cleanly; counts for the first start only."""
    move_rate: SharedRate = field(default_factory=move_rate)
    """How fast replicas are copied to other log directories; as above."""
    replication_rates: SharedReplicationRates = field(default_factory=SharedReplicationRates)
    """Shared by all workers; one that is alone has its own."""
    encryption: Encryption | None = None
    """Of the listeners, as the stores were before the start; None: to be made of the settings."""
    client_rates: RateTable = field(default_factory=lambda: RateTable(samples=11, window_ms=1000))
    """What clients use; as above."""
    start: str = field(default_factory=lambda: secrets.token_hex(8))
    """Tells this start of the broker from others; the same for a worker that is forked again."""
