"""Transforms that change the topic of a record or drop the record, and the predicates."""

from collections.abc import Mapping

from pkafka.connect.config_def import ConfigDef, ConfigType, Importance
from pkafka.connect.config_validators import all_of, non_empty, regex
from pkafka.connect.data.java_text import java_text
from pkafka.connect.data.records import ConnectRecord
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ArgumentError, BoundsError, ConfigError, DataError
from pkafka.connect.transforms.interface import R
from pkafka.connect.transforms.sides import PACKAGE, Settings
from pkafka.java.date_format import DateFormatError, SimpleDateFormat
from pkafka.java.pattern import PatternError, compile_pattern
from pkafka.java.replacement import NoGroupError, replace_first


class RegexRouter(Settings):
    """``RegexRouter``: another topic for records of topics whose names match."""

    JAVA_NAME = PACKAGE + "RegexRouter"
    CONFIG = (
        ConfigDef()
        .define(
            "regex",
            ConfigType.STRING,
            validator=regex,
            importance=Importance.HIGH,
            documentation="Regular expression to use for matching.",
        )
        .define(
            "replacement", ConfigType.STRING, importance=Importance.HIGH, documentation="Replacement string."
        )
    )

    def _take(self, parsed: Mapping[str, Value]) -> None:
        self._pattern = compile_pattern(parsed["regex"])
        self._replacement: str = parsed["replacement"]

    def apply(self, record: R) -> R | None:
        """The record with another topic, where the whole of its topic's name matches.

        Raises:
            DataError: the replacement refers to a group that is not there.
        """
        topic = record.topic or ""
        if self._pattern.fullmatch(topic) is None:
            return record
        try:
            return record.new_record(topic=replace_first(self._pattern, topic, self._replacement))
        except NoGroupError as error:
            raise BoundsError(str(error)) from error
        except PatternError as error:
            raise ArgumentError(str(error)) from error


class TimestampRouter(Settings):
    """``TimestampRouter``: a topic for each day, or as the format says."""

    JAVA_NAME = PACKAGE + "TimestampRouter"
    CONFIG = (
        ConfigDef()
        .define(
            "topic.format",
            ConfigType.STRING,
            "${topic}-${timestamp}",
            importance=Importance.HIGH,
            documentation="Format string which can contain <code>${topic}</code> and "
            "<code>${timestamp}</code> as "
            "placeholders for the topic and timestamp, respectively.",
        )
        .define(
            "timestamp.format",
            ConfigType.STRING,
            "yyyyMMdd",
            importance=Importance.HIGH,
            documentation="Format string for the timestamp that is compatible with "
            "<code>java.text.SimpleDateFormat</code>.",
        )
    )

    def _take(self, parsed: Mapping[str, Value]) -> None:
        self._topic_format: str = parsed["topic.format"]
        self._pattern: str = parsed["timestamp.format"]
        self._format: SimpleDateFormat | None = None

    def apply(self, record: R) -> R | None:
        """The record with the topic of its time.

        Raises:
            DataError: it has no timestamp, or the format is none.
        """
        if record.timestamp is None:
            raise DataError(f"Timestamp missing on record: {record}")
        if self._format is None:
            # As in Java, a wrong pattern fails records, not the start.
            try:
                self._format = SimpleDateFormat(self._pattern)
            except DateFormatError as error:
                raise ArgumentError(str(error)) from error
        with_topic = self._topic_format.replace("${topic}", java_text(record.topic))
        return record.new_record(
            topic=with_topic.replace("${timestamp}", self._format.format(record.timestamp))
        )


class Filter(Settings):
    """``Filter``: drops records, as a rule those that a predicate is for."""

    JAVA_NAME = PACKAGE + "Filter"

    def apply(self, _record: R) -> R | None:
        """None."""
        return None


class HasHeaderKey(Settings):
    """``HasHeaderKey``: true of records with a header of that name."""

    JAVA_NAME = PACKAGE + "predicates.HasHeaderKey"
    CONFIG = ConfigDef().define(
        "name",
        ConfigType.STRING,
        validator=non_empty,
        importance=Importance.MEDIUM,
        documentation="The header name.",
    )

    def _take(self, parsed: Mapping[str, Value]) -> None:
        self._name: str = parsed["name"]

    def test(self, record: ConnectRecord) -> bool:
        """Whether it has one."""
        return record.headers.last_with_name(self._name) is not None


class RecordIsTombstone(Settings):
    """``RecordIsTombstone``: true of records without a value."""

    JAVA_NAME = PACKAGE + "predicates.RecordIsTombstone"

    def test(self, record: ConnectRecord) -> bool:
        """Whether it has none."""
        return record.value is None


class TopicNameMatches(Settings):
    """``TopicNameMatches``: true of records of topics whose whole name matches."""

    JAVA_NAME = PACKAGE + "predicates.TopicNameMatches"
    CONFIG = ConfigDef().define(
        "pattern",
        ConfigType.STRING,
        validator=all_of(non_empty, regex),
        importance=Importance.MEDIUM,
        documentation="A Java regular expression for matching against the name of a record's topic.",
    )

    def _take(self, parsed: Mapping[str, Value]) -> None:
        try:
            self._pattern = compile_pattern(parsed["pattern"])
        except PatternError as error:
            problem = f"entry must be a Java-compatible regular expression: {error}"
            raise ConfigError.of("pattern", parsed["pattern"], problem) from error

    def test(self, record: ConnectRecord) -> bool:
        """Whether it matches."""
        return record.topic is not None and self._pattern.fullmatch(record.topic) is not None
