"""Copies partitions in threads of this program."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from pkafka.tools.mirroring.back_fill.copying import Job, Outcome, attempt


def run_here(jobs: Sequence[Job], threads: int, told: Callable[[int], None]) -> list[Outcome]:
    """Copy partitions, so many at a time.

    When this is interrupted, each copy sends what it has read and writes its offset syncs, so that the next run goes on
    there.

    Args:
        threads: how many.
        told: how many offsets were read since the last call; called by all threads.
    """
    is_over = threading.Event()
    copy = partial(attempt, is_wanted=lambda: not is_over.is_set(), told=told)
    with ThreadPoolExecutor(threads, thread_name_prefix="back-fill") as pool:
        running = [pool.submit(copy, each) for each in jobs]
        try:
            return [each.result() for each in running]
        except BaseException:
            is_over.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
