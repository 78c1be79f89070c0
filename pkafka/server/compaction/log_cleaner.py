"""The log cleaner: takes the dirtiest logs of all workers in turn and compacts them.

It runs in the cleaner process. Each of its ``log.cleaner.threads`` is a task with a thread for the file work. So many
logs are compacted at the same time, but all on one processor, as Python runs them in one process. The workers choose
among their logs, and swap in what was written (server/replicas/compaction_rounds.py).
"""

import asyncio
import contextlib
import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from pkafka.clock import Clock
from pkafka.errors import ApiError, PkafkaError
from pkafka.model import Offset
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import Peer, PeerGone
from pkafka.server.ipc.words import CleaningRound, Due, Offer
from pkafka.storage.cleaning import (
    Cleaning,
    CleaningAbortedError,
    CleaningPlan,
    CleaningStats,
    Replacement,
)
from pkafka.storage.files import Files
from pkafka.storage.offset_map import OffsetMap

LOG_CLEANER_LOGGER: Final = "kafka.log.LogCleaner"
log = logging.getLogger(LOG_CLEANER_LOGGER)
"""Kafka's name: its lines have a file of their own."""

_InThread: TypeAlias = Callable[..., "asyncio.Future[Any]"]

_BUFFER_BYTES_MAX: Final = 2**31 - 1
"""The most bytes of log.cleaner.dedupe.buffer.size that the map of one thread gets."""
_PACE_INTERVAL_S: Final = 0.3
_STOP_MAX_S: Final = 10.0
_ASKING_SHARE: Final = 4
"""After the workers' answers the cleaner pauses for this many times the time that the answers took."""
_NICENESS: Final = 5
"""Of the threads, above the broker's: one that competes with a worker for a core gets a quarter of it."""
_TOO_MANY_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """Holds the settings ``log.cleaner.*`` of the cleaner itself."""

    threads: int
    backoff_ms: int
    dedupe_buffer_bytes: int
    load_factor: float
    io_buffer_bytes: int
    io_bytes_per_second: float

    @classmethod
    def of(cls, config: BrokerConfig) -> "CleanerSettings":
        """Take the settings from a configuration; there are no threads when the cleaner is off."""
        return cls(
            threads=config.log_cleaner_threads if config.log_cleaner_enable else 0,
            backoff_ms=config.log_cleaner_backoff_ms,
            dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size,
            load_factor=config.log_cleaner_io_buffer_load_factor,
            io_buffer_bytes=config.log_cleaner_io_buffer_size,
            io_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
        )


class Throttle:
    """Bounds what all threads read and write together (log.cleaner.io.max.bytes.per.second).

    Args:
        now_s: a monotonic clock.
    """

    def __init__(self, bytes_per_second: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self.bytes_per_second = bytes_per_second
        self._now_s = now_s
        self._lock = threading.Lock()
        self._began_s = now_s()
        self._bytes = 0

    def took(self, count: int) -> float:
        """Note bytes that were read or written; returns how many seconds to rest."""
        with self._lock:
            self._bytes += count
            now_s = self._now_s()
            elapsed_s = now_s - self._began_s
            if elapsed_s < _PACE_INTERVAL_S and self._bytes < self.bytes_per_second * _PACE_INTERVAL_S:
                return 0.0
            rest_s = max(self._bytes / self.bytes_per_second - elapsed_s, 0.0)
            self._began_s, self._bytes = now_s + rest_s, 0
            return rest_s


@dataclass(slots=True)
class LastRun:
    """Holds the figures of the last log that a thread cleaned."""

    stats: CleaningStats = field(default_factory=CleaningStats)
    elapsed_s: float = 0.0
    delay_ms: int = 0


class _OwnerLostError(PkafkaError):
    """The worker that owns the log has died, hangs or failed."""


class _Job:
    """Tracks the cleaning of one log.

    Args:
        peer: the worker that owns it.
        key: the partition.
        throttle: of the whole cleaner.
    """

    def __init__(self, peer: Peer, key: tuple[str, int], throttle: Throttle) -> None:
        self.peer = peer
        self.key = key
        self.number = 0
        self.stop = threading.Event()
        self.is_released = False
        """The owner has said that it will not touch the files."""
        self.may_be_swapping = False
        """The owner was asked to take files over and has not answered: they may be its own now, or its successor's."""
        self._throttle = throttle

    async def ask(self, operation: str, arguments: list[Any]) -> Any:  # noqa: ANN401
        """Call the owner about this round.

        Raises:
            _OwnerLostError: the outcome is unknown.
        """
        try:
            return (await self.peer.call(operation, [*self.key, self.number, *arguments]))[0]
        except (PeerGone, ApiError) as error:
            raise _OwnerLostError(str(error)) from error

    async def swap(self, replacement: Replacement) -> bool:
        """Let the owner take new segments over; returns whether it did.

        Raises:
            _OwnerLostError: it may have begun.
        """
        self.may_be_swapping = not self.peer.gone
        accepted: bool = await self.ask(words.REPLACE_SEGMENTS, list(replacement))
        self.may_be_swapping = False
        return accepted

    def pace(self, count: int) -> None:
        """Note bytes that the thread reads or writes, and make it pause. Called on the thread.

        Raises:
            CleaningAbortedError: the log is not to be cleaned any more, or its owner has died.
        """
        rest_s = self._throttle.took(count)
        if (rest_s and self.stop.wait(rest_s)) or self.stop.is_set() or self.peer.gone:
            raise CleaningAbortedError


class LogCleaner:
    """Takes the dirtiest logs of all workers in turn and compacts them.

    Args:
        workers: gives the channels to the live workers.
        settings: at the start.
        clock: the wall clock.
        files: the file port.
    """

    def __init__(
        self, workers: Callable[[], Iterable[Peer]], settings: CleanerSettings, *, clock: Clock, files: Files
    ) -> None:
        self._workers = workers
        self._settings = settings
        self._clock = clock
        self._files = files
        self._throttle = Throttle(settings.io_bytes_per_second)
        self._jobs: dict[tuple[str, int], _Job] = {}
        self._threads: dict[int, asyncio.Task[None]] = {}
        self._last: dict[int, LastRun] = {}
        self._wake = asyncio.Event()
        self._is_stopping = False
        self._dirtiest: dict[str, float] = {}
        self._last_asked_ms = clock.now_ms()
        self._ask_again_s = 0.0

    # -- life --

    def start(self) -> None:
        """Start the threads."""
        for number in range(self._settings.threads):
            thread = self._threads.get(number)
            if thread is None or thread.done():
                self._last.setdefault(number, LastRun())
                task = self._threads[number] = asyncio.create_task(self._clean_for_ever(number))
                task.add_done_callback(_tell_death)

    def configure(self, settings: CleanerSettings) -> None:
        """Take new settings. They hold from the next log of each thread on; threads that are too many end then."""
        if settings == self._settings:
            return
        self._settings = settings
        self._throttle.bytes_per_second = settings.io_bytes_per_second
        self._wake.set()
        self._wake = asyncio.Event()
        self.start()

    def abort(self, peer: Peer, begun: CleaningRound) -> None:
        """Stop a round: the worker does not want its log cleaned any more."""
        job = self._jobs.get((begun.topic, begun.partition))
        # This may come before the task has noted the number of its round, for which it needs a turn of the loop.
        if job is not None and job.peer is peer and job.number in (0, begun.number):
            job.is_released = True
            job.stop.set()

    async def stop(self) -> None:
        """Stop cleaning, and leave every log as it is."""
        self._is_stopping = True
        for job in self._jobs.values():
            job.stop.set()
        self._wake.set()
        if self._threads:
            await asyncio.wait(self._threads.values(), timeout=_STOP_MAX_S)

    # -- the threads --

    async def _clean_for_ever(self, number: int) -> None:
        executor = ThreadPoolExecutor(
            max_workers=1,
            thread_name_prefix=f"log-cleaner-{number}",
            initializer=os.nice,  # on Linux it is that of the calling thread
            initargs=(_NICENESS,),
        )
        try:
            while not self._is_stopping and number < self._settings.threads:
                if not await self._clean_dirtiest(number, executor) and not self._is_stopping:
                    await self._rest(self._settings.backoff_ms / 1000)
        finally:
            executor.shutdown(wait=False)

    async def _rest(self, time_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), time_s)

    async def _clean_dirtiest(self, number: int, executor: ThreadPoolExecutor) -> bool:
        """Clean the log that needs it most; False when none does."""
        best: tuple[float, Peer, tuple[str, int]] | None = None
        due = late = delay_ms = 0
        for peer, answer in await self._ask():
            self._dirtiest[peer.name] = answer.dirtiest
            due, late, delay_ms = due + answer.due, late + answer.late, max(delay_ms, answer.delay_ms)
            if answer.offer is None:
                continue
            offer = Offer(*answer.offer)
            if best is None or offer.dirty_ratio > best[0]:
                best = offer.dirty_ratio, peer, (offer.topic, offer.partition)
        if best is None:
            return False
        _, peer, key = best
        if key in self._jobs:
            return False
        self._last[number].delay_ms = delay_ms
        job = self._jobs[key] = _Job(peer, key, self._throttle)
        try:
            begun = (await peer.call(words.BEGIN_CLEANING, list(key)))[0]
            if begun is None:
                return False
            job.number = begun[0]
            log.debug("%d logs are due, %d late, the latest by %d ms", due, late, delay_ms)
            await self._clean(number, executor, job, CleaningPlan(*begun[1]))
        except (PeerGone, ApiError, _OwnerLostError) as error:
            # If the worker was asked for a swap, the files are left to its successor.
            log.info("The cleaning of %s-%d ended early: %s", *key, error)
            return False
        finally:
            del self._jobs[key]
        return True

    async def _ask(self) -> list[tuple[Peer, Due]]:
        early_s = self._ask_again_s - time.monotonic()
        if early_s > 0:
            await self._rest(min(early_s, self._settings.backoff_ms / 1000))
        self._last_asked_ms = self._clock.now_ms()
        began_s = time.monotonic()
        peers = list(self._workers())
        busy = list(self._jobs)
        answers = await asyncio.gather(
            *(peer.call(words.CLEANABLE, busy) for peer in peers), return_exceptions=True
        )
        # For its answer a worker looks at all of its logs: that must not take most of its time.
        now_s = time.monotonic()
        self._ask_again_s = now_s + _ASKING_SHARE * (now_s - began_s)
        found: list[tuple[Peer, Due]] = []
        for peer, answer in zip(peers, answers, strict=True):
            if isinstance(answer, BaseException):
                if not isinstance(answer, (PeerGone, ApiError)):
                    raise answer
            else:
                found.append((peer, Due(*answer[0])))
        return found

    async def _clean(self, number: int, executor: ThreadPoolExecutor, job: _Job, plan: CleaningPlan) -> None:
        """One round, and its outcome for the owner of the log.

        Raises:
            _OwnerLostError: the owner has died, hangs or failed.
        """
        cleaning = Cleaning(
            plan,
            self._offset_map(),
            files=self._files,
            now_ms=self._clock.now_ms(),
            pace=job.pace,
            read_bytes=self._settings.io_buffer_bytes // max(self._settings.threads, 1) // 2,
        )
        in_thread = partial(asyncio.get_running_loop().run_in_executor, executor)
        outcome: list[Any] = [None, None, False]
        try:
            outcome[0] = await self._go_through(number, cleaning, job, in_thread)
        except CleaningAbortedError:
            log.info("The cleaning of %s-%d was given up", *job.key)
        except OSError as error:
            # Too many open files pass; anything else is the disk.
            if error.errno not in _TOO_MANY_FILES:
                outcome[1:] = str(error), True
        except _OwnerLostError:
            # The worker's words arrive in their order: a swap that it has not answered by now has not taken place.
            if not job.is_released:
                raise
        except Exception as error:
            # A damaged log, or a bug that it brings to light, must not stop the cleaning of the others.
            if not isinstance(error, ApiError):
                log.exception("The cleaning of %s-%d failed", *job.key)
            outcome[1] = str(error) or repr(error)
        finally:
            # The worker died before it was asked for a swap. Its successor may have looked for left-over files already,
            # so the cleaner removes these.
            if outcome[0] is None and (job.is_released or not job.may_be_swapping):
                with contextlib.suppress(OSError):
                    await in_thread(cleaning.discard)
        await job.ask(words.END_CLEANING, outcome)

    async def _go_through(self, number: int, cleaning: Cleaning, job: _Job, in_thread: _InThread) -> Offset:
        """Map, rewrite and swap; returns up to where the log is clean.

        Raises:
            CleaningAbortedError: the log is not to be cleaned any more.
            ApiError: a batch is damaged.
            OSError: the disk refused.
        """
        began_s = time.monotonic()
        await in_thread(cleaning.map_keys)
        for group in await in_thread(cleaning.groups):
            replacement = await in_thread(cleaning.rewrite, group)
            if replacement is not None:
                if not await job.swap(replacement):
                    raise CleaningAbortedError
                cleaning.accepted()
        run = self._last[number]
        run.stats, run.elapsed_s = cleaning.stats, time.monotonic() - began_s
        _tell(job.key, cleaning, run)
        return cleaning.end_offset

    def _offset_map(self) -> OffsetMap:
        settings = self._settings
        share = settings.dedupe_buffer_bytes // max(settings.threads, 1)
        return OffsetMap(min(share, _BUFFER_BYTES_MAX), settings.load_factor)

    # -- metrics --

    def metrics(self) -> dict[str, Any]:
        """The gauges of Kafka's LogCleaner and LogCleanerManager, by their names there."""
        runs = [run for number, run in self._last.items() if number in self._threads]
        read = sum(run.stats.bytes_read for run in runs)
        written = sum(run.stats.bytes_written for run in runs)
        return {
            "max-buffer-utilization-percent": int(
                100 * max((run.stats.buffer_utilization for run in runs), default=0.0)
            ),
            "cleaner-recopy-percent": int(100 * written / max(read, 1)),
            "max-clean-time-secs": int(max((run.elapsed_s for run in runs), default=0.0)),
            "max-compaction-delay-secs": max((run.delay_ms for run in runs), default=0) // 1000,
            "deadthreadcount": sum(
                thread.done() for number, thread in self._threads.items() if number < self._settings.threads
            ),
            "max-dirty-percent": int(100 * max(self._dirtiest.values(), default=0.0)),
            "time-since-last-run-ms": self._clock.now_ms() - self._last_asked_ms,
        }


def _tell_death(thread: "asyncio.Task[None]") -> None:
    if not thread.cancelled() and thread.exception() is not None:
        log.error("A thread of the log cleaner has died", exc_info=thread.exception())


def _tell(key: tuple[str, int], cleaning: Cleaning, run: LastRun) -> None:
    stats = cleaning.stats
    log.info(
        "Cleaned %s-%d (dirty section = [%d, %d]): %.1f MB with %d records became %.1f MB with %d in %.1f s,"
        " the map of keys was %.1f%% full",
        *key,
        cleaning.plan.first_dirty,
        cleaning.end_offset,
        stats.bytes_read / 1e6,
        stats.records.read,
        stats.bytes_written / 1e6,
        stats.records.kept,
        run.elapsed_s,
        100 * stats.buffer_utilization,
    )
    if stats.records.keyless:
        log.warning("%s-%d had %d records without a key, which are gone", *key, stats.records.keyless)
