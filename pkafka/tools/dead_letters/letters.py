"""A dead letter as its headers describe it (KIP-298), and which of them are meant."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from pkafka.clients.consumer import ConsumerRecord
from pkafka.connect.dead_letters import PREFIX


@dataclass(frozen=True, slots=True)
class Letter:
    """A record of a topic of dead letters, and why it is there.

    What a header does not say is None: connectors tell why only with ``errors.deadletterqueue.context.headers.enable``.
    """

    record: ConsumerRecord = field(repr=False)
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    connector: str | None = None
    task: int | None = None
    stage: str | None = None
    exception: str | None = None
    """The class of what was raised, by its whole name."""
    message: str | None = None

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """The headers that the record had before it was a dead letter."""
        return [each for each in self.record.headers if not each[0].startswith(PREFIX)]


def letter_of(record: ConsumerRecord) -> Letter:
    """What a record's headers say. Of headers of one name the last counts: those before are of earlier failures."""
    told = {
        name.removeprefix(PREFIX): value.decode("utf-8", "replace")
        for name, value in record.headers
        if name.startswith(PREFIX) and value is not None
    }
    return Letter(
        record,
        topic=told.get("topic"),
        partition=_number(told.get("partition")),
        offset=_number(told.get("offset")),
        connector=told.get("connector.name"),
        task=_number(told.get("task.id")),
        stage=told.get("stage"),
        exception=told.get("exception.class.name"),
        message=told.get("exception.message"),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,19}", text, re.ASCII) else None


@dataclass(frozen=True, slots=True)
class Choice:
    """Which letters are meant; what is empty or None asks for nothing.

    Args:
        connectors: names of which one has to be the letter's.
        exceptions: classes, whole or simple names, of which one has to be the letter's.
        from_ms, to_ms: the time of the record, since the epoch; the second is not meant any more.
    """

    connectors: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()
    from_ms: int | None = None
    to_ms: int | None = None

    def means(self, letter: Letter) -> bool:
        """Whether a letter is meant."""
        at = letter.record.timestamp
        return (
            (not self.connectors or letter.connector in self.connectors)
            and (not self.exceptions or _is_one(letter.exception, self.exceptions))
            and (self.from_ms is None or at >= self.from_ms)
            and (self.to_ms is None or at < self.to_ms)
        )


def _is_one(exception: str | None, wanted: Iterable[str]) -> bool:
    return exception is not None and (exception in wanted or simple_name(exception) in wanted)


def simple_name(exception: str) -> str:
    """A class without its package."""
    return re.split(r"[.$]", exception)[-1]
