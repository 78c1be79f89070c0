"""Simulated clients: they speak the protocol over the simulated network, and tell the checker what they are told.

Not pkafka's own clients, which live in threads: these do what any client does, and never give up.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from pkafka.errors import ErrorCode, ProtocolError
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
from tests.sim.broker import PORT
from tests.sim.checker import Checker, Key
from tests.sim.world import Loop, World

M = TypeVar("M", bound=Message)

_FRAME_BYTES_MAX: Final = 1 << 24
_REQUEST_MAX_S: Final = 6.0
_PAUSE_S: Final = 0.1
_LATEST: Final = -1
_NO_EPOCH: Final = -1


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

        self.loop.call_soon(lambda: self.tasks.append(self.loop.create_task(run())))

    @property
    def is_done(self) -> bool:
        """Whether all that it began has ended."""
        return all(task.done() for task in self.tasks)

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
            channel = await open_channel(
                f"broker-{broker}", PORT, timeout_s=timeout_s, frame_bytes_max=_FRAME_BYTES_MAX
            )
            self._channels[broker] = channel
        key = request.__api_key__
        assert key is not None
        frame = encode_request(key, version, next(self._numbers), self.name, request)
        try:
            _, response = decode_response(key, version, await channel.ask(frame, timeout_s=timeout_s))
        except ProtocolError as error:
            raise ChannelError(str(error)) from error
        assert isinstance(response, answer)
        return response

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


class Producer(Client):
    """Sends record after record to one partition, each as often as it takes."""

    def __init__(
        self,
        world: World,
        checker: Checker,
        name: str,
        brokers: Sequence[int],
        key: Key,
        *,
        acks: int,
        idempotent: bool,
    ) -> None:
        super().__init__(world, checker, name, brokers)
        self.key = key
        self.count = 0
        self._acks = acks
        self._idempotent = idempotent
        self.begin(self._produce)

    async def _produce(self) -> None:
        random = self.world.random
        producer_id, producer_epoch = (-1, -1)
        if self._idempotent:
            producer_id, producer_epoch = await self._new_id()
        sequence = 0
        while not self.is_stopping:
            values = [f"{self.name}:{self.count + one}".encode() for one in range(random.randint(1, 4))]
            self.checker.sent.update(values)
            batch = bytes(
                build_batch(
                    [(self.world.now_ms(), None, value, ()) for value in values],
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    base_sequence=sequence if self._idempotent else -1,
                )
            )
            offset = await self._send(batch)
            if self._acks == -1 and offset is not None:
                self.checker.was_acknowledged(self.key, values, offset)
            sequence += len(values)
            self.count += len(values)
            if random.random() < 0.7:
                await asyncio.sleep(0.3 * random.random())

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

    async def _send(self, batch: bytes) -> int | None:
        """Until it is acknowledged; without idempotence once, since twice could be there twice."""
        while True:
            known = self.known_leader(self.key) or await self.leader_of(self.key)
            code: int = ErrorCode.UNKNOWN_SERVER_ERROR
            if known is not None:
                request = produce.ProduceRequest(
                    acks=self._acks,
                    timeout_ms=self.world.random.choice((500, 3000)),
                    topic_data=[
                        produce.TopicProduceData(
                            name=self.key[0],
                            partition_data=[produce.PartitionProduceData(index=self.key[1], records=batch)],
                        )
                    ],
                )
                with contextlib.suppress(ChannelError):
                    response = await self.ask(known[0], request, 9, produce.ProduceResponse)
                    one = response.responses[0].partition_responses[0]
                    code = one.error_code
                    if code == ErrorCode.NONE:
                        return one.base_offset
                    if code in _FATAL:
                        self.world.violated(
                            f"{self.name} is told {ErrorCode(code).name} for what it sent in order"
                        )
                        return None
            if not self._idempotent:
                await self.leader_of(self.key)
                return None
            await self.pause()
            await self.leader_of(self.key)


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
                            partition_index=self.key[1], current_leader_epoch=epoch, timestamp=_LATEST
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
