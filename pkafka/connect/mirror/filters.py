"""Which topics, groups and settings of topics are copied: ``TopicFilter``, ``GroupFilter``, ``ConfigPropertyFilter``.

An operator's own filter is a class of Python's that ``topic.filter.class``, ``group.filter.class`` or
``config.property.filter.class`` names with its dots.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from pkafka.connect.config_types import ConfigType, parse_type
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ConfigError
from pkafka.java.pattern import PatternError, compile_pattern

TOPICS: Final = ".*"
TOPICS_EXCLUDE: Final = r".*[\-\.]internal,.*\.replica,__.*"
GROUPS: Final = ".*"
GROUPS_EXCLUDE: Final = "console-consumer-.*,connect-.*,__.*"
CONFIGS_EXCLUDE: Final = (
    r"follower\.replication\.throttled\.replicas,leader\.replication\.throttled\.replicas,"
    r"message\.timestamp\.difference\.max\.ms,message\.timestamp\.type,"
    r"unclean\.leader\.election\.enable,min\.insync\.replicas"
)
_PACKAGE: Final = "org.apache.kafka.connect.mirror."


class _Filter(ABC):  # noqa: B024 - what a filter answers is in its subclasses
    JAVA_NAME: ClassVar[str | None] = None

    def configure(self, configs: Mapping[str, Value]) -> None:  # noqa: B027 - a filter may need none
        """Take the settings of the connector; called once, first."""


class TopicFilter(_Filter):
    """Chooses topics."""

    @abstractmethod
    def takes_topic(self, topic: str) -> bool:
        """Whether a topic is copied."""


class GroupFilter(_Filter):
    """Chooses groups of consumers."""

    @abstractmethod
    def takes_group(self, group: str) -> bool:
        """Whether the positions of a group are copied."""


class ConfigPropertyFilter(_Filter):
    """Chooses settings of topics."""

    @abstractmethod
    def takes_property(self, name: str) -> bool:
        """Whether a setting of topics is copied."""

    def takes_default(self, name: str) -> bool:
        """Whether a setting that has its default on the source is set to that on the target (KIP-888).

        The target may have another default. Else the setting is unset there.
        """
        return False


class DefaultTopicFilter(TopicFilter):
    """By ``topics`` and ``topics.exclude``."""

    JAVA_NAME = _PACKAGE + "DefaultTopicFilter"

    def configure(self, configs: Mapping[str, Value]) -> None:
        """Read both.

        Raises:
            ConfigError: one has a regular expression that is none.
        """
        self._include = pattern_of("topics", configs, TOPICS)
        self._exclude = pattern_of("topics.exclude", _renamed(configs, "topics"), TOPICS_EXCLUDE)

    def takes_topic(self, topic: str) -> bool:
        """Whether the name is included and not excluded."""
        return _matches(self._include, topic) and not _matches(self._exclude, topic)


class DefaultGroupFilter(GroupFilter):
    """By ``groups`` and ``groups.exclude``."""

    JAVA_NAME = _PACKAGE + "DefaultGroupFilter"

    def configure(self, configs: Mapping[str, Value]) -> None:
        """Read both.

        Raises:
            ConfigError: one has a regular expression that is none.
        """
        self._include = pattern_of("groups", configs, GROUPS)
        self._exclude = pattern_of("groups.exclude", _renamed(configs, "groups"), GROUPS_EXCLUDE)

    def takes_group(self, group: str) -> bool:
        """Whether the id is included and not excluded."""
        return _matches(self._include, group) and not _matches(self._exclude, group)


class DefaultConfigPropertyFilter(ConfigPropertyFilter):
    """By ``config.properties.exclude`` and ``use.defaults.from``."""

    JAVA_NAME = _PACKAGE + "DefaultConfigPropertyFilter"

    def configure(self, configs: Mapping[str, Value]) -> None:
        """Read both.

        Raises:
            ConfigError: one has a regular expression that is none.
        """
        renamed = _renamed(configs, "config.properties")
        self._exclude = pattern_of("config.properties.exclude", renamed, CONFIGS_EXCLUDE)
        self._defaults_from = configs.get("use.defaults.from", "target")

    def takes_property(self, name: str) -> bool:
        """Whether the name is not excluded."""
        return not _matches(self._exclude, name)

    def takes_default(self, name: str) -> bool:
        """Whether ``use.defaults.from`` is ``source``."""
        return bool(self._defaults_from == "source")


def pattern_of(name: str, configs: Mapping[str, Value], default: str) -> re.Pattern[str] | None:
    """The one pattern of a list of names and regular expressions; None: the list is empty, and nothing matches.

    Raises:
        ConfigError: it is no regular expression of Java's.
    """
    parts: Sequence[str] = parse_type(name, configs.get(name, default), ConfigType.LIST) or ()
    if not parts:
        return None
    try:
        return compile_pattern("|".join(parts))
    except PatternError as error:
        raise ConfigError.of(name, configs.get(name), str(error)) from error


def _renamed(configs: Mapping[str, Value], prefix: str) -> Mapping[str, Value]:
    """Settings in which the name ``exclude`` stands for ``blacklist``, its name until Kafka 2.7."""
    new, old = f"{prefix}.exclude", f"{prefix}.blacklist"
    if new not in configs and configs.get(old) is not None:
        return {**configs, new: configs[old]}
    return configs


def _matches(pattern: re.Pattern[str] | None, text: str) -> bool:
    return pattern is not None and pattern.fullmatch(text) is not None
