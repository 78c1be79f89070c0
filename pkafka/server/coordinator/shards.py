"""The partitions of an internal topic that a worker coordinates, and the entries that it has read from each.

A shard is loaded when this broker begins to lead its partition, and let go when it stops leading it. An entry (a group,
for example) is in one shard of one worker. All of it runs on the worker's event loop.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from pkafka.errors import ErrorCode
from pkafka.records.batch import BatchHeader
from pkafka.records.reading import Record
from pkafka.server.coordinator.load_times import LoadTimes
from pkafka.server.ipc.turns import Turns
from pkafka.server.replicas.delayed import Timer

log = logging.getLogger(__name__)

LOAD_AGAIN_MS: Final = 5_000
"""The pause before a partition is loaded again after an unexpected error."""

EntryT = TypeVar("EntryT")


class Shard(Protocol[EntryT]):
    """The entries of one partition; a dictionary is one."""

    def get(self, key: str, /) -> EntryT | None:
        """Find an entry."""
        ...

    def __setitem__(self, key: str, entry: EntryT, /) -> None:
        """Take in an entry."""
        ...

    def pop(self, key: str, default: None, /) -> EntryT | None:
        """Forget an entry, which may be gone already."""
        ...

    def __len__(self) -> int:
        """How many entries there are."""
        ...

    def values(self) -> Collection[EntryT]:
        """Those that others may refer to."""
        ...


class Loading(Protocol[EntryT]):
    """Makes the entries of one partition from its records."""

    def begin(self) -> None:
        """Forget what an attempt before this one has played."""
        ...

    def play(self, header: BatchHeader, records: Sequence[Record]) -> None:
        """Take over one batch, the next in the log."""
        ...

    def entries(self) -> Iterator[tuple[str, EntryT] | None]:
        """Make the entries that are left after the last batch, one a step; None for a step that makes none."""
        ...

    def loaded(self, entries: Shard[EntryT], took_ms: float) -> None:
        """Begin with the entries; the shard is this worker's from now on."""
        ...


LoadingT = TypeVar("LoadingT", bound=Loading[Any])


class ShardLog(Protocol):
    """Reads the partitions of the topic (:class:`pkafka.server.coordinator.topic_log.TopicLog`)."""

    @property
    def topic(self) -> str:
        """Its name."""
        ...

    def read(self, partition: int) -> AsyncIterator[tuple[BatchHeader, list[Record]]]:
        """Read all batches of a partition."""
        ...

    async def all_committed(self, partition: int) -> None:
        """Wait until all records of a partition are committed, or this broker stops leading it."""
        ...


class Shards(Generic[EntryT, LoadingT]):
    """Loads shards in turns, finds entries in them, and lets them go.

    Args:
        shard_log: reads the records.
        new_loading: makes what loads a partition.
        bury: ends an entry that leaves its shard.
        what: the entries are, for log lines.
        timer: of the worker.
        spawn: runs a coroutine on the worker's loop.
        replay: plays all records of a partition, in steps; None plays each batch by :meth:`Loading.play`.
        new_shard: makes what the entries of a loading are put into; None makes a dictionary.
    """

    def __init__(
        self,
        shard_log: ShardLog,
        new_loading: Callable[[int], LoadingT],
        bury: Callable[[EntryT], None],
        *,
        what: str,
        timer: Timer,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        replay: Callable[[int, LoadingT], AsyncIterator[object]] | None = None,
        new_shard: Callable[[LoadingT], Shard[EntryT]] | None = None,
    ) -> None:
        self._log = shard_log
        self._replay = replay or self._play_batches
        self._new_shard: Callable[[LoadingT], Shard[EntryT]] = new_shard or _new_dictionary
        self._new_loading = new_loading
        self._bury = bury
        self._what = what
        self._timer = timer
        self._spawn = spawn
        self._owned: dict[int, Shard[EntryT]] = {}
        self._loading: dict[int, LoadingT] = {}
        """By partition. The identity of the object tells one loading from the next."""
        self._turn_to_load = asyncio.Lock()
        self._resigned = False
        self.load_times = LoadTimes()

    # -- entries --

    def look_up(self, partition: int, key: str) -> tuple[ErrorCode, EntryT | None]:
        """Find an entry.

        Returns:
            NONE when this worker coordinates the partition, with the entry if it exists; else the reason for a refusal.
        """
        entries = self._owned.get(partition)
        if entries is not None:
            return ErrorCode.NONE, entries.get(key)
        if self._resigned:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, None
        if partition in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None
        return ErrorCode.NOT_COORDINATOR, None

    def add(self, partition: int, key: str, entry: EntryT) -> None:
        """Take in a new entry of a partition that this worker coordinates."""
        self._owned[partition][key] = entry

    def remove(self, partition: int, key: str) -> None:
        """Give up an entry, which its caller ends."""
        self._owned[partition].pop(key, None)

    def __len__(self) -> int:
        """How many entries this worker has."""
        return sum(map(len, self._owned.values()))

    def entries(self) -> Iterator[EntryT]:
        """All entries of this worker that others may refer to."""
        for entries in self._owned.values():
            yield from entries.values()

    def has(self, partition: int) -> bool:
        """Whether this worker coordinates a partition, which is loaded."""
        return partition in self._owned

    def entries_of(self, partition: int) -> Collection[EntryT]:
        """All entries of a partition that this worker coordinates."""
        entries = self._owned.get(partition)
        return () if entries is None else entries.values()

    def all_there(self) -> ErrorCode:
        """NONE when :meth:`entries` are all that this worker is to have; else why some are missing."""
        if self._resigned:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self._loading else ErrorCode.NONE

    @property
    def loadings(self) -> Collection[LoadingT]:
        """The loadings that are under way."""
        return self._loading.values()

    # -- partitions come and go --

    def begin(self, partition: int) -> None:
        """Load a partition that this broker leads from now on, or still does."""
        if self._resigned or partition in self._owned or partition in self._loading:
            return
        loading = self._loading[partition] = self._new_loading(partition)
        self._spawn(self._load(partition, loading, _now_s()))

    def end(self, partition: int) -> int:
        """Let go of a partition that this broker does not lead any more.

        Returns:
            How many entries it had.
        """
        self._loading.pop(partition, None)
        entries = self._owned.pop(partition, None)
        if entries is None:
            return 0
        for entry in entries.values():
            self._bury(entry)
        return len(entries)

    def resign(self) -> None:
        """Let go of all partitions and take no new one, as the broker stops."""
        self._resigned = True
        for partition in [*self._owned, *self._loading]:
            self.end(partition)

    # -- loading --

    async def _load(self, partition: int, loading: LoadingT, wanted_s: float) -> None:
        try:
            is_loaded = await self._load_now(partition, loading)
        except AssertionError:
            raise
        except Exception:
            # Meanwhile clients hear COORDINATOR_LOAD_IN_PROGRESS. Without another try they would hear it for ever.
            log.exception(
                "The %s of %s-%d cannot be loaded; trying again in %d seconds",
                self._what,
                self._log.topic,
                partition,
                LOAD_AGAIN_MS // 1000,
            )
            again = partial(self._load, partition, loading, wanted_s)
            self._timer.after(LOAD_AGAIN_MS, lambda: self._spawn(again()))
        else:
            if is_loaded:
                self.load_times.record((_now_s() - wanted_s) * 1000, self._timer.now_ms())

    async def _load_now(self, partition: int, loading: LoadingT) -> bool:
        """Read a partition and coordinate its entries.

        Returns:
            False when this broker stopped leading the partition meanwhile.
        """
        # One partition at a time: several at once would take all of the loop's time, and clients would wait.
        async with self._turn_to_load:
            began_s = _now_s()
            await self._play(partition, loading)
        # Records that only this broker has may be lost with it. A client that hears of them before they are committed
        # could go on from something that the next coordinator lacks. Other partitions load meanwhile.
        await self._log.all_committed(partition)
        if not self._is_wanted(partition, loading):
            return False
        async with self._turn_to_load:
            entries = self._new_shard(loading)
            turns = Turns()
            for made in loading.entries():
                if made is not None:
                    entries[made[0]] = made[1]
                await turns.step()
        if not self._is_wanted(partition, loading):
            return False
        del self._loading[partition]
        self._owned[partition] = entries
        loading.loaded(entries, (_now_s() - began_s) * 1000)
        return True

    async def _play(self, partition: int, loading: LoadingT) -> None:
        loading.begin()
        if not self._is_wanted(partition, loading):
            return
        async for _step in self._replay(partition, loading):
            if not self._is_wanted(partition, loading):
                break

    async def _play_batches(self, partition: int, loading: LoadingT) -> AsyncIterator[object]:
        async for header, records in self._log.read(partition):
            loading.play(header, records)
            yield header

    def _is_wanted(self, partition: int, loading: LoadingT) -> bool:
        return self._loading.get(partition) is loading


def _new_dictionary(_loading: Loading[EntryT]) -> Shard[EntryT]:
    entries: dict[str, EntryT] = {}
    return entries


def _now_s() -> float:
    return asyncio.get_running_loop().time()
