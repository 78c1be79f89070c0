"""What goes wrong in connectors, converters and transforms; texts and class names are Apache Kafka Connect's.

Both travel: into the traces of the REST API and into the headers of dead letters
(``__connect.errors.exception.class.name`` and ``.message``).
"""

from typing import ClassVar, Final

from pkafka.errors import PkafkaError

_CONNECT: Final = "org.apache.kafka.connect.errors."


class ConnectError(PkafkaError):
    """Something failed that no second attempt mends."""

    JAVA_NAME: ClassVar[str] = _CONNECT + "ConnectException"
    """The class that Apache Kafka Connect raises here."""


class RetriableError(ConnectError):
    """Something failed that may succeed when it is tried again."""

    JAVA_NAME = _CONNECT + "RetriableException"


class DataError(ConnectError):
    """A value does not fit its schema, or cannot be converted."""

    JAVA_NAME = _CONNECT + "DataException"


class SchemaBuilderError(DataError):
    """A schema was described in a way that cannot be."""

    JAVA_NAME = _CONNECT + "SchemaBuilderException"


class NumberFormatError(DataError):
    """A text is no number; Java's own exception comes through here."""

    JAVA_NAME = "java.lang.NumberFormatException"


class ArgumentError(DataError):
    """A value cannot be taken; Java's own exception comes through here."""

    JAVA_NAME = "java.lang.IllegalArgumentException"


class BoundsError(DataError):
    """A number is beyond what there is; Java's own exception comes through here."""

    JAVA_NAME = "java.lang.IndexOutOfBoundsException"


class CastError(DataError):
    """A value is of another class than the code takes for granted; Java's own exception comes through here."""

    JAVA_NAME = "java.lang.ClassCastException"


class NullError(DataError):
    """Nothing stands where something has to; Java's own exception comes through here."""

    JAVA_NAME = "java.lang.NullPointerException"


class SerializationError(DataError):
    """Bytes cannot be read, or a value not be written; the cause of a :class:`DataError` of a converter."""

    JAVA_NAME = "org.apache.kafka.common.errors.SerializationException"


class ConfigError(PkafkaError):
    """A configuration is refused.

    Args:
        message: the whole text, for what no single value is to blame for.
    """

    JAVA_NAME: ClassVar[str] = "org.apache.kafka.common.config.ConfigException"

    name: str | None = None
    """The key, when one is to blame."""

    value: object = None
    """Its value."""

    @classmethod
    def of(cls, name: str, value: object, message: str | None = None) -> "ConfigError":
        """The refusal of the value of one key.

        Args:
            value: as configured, or as parsed; it is shown as Java shows it.
            message: what is wrong with it.
        """
        # Imported late: the text of a value may be that of a struct, whose module needs the errors.
        from pkafka.connect.data.java_text import java_text

        reason = "" if message is None else f": {message}"
        error = cls(f"Invalid value {java_text(value)} for configuration {name}{reason}")
        error.name = name
        error.value = value
        return error


class TooManyTasksError(ConnectError):
    """A connector has made more tasks than ``tasks.max`` allows."""

    JAVA_NAME = "org.apache.kafka.connect.runtime.TooManyTasksException"
