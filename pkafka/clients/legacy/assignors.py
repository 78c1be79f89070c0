"""Which member of a group reads what, decided by every member for itself from the same facts.

The strategies are those of Kafka 0.8 and 0.9, ``partition.assignment.strategy=range`` and ``roundrobin``. Members of
one group must have the same one, and Java members may be among them, so every order here counts.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from pkafka.coordination.znode_json import string_hash
from pkafka.coordination.znodes_consumers import ConsumerThread
from pkafka.model import TopicPartition

Assignment: TypeAlias = dict[TopicPartition, ConsumerThread]
Assignor: TypeAlias = Callable[
    [Mapping[str, Sequence[ConsumerThread]], Mapping[str, Sequence[int]]], Assignment
]


def assign_range(
    threads_by_topic: Mapping[str, Sequence[ConsumerThread]], partitions: Mapping[str, Sequence[int]]
) -> Assignment:
    """Each topic for itself: threads by name, partitions by number, contiguous ranges; the first get one more.

    Args:
        threads_by_topic: the threads of all members that read a topic.
        partitions: the partitions of every one of these topics.
    """
    assignment: Assignment = {}
    for topic, unsorted in threads_by_topic.items():
        threads = sorted(unsorted, key=str)
        numbers = sorted(partitions.get(topic, ()))
        share, extra = divmod(len(numbers), len(threads))
        start = 0
        for position, thread in enumerate(threads):
            end = start + share + (position < extra)
            assignment.update((TopicPartition(topic, number), thread) for number in numbers[start:end])
            start = end
    return assignment


def assign_round_robin(
    threads_by_topic: Mapping[str, Sequence[ConsumerThread]], partitions: Mapping[str, Sequence[int]]
) -> Assignment:
    """All partitions of all topics, in the order of a hash, dealt in turn to the threads, by name, that read the topic.

    As in 0.9; 0.8 knew the case of equal subscriptions only, where both agree.
    """
    threads = sorted({thread for each in threads_by_topic.values() for thread in each}, key=str)
    # Scala's sort is stable over the order of a hash map where two hashes are equal; names decide here.
    laid_out = sorted(
        (TopicPartition(topic, number) for topic in threads_by_topic for number in partitions.get(topic, ())),
        key=lambda each: (_signed_hash(f"[{each.topic},{each.partition}]"), each),
    )
    readers = {topic: set(each) for topic, each in threads_by_topic.items()}
    assignment: Assignment = {}
    turn = 0
    for partition in laid_out:
        while threads[turn % len(threads)] not in readers[partition.topic]:
            turn += 1
        assignment[partition] = threads[turn % len(threads)]
        turn += 1
    return assignment


def _signed_hash(text: str) -> int:
    value = string_hash(text)
    return value - (1 << 32) if value >> 31 else value


ASSIGNORS: Final[Mapping[str, Assignor]] = {"range": assign_range, "roundrobin": assign_round_robin}
