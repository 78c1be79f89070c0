"""A pipeline as the task of a connector: it runs a stream in a thread of its own, and gives the worker no records.

The stream ends when the task pauses or ends, and begins again where its checkpoint says.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from pkafka.connect.connector import SourceTask, TaskMetric
from pkafka.connect.errors import ConnectError
from pkafka.errors import PkafkaError
from pkafka.pipeline.connect_config import PipelineSettings, told
from pkafka.pipeline.stream_files import CheckpointInUseError, only_run

if TYPE_CHECKING:
    from pkafka.pipeline.definition import Pipeline
    from pkafka.pipeline.progress import Batch

log = logging.getLogger(__name__)

_LOOK_S: Final = 0.2
_STOP_TIMEOUT_S: Final = 4.0
"""How long the end of a stream is waited for: less than the five seconds that a worker gives its tasks."""
_CHECKPOINT_PATIENCE_S: Final = 60.0
"""How long a task that starts waits for the end of another run: the one that it had before, on another worker."""
_CHECKPOINT_LOOK_S: Final = 1.0


class StreamRun:
    """Runs a stream until it is to end.

    Args:
        pipeline: a stream.
        master: of Spark's.
        on_batch: told of each batch that is done, on this run's thread.
    """

    def __init__(self, pipeline: "Pipeline", master: str, on_batch: "Callable[[Batch], None]") -> None:
        self._pipeline = pipeline
        self._master = master
        self._on_batch = on_batch
        self._stopping = threading.Event()
        self._ending = threading.Event()
        self.over = threading.Event()
        """Set when the stream has ended, and Spark with it, if no other stream needs it."""
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"pipeline-{pipeline.name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end_after_batch(self) -> None:
        """End the stream when the batch in hand is done; returns at once."""
        self._ending.set()

    def stop(self) -> None:
        """End the stream; a batch in hand is done again by the next run. Returns at once."""
        self._stopping.set()

    @property
    def is_ended_by_itself(self) -> bool:
        """Whether it has done all that there was, which only ``trigger: available-now`` makes it do."""
        return self.over.is_set() and self.error is None and not self._is_to_end()

    def _is_to_end(self) -> bool:
        return self._stopping.is_set() or self._ending.is_set()

    def _run(self) -> None:
        try:
            run_in_spark(
                self._pipeline,
                self._master,
                on_batch=self._on_batch,
                is_stopped=self._stopping.is_set,
                is_ending=self._ending.is_set,
            )
        except Exception as error:  # noqa: BLE001 - the task tells it
            self.error = error
        finally:
            self.over.set()


def run_in_spark(
    pipeline: "Pipeline",
    master: str,
    *,
    on_batch: "Callable[[Batch], None]",
    is_stopped: Callable[[], bool],
    is_ending: Callable[[], bool],
) -> None:
    """Run a stream in the session that the pipelines of this process share; else as ``run_stream``.

    Raises:
        PipelineError: Spark does not understand the pipeline.
        CheckpointInUseError: another run uses the checkpoint.
        SparkUnavailableError, SparkJobError: see :mod:`pkafka.pipeline.session`.
    """
    from pkafka.pipeline.shared_session import leased

    assert pipeline.checkpoint is not None  # of a stream
    with only_run(pipeline.checkpoint):
        pass  # that it can be had is known before Spark takes seconds to start
    with leased(master, pipeline.settings) as session:
        from pkafka.pipeline.runner import run_stream
        from pkafka.pipeline.steps import build

        if is_stopped() or is_ending():  # while Spark started
            return
        frame = build(session, pipeline).frame
        run_stream(frame, pipeline, on_batch=on_batch, is_stopped=is_stopped, is_ending=is_ending)


class PipelineTask(SourceTask):
    """Runs the stream of a pipeline."""

    def __init__(self) -> None:
        self._run: StreamRun | None = None
        self._is_done = False
        self._latest: Batch | None = None
        self._batches = self._read = self._written = 0

    def start(self, configs: Mapping[str, str]) -> None:
        """Read the pipeline; the first poll starts its stream.

        Raises:
            ConnectError: it is none that can run.
        """
        settings = PipelineSettings.of(configs)
        self._where, self._master = settings.where, settings.master
        self._pipeline = settings.pipeline()
        self._patient_until_s = time.monotonic() + _CHECKPOINT_PATIENCE_S

    def poll(self) -> None:
        """See that the stream runs.

        Raises:
            ConnectError: it has failed; tells what the pipeline's error is.
        """
        if self._run is None and not self._is_done:
            self._run = StreamRun(self._pipeline, self._master, self._note)
            self._run.start()
        self.context.wait(_LOOK_S)
        if self._run is not None and self._run.over.is_set():
            self._settle(self._run)

    def pause(self) -> None:
        """End the stream behind the batch in hand. Where it was the last of this worker, Spark ends too.

        Raises:
            ConnectError: the stream has failed.
        """
        run = self._run
        if run is None:
            return
        run.end_after_batch()
        while not run.over.is_set():
            if self.context.wait(_LOOK_S):
                return  # the task is to end, which does not wait for a batch
        self._settle(run)

    def stop(self) -> None:
        """End the stream."""
        run = self._run
        if run is None:
            return
        run.stop()
        if not run.over.wait(_STOP_TIMEOUT_S):
            log.warning(
                "The pipeline %s has not ended in %g s; it ends by itself",
                self._pipeline.name,
                _STOP_TIMEOUT_S,
            )

    def metrics(self) -> Iterable[TaskMetric]:
        """What Spark says of the batches since the task started."""
        tags = {"pipeline": self._pipeline.name}
        yield TaskMetric("pipeline_batches", "Batches that are done.", tags, self._batches)
        yield TaskMetric("pipeline_rows_read", "Rows that were read.", tags, self._read)
        yield TaskMetric("pipeline_rows_written", "Rows that were written.", tags, self._written)
        if self._latest is not None:
            seconds = "How long the latest batch took."
            yield TaskMetric("pipeline_batch_seconds", seconds, tags, self._latest.seconds)
            if self._latest.lag is not None:
                lag = "Records in the topics that no batch has."
                yield TaskMetric("pipeline_lag_records", lag, tags, self._latest.lag)

    def _note(self, batch: "Batch") -> None:
        self._batches += 1
        self._read += batch.rows_read or 0
        self._written += batch.rows_written or 0
        self._latest = batch

    def _settle(self, run: StreamRun) -> None:
        """Take note of the end of a stream.

        Raises:
            ConnectError: it has failed.
        """
        self._run = None
        if isinstance(run.error, CheckpointInUseError) and time.monotonic() < self._patient_until_s:
            log.warning("The pipeline %s waits: %s", self._pipeline.name, run.error)
            self.context.wait(_CHECKPOINT_LOOK_S)
            return
        if run.error is not None:
            raise ConnectError(self._text(run.error)) from run.error
        if run.is_ended_by_itself:
            self._is_done = True
            log.info("The pipeline %s has done all that there was", self._pipeline.name)

    def _text(self, error: Exception) -> str:
        from pkafka.pipeline.definition_yaml import PipelineError

        if isinstance(error, PipelineError):
            return told(error, self._where)
        kind = "" if isinstance(error, PkafkaError) else f"{type(error).__name__}: "
        return f"The pipeline {self._pipeline.name} failed: {kind}{error}"
