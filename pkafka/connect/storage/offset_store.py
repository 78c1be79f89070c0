"""Where workers keep the offsets of their source connectors.

A standalone worker has one file for them, the same as that of Java's worker; ``offset_topic`` has those of a cluster.
"""

import logging
import os
import threading
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from pkafka.connect.connector import SourcePlace
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ConnectError
from pkafka.connect.storage.java_map import dump_map, load_map
from pkafka.connect.storage.offset_keys import decode_key, decode_offset, encode_key, encode_offset

log = logging.getLogger("org.apache.kafka.connect.storage.FileOffsetBackingStore")


class OffsetStore(Protocol):
    """Keeps offsets by the bytes of their keys. Any thread may call it."""

    def refresh(self) -> None:
        """Learn what others have stored, where others store too.

        Raises:
            ConnectError: that cannot be read.
        """

    def get(self, key: bytes) -> bytes | None:
        """The value of a key as far as is known; None: there is none."""

    def entries(self) -> Mapping[bytes, bytes | None]:
        """All that is stored, as far as is known."""

    def put(self, entries: Mapping[bytes, bytes | None]) -> None:
        """Store values, and return when they are safe. None: there is no value any more.

        Raises:
            ConnectError: they are not stored, or it is not known whether they are.
        """


class OffsetFile:
    """Keeps offsets in memory and in a file, which is written as a whole and renamed into its place.

    Any thread may call it.

    Args:
        path: of the file; it need not exist.

    Raises:
        ConnectError: the file is there, and cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._entries: dict[bytes, bytes | None] = {}
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConnectError(f"The file of offsets {path} cannot be read: {error.strerror}") from error
        if data:
            try:
                self._entries = load_map(data)
            except ConnectError as error:
                raise ConnectError(f"The file of offsets {path} cannot be read: {error}") from error

    def refresh(self) -> None:
        """Nobody else writes the file."""

    def get(self, key: bytes) -> bytes | None:
        """The value of a key; None: there is none."""
        with self._lock:
            return self._entries.get(key)

    def entries(self) -> dict[bytes, bytes | None]:
        """All that is stored."""
        with self._lock:
            return dict(self._entries)

    def put(self, entries: Mapping[bytes, bytes | None]) -> None:
        """Store values, and return when they are on the disk.

        Raises:
            ConnectError: the file cannot be written; what was stored before is there still.
        """
        with self._lock:
            changed = {**self._entries, **entries}
            self._write(dump_map(changed))
            self._entries = changed

    def _write(self, data: bytes) -> None:
        beside = self._path.with_name(f"{self._path.name}.part")
        try:
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
        except OSError as error:
            raise ConnectError(f"Offsets cannot be written to {self._path}: {error.strerror}") from error


class ConnectorOffsets:
    """The offsets of one connector.

    Args:
        store: of the worker, or of the connector.
        connector: its name.
    """

    def __init__(self, store: OffsetStore, connector: str) -> None:
        self._store = store
        self._connector = connector

    def offset(self, partition: SourcePlace) -> dict[str, Value] | None:
        """Where to read on in a source partition; None: it was never read.

        Raises:
            ConnectError: the offsets cannot be read.
        """
        return self.offsets([partition])[0][1]

    def offsets(self, partitions: Iterable[SourcePlace]) -> list[tuple[SourcePlace, dict[str, Value] | None]]:
        """The same of many."""
        self._store.refresh()
        wanted = list(partitions)
        return [
            (partition, decode_offset(self._store.get(key)))
            for partition, key in zip(wanted, self._keys_of(wanted), strict=True)
        ]

    def store(self, offsets: Iterable[tuple[SourcePlace, SourcePlace | None]]) -> None:
        """Store offsets of partitions; None forgets one.

        Raises:
            ConnectError: they cannot be stored.
        """
        given = list(offsets)
        keys = self._keys_of([partition for partition, _offset in given])
        self._store.put(
            {key: encode_offset(offset) for key, (_partition, offset) in zip(keys, given, strict=True)}
        )

    def all(self) -> list[tuple[dict[str, Value], dict[str, Value]]]:
        """Every partition that has an offset.

        Raises:
            ConnectError: the offsets cannot be read.
        """
        self._store.refresh()
        found = []
        for key, value in self._store.entries().items():
            decoded = decode_key(key)
            if decoded is None:
                log.warning("Ignoring offset partition key with an unexpected format: %r", key)
                continue
            offset = decode_offset(value)
            if decoded[0] == self._connector and offset is not None:
                found.append((decoded[1], offset))
        return found

    def _keys_of(self, partitions: Sequence[SourcePlace]) -> list[bytes]:
        """The keys of partitions: the stored ones with the same names in another order, else the usual ones.

        An old worker, or another program, may have written a partition's names in another order than a HashMap's.
        """
        found = []
        others: dict[Hashable, bytes] | None = None
        for partition in partitions:
            key = encode_key(self._connector, partition)
            if len(partition) > 1 and self._store.get(key) is None:
                if others is None:
                    others = self._known_keys()
                key = others.get(frozenset(partition.items()), key)
            found.append(key)
        return found

    def _known_keys(self) -> dict[Hashable, bytes]:
        """The stored keys of this connector by what they mean."""
        found: dict[Hashable, bytes] = {}
        for key, value in self._store.entries().items():
            decoded = decode_key(key)
            if value is not None and decoded is not None and decoded[0] == self._connector:
                try:
                    found[frozenset(decoded[1].items())] = key
                except TypeError:
                    log.debug("Ignoring offset partition key with values that are no primitives: %r", key)
        return found
