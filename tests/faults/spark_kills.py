"""kill -9 of a program with Spark, at a place in the work of its stream and not at a moment: machines differ."""

import random
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil

from tests.spark import END_S

_BATCHES: Final = 3
_LOOK_INTERVAL_S: Final = 0.01


def kill_somewhere(
    process: "subprocess.Popen[Any]", when: random.Random, checkpoint: Path, files: Path | None = None
) -> None:
    """Let a stream work on until one of its next micro-batches is somewhere, and kill the program there.

    That is: it is planned; one of its files is there; its files are named; it is done.

    Args:
        when: chooses the micro-batch and the place.
        checkpoint: of the stream.
        files: the directory of the sink, if it has files.
    """
    planned = checkpoint / "offsets"
    batch = 1 + _last(planned) + when.randrange(_BATCHES)
    places: Mapping[str, Callable[[], bool]] = {
        "planned": lambda: _last(planned) >= batch,
        "done": lambda: _last(checkpoint / "commits") >= batch,
    }
    if files is not None:
        places = {
            **places,
            "written": lambda: _last(planned) >= batch and _has_unnamed(files),
            "named": lambda: _last(files / "_spark_metadata") >= batch,
        }
    place = when.choice(sorted(places))
    print(f"killed where batch {batch} is {place}")  # shown where the test fails
    while not places[place]():
        assert process.poll() is None, f"it ended with {process.returncode}"
        time.sleep(_LOOK_INTERVAL_S)
    kill(process)


def kill(process: "subprocess.Popen[Any]") -> None:
    """kill -9 of the program and its JVM at once; the JVM's own workers end without it."""
    parts = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for part in parts:
        with suppress(psutil.NoSuchProcess):  # workers end with their JVM
            part.kill()
    process.communicate(timeout=END_S)
    psutil.wait_procs(parts, timeout=END_S)


def _last(log: Path) -> int:
    """The last batch in a log of Spark's, a file each; -1 where there is none."""
    return max((int(each.name.removesuffix(".compact")) for each in log.glob("[0-9]*")), default=-1)


def _has_unnamed(files: Path) -> bool:
    """Whether a batch is about to be written: there is a file that the log of the sink does not name."""
    named = "".join(each.read_text() for each in (files / "_spark_metadata").glob("[0-9]*"))
    return any(each.name not in named for each in files.glob("part-*"))
