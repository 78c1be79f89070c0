"""The fetch sessions of a consumer (KIP-227), one per broker: what each is asked of every partition."""

from collections.abc import Mapping
from typing import NamedTuple

from pkafka.model import NO_TOPIC_ID, TopicId, TopicPartition
from pkafka.protocol.fetch_session import ClientSession
from pkafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)


class FetchPosition(NamedTuple):
    """What to ask of one partition."""

    topic_id: TopicId
    offset: int
    leader_epoch: int
    bytes_max: int


class FetchSession:
    """The session with one broker, as this client knows it."""

    def __init__(self) -> None:
        self._session: ClientSession[TopicPartition, FetchPosition] = ClientSession()
        self._names: dict[TopicId, str] = {}

    def fill(self, request: FetchRequest, wanted: Mapping[TopicPartition, FetchPosition]) -> int | None:
        """Put into the request what the broker does not know yet.

        Args:
            wanted: every partition to fetch.

        Returns:
            The highest version to send it at: 12 while a topic has no id, otherwise None.
        """
        known = self._session.begin(request, wanted)
        request.forgotten_topics_data = _forgotten(known, wanted)
        topics: dict[str, FetchTopic] = {}
        for partition, at in wanted.items():
            if known.get(partition) == at:
                continue
            name, index = partition
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
        self._names = {at.topic_id: each.topic for each, at in wanted.items()}
        return 12 if any(at.topic_id == NO_TOPIC_ID for at in wanted.values()) else None

    def topic_name(self, name: str, topic_id: TopicId) -> str | None:
        """The name of a topic in an answer, which may carry only its id."""
        return name or self._names.get(topic_id)

    def answered(self, response: FetchResponse) -> None:
        """Take note of an answer: the broker may have opened, continued or refused a session."""
        self._session.answered(response.error_code, response.session_id)

    def closing(self) -> FetchRequest | None:
        """The request that ends the session; None where there is none."""
        return self._session.closing()

    def reset(self) -> None:
        """Begin with a full fetch next time, as after a lost connection."""
        self._session.reset()


def _forgotten(
    known: Mapping[TopicPartition, FetchPosition], wanted: Mapping[TopicPartition, FetchPosition]
) -> list[ForgottenTopic]:
    gone: dict[str, ForgottenTopic] = {}
    for each, at in known.items():
        now = wanted.get(each)
        if now is None or now.topic_id != at.topic_id:
            if each.topic not in gone:
                gone[each.topic] = ForgottenTopic(topic=each.topic, topic_id=at.topic_id, partitions=[])
            gone[each.topic].partitions.append(each.partition)
    return list(gone.values())
