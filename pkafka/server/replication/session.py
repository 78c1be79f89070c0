"""A follower's side of an incremental fetch session (KIP-227): the content of the next fetch."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pkafka.errors import ErrorCode
from pkafka.model import LeaderEpoch, Offset, TopicId
from pkafka.protocol.fetch_session import ClientSession
from pkafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


class Wish(NamedTuple):
    """Holds what a follower asks for one partition."""

    leader_epoch: LeaderEpoch
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    log_start_offset: Offset
    bytes_max: int


Key = tuple[TopicId, int]


class FollowerSession:
    """Remembers what the leader knows, so that a fetch names only what has changed."""

    def __init__(self) -> None:
        self._session: ClientSession[Key, Wish] = ClientSession()

    def fill(self, request: FetchRequest, wishes: Mapping[Key, Wish]) -> None:
        """Put into a request all that the leader does not know yet."""
        known = self._session.begin(request, wishes)
        topics: dict[TopicId, FetchTopic] = {}
        for (topic_id, index), wish in wishes.items():
            if known.get((topic_id, index)) != wish:
                topic = topics.setdefault(topic_id, FetchTopic(topic_id=topic_id))
                topic.partitions.append(_partition(index, wish))
        forgotten: dict[TopicId, ForgottenTopic] = {}
        for topic_id, index in known.keys() - wishes.keys():
            forgotten.setdefault(topic_id, ForgottenTopic(topic_id=topic_id)).partitions.append(index)
        request.topics, request.forgotten_topics_data = list(topics.values()), list(forgotten.values())

    def answered(self, error_code: int, session_id: int) -> bool:
        """Take the leader's answer to the last request.

        Returns:
            Whether the answer is an error of the session, so that the next request names everything again.
        """
        self._session.answered(error_code, session_id)
        return error_code in _SESSION_ERRORS

    def begin_anew(self) -> None:
        """Begin another session, as not all of an answer was taken and the leader cannot know that.

        The next request names everything again, and so does its answer.
        """
        self._session.begin_anew()

    def reset(self) -> None:
        """Forget the session: the connection was lost, or the leader does not know the session."""
        self._session.reset()


def _partition(index: int, wish: Wish) -> FetchPartition:
    return FetchPartition(
        partition=index,
        current_leader_epoch=wish.leader_epoch,
        fetch_offset=wish.fetch_offset,
        last_fetched_epoch=wish.last_fetched_epoch,
        log_start_offset=wish.log_start_offset,
        partition_max_bytes=wish.bytes_max,
    )
