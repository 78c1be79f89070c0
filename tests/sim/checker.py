"""What must hold at every step of a simulation, and what at its end.

The checker sees everything: the logs of all brokers, the store, and what clients were told. It looks whenever a high
watermark moves, a leader begins and the store is written, and changes nothing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias
from unittest.mock import patch

from pkafka.coordination import znodes
from pkafka.coordination.store import WatchKind
from pkafka.errors import ErrorCode
from pkafka.model import CONSUMER_OFFSETS_TOPIC, TopicPartition
from pkafka.records.batch import iter_headers
from pkafka.records.reading import read_records
from pkafka.server.processes.worker import Worker
from pkafka.server.replicas.decisions import Decisions
from pkafka.server.replicas.partition import Partition
from pkafka.storage.log import Log
from tests.sim.broker import IN_SYNC_MIN, Broker
from tests.sim.store import Coordination
from tests.sim.world import World

Key: TypeAlias = tuple[str, int]


class Batch(NamedTuple):
    """A batch as all replicas must have it."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


@dataclass(slots=True)
class Committed:
    """What some leader has said to be committed."""

    batches: list[Batch] = field(default_factory=list)
    end: int = 0
    start: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    """By the epoch of the leader who said so."""
    written: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """Where the batch of an idempotent producer begins, by its id, its epoch and its first sequence."""

    def take(self, batch: Batch, leader_epoch: int) -> int | None:
        """Another batch is committed. Returns where it was already."""
        self.batches.append(batch)
        self.end = self.ends[leader_epoch] = batch.next_offset
        if batch.base_sequence < 0:
            return None
        name = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
        first = self.written.setdefault(name, batch.base_offset)
        return first if first != batch.base_offset else None

    def before(self, epoch: int) -> int:
        """Up to where leaders of earlier epochs have said so."""
        return max((end for leaders, end in self.ends.items() if leaders < epoch), default=0)


@dataclass(slots=True)
class Sent:
    """A record that a producer wants in the log."""

    key: Key
    value: bytes
    offset: int
    """Where the leader says that it is."""


class Checker:
    """See the module.

    Args:
        world: the world.
        server: the coordination store.
        brokers: all of them.
    """

    def __init__(self, world: World, server: Coordination, brokers: Mapping[int, Broker]) -> None:
        self.world = world
        self._server = server
        self._brokers = brokers
        self._committed: dict[tuple[Key, bytes], Committed] = {}
        self._checked: dict[Log, int] = {}
        self._leaders: dict[tuple[Key, bytes, int], int] = {}
        self._states: dict[str, tuple[int, znodes.PartitionState]] = {}
        self._controller_epoch = 0
        self._obeyed: dict[Decisions, int] = {}
        """The controller epoch that each worker heard last."""
        self.tainted: set[tuple[int, Key]] = set()
        """Replicas that lost what they had on the disk, and are still in the ISR of before."""
        self._ends: dict[tuple[int, Key], int] = {}
        """Where the logs of brokers that are down ended."""
        self.acknowledged: dict[bytes, Sent] = {}
        self.sent: set[bytes] = set()
        self.read: dict[Key, dict[int, bytes]] = {}
        """What consumers have read, by offset."""
        self.read_count = 0
        server.listeners.append(self.state_changed)
        for broker in brokers.values():
            broker.on_worker_ended = self.worker_ended

    # -- what clients were told --

    def was_acknowledged(self, key: Key, values: list[bytes], base_offset: int) -> None:
        """A producer with acks=all was told that its records are safe."""
        for number, value in enumerate(values):
            self.acknowledged[value] = Sent(key, value, base_offset + number)

    def was_read(self, key: Key, offset: int, value: bytes, who: str) -> None:
        """A consumer got a record."""
        self.read_count += 1
        known = self.read.setdefault(key, {}).setdefault(offset, value)
        if known != value:
            self.world.violated(
                f"{who} reads {value!r} at {offset} of {key}, where {known!r} was read before"
            )
        if value not in self.sent:
            self.world.violated(f"{who} reads {value!r} at {offset} of {key}, which nobody sent")

    # -- what happens in brokers and in the store --

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look at every step that matters while this lasts."""
        with ExitStack() as stack:

            def after(owner: type, name: str, look: Callable[..., None]) -> None:
                real = getattr(owner, name)

                def both(self: Any, *args: Any, **kwargs: Any) -> Any:
                    result = real(self, *args, **kwargs)
                    look(result, self, *args)
                    return result

                stack.enter_context(patch.object(owner, name, both))

            after(Log, "set_high_watermark", self._high_watermark_set)
            after(Log, "truncate_to", self._truncated)
            after(Partition, "lead", self._leads)
            after(Partition, "acknowledges", self._acknowledges)
            after(Decisions, "_become", self._obeys)
            after(Coordination, "write", lambda *_: self._store_written())
            yield

    def _broker_of(self, log: Log) -> Broker | None:
        for broker in self._brokers.values():
            if log.directory.parent == broker.directory.path:
                return broker
        return None

    def _high_watermark_set(self, _result: object, log: Log, _offset: int) -> None:
        if log.is_closed or log.topic_id is None:
            return
        key = (log.topic_partition.topic, log.topic_partition.partition)
        committed = self._committed.setdefault((key, log.topic_id), Committed())
        broker = self._broker_of(log)
        assert broker is not None
        partition = broker.partition(key)
        leads = partition is not None and partition.log is log and partition.leadership is not None
        begin = min(self._checked.get(log, 0), log.high_watermark)
        self._checked[log] = log.high_watermark
        if log.high_watermark <= begin:
            return
        known = {batch.base_offset: batch for batch in committed.batches if batch.next_offset > begin}
        for batch in batches_of(log, begin, log.high_watermark):
            if batch.base_offset >= committed.end:
                if partition is None or not leads:
                    self.world.violated(
                        f"{broker.host} takes {batch} of {key} for committed, which no leader has committed"
                    )
                    return
                before = committed.take(batch, partition.leader_epoch)
                if key[0] == CONSUMER_OFFSETS_TOPIC:
                    before = None  # offsets of transactions have no sequence: each batch begins at 0
                if before is not None:
                    self.world.violated(
                        f"an idempotent record is in the log once: {broker.host} has committed {batch} of {key}, which"
                        f" is at {before} already"
                    )
                    return
            elif known.get(batch.base_offset) != batch:
                self.world.violated(
                    f"{broker.host} has {batch} of {key} below its high watermark {log.high_watermark}, where"
                    f" {known.get(batch.base_offset)} was committed"
                )
                return

    def _truncated(self, was_cut: bool, log: Log, _offset: int) -> None:
        if not was_cut or log.is_closed or log.topic_id is None:
            return
        key = (log.topic_partition.topic, log.topic_partition.partition)
        for producer_id, sequence in last_sequences(log).items():
            if log.producers.get(producer_id).last_sequence != sequence:
                self.world.violated(
                    f"{key}, cut at {log.log_end_offset}, has a batch of producer {producer_id} that ends at sequence"
                    f" {sequence}, and its producers say {log.producers.get(producer_id).last_sequence}"
                )
        committed = self._committed.get((key, log.topic_id))
        broker = self._broker_of(log)
        isr = self.isrs().get(key, ())
        if committed is None or broker is None or broker.broker_id not in isr:
            return
        if log.log_end_offset < committed.end and (broker.broker_id, key) not in self.tainted:
            self.world.violated(
                f"{broker.host}, in the ISR {list(isr)} of {key}, cuts its log at {log.log_end_offset}, while all is"
                f" committed up to {committed.end}"
            )

    def _leads(self, _result: object, partition: Partition, *_: object) -> None:
        log = partition.log
        assert log.topic_id is not None
        broker = self._broker_of(log)
        assert broker is not None
        known = self._leaders.setdefault(
            (partition.key, log.topic_id, partition.leader_epoch), broker.broker_id
        )
        if known != broker.broker_id:
            self.world.violated(
                f"brokers {known} and {broker.broker_id} both lead {partition.key} in epoch {partition.leader_epoch}"
            )
        committed = self._committed.get((partition.key, log.topic_id))
        tainted = (broker.broker_id, partition.key) in self.tainted
        # Who was away may hear of its election when others lead in later epochs: nobody follows it any more.
        needed = 0 if committed is None else committed.before(partition.leader_epoch)
        if log.log_end_offset < needed and not tainted:
            self.world.violated(
                f"{broker.host} leads {partition.key} in epoch {partition.leader_epoch} from {log.log_end_offset} on,"
                f" and all was committed up to {needed} before"
            )

    def _acknowledges(
        self, code: ErrorCode | None, partition: Partition, required: int, _appended_under: object
    ) -> None:
        """A producer that waits for all is told that its records are safe."""
        if code is not ErrorCode.NONE:
            return
        assert partition.leadership is not None
        holders = []
        for member in partition.leadership.maximal_isr:
            end = self.end_of(member, partition.key)
            # Nobody knows what there is on a disk whose machine is off; it was asked for before it was.
            if end is None or end >= required or (member, partition.key) in self.tainted:
                holders.append(member)
        if len(holders) < IN_SYNC_MIN:
            self.world.violated(
                f"broker {partition.leadership.broker_id} acknowledges records of {partition.key} up to {required},"
                f" which only {holders} have"
            )

    def _obeys(self, _result: object, decisions: Decisions, *_: object) -> None:
        """A worker did what a controller asks for."""
        epoch = decisions._controller_epoch
        if epoch < self._obeyed.get(decisions, epoch):
            self.world.violated(
                f"broker {decisions.partitions.broker_id} obeys the controller of epoch {epoch}, after that of epoch"
                f" {self._obeyed[decisions]}"
            )
        self._obeyed[decisions] = epoch

    def _store_written(self) -> None:
        found = self._server.peek(znodes.CONTROLLER_EPOCH)
        if found is not None:
            epoch = int(found[0])
            if epoch < self._controller_epoch:
                self.world.violated(f"the controller epoch goes from {self._controller_epoch} to {epoch}")
            self._controller_epoch = epoch

    def state_changed(self, kind: WatchKind, path: str) -> None:
        """A node of the store was written."""
        if kind is not WatchKind.DATA or not path.startswith(znodes.TOPICS) or not path.endswith("/state"):
            return
        found = self._server.peek(path)
        if found is None:
            self._states.pop(path, None)
            return
        state, version = znodes.PartitionState.decode(found[0]), found[1].version
        _, _, _, topic, _, number, _ = path.split("/")
        key = (topic, int(number))
        before = self._states.get(path)
        self._states[path] = version, state
        if before is not None and before[0] != version:
            self.world.note(
                f"store: {topic}-{number} leader {state.leader} epoch {state.leader_epoch} ISR {list(state.isr)}"
                f" version {version}"
            )
            if state.leader_epoch < before[1].leader_epoch:
                self.world.violated(f"the leader epoch of {key} goes back to {state.leader_epoch}")
            present = self._server.peek(znodes.CONTROLLER_EPOCH)
            if present is not None and state.controller_epoch < int(present[0]):
                self.world.violated(
                    f"the controller of epoch {state.controller_epoch} writes the state of {key} after that of epoch"
                    f" {int(present[0])} has begun"
                )
        for broker in list(self._brokers):
            if broker not in state.isr:
                self.tainted.discard((broker, key))
        self._check_isr(key, state)

    def _check_isr(self, key: Key, state: znodes.PartitionState) -> None:
        topic = self._server.peek(f"{znodes.TOPICS}/{key[0]}")
        topic_id = None if topic is None else znodes.TopicAssignment.decode(topic[0]).topic_id
        committed = self._committed.get((key, topic_id or b""))
        if committed is None:
            return
        for member in state.isr:
            end = self.end_of(member, key)
            if end is not None and end < committed.end and (member, key) not in self.tainted:
                self.world.violated(
                    f"broker {member} is in the ISR {list(state.isr)} of {key} and ends at {end}, while all is"
                    f" committed up to {committed.end}"
                )
        if not state.isr:
            self.world.violated(f"the ISR of {key} is empty")

    def end_of(self, broker_id: int, key: Key) -> int | None:
        """Where a broker's log ends, also of one that is down; None while nobody knows."""
        log = self._brokers[broker_id].log_of(key)
        return self._ends.get((broker_id, key)) if log is None else log.log_end_offset

    def worker_ended(self, broker: Broker, worker: Worker) -> None:
        """What its logs have now is what they will have."""
        for log in worker.partitions.logs():
            key = (log.topic_partition.topic, log.topic_partition.partition)
            self._ends[broker.broker_id, key] = log.log_end_offset

    def lost_power(self, broker: Broker) -> None:
        """What a broker has is less than it had."""
        for path, (_, state) in self._states.items():
            _, _, _, topic, _, number, _ = path.split("/")
            key = (topic, int(number))
            self._ends.pop((broker.broker_id, key), None)
            if broker.broker_id in state.isr:
                self.tainted.add((broker.broker_id, key))

    # -- for the faults --

    def isrs(self) -> dict[Key, tuple[int, ...]]:
        """The ISR of every partition, as the store has it."""
        found = {}
        for path, (_, state) in self._states.items():
            _, _, _, topic, _, number, _ = path.split("/")
            found[topic, int(number)] = state.isr
        return found

    def unsettled(self) -> str:
        """What is not yet as it has to be when nothing disturbs the cluster any more; nothing when all is well."""
        for broker in self._brokers.values():
            if not broker.is_ready:
                return f"{broker.host} is not ready"
        if self._server.peek(znodes.CONTROLLER) is None:
            return "there is no controller"
        if self._server.names(znodes.DELETE_TOPICS):
            return f"not deleted yet: {self._server.names(znodes.DELETE_TOPICS)}"
        for name in self._server.names(znodes.TOPICS):
            topic = self._server.peek(f"{znodes.TOPICS}/{name}")
            assert topic is not None
            for number, assignment in znodes.TopicAssignment.decode(topic[0]).partitions.items():
                trouble = self._unsettled_partition((name, number), assignment)
                if trouble:
                    return trouble
        return ""

    def _unsettled_partition(self, key: Key, assignment: znodes.PartitionAssignment) -> str:
        if assignment.adding or assignment.removing:
            return f"{key} still moves: {assignment}"
        found = self._server.peek(znodes.PartitionState.path(TopicPartition(*key)))
        if found is None:
            return f"{key} has no state"
        state = znodes.PartitionState.decode(found[0])
        if state.leader < 0:
            return f"{key} has no leader; ISR {list(state.isr)}"
        if set(state.isr) != set(assignment.replicas):
            return f"{key} has the ISR {list(state.isr)} of {list(assignment.replicas)}"
        ends = {}
        for broker in assignment.replicas:
            partition = self._brokers[broker].partition(key)
            if partition is None:
                return f"broker {broker} has no replica of {key}"
            if (partition.leadership is not None) != (broker == state.leader):
                return f"broker {broker} does not know who leads {key}: {partition.leader}"
            ends[broker] = partition.log.log_end_offset, partition.log.high_watermark
        if len(set(ends.values())) > 1 or any(end != high for end, high in ends.values()):
            return f"the replicas of {key} differ (end, high watermark): {ends}"
        return self._unsettled_elsewhere(key, assignment.replicas, state.leader)

    def _unsettled_elsewhere(self, key: Key, replicas: Sequence[int], leader: int) -> str:
        for number, each in self._brokers.items():
            for worker in each.workers():
                if number not in replicas and key in map(_key_of, worker.partitions.logs()):
                    return f"{each.host} still has a replica of {key}, which moved to {list(replicas)}"
                if worker.metadata.leader_of(*key) != leader:
                    return f"{each.host} tells clients that {worker.metadata.leader_of(*key)} leads {key}"
        return ""

    # -- at the end --

    def check_end(self) -> None:
        """All is quiet: nothing that was acknowledged is missing, nothing is there twice, all replicas are the same."""
        keys = {sent.key for sent in self.acknowledged.values()} | self.read.keys()
        by_key: dict[Key, dict[int, bytes]] = {key: self._final_log(key) for key in sorted(keys)}
        for key in self.isrs():
            if key not in by_key:
                self._final_log(key)
        where: dict[bytes, tuple[Key, int]] = {}
        for key, records in by_key.items():
            for offset, value in records.items():
                if value in where:
                    self.world.violated(f"{value!r} is at {where[value]} and at {offset} of {key}")
                where[value] = key, offset
        for sent in self.acknowledged.values():
            if where.get(sent.value) != (sent.key, sent.offset):
                self.world.violated(
                    f"{sent.value!r} was acknowledged at {sent.offset} of {sent.key} and is"
                    f" {'lost' if sent.value not in where else f'at {where[sent.value]}'}"
                )
        for key, found in self.read.items():
            for offset, value in found.items():
                if by_key[key].get(offset) != value:
                    self.world.violated(
                        f"{value!r} was read at {offset} of {key}, where there is {by_key[key].get(offset)!r}"
                    )

    def data_of_leader(self, key: Key) -> list[bytes]:
        """The segments of a partition, as its leader has them."""
        for broker in self._brokers.values():
            partition = broker.partition(key)
            if partition is not None and partition.leadership is not None:
                return list(_bytes_of(partition.log))
        return []

    def _final_log(self, key: Key) -> dict[int, bytes]:
        contents: dict[int, bytes] = {}
        found = []
        for broker in self._brokers.values():
            partition = broker.partition(key)
            if partition is None:
                continue
            found.append((broker.host, list(batches_of(partition.log, 0, partition.log.log_end_offset))))
            if partition.leadership is not None:
                for data in _bytes_of(partition.log):
                    contents.update({record.offset: record.value or b"" for record in read_records(data)})
        for host, batches in found:
            if batches != found[0][1]:
                self.world.violated(f"the logs of {key} at {host} and {found[0][0]} differ")
        return contents


def _key_of(log: Log) -> Key:
    return log.topic_partition.topic, log.topic_partition.partition


def batches_of(log: Log, begin: int, end: int) -> Iterator[Batch]:
    """The batches of a log with offsets in a range."""
    if begin >= end:
        return
    segments = log.segments
    for place, segment in enumerate(segments):
        following = segments[place + 1].base_offset if place + 1 < len(segments) else end
        if following <= begin or segment.base_offset >= end:
            continue
        for _, header in iter_headers(segment.read_bytes(0, segment.size)):
            if header.next_offset > begin and header.base_offset < end:
                yield Batch(
                    header.base_offset,
                    header.next_offset,
                    header.partition_leader_epoch,
                    header.crc,
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                )


def last_sequences(log: Log) -> dict[int, int]:
    """The sequence of the last record of each idempotent producer in a log; -1 where a marker began another epoch."""
    found: dict[int, int] = {}
    epochs: dict[int, int] = {}
    for data in _bytes_of(log):
        for _, header in iter_headers(data):
            producer_id, epoch = header.producer_id, header.producer_epoch
            if producer_id < 0:
                continue
            if not header.is_control:
                found[producer_id] = header.last_sequence
            elif epoch > epochs.get(producer_id, epoch):
                found[producer_id] = -1
            epochs[producer_id] = epoch
    return found


def _bytes_of(log: Log) -> Iterator[bytes]:
    for segment in log.segments:
        yield bytes(segment.read_bytes(0, segment.size))
