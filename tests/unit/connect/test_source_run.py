"""A source task as it runs: when its commit is called."""

import threading
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

from pkafka.connect.connector import SourceTask
from pkafka.connect.data.records import SourceRecord
from pkafka.connect.source_run import SourceParts, SourceRun
from pkafka.connect.states import State, Target
from pkafka.connect.task_run import TaskName


class Counting(SourceTask):
    """Counts commits."""

    commits = 0

    def start(self, configs: Mapping[str, str]) -> None:
        """Nothing."""

    def poll(self) -> Sequence[SourceRecord] | None:
        """Nothing."""
        return None

    def stop(self) -> None:
        """Nothing."""

    def commit(self) -> None:
        """One more."""
        self.commits += 1


def test_a_task_commits_when_no_offsets_were_stored_too() -> None:
    """A task may have put off something since: offset syncs of records that were acknowledged."""
    task = Counting()
    parts = cast(SourceParts, SimpleNamespace(task=task, flush_timeout_s=1.0, handling=None))
    run = SourceRun(TaskName("c", 0), Target.STARTED, _ignore, parts, threading.Event())
    run.store_offsets()
    run.store_offsets()
    assert task.commits == 2


class Pausing(Counting):
    """Notes what is asked of it."""

    def __init__(self, said: list[str]) -> None:
        self.said = said

    def poll(self) -> Sequence[SourceRecord] | None:
        """One more."""
        self.said.append("poll")
        return None

    def pause(self) -> None:
        """One more."""
        self.said.append("pause")


def test_a_task_hears_of_a_pause_before_the_worker_says_that_it_is_paused() -> None:
    said: list[str] = []
    parts = cast(
        SourceParts,
        SimpleNamespace(
            task=Pausing(said),
            configs={},
            offsets=None,
            flush_timeout_s=1.0,
            handling=None,
            own_store=None,
            passes_batches=False,
        ),
    )
    stopping = threading.Event()

    def told(_name: TaskName, state: State, _trace: str | None) -> None:
        said.append(state.name)
        if said.count("PAUSED") == 2:
            stopping.set()

    run = SourceRun(TaskName("c", 0), Target.PAUSED, told, parts, stopping)
    said.append("start")
    run.work()
    assert said == ["start", "PAUSED", "pause", "PAUSED"]


def _ignore(*_told: Any) -> None:
    pass
