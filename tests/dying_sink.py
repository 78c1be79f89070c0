"""``format("dying")``: ``format("pkafka")`` as a sink whose processes are killed at a step, the way kill -9 does it.

Options beside those of the sink:

    steps: a directory, which remembers at which steps a process was killed already: that happens once at each
    dieAt: the steps, with commas between
    kill: processes, with commas between, that die before the one that comes to the step
    holdAt: a step at which a task waits until the file "go" is in the directory
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pkafka.clients.producer import BatchFuture, Producer
from pkafka.pipeline.topics import transactional_writing
from pkafka.pipeline.topics.source import TopicsSource
from pkafka.pipeline.topics.writing import TopicsStreamWriter, TopicsWriter

STEPS: Final = (
    "begin", "initialized", "begun", "sent", "flushed", "stored", "committing", "committed", "written",
    "checking", "checked",
)  # fmt: skip
"""Of a batch, in their order; the last two are those of the driver."""
_UNDER_WAY_S: Final = 0.004


class DyingSink(TopicsSource):
    """The data source."""

    @classmethod
    def name(cls) -> str:
        """What ``format()`` is given."""
        return "dying"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For ``write``."""
        return _BatchWriter(dict(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """For ``writeStream``."""
        return _StreamWriter(dict(self.options), schema)


class _BatchWriter(TopicsWriter):
    def __init__(self, given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        super().__init__(given, schema, overwrite=overwrite)
        self._steps = _Steps(given)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._steps.around(lambda: super(_BatchWriter, self).write(iterator))


class _StreamWriter(TopicsStreamWriter):
    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        super().__init__(given, schema)
        self._steps = _Steps(given)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._steps.around(lambda: super(_StreamWriter, self).write(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._steps.at("checking")
        super().commit(messages, batchId)
        self._steps.at("checked")


class _Steps:
    """Kills at steps."""

    def __init__(self, given: Mapping[str, str]) -> None:
        options = {name.lower(): value for name, value in given.items()}
        self._directory = Path(options["steps"])
        self._die_at = options.get("dieat", "").split(",")
        self._hold_at = options.get("holdat")
        self._victims = [int(pid) for pid in options.get("kill", "").split(",") if pid]

    def around(self, write: Callable[[], WriterCommitMessage]) -> WriterCommitMessage:
        """Have a task write, and come to the steps of a task."""
        _Producer.steps = self
        transactional_writing.__dict__["Producer"] = _Producer
        self.at("begin")
        done = write()
        self.at("written")
        return done

    def at(self, step: str) -> None:
        """A process comes to a step."""
        if step in self._die_at and self._is_first(step):
            if step == "committing":  # the commit is to be under way
                threading.Timer(_UNDER_WAY_S, self._kill).start()
            else:
                self._kill()
        if step == self._hold_at and self._is_first(step):
            while not (self._directory / "go").exists():
                time.sleep(0.01)

    def _is_first(self, step: str) -> bool:
        try:
            (self._directory / step).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _kill(self) -> None:
        for pid in [*self._victims, os.getpid()]:
            os.kill(pid, signal.SIGKILL)


class _Producer(Producer):
    """A real producer that tells how far its transaction is."""

    steps: _Steps

    def init_transactions(self, timeout_s: float | None = None) -> None:
        super().init_transactions(timeout_s)
        self.steps.at("initialized")

    def begin_transaction(self) -> None:
        super().begin_transaction()
        self.steps.at("begun")

    def send_batch(
        self, topic: str, values: Sequence[Any], keys: Sequence[Any] | None = None, **rest: Any
    ) -> BatchFuture:
        future = super().send_batch(topic, values, keys, **rest)
        self.steps.at("sent")
        return future

    def flush(self, timeout_s: float | None = None) -> None:
        super().flush(timeout_s)
        self.steps.at("flushed")

    def send_offsets_to_transaction(self, *given: Any) -> None:
        super().send_offsets_to_transaction(*given)
        self.steps.at("stored")

    def commit_transaction(self, timeout_s: float | None = None) -> None:
        self.steps.at("committing")
        super().commit_transaction(timeout_s)
        self.steps.at("committed")
