"""What a mirror has done, topic by topic."""

import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class TopicCount:
    """What was copied of a topic.

    Attributes:
        records: that were read and handed to the producer.
        size_bytes: of keys and values, or of whole batches where these went as bytes.
        raw_records: of them, those that went in batches as bytes.
        dropped: records that the target refused, or that could not be sent.
    """

    records: int = 0
    size_bytes: int = 0
    raw_records: int = 0
    dropped: int = 0


@dataclass(slots=True)
class Statistics:
    """The counts of all streams; each stream and the sender's thread count for themselves.

    Attributes:
        commits: how often offsets were committed.
    """

    commits: int = 0
    _topics: dict[str, TopicCount] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def sent(self, topic: str, records: int, size_bytes: int, *, raw: bool) -> None:
        """Count records of a topic of the source that were handed to the producer."""
        with self._lock:
            count = self._topics.setdefault(topic, TopicCount())
            count.records += records
            count.size_bytes += size_bytes
            count.raw_records += records if raw else 0

    def dropped(self, topic: str, records: int) -> None:
        """Count records of a topic that did not arrive."""
        with self._lock:
            self._topics.setdefault(topic, TopicCount()).dropped += records

    def committed(self) -> None:
        """Count a commit."""
        with self._lock:
            self.commits += 1

    def topics(self) -> dict[str, TopicCount]:
        """By topic, in the order of their names."""
        with self._lock:
            return dict(sorted(self._topics.items()))

    def total(self) -> TopicCount:
        """Of all topics."""
        counts = self.topics().values()
        return TopicCount(
            sum(each.records for each in counts),
            sum(each.size_bytes for each in counts),
            sum(each.raw_records for each in counts),
            sum(each.dropped for each in counts),
        )
