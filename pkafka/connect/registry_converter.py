"""What converters have in common whose bytes name a schema of a Schema Registry: settings, ids, what is remembered."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from pkafka import errors
from pkafka.clients.registry.client import SchemaText
from pkafka.clients.registry.errors import InvalidSchemaError, NotFoundError
from pkafka.clients.registry.schema_ids import SchemaIds
from pkafka.connect.config_def import ConfigDef, ConfigType, Importance
from pkafka.connect.converters.settings import converter_config
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ConfigError, ConnectError

Setting = tuple[str, ConfigType, Value, str]
"""Name, type, default, documentation."""

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

_SETTINGS: Final[tuple[Setting, ...]] = (
    ("auto.register.schemas", ConfigType.BOOLEAN, True, "Register schemas that the registry does not have."),
    ("use.latest.version", ConfigType.BOOLEAN, False, "Write by the latest schema of the subject instead."),
    ("use.schema.id", ConfigType.INT, -1, "Write by the schema of this id instead; -1: none."),
    ("normalize.schemas", ConfigType.BOOLEAN, False, "Let the registry compare schemas by what they mean."),
    ("key.subject.name.strategy", ConfigType.STRING, "TopicNameStrategy", "How subjects of keys are named."),
    (
        "value.subject.name.strategy",
        ConfigType.STRING,
        "TopicNameStrategy",
        "How subjects of values are named.",
    ),
    ("basic.auth.credentials.source", ConfigType.STRING, "URL", "Where the login is: URL or USER_INFO."),
    ("basic.auth.user.info", ConfigType.PASSWORD, "", "The login, as name:password."),
    ("schema.registry.basic.auth.user.info", ConfigType.PASSWORD, "", "The same."),
    ("max.retries", ConfigType.INT, 3, "How often a request is repeated that may succeed later."),
    ("retries.wait.ms", ConfigType.INT, 1_000, "The wait before the first repetition."),
    ("retries.max.wait.ms", ConfigType.INT, 20_000, "The longest wait before a repetition."),
    ("http.read.timeout.ms", ConfigType.INT, 60_000, "How long an answer may take."),
)
KEPT: Final = "schemas.cache.config"
_LAST: Final[Setting] = (KEPT, ConfigType.INT, 1_000, "How many schemas are kept ready.")


def registry_config(own: Iterable[Setting]) -> ConfigDef:
    """The settings of a converter.

    Args:
        own: those that only this one has.
    """
    made = converter_config().define(
        "schema.registry.url",
        ConfigType.LIST,
        importance=Importance.HIGH,
        documentation="The URLs of the Schema Registry's servers.",
    )
    for name, type_, default, documentation in (*_SETTINGS, *own, _LAST):
        made.define(name, type_, default, importance=Importance.MEDIUM, documentation=documentation)
    return made


def registry_ids(
    configs: Mapping[str, Value], parsed: Mapping[str, Value], load: Callable[[], object], *, is_key: bool
) -> SchemaIds:
    """What finds the ids of schemas.

    Args:
        configs: as they were given.
        parsed: the same, read.
        load: the package that the format needs.

    Raises:
        ConfigError: a setting is refused.
        ConnectError: the package is not installed.
    """
    try:
        load()
        return SchemaIds({**configs, **parsed}, is_key=is_key)
    except errors.ConfigError as error:
        raise ConfigError(f"Invalid value for configuration {error.key}: {error.problem}") from error
    except errors.PkafkaError as error:
        raise ConnectError(str(error)) from error


def version_of(ids: SchemaIds, subject: str, text: SchemaText) -> int | None:
    """The version that the registry gives a schema; None: it is none of this subject's."""
    try:
        return ids.client.lookup(subject, text).version
    except (NotFoundError, InvalidSchemaError):
        return None


class Kept(dict[KeyT, ValueT]):
    """What is remembered: so many at most, the first one is forgotten first.

    Args:
        most: so many.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = max(most, 1)

    def keep(self, key: KeyT, value: ValueT) -> ValueT:
        """Remember one.

        Returns:
            The value.
        """
        if len(self) >= self._most:
            del self[next(iter(self))]
        self[key] = value
        return value


def record_name(definition: Any) -> str | None:  # noqa: ANN401 - it is JSON
    """The name of a schema by which a subject may be named."""
    found = definition.get("name") if isinstance(definition, Mapping) else None
    return found if isinstance(found, str) else None
