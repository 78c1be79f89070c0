"""Which subject of a registry the schemas of a topic's records belong to."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, cast

from pkafka.clients import plugins
from pkafka.clients.serialization import SerializationError
from pkafka.errors import ConfigError

SubjectStrategy: TypeAlias = Callable[[str, bool, str | None], str]
"""From the topic, whether it is of keys, and the full name of the record or None, to the subject."""


def topic_name(topic: str, is_key: bool, _record: str | None) -> str:
    """``<topic>-key`` or ``<topic>-value``: one kind of record in a topic."""
    return f"{topic}-{'key' if is_key else 'value'}"


def record_name(_topic: str, _is_key: bool, record: str | None) -> str:
    """The full name of the record: one schema for all topics.

    Raises:
        SerializationError: the schema has no name.
    """
    if not record:
        raise SerializationError("A subject is to be named as the record, and the schema is none of a record")
    return record


def topic_record_name(topic: str, is_key: bool, record: str | None) -> str:
    """``<topic>-<full name>``: several kinds of records in a topic.

    Raises:
        SerializationError: the schema has no name.
    """
    return f"{topic}-{record_name(topic, is_key, record)}"


_STRATEGIES: Final[dict[str, SubjectStrategy]] = {
    "TopicNameStrategy": topic_name,
    "RecordNameStrategy": record_name,
    "TopicRecordNameStrategy": topic_record_name,
}
_JAVA: Final = "io.confluent.kafka.serializers.subject."


def strategy(configs: Mapping[str, object], *, is_key: bool) -> SubjectStrategy:
    """The strategy that ``{key,value}.subject.name.strategy`` names: by its name in Java, or a function.

    Raises:
        ConfigError: there is none.
    """
    key = f"{'key' if is_key else 'value'}.subject.name.strategy"
    named = configs.get(key, "TopicNameStrategy")
    if isinstance(named, str):
        found = _STRATEGIES.get(named.removeprefix(_JAVA))
        if found is not None:
            return found
        if named.startswith(_JAVA) or "." not in named:
            raise ConfigError(key, f"is none of {', '.join(_STRATEGIES)}", named)
        made = plugins.load(key, named, methods=("__call__",))
        return cast(SubjectStrategy, made)
    if callable(named):
        return cast(SubjectStrategy, named)
    raise ConfigError(key, "is neither a name nor a function", named)
