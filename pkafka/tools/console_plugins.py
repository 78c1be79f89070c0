"""Classes of a user's own that read records from standard input, and that print them.

They are named on the command line as a configuration names serializers (``clients/plugins.py``), and have Kafka's
interfaces, in Python's words: its ``RecordReader`` (KIP-641) and its ``MessageFormatter``.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, BinaryIO, Final

from pkafka.clients import plugins
from pkafka.errors import PkafkaError

if TYPE_CHECKING:
    from pkafka.clients.consumer import ConsumerRecord
    from pkafka.clients.producer import ProducerRecord

_LINE_READERS: Final = (
    "LineMessageReader",
    "org.apache.kafka.tools.LineMessageReader",
    "kafka.tools.ConsoleProducer$LineMessageReader",
)


class PluginError(PkafkaError):
    """A class of the user's raised an exception."""


class RecordReader:
    """Makes records of standard input; to be derived from, or imitated: only ``read_records`` is needed."""

    def configure(self, properties: Mapping[str, str]) -> None:
        """Take what ``--reader-config`` and ``--property`` say, and ``topic``, which is what ``--topic`` says."""

    def read_records(self, source: BinaryIO) -> "Iterable[ProducerRecord]":
        """The records of a source, one after the other as they are read; keys and values are bytes or None."""
        raise NotImplementedError

    def close(self) -> None:
        """Called once, when all is read or a signal came."""


class MessageFormatter:
    """Prints records; to be derived from, or imitated: only ``write_to`` is needed."""

    def configure(self, properties: Mapping[str, str]) -> None:
        """Take what ``--formatter-config`` and ``--property`` say."""

    def write_to(self, record: "ConsumerRecord", output: BinaryIO) -> None:
        """Write a record, whose key and value are bytes or None, to standard output; the end of the line too."""
        raise NotImplementedError

    def close(self) -> None:
        """Called once, after the last record."""


def is_line_reader(name: str) -> bool:
    """Whether a class name is Kafka's own of the reader of lines."""
    return name in _LINE_READERS


class UserReader:
    """A reader of the user's, which may raise anything.

    Args:
        name: of its class.
        properties: handed to its ``configure``.

    Raises:
        ConfigError: there is no such class, or it cannot be made.
        PluginError: it does not like its properties.
    """

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        self._name = name
        self._reader: RecordReader = plugins.load("--line-reader", name, methods=("read_records",))
        _configure(self._reader, name, properties)

    def read(self, source: BinaryIO) -> "Iterator[ProducerRecord]":
        """The records of a source.

        Raises:
            PluginError: the class raised an exception.
        """
        try:
            yield from self._reader.read_records(source)
        except Exception as error:
            raise _failed(self._name, error) from error

    def close(self) -> None:
        """Close it; its exceptions are logged."""
        plugins.close_quietly(self._reader)


class UserFormatter:
    """A formatter of the user's, which may raise anything; see :class:`UserReader`.

    Raises:
        ConfigError, PluginError: as of :class:`UserReader`.
    """

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        self._name = name
        self._formatter: MessageFormatter = plugins.load("--formatter", name, methods=("write_to",))
        _configure(self._formatter, name, properties)

    def write(self, record: "ConsumerRecord", output: BinaryIO) -> None:
        """Print a record.

        Raises:
            PluginError: the class raised an exception.
            OSError: the output is gone or full.
        """
        try:
            self._formatter.write_to(record, output)
        except OSError:
            raise
        except Exception as error:
            raise _failed(self._name, error) from error

    def close(self) -> None:
        """Close it; its exceptions are logged."""
        plugins.close_quietly(self._formatter)


def _configure(plugin: object, name: str, properties: Mapping[str, str]) -> None:
    try:
        plugins.configure(plugin, properties)
    except Exception as error:
        raise _failed(name, error) from error


def _failed(name: str, error: Exception) -> PluginError:
    text = str(error)
    return PluginError(f"{name}: {type(error).__name__}" + (f": {text}" if text else ""))
