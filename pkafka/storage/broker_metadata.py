"""Whose directory it is: ``meta.properties``.

A Java properties file. ZooKeeper mode writes version 0 with ``broker.id``, KRaft mode version 1 with ``node.id``; both
have ``cluster.id`` and, since 3.7, ``directory.id`` (a Uuid in base64).
"""

import time
from pathlib import Path
from typing import Final, NamedTuple

from pkafka.errors import StorageError
from pkafka.java.numbers import parse_int
from pkafka.java.properties import PropertiesError, decode_properties
from pkafka.model import topic_id_text
from pkafka.storage.files import Files, disk_failure, read_file, replace_file
from pkafka.topic_ids import new_topic_id

META_PROPERTIES_FILE: Final = "meta.properties"
VERSION_ZOOKEEPER: Final = 0
VERSION_KRAFT: Final = 1


class BrokerMetadata(NamedTuple):
    """The content of the file; None for what it does not say."""

    version: int
    cluster_id: str | None
    broker_id: int | None
    directory_id: str | None

    @property
    def is_kraft(self) -> bool:
        """Whether the directory was formatted for KRaft mode."""
        return self.version == VERSION_KRAFT


def new_directory_id() -> str:
    """A random id for a new directory."""
    return topic_id_text(new_topic_id())


def read_broker_metadata(files: Files, directory: Path) -> BrokerMetadata | None:
    """What the file in ``directory`` says; None without one.

    Raises:
        StorageError: it cannot be read, is damaged or of an unknown version.
    """
    path = directory / META_PROPERTIES_FILE
    try:
        data = read_file(files, path)
    except OSError as error:
        raise disk_failure(path, "read", error) from error
    return None if data is None else decode_broker_metadata(data, str(path))


def write_broker_metadata(files: Files, directory: Path, metadata: BrokerMetadata) -> None:
    """Replace the file, on the disk when this returns.

    Raises:
        StorageError: the disk refused.
    """
    path = directory / META_PROPERTIES_FILE
    try:
        replace_file(files, path, encode_broker_metadata(metadata))
    except OSError as error:
        raise disk_failure(path, "write", error) from error


def encode_broker_metadata(metadata: BrokerMetadata) -> bytes:
    """The text of the file, in the order and with the head of Java's Properties."""
    lines = ["#", time.strftime("#%a %b %d %H:%M:%S UTC %Y", time.gmtime())]
    if metadata.broker_id is not None:
        name = "node.id" if metadata.is_kraft else "broker.id"
        lines.append(f"{name}={metadata.broker_id}")
    if metadata.directory_id is not None:
        lines.append(f"directory.id={metadata.directory_id}")
    lines.append(f"version={metadata.version}")
    if metadata.cluster_id is not None:
        lines.append(f"cluster.id={metadata.cluster_id}")
    return ("\n".join(lines) + "\n").encode()


def decode_broker_metadata(data: bytes, origin: str) -> BrokerMetadata:
    """Read the text of the file; ``origin`` names it in errors.

    Raises:
        StorageError: it is damaged or of an unknown version.
    """
    try:
        fields = decode_properties(data)
    except PropertiesError as error:
        raise StorageError(f"{origin}: {error}") from None
    try:
        version = parse_int(fields["version"])
    except (KeyError, ValueError):
        raise StorageError(f"{origin}: no legal version") from None
    if version not in {VERSION_ZOOKEEPER, VERSION_KRAFT}:
        raise StorageError(f"{origin}: version {version}, where 0 and 1 are known")
    number = fields.get("node.id" if version == VERSION_KRAFT else "broker.id")
    try:
        broker_id = None if number is None else parse_int(number)
    except ValueError:
        raise StorageError(f"{origin}: {number!r} is no broker id") from None
    return BrokerMetadata(version, fields.get("cluster.id"), broker_id, fields.get("directory.id"))
