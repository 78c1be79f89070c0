"""Decides which schema the bytes of a record name: registered now, looked up, or the latest of its subject."""

from collections.abc import Mapping
from typing import Final

from pkafka.clients.registry.client import SchemaRegistryClient, SchemaText
from pkafka.clients.registry.settings import RegistrySettings, flag, number
from pkafka.clients.registry.subjects import strategy
from pkafka.errors import ConfigError


class SchemaIds:
    """Finds the id of a schema, as the configuration wants it.

    Args:
        configs: the client's keys.
        is_key: whether it is for keys.
        client: of the registry; None: one that the configuration describes.

    Raises:
        ConfigError: a key has a value that it cannot have.
    """

    def __init__(
        self, configs: Mapping[str, object], *, is_key: bool, client: SchemaRegistryClient | None = None
    ) -> None:
        self.client: Final = client or client_of(configs)
        self.registers: Final = flag(configs, "auto.register.schemas", default=True)
        self.uses_latest: Final = flag(configs, "use.latest.version", default=False)
        self.normalizes: Final = flag(configs, "normalize.schemas", default=False)
        self.fixed_id: Final = _fixed_id(configs)
        self._is_key = is_key
        self._strategy = strategy(configs, is_key=is_key)

    def subject(self, topic: str, record: str | None) -> str:
        """The subject of a topic's records.

        Args:
            record: the full name of the record; None: it has none.

        Raises:
            SerializationError: the strategy needs a name, and there is none.
        """
        return self._strategy(topic, self._is_key, record)

    def chosen(self, subject: str) -> tuple[int, SchemaText] | None:
        """The schema that the configuration chooses without looking at the data; None: it chooses none.

        Raises:
            RegistryError: the registry has none, or does not answer.
        """
        if self.registers:
            return None
        if self.fixed_id is not None:
            return self.fixed_id, self.client.schema_of(self.fixed_id)
        if self.uses_latest:
            latest = self.client.latest(subject)
            return latest.id, latest.schema
        return None

    def id_of(self, subject: str, schema: SchemaText) -> int:
        """The id of a schema that the data bring along.

        Raises:
            RegistryError: the registry does not take it, does not have it, or does not answer.
        """
        ask = self.client.register if self.registers else self.client.id_of
        return ask(subject, schema, normalize=self.normalizes)


def client_of(configs: Mapping[str, object]) -> SchemaRegistryClient:
    """A client by a configuration.

    Raises:
        ConfigError: a key has a value that it cannot have.
    """
    given = configs.get("latest.cache.ttl.sec", -1)
    kept_s = -1 if str(given) == "-1" else number(configs, "latest.cache.ttl.sec", 0)
    return SchemaRegistryClient(RegistrySettings.of(configs), latest_kept_s=kept_s)


def _fixed_id(configs: Mapping[str, object]) -> int | None:
    given = configs.get("use.schema.id", -1)
    try:
        found = int(str(given))
    except ValueError:
        raise ConfigError("use.schema.id", "is not a whole number", given) from None
    return found if found >= 0 else None
