"""When what a process holds is taken from the collections to come."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pkafka.server.ipc.garbage import SparedObjects

LONGEST_S = 0.02
MAKES_MUCH_THAT_LASTS = """
import gc
from pkafka.server.ipc.garbage import SparedObjects

gc.callbacks.append(SparedObjects(pause_max_s=0.0).collecting)
held = [[number] for number in range(1000)]
before = gc.get_freeze_count()
gc.collect()
print(gc.get_freeze_count() - before >= len(held), any(one is held for one in gc.get_objects()))
"""
IMPORTS_FOR_GOOD = """
import contextlib
import gc
from pkafka.server.ipc.garbage import importing_for_good

collections = []
gc.callbacks.append(lambda phase, info: collections.append(phase))
gc.collect()
collections.clear()
with contextlib.suppress(ImportError), importing_for_good():
    held = [[number] for number in range(10_000)]
    if {fails}:
        import pkafka.of_nothing
print(len(collections), gc.isenabled(), any(one is held for one in gc.get_objects()))
"""


def spared(generation: int, took_s: float) -> bool:
    times: Iterator[float] = iter([5.0, 5.0 + took_s])
    calls: list[None] = []
    objects = SparedObjects(
        pause_max_s=LONGEST_S, spare=lambda: calls.append(None), clock=lambda: next(times)
    )
    objects.collecting("start", {"generation": generation})
    objects.collecting("stop", {"generation": generation, "collected": 0, "uncollectable": 0})
    return bool(calls)


@pytest.mark.parametrize(
    ("generation", "took_s", "expected"),
    [(2, 0.03, True), (2, 0.01, False), (1, 0.03, False), (0, 0.03, False)],
)
def test_what_outlives_a_long_full_collection_is_spared(
    generation: int, took_s: float, expected: bool
) -> None:
    assert spared(generation, took_s) is expected


def test_later_collections_do_not_look_at_it() -> None:
    # In a process of its own: nothing of this one shall be spared.
    told = subprocess.run(
        [sys.executable, "-c", MAKES_MUCH_THAT_LASTS], capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == ["True", "False"]
    assert gc.isenabled()


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_looks_for_garbage_while_a_process_imports_for_good(fails: bool) -> None:
    told = subprocess.run(
        [sys.executable, "-c", IMPORTS_FOR_GOOD.format(fails=fails)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == ["0", "True", "False"]
