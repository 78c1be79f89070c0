"""What pk-console-consumer reads: where it begins, and where it ends."""

import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from pkafka.cli.console_consumer.flags import included, parse_offset
from pkafka.cli.console_consumer.printer import Printer
from pkafka.cli.kit.client_options import ConsumerStop
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.moments import moment_ms
from pkafka.cli.kit.spelling import meant_by_reader
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.cluster import TopicView
    from pkafka.clients.consumer import Chunk, Consumer

_EndLookup: TypeAlias = Callable[[list[TopicPartition]], dict[TopicPartition, int]]

_POLL_MS: Final = 500
_CHUNK_RECORDS: Final = 10_000
_NEW_PARTITIONS_S: Final = 5.0
_NO_END: Final = 2**63 - 1
_CREATION_MS: Final = 5_000
_CREATION_POLL_S: Final = 0.05


def read(consumer: "Consumer", flags: Mapping[str, object], printer: Printer, stopper: ConsumerStop) -> None:
    """Print records until they end in the way that was asked for."""
    from pkafka.clients.errors import WakeupError

    wanted = flags["max_messages"]
    limit = wanted if isinstance(wanted, int) and wanted >= 0 else None
    try:
        for chunks in _polls(consumer, flags, lambda: None if limit is None else limit - printer.count):
            _show(consumer, chunks, printer)
            sys.stdout.flush()
            if limit is not None and printer.count >= limit:
                return
    except WakeupError:
        if not stopper.status:
            raise


def _show(consumer: "Consumer", chunks: "list[Chunk]", printer: Printer) -> None:
    """Print chunks; where that fails, go back to the first record that was not shown, so that it is not committed."""
    left = list(chunks)
    try:
        while left:
            printer.show(left[0], None)
            left.pop(0)
    except BaseException:
        if left and printer.position is not None:
            consumer.seek(*printer.position)
        for chunk in left[1:]:
            consumer.seek(chunk.partition, chunk.offsets[0])
        raise


def _polls(
    consumer: "Consumer", flags: Mapping[str, object], left: Callable[[], int | None]
) -> "Iterator[list[Chunk]]":
    """The chunks of each poll, until the records end in the way that was asked for."""
    if flags["max_messages"] == 0:
        return
    assigned = _begin(consumer, flags)
    ends: dict[TopicPartition, int] = {}
    ends_at = _end_lookup(consumer, flags)
    silence_ms = flags["timeout_ms"]
    limit_ms = silence_ms if isinstance(silence_ms, int) and silence_ms >= 0 else None
    heard = looked = time.monotonic()
    while True:
        if ends_at is not None and _is_at_end(consumer, ends, ends_at):
            return
        quiet_ms = int((time.monotonic() - heard) * 1_000)
        wait_ms = _POLL_MS if limit_ms is None else max(0, min(_POLL_MS, limit_ms - quiet_ms))
        room = left()
        chunks = consumer.poll_chunks(
            wait_ms, records_max=_CHUNK_RECORDS if room is None else min(room, _CHUNK_RECORDS)
        )
        if chunks:
            yield _before(chunks, ends)
            heard = time.monotonic()
        elif limit_ms is not None and (time.monotonic() - heard) * 1_000 >= limit_ms:
            return
        elif assigned is not None and time.monotonic() - looked > _NEW_PARTITIONS_S:
            assigned = _with_new_partitions(consumer, str(flags["topic"]), assigned)
            looked = time.monotonic()


def _begin(consumer: "Consumer", flags: Mapping[str, object]) -> list[TopicPartition] | None:
    """Subscribe, or assign the partitions that were asked for.

    Returns:
        The partitions of a topic that may get more of them; None where the command does not look for new ones.
    """
    if flags["include"]:
        consumer.subscribe(pattern=included(str(flags["include"])))
        return None
    if consumer.config.group_id is not None:
        consumer.subscribe([str(flags["topic"])])
        return None
    partitions = _partitions(consumer, flags)
    consumer.assign(partitions)
    tail, since = flags["tail"], flags["from_time"]
    if isinstance(tail, int):
        first, last = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        for each in partitions:
            consumer.seek(each, max(first[each], last[each] - tail))
    elif since is not None:
        consumer.seek_to_time(moment_ms(str(since)), partitions)
    elif flags["partition"] is not None:
        _seek(consumer, partitions[0], "latest" if flags["offset"] is None else str(flags["offset"]), flags)
    return None if flags["partition"] is not None else partitions


def _with_new_partitions(
    consumer: "Consumer", topic: str, partitions: list[TopicPartition]
) -> list[TopicPartition]:
    """Read new partitions of the topic too, from their beginning.

    Returns:
        All partitions that are read now.
    """
    found = consumer.partitions_for(topic)
    known = set(partitions)
    new = [
        each
        for each in (TopicPartition(topic, view.partition) for view in found.partitions)
        if each not in known
    ]
    if new:
        consumer.assign([*partitions, *new])
        consumer.seek_to_beginning(new)
    return [*partitions, *new]


def _end_lookup(consumer: "Consumer", flags: Mapping[str, object]) -> "_EndLookup | None":
    """The function that finds the offsets to stop at; None where the command does not stop at any."""
    if flags["to_time"] is None:
        return consumer.end_offsets if flags["until_end"] else None
    until_ms = moment_ms(str(flags["to_time"]))

    def ends_at(partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        found = consumer.offsets_for_times(dict.fromkeys(partitions, until_ms))
        later = {each: at.offset for each, at in found.items() if at is not None and at.offset >= 0}
        return consumer.end_offsets([each for each in partitions if each not in later]) | later

    return ends_at


def _is_at_end(consumer: "Consumer", ends: dict[TopicPartition, int], ends_at: "_EndLookup") -> bool:
    """Whether all records are read that partitions had when they were assigned."""
    assignment = consumer.assignment()
    new = [each for each in assignment if each not in ends]
    if new:
        ends.update(ends_at(new))
    return bool(assignment) and all(consumer.position(each) >= ends[each] for each in assignment)


def _before(chunks: "list[Chunk]", ends: Mapping[TopicPartition, int]) -> "list[Chunk]":
    """The records before the offsets to stop at."""
    kept = [(chunk, bisect_left(chunk.offsets, ends.get(chunk.partition, _NO_END))) for chunk in chunks]
    return [chunk if stop == len(chunk) else chunk.part(0, stop) for chunk, stop in kept if stop]


def _seek(consumer: "Consumer", partition: TopicPartition, offset: str, flags: Mapping[str, object]) -> None:
    at = -2 if flags["from_beginning"] else parse_offset(offset)
    if at == -2:
        consumer.seek_to_beginning([partition])
    elif at == -1:
        consumer.seek_to_end([partition])
    else:
        consumer.seek(partition, at)


def _partitions(consumer: "Consumer", flags: Mapping[str, object]) -> list[TopicPartition]:
    number = flags["partition"]
    view = _topic(consumer, str(flags["topic"]), flags)
    found = [TopicPartition(view.name, each.partition) for each in view.partitions]
    if isinstance(number, int):
        found = [each for each in found if each.partition == number]
        if not found:
            raise CommandError(f"topic {flags['topic']} has no partition {number}")
    return found


def _topic(consumer: "Consumer", name: str, flags: Mapping[str, object]) -> "TopicView":
    """The topic; wait for it where the broker is just creating it because this command asked for it.

    Raises:
        CommandError: it is not there and does not come.
    """
    silence_ms = flags["timeout_ms"]
    wait_ms = (
        _CREATION_MS if not isinstance(silence_ms, int) or silence_ms < 0 else min(silence_ms, _CREATION_MS)
    )
    deadline = time.monotonic() + wait_ms / 1_000
    while True:
        view = consumer.partitions_for(name)
        if not view.error:
            return view
        if not view.error.retriable or time.monotonic() > deadline:
            meant = meant_by_reader(name, consumer.topics)
            raise CommandError(
                f"topic {name}: {view.error.message}", hint=meant or "create it with pk-topics --create"
            )
        time.sleep(_CREATION_POLL_S)
