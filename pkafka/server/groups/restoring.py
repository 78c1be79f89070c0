"""Loads the groups of one partition: what is played becomes groups that are coordinated."""

import logging
from collections.abc import Callable, Iterator, Sequence

from pkafka.model import TopicPartition
from pkafka.records.batch import BatchHeader
from pkafka.records.errors import RecordError
from pkafka.records.reading import Record
from pkafka.server.coordinator.shards import Shard
from pkafka.server.groups.hosted import Entry
from pkafka.server.groups.loading import LoadedGroup, Replay
from pkafka.server.groups.offsets import PartitionKey

log = logging.getLogger(__name__)


class GroupLoading:
    """Loads a partition of __consumer_offsets.

    Args:
        source: the partition.
        restored: makes a group of what the log has of it.
        coordinate: begins with the groups.
    """

    def __init__(
        self,
        source: TopicPartition,
        restored: Callable[[str, int, LoadedGroup], Entry],
        coordinate: Callable[["GroupLoading", Shard[Entry]], None],
    ) -> None:
        self._source = source
        self._restored = restored
        self._coordinate = coordinate
        self._replay = Replay(source)
        self.deleted: set[PartitionKey] = set()
        """What was deleted since the loading began; the log may have offsets of it."""

    def begin(self) -> None:
        """Forget what an attempt before this one has played."""
        self._replay = Replay(self._source)

    def play(self, header: BatchHeader, records: Sequence[Record]) -> None:
        """Take over one batch, the next in the log."""
        try:
            self._replay.play(header, records)
        except RecordError as error:
            log.error(
                "Ignoring a control batch at offset %d of %s: %s", header.base_offset, self._source, error
            )

    def entries(self) -> Iterator[tuple[str, Entry]]:
        """Make the groups that are left after the last batch."""
        for group_id, loaded in self._replay.groups():
            try:
                entry = self._restored(group_id, self._source.partition, loaded)
            except Exception:
                # One group that cannot be restored must not keep the others of its partition from their members.
                log.exception("Group %s of %s cannot be restored", group_id, self._source)
            else:
                yield group_id, entry

    def loaded(self, entries: Shard[Entry], took_ms: float) -> None:
        """Begin with the groups."""
        self._coordinate(self, entries)
        log.log(
            logging.INFO if entries else logging.DEBUG,
            "Finished loading offsets and group metadata from %s in %d milliseconds: %d groups",
            self._source,
            took_ms,
            len(entries),
        )
