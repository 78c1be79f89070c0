"""Simulated clients: they speak the protocol over the simulated network, and tell the checker what they are told.

Not pkafka's own clients, which live in threads: these do what any client does, and never give up.
"""

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from pkafka.errors import ErrorCode, ProtocolError
from pkafka.model import LATEST
from pkafka.net.channel import Channel, ChannelError, open_channel
from pkafka.protocol.headers import decode_response, encode_request
from pkafka.protocol.messages import (
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    elect_leaders,
    fetch,
    init_producer_id,
    list_offsets,
    metadata,
    produce,
)
from pkafka.protocol.schema import Message
from pkafka.records.builder import build_batch
from pkafka.records.reading import read_records
from pkafka.storage.producer_state import BATCHES_REMEMBERED
from tests.sim.broker import PORT
from tests.sim.checker import Checker, Key
from tests.sim.world import Loop, World

M = TypeVar("M", bound=Message)

_FRAME_BYTES_MAX: Final = 1 << 24
_REQUEST_MAX_S: Final = 6.0
_PAUSE_S: Final = 0.1
_NO_EPOCH: Final = -1
_REMEMBERED: Final = 12
_ABANDONED_MAX: Final = 3


class Client:
    """A process outside of the cluster.

    Args:
        world: the world.
        checker: told what happens.
        name: of it and of its machine.
        brokers: their ids.
    """

    def __init__(self, world: World, checker: Checker, name: str, brokers: Sequence[int]) -> None:
        self.world = world
        self.checker = checker
        self.name = name
        self.loop = Loop(world, name)
        self.is_stopping = False
        self.tasks: list[asyncio.Task[None]] = []
        self._to_start = 0
        """How many that it was told to begin have not begun yet."""
        self._brokers = list(brokers)
        self._channels: dict[int, Channel] = {}
        self._numbers = itertools.count(1)
        self._leaders: dict[Key, tuple[int, int]] = {}
        """Leader and its epoch."""
        self.controller = -1
        world.network.place(self.loop, name)

    def begin(self, work: Callable[[], Awaitable[None]]) -> None:
        """Have the process do something."""

        async def run() -> None:
            await work()

        def start() -> None:
            self._to_start -= 1
            self.tasks.append(self.loop.create_task(run()))

        self._to_start += 1
        self.loop.call_soon(start)

    @property
    def is_done(self) -> bool:
        """Whether all that it began has ended."""
        return not self._to_start and all(task.done() for task in self.tasks)

    async def pause(self) -> None:
        """Do not ask again at once."""
        await asyncio.sleep(_PAUSE_S * (0.5 + self.world.random.random()))

    async def ask(
        self,
        broker: int,
        request: Message,
        version: int,
        answer: type[M],
        *,
        timeout_s: float = _REQUEST_MAX_S,
    ) -> M:
        """A broker's answer to a request.

        Raises:
            ChannelError: there is none.
        """
        channel = self._channels.get(broker)
        if channel is None or channel.is_closed:
            channel = self._channels[broker] = await self._connect(broker, timeout_s)
        return await self._ask_on(channel, request, version, answer, timeout_s=timeout_s)

    async def _connect(self, broker: int, timeout_s: float = _REQUEST_MAX_S) -> Channel:
        return await open_channel(
            f"broker-{broker}", PORT, timeout_s=timeout_s, frame_bytes_max=_FRAME_BYTES_MAX
        )

    async def _ask_on(
        self,
        channel: Channel,
        request: Message,
        version: int,
        answer: type[M],
        *,
        timeout_s: float = _REQUEST_MAX_S,
    ) -> M:
        key = request.__api_key__
        assert key is not None
        frame = encode_request(key, version, next(self._numbers), self.name, request)
        future: asyncio.Future[M] = self.loop.create_future()

        def answered(data: memoryview | None, error: ChannelError | None) -> None:
            # Read at once: with several requests on their way the next answer may come into the same memory.
            if future.done():
                return
            if data is None:
                future.set_exception(error or ChannelError("no answer"))
                return
            try:
                _, response = decode_response(key, version, data)
            except ProtocolError as problem:
                future.set_exception(ChannelError(str(problem)))
                return
            assert isinstance(response, answer)
            future.set_result(response)

        channel.ask_then(frame, answered, timeout_s=timeout_s)
        return await future

    async def leader_of(self, key: Key) -> tuple[int, int] | None:
        """Who leads a partition, and in which epoch, by what a broker knows; None when that is nobody."""
        broker = self._brokers[self.world.random.randrange(len(self._brokers))]
        request = metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=key[0])], allow_auto_topic_creation=False
        )
        try:
            response = await self.ask(broker, request, 9, metadata.MetadataResponse, timeout_s=2.0)
        except ChannelError:
            return None
        self.controller = response.controller_id
        for topic in response.topics:
            for one in topic.partitions:
                known = self._leaders.get((topic.name or "", one.partition_index))
                # As all clients do: what is older than what is known is not believed.
                if one.leader_id >= 0 and (known is None or one.leader_epoch >= known[1]):
                    self._leaders[topic.name or "", one.partition_index] = one.leader_id, one.leader_epoch
        return self._leaders.get(key)

    def known_leader(self, key: Key) -> tuple[int, int] | None:
        """As :meth:`leader_of`, from memory."""
        return self._leaders.get(key)

    def forget_leader(self, key: Key) -> None:
        """It is not what it was; its epoch stays the least that is believed."""
        known = self._leaders.get(key)
        if known is not None:
            self._leaders[key] = known


class PlainProducer(Client):
    """Sends record after record to one partition with acks=1, each once, since twice could be there twice."""

    def __init__(self, world: World, checker: Checker, name: str, brokers: Sequence[int], key: Key) -> None:
        super().__init__(world, checker, name, brokers)
        self.key = key
        self.begin(self._produce)

    async def _produce(self) -> None:
        random = self.world.random
        for number in itertools.count():
            if self.is_stopping:
                return
            value = f"{self.name}:{number}".encode()
            self.checker.sent.add(value)
            known = self.known_leader(self.key) or await self.leader_of(self.key)
            code: int = ErrorCode.UNKNOWN_SERVER_ERROR
            if known is not None:
                batch = bytes(build_batch([(self.world.now_ms(), None, value, ())]))
                request = _produce_request(self.key, batch, acks=1, timeout_ms=random.choice((500, 3000)))
                with contextlib.suppress(ChannelError):
                    response = await self.ask(known[0], request, 9, produce.ProduceResponse)
                    code = response.responses[0].partition_responses[0].error_code
            if code != ErrorCode.NONE:
                await self.leader_of(self.key)
            if random.random() < 0.7:
                await asyncio.sleep(0.3 * random.random())


class Batch:
    """Records that a producer sends as often as it takes."""

    def __init__(self, number: int, values: list[bytes], data: bytes) -> None:
        self.number = number
        self.values = values
        self.data = data
        self.offset = -1
        """Where it is, as the first answer says that says so; -1 until then."""


class Producer(Client):
    """An idempotent producer of one partition that has several batches on their way and does everything to get one into
    the log twice: it sends again while the first one is still on its way, over other connections, what was
    acknowledged long ago too, and to whoever it took for the leader once. It skips nothing, and keeps its epoch.
    """

    def __init__(self, world: World, checker: Checker, name: str, brokers: Sequence[int], key: Key) -> None:
        super().__init__(world, checker, name, brokers)
        self.key = key
        self._in_flight: list[Batch] = []
        """Without an answer that says where it is; the oldest first, and no more than a broker remembers."""
        self._sent: deque[Batch] = deque(maxlen=_REMEMBERED)
        self._in_flight_max = world.random.choice((1, 2, BATCHES_REMEMBERED, BATCHES_REMEMBERED))
        self._haste = world.random.choice((0.0, 0.05, 0.2))
        """How often it does not wait for answers."""
        self._leaders_met: list[int] = []
        self._abandoned: deque[Channel] = deque()
        self.begin(self._produce)

    async def _produce(self) -> None:
        random = self.world.random
        producer_id, producer_epoch = await self._new_id()
        sequence = number = 0
        while not self.is_stopping or self._in_flight:
            for _ in range(0 if self.is_stopping else random.randint(1, self._in_flight_max)):
                if self._in_flight and number - self._in_flight[0].number == self._most(number):
                    break
                values = [f"{self.name}:{sequence + one}".encode() for one in range(random.randint(1, 4))]
                self.checker.sent.update(values)
                records = [(self.world.now_ms(), None, value, ()) for value in values]
                data = build_batch(
                    records, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence
                )
                batch = Batch(number, values, bytes(data))
                self._in_flight.append(batch)
                self._sent.append(batch)
                sequence += len(values)
                number += 1
            if self._sent and random.random() < self._haste:
                self.tasks.append(self.loop.create_task(self._repeat(random.choice(self._sent))))
            if not await self._send_all():
                await self.pause()
                await self.leader_of(self.key)
            elif random.random() < 0.7:
                await asyncio.sleep(0.3 * random.random())

    def _most(self, sent: int) -> int:
        """How many may be on their way from the oldest on, those behind it that were answered among them.

        Brokers remember so many. The first goes alone: of a producer that it does not know, a broker takes any batch.
        """
        is_known = sent > len(self._in_flight)
        return self._in_flight_max if is_known else 1

    async def _new_id(self) -> tuple[int, int]:
        while True:
            broker = self._brokers[self.world.random.randrange(len(self._brokers))]
            request = init_producer_id.InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=60000
            )
            with contextlib.suppress(ChannelError):
                response = await self.ask(broker, request, 4, init_producer_id.InitProducerIdResponse)
                if response.error_code == 0:
                    return response.producer_id, response.producer_epoch
            await self.pause()

    async def _send_all(self) -> bool:
        """All that is in flight, one behind the other over one connection; whether all of it is in the log now."""
        known = self.known_leader(self.key) or await self.leader_of(self.key)
        if known is None:
            return False
        random = self.world.random
        leader = known[0]
        if leader not in self._leaders_met:
            self._leaders_met.append(leader)
        channel = self._channels.get(leader)
        try:
            if channel is None or channel.is_closed:
                channel = self._channels[leader] = await self._connect(leader)
        except ChannelError:
            return False
        batches = [*self._in_flight]
        if not batches:
            return True  # it was told to stop just now
        answers = [self.loop.create_task(self._send(channel, batch)) for batch in batches]
        patience_s = 0.02 * random.random() if random.random() < self._haste else None
        done, late = await asyncio.wait(answers, timeout=patience_s)
        if late:
            # What is on its way stays on its way, and arrives whenever it does.
            self._channels.pop(leader, None)
            self._abandoned.append(channel)
            if len(self._abandoned) > _ABANDONED_MAX:
                self._abandoned.popleft().close()
        self._hear([task.result() if task in done else None for task in answers], batches, leader)
        return not self._in_flight

    def _hear(self, codes: "Sequence[int | None]", batches: "Sequence[Batch]", leader: int) -> None:
        in_order = True
        for code, batch in zip(codes, batches, strict=True):
            if code in _FATAL and in_order and batch.offset < 0:
                self.world.violated(
                    f"{self.name} is told {ErrorCode(code).name} by broker {leader} for {batch.values}, which it sent"
                    " in order"
                )
            in_order = in_order and (code == ErrorCode.NONE or batch.offset >= 0)

    async def _send(self, channel: Channel, batch: Batch) -> int | None:
        request = _produce_request(
            self.key, batch.data, acks=-1, timeout_ms=self.world.random.choice((500, 3000))
        )
        try:
            response = await self._ask_on(channel, request, 9, produce.ProduceResponse)
        except ChannelError:
            return None
        one = response.responses[0].partition_responses[0]
        if one.error_code == ErrorCode.NONE:
            self._was_acknowledged(batch, one.base_offset)
        return one.error_code

    def _was_acknowledged(self, batch: Batch, offset: int) -> None:
        if batch.offset < 0:
            batch.offset = offset
            self._in_flight.remove(batch)
            self.checker.was_acknowledged(self.key, batch.values, offset)
        elif batch.offset != offset:
            self.world.violated(
                f"{self.name} is told that {batch.values} are at {offset} of {self.key}, and was told {batch.offset}"
                " before"
            )

    async def _repeat(self, batch: Batch) -> None:
        """Once more, over a connection of its own, to somebody who led once; nobody waits for that."""
        random = self.world.random
        await asyncio.sleep(random.choice((0.0, 0.01, 1.0, 8.0)) * random.random())
        if not self._leaders_met:
            return
        with contextlib.suppress(ChannelError):
            channel = await self._connect(random.choice(self._leaders_met))
            await self._send(channel, batch)
            channel.close()


def _produce_request(key: Key, data: bytes, *, acks: int, timeout_ms: int) -> produce.ProduceRequest:
    one = produce.PartitionProduceData(index=key[1], records=data)
    return produce.ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[produce.TopicProduceData(name=key[0], partition_data=[one])],
    )


_FATAL: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
"""What a producer that never gives up and never skips must not hear unless something is lost."""


class Consumer(Client):
    """Reads one partition from its beginning to its end, and then what comes."""

    def __init__(self, world: World, checker: Checker, name: str, brokers: Sequence[int], key: Key) -> None:
        super().__init__(world, checker, name, brokers)
        self.key = key
        self.position = 0
        self._last_epoch = _NO_EPOCH
        self._latest = 0
        self.begin(self._consume)

    async def _consume(self) -> None:
        while not self.is_stopping:
            known = self.known_leader(self.key) or await self.leader_of(self.key)
            is_well = False
            if known is not None:
                with contextlib.suppress(ChannelError):
                    is_well = await self._fetch(*known)
                    if is_well and self.world.random.random() < 0.1:
                        is_well = await self._ask_for_end(*known)
            if not is_well:
                await self.pause()
                await self.leader_of(self.key)

    async def _fetch(self, leader: int, epoch: int) -> bool:
        request = fetch.FetchRequest(
            replica_id=-1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[
                fetch.FetchTopic(
                    topic=self.key[0],
                    partitions=[
                        fetch.FetchPartition(
                            partition=self.key[1],
                            current_leader_epoch=epoch,
                            fetch_offset=self.position,
                            last_fetched_epoch=self._last_epoch,
                            partition_max_bytes=self.world.random.choice((1, 300, 1 << 16)),
                        )
                    ],
                )
            ],
        )
        response = await self.ask(leader, request, 12, fetch.FetchResponse)
        if response.error_code or not response.responses:
            return False
        data = response.responses[0].partitions[0]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.world.violated(f"{self.name} has read up to {self.position}, which {leader} does not have")
            return False
        if data.error_code:
            return False
        if data.diverging_epoch.epoch >= 0:
            self.world.violated(
                f"{self.name} has read up to {self.position} in epoch {self._last_epoch}, and {leader} says that its"
                f" log parts there: {data.diverging_epoch}"
            )
            return False
        for record in read_records(data.records or b"", from_offset=self.position):
            if record.offset != self.position:
                self.world.violated(
                    f"{self.name} gets {record.offset} of {self.key} after {self.position - 1}"
                )
            self.checker.was_read(self.key, record.offset, record.value or b"", self.name)
            self.position = record.offset + 1
            self._last_epoch = epoch if self._last_epoch == _NO_EPOCH else self._last_epoch
        self._last_epoch = _last_epoch_of(data.records or b"", self.position, self._last_epoch)
        return True

    async def _ask_for_end(self, leader: int, epoch: int) -> bool:
        request = list_offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=[
                list_offsets.ListOffsetsTopic(
                    name=self.key[0],
                    partitions=[
                        list_offsets.ListOffsetsPartition(
                            partition_index=self.key[1], current_leader_epoch=epoch, timestamp=LATEST
                        )
                    ],
                )
            ],
        )
        response = await self.ask(leader, request, 7, list_offsets.ListOffsetsResponse)
        one = response.topics[0].partitions[0]
        if one.error_code:
            return False
        if one.offset < max(self._latest, self.position):
            self.world.violated(
                f"{self.name} hears that {self.key} ends at {one.offset}, after it ended at {self._latest} and was read"
                f" up to {self.position}"
            )
        self._latest = one.offset
        return True


def _last_epoch_of(records: Any, position: int, before: int) -> int:
    from pkafka.records.batch import iter_headers

    for _, header in iter_headers(records):
        if header.base_offset < position:
            before = header.partition_leader_epoch
    return before


class Administrator(Client):
    """Changes the cluster while it runs."""

    async def _tell(self, request: Message, version: int, answer: type[M]) -> M | None:
        await self.leader_of(("none", 0))
        if self.controller < 0:
            return None
        try:
            return await self.ask(self.controller, request, version, answer, timeout_s=10.0)
        except ChannelError:
            return None

    async def create(
        self, topic: str, assignments: Sequence[Sequence[int]], configs: dict[str, str] | None = None
    ) -> None:
        """Until it is there."""
        request = create_topics.CreateTopicsRequest(
            topics=[
                create_topics.CreatableTopic(
                    name=topic,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[
                        create_topics.CreatableReplicaAssignment(
                            partition_index=number, broker_ids=list(brokers)
                        )
                        for number, brokers in enumerate(assignments)
                    ],
                    configs=[
                        create_topics.CreatableTopicConfig(name=name, value=value)
                        for name, value in (configs or {}).items()
                    ],
                )
            ],
            timeout_ms=5000,
        )
        while True:
            response = await self._tell(request, 5, create_topics.CreateTopicsResponse)
            if response is not None and response.topics[0].error_code in (
                ErrorCode.NONE,
                ErrorCode.TOPIC_ALREADY_EXISTS,
            ):
                return
            await self.pause()

    async def delete(self, topic: str) -> None:
        """Once."""
        request = delete_topics.DeleteTopicsRequest(topic_names=[topic], timeout_ms=1000)
        await self._tell(request, 5, delete_topics.DeleteTopicsResponse)

    async def add_partition(self, topic: str, count: int, brokers: Sequence[int]) -> None:
        """Once."""
        request = create_partitions.CreatePartitionsRequest(
            topics=[
                create_partitions.CreatePartitionsTopic(
                    name=topic,
                    count=count,
                    assignments=[create_partitions.CreatePartitionsAssignment(broker_ids=list(brokers))],
                )
            ],
            timeout_ms=1000,
        )
        await self._tell(request, 2, create_partitions.CreatePartitionsResponse)

    async def move(self, key: Key, brokers: Sequence[int] | None) -> None:
        """Have a partition moved, or with None its move given up."""
        request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            topics=[
                alter_partition_reassignments.ReassignableTopic(
                    name=key[0],
                    partitions=[
                        alter_partition_reassignments.ReassignablePartition(
                            partition_index=key[1], replicas=None if brokers is None else list(brokers)
                        )
                    ],
                )
            ],
            timeout_ms=1000,
        )
        await self._tell(request, 0, alter_partition_reassignments.AlterPartitionReassignmentsResponse)

    async def elect_preferred(self) -> None:
        """Bring all leaders back."""
        request = elect_leaders.ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=1000)
        await self._tell(request, 2, elect_leaders.ElectLeadersResponse)
