"""A consumer group under faults: its members, what they are told, and what of that must hold.

Members commit higher and higher numbers for the partitions that they are given, so that of two commits everybody can
tell which came later.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from typing import Final

from pkafka.errors import ErrorCode
from pkafka.model import CONSUMER_OFFSETS_TOPIC
from pkafka.net.channel import ChannelError
from pkafka.protocol.messages import (
    find_coordinator,
    heartbeat,
    join_group,
    offset_commit,
    offset_fetch,
    sync_group,
)
from tests.sim.checker import Checker, Key
from tests.sim.clients import Client
from tests.sim.world import World

GROUP: Final = "g"
OFFSETS: Final[Key] = (CONSUMER_OFFSETS_TOPIC, 0)
"""Who leads it coordinates the group."""
_SESSION_MS: Final = 3000
_REBALANCE_MS: Final = 3000
_ASLEEP_S: Final = 5.0
"""Longer than a session."""
_PROTOCOL_TYPE: Final = "simulation"
_PROTOCOL: Final = "in order"
_NOBODY: Final = ""


class Ledger:
    """What the coordinator of a group has promised.

    Args:
        world: the world.
        keys: the partitions that the group shares.
    """

    def __init__(self, world: World, keys: Sequence[Key]) -> None:
        self.keys = list(keys)
        self.commits = 0
        self.generation = -1
        """The latest one that a member has been told to be complete: it is in the log of the coordinator."""
        self._world = world
        self._sent: Counter[Key] = Counter()
        self._owners: dict[tuple[int, Key], str] = {}
        self._committed: dict[Key, dict[int, int]] = {key: {} for key in keys}
        """The highest number that was acknowledged, by generation."""

    def synced(self, who: str, generation: int, keys: Sequence[Key]) -> None:
        """A member was given these partitions."""
        self.generation = max(self.generation, generation)
        for key in keys:
            owner = self._owners.setdefault((generation, key), who)
            if owner != who:
                self._world.violated(f"{owner} and {who} both have {key} in generation {generation}")

    def next_number(self, key: Key) -> int:
        """What is to be committed next."""
        self._sent[key] += 1
        return self._sent[key]

    def committed(self, who: str, generation: int, key: Key, number: int, *, formed_before: int) -> None:
        """A member was told that its commit is safe.

        Args:
            formed_before: :attr:`generation` when the commit was sent.
        """
        if generation < formed_before:
            self._world.violated(
                f"{who} commits for {key} in generation {generation}, when generation {formed_before} was complete"
            )
        self.commits += 1
        by_generation = self._committed[key]
        by_generation[generation] = max(by_generation.get(generation, 0), number)

    def least(self, key: Key, generation: int | None) -> int:
        """What a member of a generation must find committed at its coordinator; None: what must be there at the end."""
        found = self._committed[key].items()
        return max((number for one, number in found if generation is None or one < generation), default=-1)

    def fetched(self, who: str, key: Key, number: int, least: int) -> None:
        """A member was told what is committed."""
        if number < least:
            self._world.violated(f"{who} hears that {number} is committed for {key}, and {least} was")
        elif number > self._sent[key]:
            self._world.violated(f"{who} hears that {number} is committed for {key}, which nobody sent")


class Member(Client):
    """A member of the group; stands still now and then for longer than its session."""

    def __init__(
        self, world: World, checker: Checker, name: str, brokers: Sequence[int], ledger: Ledger
    ) -> None:
        super().__init__(world, checker, name, brokers)
        self._ledger = ledger
        self._id = _NOBODY
        self._before: tuple[int, list[Key]] | None = None
        """The last generation in which it committed, and its partitions then."""
        self.begin(self._live)

    async def _live(self) -> None:
        while not self.is_stopping:
            with contextlib.suppress(ChannelError):
                coordinator = await self._coordinator()
                if coordinator is not None:
                    await self._take_part(coordinator)
            await self.pause()

    async def last_look(self) -> None:
        """Nothing happens any more: what was committed is there."""
        while True:
            with contextlib.suppress(ChannelError):
                coordinator = await self._coordinator()
                if coordinator is not None and await self._look(coordinator, self._ledger.keys, None):
                    return
            await self.pause()

    async def _coordinator(self) -> int | None:
        broker = self._brokers[self.world.random.randrange(len(self._brokers))]
        request = find_coordinator.FindCoordinatorRequest(key=GROUP, key_type=0)
        response = await self.ask(broker, request, 3, find_coordinator.FindCoordinatorResponse, timeout_s=3.0)
        return response.node_id if response.error_code == ErrorCode.NONE else None

    async def _take_part(self, coordinator: int) -> None:
        """In one generation, to its end."""
        random = self.world.random
        joined = await self._join(coordinator)
        if joined is None:
            return
        keys = await self._sync(coordinator, joined)
        if keys is None or not await self._look(coordinator, keys, joined.generation_id):
            return
        if self._before is not None and random.random() < 0.5:
            # Sent before the rebalance, it was long on its way.
            await self._commit(coordinator, *self._before)
        self._before = joined.generation_id, keys
        while not self.is_stopping:
            code = await self._commit(coordinator, joined.generation_id, keys) or await self._beat(
                coordinator, joined.generation_id
            )
            if code:
                self._told(code)
                return
            await asyncio.sleep(_ASLEEP_S if random.random() < 0.03 else 0.3 + 0.5 * random.random())

    async def _join(self, coordinator: int) -> join_group.JoinGroupResponse | None:
        request = join_group.JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
            member_id=self._id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=[join_group.JoinGroupRequestProtocol(name=_PROTOCOL, metadata=self.name.encode())],
        )
        response = await self.ask(coordinator, request, 5, join_group.JoinGroupResponse)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._id = request.member_id = response.member_id
            response = await self.ask(coordinator, request, 5, join_group.JoinGroupResponse)
        if response.error_code:
            self._told(response.error_code)
            return None
        self._id = response.member_id
        return response

    async def _sync(self, coordinator: int, joined: join_group.JoinGroupResponse) -> list[Key] | None:
        shares: list[sync_group.SyncGroupRequestAssignment] = []
        if joined.leader == self._id:
            members, keys = joined.members, self._ledger.keys
            for number, member in enumerate(members):
                share = "".join(
                    f"{topic}-{one}\n"
                    for place, (topic, one) in enumerate(keys)
                    if place % len(members) == number
                )
                shares.append(
                    sync_group.SyncGroupRequestAssignment(
                        member_id=member.member_id, assignment=share.encode()
                    )
                )
        request = sync_group.SyncGroupRequest(
            group_id=GROUP, generation_id=joined.generation_id, member_id=self._id, assignments=shares
        )
        response = await self.ask(coordinator, request, 3, sync_group.SyncGroupResponse)
        if response.error_code:
            self._told(response.error_code)
            return None
        names = bytes(response.assignment).decode().split()
        own = [key for key in self._ledger.keys if f"{key[0]}-{key[1]}" in names]
        self._ledger.synced(self.name, joined.generation_id, own)
        return own

    async def _look(self, coordinator: int, keys: Sequence[Key], generation: int | None) -> bool:
        """Where a consumer of these partitions would begin; False when that is not to be learned."""
        least = {key: self._ledger.least(key, generation) for key in keys}
        topics = sorted({topic for topic, _ in keys})
        request = offset_fetch.OffsetFetchRequest(
            group_id=GROUP,
            topics=[
                offset_fetch.OffsetFetchRequestTopic(
                    name=topic, partition_indexes=[number for name, number in keys if name == topic]
                )
                for topic in topics
            ],
        )
        response = await self.ask(coordinator, request, 5, offset_fetch.OffsetFetchResponse)
        rows = [(topic.name, one) for topic in response.topics for one in topic.partitions]
        if response.error_code or any(one.error_code for _, one in rows):
            return False
        for topic, one in rows:
            key = (topic, one.partition_index)
            self._ledger.fetched(self.name, key, one.committed_offset, least[key])
        return True

    async def _commit(self, coordinator: int, generation: int, keys: Sequence[Key]) -> int:
        ledger = self._ledger
        numbers = {key: ledger.next_number(key) for key in keys}
        formed_before = ledger.generation
        request = offset_commit.OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=generation,
            member_id=self._id,
            topics=[
                offset_commit.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        offset_commit.OffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=numbers[topic, number],
                            committed_metadata="",
                        )
                    ],
                )
                for topic, number in keys
            ],
        )
        response = await self.ask(coordinator, request, 7, offset_commit.OffsetCommitResponse)
        code: int = ErrorCode.NONE
        for topic in response.topics:
            for one in topic.partitions:
                key = (topic.name, one.partition_index)
                code = code or one.error_code
                if one.error_code == ErrorCode.NONE:
                    ledger.committed(self.name, generation, key, numbers[key], formed_before=formed_before)
        return code

    async def _beat(self, coordinator: int, generation: int) -> int:
        request = heartbeat.HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=self._id)
        return (await self.ask(coordinator, request, 3, heartbeat.HeartbeatResponse)).error_code

    def _told(self, code: int) -> None:
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._id = _NOBODY
