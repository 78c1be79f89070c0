"""Which checkpoints are news, and which offsets are committed on the target."""

from collections.abc import Mapping

import pytest

from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.clients.serialization import SerializationError
from pkafka.connect.mirror.checkpoints import Checkpoints, offsets_to_commit
from pkafka.connect.mirror.policies import DefaultReplicationPolicy
from pkafka.connect.mirror.records import Checkpoint
from pkafka.model import TopicPartition
from pkafka.tools.console.mirror_formatters import PACKAGE, formatter

T0 = TopicPartition("t", 0)
COPY = TopicPartition("A.t", 0)


def checkpoints(translations: Mapping[int, int | None]) -> Checkpoints:
    def translate(_partition: TopicPartition, upstream: int) -> int | None:
        return translations.get(upstream)

    return Checkpoints("A", "B", DefaultReplicationPolicy(), translate, lambda topic: topic != "not")


def news(made: Checkpoints, offset: int, topic: str = "t") -> list[int]:
    found = made.news("g", {TopicPartition(topic, 0): OffsetAndMetadata(offset)})
    return [each.downstream for each in found]


def test_a_checkpoint_is_news_when_the_group_or_the_translation_went_on() -> None:
    translations: dict[int, int | None] = {1: 11, 5: 15, 6: 15, 3: 11}
    made = checkpoints(translations)
    assert [news(made, each) for each in (1, 1, 5, 5, 6, 3, 1)] == [[11], [], [15], [], [], [11], [11]]
    assert made.positions("g") == {COPY: OffsetAndMetadata(11)}


def test_a_translation_that_went_back_is_no_news() -> None:
    translations: dict[int, int | None] = {5: 15}
    made = checkpoints(translations)
    assert news(made, 5) == [15]
    translations[5] = 12
    assert news(made, 5) == []
    translations[5] = 16
    assert news(made, 5) == [16]


def test_what_cannot_be_translated_is_left_out() -> None:
    made = checkpoints({1: None, 2: -1, 3: 0})
    assert [news(made, each) for each in (1, 2, 3)] == [[], [], [0]]
    assert news(made, 3, "not") == []
    assert made.news("g", {T0: None}) == []


def test_a_copy_of_a_topic_of_the_target_is_that_topic() -> None:
    made = checkpoints({1: 1})
    assert made.copy_of(TopicPartition("B.t", 3)) == TopicPartition("t", 3)
    assert made.copy_of(TopicPartition("C.t", 3)) == TopicPartition("A.C.t", 3)


def test_what_was_read_counts_as_written() -> None:
    made = checkpoints({5: 15})
    made.note(Checkpoint("g", COPY, 5, 15))
    assert news(made, 5) == []
    assert made.groups() == ["g"]


def test_no_offset_is_taken_back_on_the_target() -> None:
    other, new, reset = (TopicPartition("A.t", number) for number in (1, 2, 3))
    positions = {each: OffsetAndMetadata(10) for each in (COPY, other, new, reset)}
    there = {COPY: OffsetAndMetadata(9), other: OffsetAndMetadata(10), reset: None}
    assert set(offsets_to_commit(positions, there)) == {COPY, new, reset}


def test_the_console_shows_checkpoints_and_refuses_what_is_none() -> None:
    shown = formatter(f"{PACKAGE}CheckpointFormatter")
    assert shown is not None
    made = Checkpoint("g", COPY, 5, 15, "m")
    text = "Checkpoint{consumerGroupId=g, topicPartition=A.t-0, upstreamOffset=5, downstreamOffset=15, metadata=m}\n"
    assert shown(made.key, made.value) == text.encode()
    with pytest.raises(SerializationError):
        shown(b"", made.value)
    assert formatter(f"{PACKAGE}NoFormatter") is None
