"""A control process that does nothing but configuration: the real repository on a real embedded store, no threads."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from pkafka.clock import ManualClock
from pkafka.coordination.embedded import EmbeddedStore
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.dynamic import Configs
from pkafka.server.config.repository import ConfigRepository
from pkafka.server.policies import Policies
from pkafka.server.security.encryption import Encryption
from pkafka.server.security.rights import UNLIMITED, Rights

T = TypeVar("T")


class FakeTopics:
    """Topic names that exist."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)

    def topic(self, name: str) -> object | None:
        return name if name in self.names else None


class FakeLoggers:
    """Loggers with levels that nobody logs with."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = dict(names)

    def levels(self) -> Mapping[str, str]:
        return self.names

    def set_level(self, name: str, level: str | None) -> None:
        self.names[name] = level or self.names["root"]


class FakeControl:
    """Implements ConfigContext. ``heard`` collects what the repository reports; ``pending`` what it posts."""

    def __init__(
        self,
        directory: Path,
        static: BrokerConfig,
        *,
        broker_id: int,
        topics: tuple[str, ...] = (),
        loggers: Mapping[str, str] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.check_stores = Encryption(static).check
        self.metadata = FakeTopics(*topics)
        self.loggers = FakeLoggers(loggers or {"root": "INFO"})
        self.policies = Policies()
        self.rights: Rights = UNLIMITED
        self.clock = ManualClock()
        self.store = EmbeddedStore(directory / "store.sqlite", clock=self.clock)
        self.heard: list[tuple[str, str, Configs]] = []
        self.waited_for: list[int] = []
        """How much was reported at each wait for workers to act by it."""
        self.pending: list[Callable[[], None]] = []
        self.configs = ConfigRepository(
            static,
            broker_id,
            clock=self.clock,
            on_change=lambda kind, name, configs: self.heard.append((kind, name, dict(configs))),
            post=self.pending.append,
        )
        self.configs.start(self.store)

    async def run(self, function: Callable[..., T], *args: object) -> T:
        return function(*args)

    async def in_force(self) -> None:
        self.waited_for.append(len(self.heard))

    def close(self) -> None:
        self.configs.stop()
        self.store.close()
