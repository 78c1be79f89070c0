"""The topic id of a partition, in its file ``partition.metadata``.

Format: ``version: 0``, newline, ``topic_id: <22 characters of URL-safe base64>``, no newline at the end.
"""

from pathlib import Path
from typing import Final

from pkafka.errors import StorageError
from pkafka.java.text import lines
from pkafka.model import TopicId, parse_topic_id, topic_id_text
from pkafka.storage.files import Files, disk_failure, read_file, replace_file

PARTITION_METADATA_FILE: Final = "partition.metadata"
_VERSION: Final = "0"


def read_topic_id(files: Files, directory: Path) -> TopicId | None:
    """The topic id of the partition in ``directory``.

    None when it has no file (a log older than topic ids), or an empty one: what a power cut right after the
    partition's creation leaves.

    Raises:
        StorageError: the file cannot be read or is damaged.
    """
    path = directory / PARTITION_METADATA_FILE
    try:
        data = read_file(files, path)
    except OSError as error:
        raise disk_failure(path, "read", error) from error
    if not data:
        return None
    fields: dict[str, str] = {}
    for line in lines(data.decode("utf-8", errors="replace")):
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    if fields.get("version") != _VERSION:
        raise StorageError(f"{path}: version {fields.get('version')!r} where {_VERSION} is known")
    try:
        return parse_topic_id(fields["topic_id"])
    except (KeyError, ValueError):
        raise StorageError(f"{path}: no legal topic_id") from None


def write_topic_id(files: Files, directory: Path, topic_id: TopicId, *, durable: bool = True) -> None:
    """Write the file; on the disk when this returns, if ``durable``.

    Raises:
        StorageError: the disk refused.
    """
    path = directory / PARTITION_METADATA_FILE
    try:
        text = f"version: {_VERSION}\ntopic_id: {topic_id_text(topic_id)}"
        replace_file(files, path, text.encode(), durable=durable)
    except OSError as error:
        raise disk_failure(path, "write", error) from error
