"""Reads a topic of dead letters, and sends letters back to the topics that they came from.

What was replayed is kept in the offsets of the group ``pk-connect-dlq-TOPIC``, which change in the transaction that
sends the letters: no letter is sent twice, whenever a run ends, and of two runs at once the later one fences the other.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.tools.dead_letters.letters import Choice, Letter, letter_of
from pkafka.tools.dead_letters.replayed import Replayed, Replaying

_POLL_MS: Final = 500


def group_of(topic: str) -> str:
    """The group whose offsets say what was replayed; the producer's ``transactional.id``, too."""
    return f"pk-connect-dlq-{topic}"


@dataclass(frozen=True, slots=True)
class Handled:
    """A letter, and what became of it.

    Args:
        to: the topic that it goes to; None: it is not known where it came from.
        is_replayed: whether it is there now, or was before.
    """

    letter: Letter
    to: str | None
    is_replayed: bool


class LetterTopic:
    """A topic of dead letters.

    Args:
        consumer: of the group of :func:`group_of`, with ``read_committed``; it creates no topics, commits nothing, and
            belongs to the caller.
        topic: its name.
        looked_at: told how many offsets were passed.

    Raises:
        ApiError: there is no such topic.
    """

    def __init__(
        self, consumer: Consumer, topic: str, looked_at: Callable[[int], None] = lambda _count: None
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._looked_at = looked_at
        self._sizes: dict[str, int] = {}
        self._partitions = [TopicPartition(topic, number) for number in range(self._size(topic))]
        self._begins = consumer.beginning_offsets(self._partitions)
        self._ends = consumer.end_offsets(self._partitions)

    @property
    def size(self) -> int:
        """How many offsets there are to look at, at most."""
        return sum(self._ends[each] - self._begins[each] for each in self._partitions)

    def letters(self, choice: Choice, *, from_beginning: bool, limit: int | None) -> Iterator[Handled]:
        """Letters that are meant, up to the end that the topic has now.

        Args:
            from_beginning: also those that were replayed.
            limit: no more than so many.
        """
        known = self._known()
        left = limit
        for letters in self._read({} if from_beginning else known):
            for partition, letter in letters:
                is_replayed = known[partition].has(letter.record.offset)
                if left == 0:
                    return
                if choice.means(letter) and (from_beginning or not is_replayed):
                    left = None if left is None else left - 1
                    yield Handled(letter, letter.topic, is_replayed)

    def replay(
        self, producer: Producer, choice: Choice, *, anew: bool, to: str | None, limit: int | None
    ) -> list[Handled]:
        """Send the letters that are meant and were not sent before.

        Args:
            producer: with the ``transactional.id`` of :func:`group_of`; belongs to the caller.
            anew: forget what was sent before.
            to: the topic that they go to; None: each to its own, and its own partition there.
            limit: no more than so many.

        Returns:
            What became of each. One without a topic to go to stays where it is.

        Raises:
            ApiError: a topic is missing, or refuses.
            TooManyGapsError: the group cannot remember this. Nothing was sent since the last thousand letters or so.
            ClientError: the cluster cannot be reached, or another run has begun.
        """
        producer.init_transactions()
        known = dict.fromkeys(self._partitions, Replayed()) if anew else self._known()
        followed = {each: Replaying(known[each]) for each in self._partitions}
        handled: list[Handled] = []
        left = limit
        for letters in self._read(known):
            sent: list[Handled] = []
            with producer.transaction():
                for partition, letter in letters:
                    if left == 0:
                        break
                    is_meant = choice.means(letter) and not known[partition].has(letter.record.offset)
                    if is_meant:
                        target = to or letter.topic
                        sent.append(Handled(letter, target, target is not None))
                        left = None if left is None else left - 1
                    is_sent = is_meant and sent[-1].is_replayed
                    if is_sent:
                        self._send(producer, letter, to)
                    followed[partition].note(letter.record.offset, is_replayed=is_sent)
                touched = {partition for partition, _letter in letters}
                producer.send_offsets_to_transaction(
                    {each: followed[each].replayed().stored() for each in touched}, group_of(self._topic)
                )
            handled += sent
            if left == 0:
                break
        return handled

    def _send(self, producer: Producer, letter: Letter, to: str | None) -> None:
        record = letter.record
        target = to or letter.topic
        assert target is not None
        size = self._size(target)
        is_its_own = to is None and letter.partition is not None and letter.partition < size
        producer.send(
            target,
            record.value,
            record.key,
            partition=letter.partition if is_its_own else None,
            timestamp_ms=record.timestamp if record.timestamp >= 0 else None,
            headers=letter.headers,
        )

    def _size(self, topic: str) -> int:
        """How many partitions a topic has. It is not created by the question."""
        if topic not in self._sizes:
            view = self._consumer.partitions_for(topic)
            if view.error is not ErrorCode.NONE:
                raise ApiError(view.error, f"The topic {topic} cannot be used: {view.error.name}")
            self._sizes[topic] = len(view.partitions)
        return self._sizes[topic]

    def _known(self) -> dict[TopicPartition, Replayed]:
        stored = self._consumer.committed(self._partitions)
        return {each: Replayed.read(stored[each]) for each in self._partitions}

    def _read(
        self, known: Mapping[TopicPartition, Replayed]
    ) -> Iterator[list[tuple[TopicPartition, Letter]]]:
        """The letters from the first that was not replayed, poll by poll, each with its partition."""
        starts = {
            each: max(self._begins[each], known.get(each, Replayed()).before) for each in self._partitions
        }
        open_ones = [each for each in self._partitions if starts[each] < self._ends[each]]
        self._looked_at(sum(min(starts[each], self._ends[each]) - self._begins[each] for each in starts))
        if not open_ones:
            return
        self._consumer.assign(open_ones)
        for each in open_ones:
            self._consumer.seek(each, starts[each])
        while open_ones:
            found = self._consumer.poll(_POLL_MS).by_partition()
            letters = [
                (partition, letter_of(record))
                for partition, records in found.items()
                for record in records
                if record.offset < self._ends[partition]
            ]
            self._looked_at(len(letters))
            if letters:
                yield letters
            open_ones = [each for each in open_ones if self._consumer.position(each) < self._ends[each]]
