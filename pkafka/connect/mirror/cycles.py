"""Sees that a topic goes round in circles, where a policy keeps names and so cannot tell what is a copy.

The flow back writes an offset sync for what it copies. So a sync of a topic that this flow copies, too, and that comes
while it does, says that records go there and back. What was there before is of no account: the direction of a flow may
have been turned since.
"""

import logging
from collections.abc import Callable
from typing import Final

from pkafka.clients.consumer import ConsumerRecord
from pkafka.connect.mirror.records import OffsetSync, RecordFormatError
from pkafka.connect.mirror.topic_reading import TopicReader

log = logging.getLogger(__name__)

_READ_MS: Final = 10_000


class CycleGuard:
    """Reads the offset syncs of the flow back.

    Args:
        configs: of a consumer of the target.
        topic: of the syncs.
        exists: whether the target has it.
        takes: whether this flow copies a topic.
    """

    def __init__(
        self,
        configs: dict[str, str],
        topic: str,
        exists: Callable[[str], bool],
        takes: Callable[[str], bool],
    ) -> None:
        self._configs = configs
        self._topic = topic
        self._exists = exists
        self._takes = takes
        self._reader: TopicReader | None = None
        self._is_first = True
        self._found: set[str] = set()

    def look(self) -> set[str]:
        """The topics that go round in circles, of all that this flow copies.

        Raises:
            ClientError, ApiError: the target cannot be asked.
        """
        if self._reader is None and self._exists(self._topic):
            self._reader = TopicReader(self._configs, self._topic, self._take, from_end=self._is_first)
        self._is_first = False
        if self._reader is not None:
            self._reader.read_to_end(_READ_MS)
        return self._found

    def close(self) -> None:
        """Let go of the connections."""
        if self._reader is not None:
            self._reader.close()

    def _take(self, record: ConsumerRecord) -> None:
        try:
            topic = OffsetSync.of(record.key, record.value).partition.topic
        except RecordFormatError as error:
            log.warning("Ignored invalid offset sync at offset %d: %s", record.offset, error)
            return
        if topic not in self._found and self._takes(topic):
            self._found.add(topic)
