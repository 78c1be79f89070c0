"""Fetch sessions (KIP-227): after the first fetch only what changed travels. One per broker; knows no socket."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pkafka.model import NO_TOPIC_ID, TopicId, TopicPartition
from pkafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)

_NO_SESSION: Final = 0
_FIRST_EPOCH: Final = 0
_EPOCH_MAX: Final = 2**31 - 1
_FINAL_EPOCH: Final = -1


class FetchPosition(NamedTuple):
    """What to ask of one partition."""

    topic_id: TopicId
    offset: int
    leader_epoch: int
    bytes_max: int


class FetchSession:
    """The session with one broker, as this client knows it."""

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._known: dict[TopicPartition, FetchPosition] = {}
        self._names: dict[TopicId, str] = {}

    def fill(self, request: FetchRequest, wanted: Mapping[TopicPartition, FetchPosition]) -> int | None:
        """Put into the request what the broker does not know yet.

        Args:
            wanted: every partition to fetch.

        Returns:
            The highest version to send it at: 12 while a topic has no id, otherwise None.
        """
        changed = wanted
        if self._id == _NO_SESSION:
            self._known = {}
        else:
            changed = {each: at for each, at in wanted.items() if self._known.get(each) != at}
            self._forget(request, wanted)
        request.session_id, request.session_epoch = self._id, self._epoch
        topics: dict[str, FetchTopic] = {}
        for (name, index), at in changed.items():
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = FetchTopic(topic=name, topic_id=at.topic_id, partitions=[])
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=at.leader_epoch,
                    fetch_offset=at.offset,
                    partition_max_bytes=at.bytes_max,
                )
            )
        request.topics = list(topics.values())
        self._known = dict(wanted)
        self._names = {at.topic_id: each.topic for each, at in wanted.items()}
        return 12 if any(at.topic_id == NO_TOPIC_ID for at in wanted.values()) else None

    def topic_name(self, name: str, topic_id: TopicId) -> str | None:
        """The name of a topic in an answer, which may carry only its id."""
        return name or self._names.get(topic_id)

    def answered(self, response: FetchResponse) -> None:
        """Take note of an answer: the broker may have opened, continued or refused a session."""
        if response.error_code or response.session_id == _NO_SESSION:
            self.reset()
        else:
            self._epoch = (
                1 if response.session_id != self._id or self._epoch == _EPOCH_MAX else self._epoch + 1
            )
            self._id = response.session_id

    def closing(self) -> FetchRequest | None:
        """The request that ends the session; None where there is none."""
        if self._id == _NO_SESSION:
            return None
        return FetchRequest(session_id=self._id, session_epoch=_FINAL_EPOCH, topics=[])

    def reset(self) -> None:
        """Begin with a full fetch next time, as after a lost connection."""
        self._id, self._epoch, self._known = _NO_SESSION, _FIRST_EPOCH, {}

    def _forget(self, request: FetchRequest, wanted: Mapping[TopicPartition, FetchPosition]) -> None:
        gone: dict[str, ForgottenTopic] = {}
        for each, at in self._known.items():
            now = wanted.get(each)
            if now is None or now.topic_id != at.topic_id:
                if each.topic not in gone:
                    gone[each.topic] = ForgottenTopic(topic=each.topic, topic_id=at.topic_id, partitions=[])
                gone[each.topic].partitions.append(each.partition)
        request.forgotten_topics_data = list(gone.values())
