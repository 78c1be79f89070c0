"""Runs one client of Python in a process of its own, so that clients that are compared share nothing."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from typing import Final, TypeAlias

FIRST_RECORD_S: Final = 60.0
_MARGIN_S: Final = 120

Counts: TypeAlias = Generator[int, None, None] | AsyncGenerator[int, None]
"""What a client yields: how many more records it has dealt with. Closing it ends its work."""


def run(module: str, *arguments: object, seconds: float, pure: bool = False) -> dict[str, float]:
    """Run ``python -m module arguments... seconds``.

    Args:
        seconds: how long it measures; the process is given two minutes more.
        pure: whether pkafka's loops are plain Python in it.

    Returns:
        The JSON object on its last line: records, seconds, CPU seconds.

    Raises:
        RuntimeError: it failed.
    """
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments), str(seconds)],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds + _MARGIN_S,
        env=dict(os.environ, PKAFKA_PURE="1" if pure else "0"),
    )
    if done.returncode:
        raise RuntimeError(f"{module} {arguments[0]} ended with {done.returncode}: {done.stderr[-300:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def count(counts: Counts, seconds: float, *, finish: bool) -> None:
    """Count in this process what a client does, print the line that :func:`run` reads, and end the process.

    Args:
        seconds: how long, from the end of the first step that had records on: that one finds the cluster.
        finish: whether the work is done only when the client is closed, as that of a producer is.
    """
    counter = _Count(seconds)
    if isinstance(counts, AsyncGenerator):
        asyncio.run(_drive(counts, counter, finish=finish))
    else:
        for records in counts:
            if not counter.add(records):
                break
        if finish:
            counts.close()
    print(counter.line(), flush=True)
    os._exit(0)  # the line is the result; nobody waits for what a client leaves running


async def _drive(counts: AsyncGenerator[int, None], counter: "_Count", *, finish: bool) -> None:
    async for records in counts:
        if not counter.add(records):
            break
    if finish:
        await counts.aclose()


class _Count:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._latest = time.perf_counter() + FIRST_RECORD_S
        self._begin = self._cpu = 0.0
        self._records = 0

    def add(self, records: int) -> bool:
        """Take note of records; returns whether there is time for more."""
        now = time.perf_counter()
        if not self._begin:
            if now > self._latest:
                raise TimeoutError("no record came")
            if records:
                self._begin, self._cpu = now, time.process_time()
                self._latest = now + self._seconds
            return True
        self._records += records
        return now < self._latest

    def line(self) -> str:
        """What was counted, as JSON."""
        return json.dumps(
            {
                "records": self._records,
                "seconds": time.perf_counter() - self._begin,
                "cpu_s": time.process_time() - self._cpu,
            }
        )
