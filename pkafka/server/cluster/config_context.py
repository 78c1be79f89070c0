"""The ports of the three configuration handlers: the control process implements them, tests replace them."""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from pkafka.model import BrokerId
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.repository import ConfigRepository
from pkafka.server.policies import Policies

T = TypeVar("T")


class TopicNames(Protocol):
    """The part of the metadata cache that is needed: does a topic exist?"""

    def topic(self, name: str, /) -> object | None: ...


class Loggers(Protocol):
    """The loggers of this broker's processes, with levels in Kafka's words."""

    def levels(self) -> Mapping[str, str]:
        """The effective level of each logger by name, the root logger under ``root``."""
        ...

    def set_level(self, name: str, level: str | None) -> None:
        """Set the level of a logger in every process; None: let it follow its parent again."""
        ...


class ConfigContext(Protocol):
    """The control process, as the configuration handlers see it."""

    @property
    def broker_id(self) -> BrokerId: ...

    @property
    def metadata(self) -> TopicNames: ...

    @property
    def configs(self) -> ConfigRepository:
        """The dynamic settings; what uses the store goes through :meth:`run`."""
        ...

    @property
    def loggers(self) -> Loggers: ...

    @property
    def policies(self) -> Policies:
        """What the operator allows; ask on the thread of the store."""
        ...

    def check_stores(self, config: BrokerConfig) -> None:
        """Check that the stores of keys that other settings name can be used; reads files.

        Raises:
            ConfigError: they cannot.
        """
        ...

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Call ``function`` on the thread that may use the store and give back what it returns or raises."""
        ...

    async def in_force(self) -> None:
        """Wait until no worker of this broker acts by settings that were changed before."""
        ...
