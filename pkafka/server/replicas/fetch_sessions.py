"""Incremental fetch sessions (KIP-227): a client's last request and answer, so that both sides send only changes.

Pure state of one worker. A session that was evicted, or that stayed in another worker or died with it, is not found;
the client then begins a new one, as the protocol provides.
"""

import secrets
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from pkafka.errors import ApiError, ErrorCode

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_AGE_MS: Final = 120_000

TopicKey: TypeAlias = str | bytes
"""A topic's name before Fetch v13, its id from then on."""
PartitionKey: TypeAlias = tuple[TopicKey, int]


class FetchTarget:
    """Holds one partition of a fetch: the request, and in a session also the last answer."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "partition",
        "partition_max_bytes",
        "told_high_watermark",
        "told_log_start_offset",
        "topic",
    )

    def __init__(
        self,
        topic: TopicKey,
        partition: int,
        current_leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        log_start_offset: int,
        partition_max_bytes: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.told_high_watermark = -1
        self.told_log_start_offset = -1
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes

    def update(
        self,
        current_leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        log_start_offset: int,
        partition_max_bytes: int,
    ) -> None:
        """Take over what a later request says of this partition."""
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes

    def has_news(
        self, *, error: bool, high_watermark: int, log_start_offset: int, records_length: int
    ) -> bool:
        """Whether an incremental answer must mention this partition; notes what that answer says."""
        news = records_length > 0 or error
        if self.told_high_watermark != high_watermark or self.told_log_start_offset != log_start_offset:
            news = True
            self.told_high_watermark = high_watermark
            self.told_log_start_offset = log_start_offset
        if error:
            # Once the error is over, the next answer must say so.
            self.told_high_watermark = -1
        return news


class FetchSession:
    """Holds the partitions that one client follows, in the order in which they are served."""

    __slots__ = (
        "created_ms",
        "denied",
        "epoch",
        "id",
        "judged_by",
        "last_used_ms",
        "targets",
        "uses_topic_ids",
    )

    def __init__(
        self, session_id: int, targets: Iterable[FetchTarget], *, uses_topic_ids: bool, now_ms: int
    ) -> None:
        self.id = session_id
        self.epoch = 1
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = self.last_used_ms = now_ms
        self.targets: OrderedDict[PartitionKey, FetchTarget] = OrderedDict(
            ((target.topic, target.partition), target) for target in targets
        )
        self.denied: frozenset[PartitionKey] = frozenset()
        """The partitions that the client may not read, as ``judged_by`` says."""
        self.judged_by: object = None
        """The client's rights by which ``denied`` was found; None when it has to be found again."""

    def served(self, target: FetchTarget) -> None:
        """Let the other partitions come first next time, as records of this one were sent: none starves so."""
        key = (target.topic, target.partition)
        if key in self.targets:
            self.targets.move_to_end(key)

    def __iter__(self) -> Iterator[FetchTarget]:
        return iter(self.targets.values())


class FetchSessionCache:
    """Holds all sessions of one worker.

    Args:
        slots: how many sessions it keeps (the worker's share of max.incremental.fetch.session.cache.slots).
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, targets: list[FetchTarget], *, uses_topic_ids: bool, now_ms: int) -> FetchSession | None:
        """A new session, or None when all slots hold sessions in use."""
        if len(self._sessions) >= self._slots and not self._evict(len(targets), now_ms):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = secrets.randbelow(2**31 - 1) + 1
        session = FetchSession(session_id, targets, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
        self._sessions[session_id] = session
        return session

    def _evict(self, size: int, now_ms: int) -> bool:
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms > EVICTION_AGE_MS:
            del self._sessions[oldest.id]
            return True
        smallest = min(
            self._sessions.values(), key=lambda session: (len(session.targets), session.last_used_ms)
        )
        if len(smallest.targets) < size and now_ms - smallest.created_ms > EVICTION_AGE_MS:
            del self._sessions[smallest.id]
            return True
        return False

    def remove(self, session_id: int) -> None:
        """Close a session; nothing happens when it is not there."""
        self._sessions.pop(session_id, None)

    def resume(self, session_id: int, epoch: int, *, uses_topic_ids: bool, now_ms: int) -> FetchSession:
        """The session of an incremental request, its epoch moved on.

        Raises:
            ApiError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if session.epoch == 2**31 - 1 else session.epoch + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session_id)
        return session
