"""What producers wrote is in a log once, whatever becomes of the log: resends come at every moment."""

import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from pkafka.errors import ApiError, ErrorCode
from pkafka.records.batch import BatchHeader, iter_headers
from pkafka.records.validation import ProduceRules, validate
from pkafka.storage.config import LogConfig
from pkafka.storage.log import Log
from pkafka.storage.log_values import AppendResult
from pkafka.storage.producer_state import BATCHES_REMEMBERED
from tests.unit.storage.makers import NOW, World, append, batch

PRODUCERS: Final = (1, 2)
REPLICAS: Final = 3


def batches(log: Log) -> Iterator[tuple[BatchHeader, bytes]]:
    for segment in log.segments:
        data = bytes(segment.read_bytes(0, segment.size))
        for position, header in iter_headers(data):
            yield header, data[position : position + header.size_bytes]


def write_five(log: Log) -> list[AppendResult]:
    return [append(log, b"a", b"b", pid=7, epoch=0, sequence=2 * one) for one in range(5)]


def resend_five(log: Log) -> list[AppendResult]:
    return [append(log, b"a", b"b", pid=7, epoch=0, sequence=2 * one) for one in range(5)]


@pytest.mark.parametrize("clean", [True, False])
def test_all_that_was_in_flight_comes_again_after_a_start(tmp_path: Path, clean: bool) -> None:
    world = World(tmp_path)
    log = world.create()
    first = write_five(log)
    if clean:
        log.close()
    else:
        world.crash(log)
    log = world.open(clean=clean)
    append(log, b"of somebody else")
    again = resend_five(log)
    assert [one.base_offset for one in again] == [one.base_offset for one in first]
    assert all(one.duplicate for one in again)
    log.close()


def test_all_that_was_in_flight_comes_again_after_a_cut(tmp_path: Path) -> None:
    world = World(tmp_path)
    log = world.create()
    first = write_five(log)
    log.roll(NOW)
    append(log, b"which the next leader does not have", pid=8, epoch=0, sequence=0)
    log.truncate_to(first[-1].last_offset + 1)
    again = resend_five(log)
    assert [one.base_offset for one in again] == [one.base_offset for one in first]
    assert append(log, b"c", pid=7, epoch=0, sequence=10).base_offset == 10
    log.close()


def test_what_was_never_there_stays_out_of_order(tmp_path: Path) -> None:
    world = World(tmp_path)
    log = world.create()
    write_five(log)
    log.close()
    log = world.open(clean=True)
    for sequence, count in ((11, 1), (1, 2), (8, 1)):
        for _ in range(2):
            with pytest.raises(ApiError) as refused:
                append(log, *[b"x"] * count, pid=7, epoch=0, sequence=sequence)
            assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.close()


class Replicas:
    """Three logs of a partition, one of them the leader's, to which producers send in any order what they may send."""

    def __init__(self, root: Path, seed: int) -> None:
        self.choice = random.Random(seed)
        self.worlds = [self._world(root / str(number)) for number in range(REPLICAS)]
        self.logs = [world.create() for world in self.worlds]
        self.checkpoints = [0] * REPLICAS
        self.leader = self.epoch = 0
        self.sizes: dict[tuple[int, int], int] = {}
        """How many records a producer sends with a sequence: the same each time."""

    def _world(self, directory: Path) -> World:
        directory.mkdir()
        sizes = LogConfig(
            segment_bytes=self.choice.choice((200, 500, 2_000)),
            index_interval_bytes=self.choice.choice((1, 100)),
            segment_index_bytes=4096,
        )
        return World(directory, sizes)

    def step(self) -> None:
        steps = {
            self.send_next: 8,
            self.send_again: 6,
            self.follow: 6,
            self.lead: 2,
            self.crash: 2,
            self.restart: 1,
            self.flush: 1,
            self.cut: 1,
        }
        self.choice.choices([*steps], [*steps.values()])[0]()
        for log in self.logs:
            check(log)

    def any(self) -> int:
        return self.choice.randrange(REPLICAS)

    def send(self, producer: int, sequence: int) -> AppendResult:
        count = self.sizes.setdefault((producer, sequence), self.choice.randint(1, 3))
        data = batch([b"x"] * count, pid=producer, epoch=0, sequence=sequence)
        log = self.logs[self.leader]
        result = log.append_as_leader(
            validate(data, ProduceRules(), now_ms=NOW), leader_epoch=self.epoch, now_ms=NOW
        )
        log.set_high_watermark(log.log_end_offset)
        return result

    def written(self, producer: int) -> list[BatchHeader]:
        return [header for header, _ in batches(self.logs[self.leader]) if header.producer_id == producer]

    def send_next(self) -> None:
        producer = self.choice.choice(PRODUCERS)
        there = self.written(producer)
        assert not self.send(producer, there[-1].last_sequence + 1 if there else 0).duplicate

    def send_again(self) -> None:
        """One of the last batches is known for what it is; one before them is refused, and never written."""
        producer = self.choice.choice(PRODUCERS)
        there = self.written(producer)
        if not there:
            return
        place = self.choice.randrange(min(len(there), 2 * BATCHES_REMEMBERED))
        header = there[-1 - place]
        try:
            result = self.send(producer, header.base_sequence)
        except ApiError:
            assert place >= BATCHES_REMEMBERED
        else:
            assert (result.base_offset, result.duplicate) == (header.base_offset, True)

    def follow(self) -> None:
        number = self.any()
        if number == self.leader:
            return
        log = self.logs[number]
        leaders = {header.base_offset: data for header, data in batches(self.logs[self.leader])}
        for header, data in batches(log):
            if leaders.get(header.base_offset) != data:
                log.truncate_to(header.base_offset)
                break
        new = [data for offset, data in leaders.items() if offset >= log.log_end_offset]
        if new:
            log.append_as_follower(b"".join(new[: self.choice.randint(1, 6)]))
        log.set_high_watermark(log.log_end_offset)

    def lead(self) -> None:
        """Anybody, with what it has: what others have more is cut when they follow, and sent again."""
        self.leader = self.any()
        self.begin()

    def begin(self) -> None:
        self.epoch += 1
        self.logs[self.leader].begin_epoch(self.epoch)

    def crash(self) -> None:
        number = self.any()
        log, world = self.logs[number], self.worlds[number]
        world.crash(log)
        known = min(self.checkpoints[number], log.log_end_offset)
        self.logs[number] = world.open(recovery_point=self.choice.choice((0, known)))
        self.begin()

    def restart(self) -> None:
        number = self.any()
        self.logs[number].close()
        self.logs[number] = self.worlds[number].open(clean=True)
        self.begin()

    def flush(self) -> None:
        number = self.any()
        self.logs[number].roll(NOW)
        self.logs[number].flush(self.choice.randint(0, self.logs[number].log_end_offset))
        self.checkpoints[number] = self.logs[number].recovery_point

    def cut(self) -> None:
        number = self.any()
        log = self.logs[number]
        if number != self.leader and log.log_end_offset:
            log.truncate_to(self.choice.randrange(log.log_end_offset))

    def close(self) -> None:
        for log in self.logs:
            log.close()


def check(log: Log) -> None:
    """Each batch is there once, and the producers' last ones are those of the log."""
    written: dict[int, list[int]] = defaultdict(list)
    for header, _ in batches(log):
        assert header.base_sequence not in written[header.producer_id]
        written[header.producer_id].append(header.base_sequence)
    for producer in PRODUCERS:
        known = [one.first_sequence for one in log.producers.get(producer).batches]
        assert known == written[producer][-len(known) :]
        assert bool(known) == bool(written[producer])


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_to_three_replicas_no_batch_is_written_twice(tmp_path: Path, seed: int) -> None:
    replicas = Replicas(tmp_path, seed)
    for _ in range(80):
        replicas.step()
    replicas.close()
