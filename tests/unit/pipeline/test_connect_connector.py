"""A pipeline as a connector: what is refused, what its offsets are, how its task ends. Spark is not there."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pkafka.connect import connector_offsets
from pkafka.connect.connector_config import validate
from pkafka.connect.errors import ConnectError
from pkafka.connect.offset_changes import OffsetChanges
from pkafka.connect.plugins import Plugins, PluginType, plugins_of
from pkafka.connect.rest_errors import RestError
from pkafka.connect.storage.offset_store import ConnectorOffsets
from pkafka.connect.worker import Worker
from pkafka.pipeline import connect_connector, connect_task
from pkafka.pipeline.connect_connector import PipelineConnector
from pkafka.pipeline.connect_task import PipelineTask
from pkafka.pipeline.definition import Pipeline
from pkafka.pipeline.definition_yaml import PipelineError, Problem
from pkafka.pipeline.progress import Batch
from pkafka.pipeline.session import SparkJobError
from pkafka.pipeline.stream_files import CheckpointInUseError, only_run
from tests.unit.pipeline.test_checkpoint import checkpoint

YAML = """\
mode: stream
parameters: {folder: null}
source: {format: json, path: "${folder}/in", schema: id long}
sink: {format: parquet, path: "${folder}/out"}
checkpoint: ${folder}/state
"""
BATCH = Batch(0, "2026-01-31T10:00:00.000+00:00", 5, 3, 1.5, 3.3, 2)
SOON_S = 30


def configs(folder: Path, **more: str) -> dict[str, str]:
    given = {"name": "c", "connector.class": "Pipeline", "pipeline.yaml": YAML}
    return {**given, "pipeline.set.folder": str(folder), **{k.replace("_", "."): v for k, v in more.items()}}


def errors(given: dict[str, str]) -> dict[str, list[str]]:
    """What is wrong with each of the connector's own settings."""
    return {each.name: each.errors for each in PipelineConnector().validate(given) if each.errors}


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Pipeline, str]]:
    found: list[tuple[Pipeline, str]] = []
    monkeypatch.setattr(connect_connector, "analyse", lambda *given: found.append(given))
    return found


def test_it_is_a_source_that_is_called_pipeline() -> None:
    plugins = Plugins(plugins_of(PipelineConnector))
    assert plugins.connector("Pipeline") is PipelineConnector
    assert [each.type for each in plugins] == [PluginType.SOURCE]


def test_a_sound_pipeline_is_analysed_once(tmp_path: Path, analysed: list[tuple[Pipeline, str]]) -> None:
    given = configs(tmp_path, pipeline_master="local[1]")
    assert not validate(given, PipelineConnector, Plugins(plugins_of(PipelineConnector))).errors
    ((pipeline, master),) = analysed
    assert (pipeline.name, pipeline.checkpoint, master) == ("c", f"{tmp_path}/state", "local[1]")
    connector = PipelineConnector()
    connector.start(given)
    assert connector.task_configs(8) == [given]


def test_a_file_has_its_name_and_the_environment(
    tmp_path: Path, analysed: list[tuple[Pipeline, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDER_OF_A_TEST", str(tmp_path))
    file = tmp_path / "large-orders.yaml"
    file.write_text(
        YAML.replace("folder: null", "folder: '${env:FOLDER_OF_A_TEST}'").replace("${folder}", "x")
    )
    given = {"name": "c", "pipeline.file": str(file)}
    assert errors(given) == {}
    assert analysed[0][0].name == "large-orders"


@pytest.mark.parametrize(
    ("more", "key", "told"),
    [
        ({"pipeline_file": "/x"}, "pipeline.file", "Either pipeline.file or pipeline.yaml defines"),
        (
            {"pipeline_set_folders": "x"},
            "pipeline.yaml",
            "there is no parameter folders (did you mean folder?)",
        ),
        ({"pipeline_yaml": YAML + "sinks: {}\n"}, "pipeline.yaml", "pipeline.yaml, line 6: "),
        (
            {"pipeline_yaml": YAML.replace("id long", "'${env:PATH}'")},
            "pipeline.yaml",
            "pipeline.yaml, line 3: the environment has no PATH",
        ),
        (
            {"pipeline_yaml": "\n".join(YAML.splitlines()[1:-1])},
            "pipeline.yaml",
            "a connector runs streams (mode: stream): pk-pipeline run runs a batch",
        ),
        ({"pipeline_yaml": ""}, "pipeline.yaml", "String must be non-empty"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(
    more: dict[str, str], key: str, told: str, tmp_path: Path, analysed: list[tuple[Pipeline, str]]
) -> None:
    found = errors(configs(tmp_path, **more))
    assert list(found) == [key]
    assert told in found[key][0]
    assert not analysed


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    found = errors({"pipeline.file": str(tmp_path / "none.yaml")})
    assert found == {"pipeline.file": [f"{tmp_path / 'none.yaml'} cannot be read: No such file or directory"]}


def test_what_spark_says_is_told_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pipeline: Pipeline, _master: str) -> None:
        raise PipelineError(Problem(3, "there is no column ids", "ids", ("id",)))

    monkeypatch.setattr(connect_connector, "analyse", refuse)
    told = "pipeline.yaml, line 3: there is no column ids (did you mean id?)"
    assert errors(configs(tmp_path)) == {"pipeline.yaml": [told]}


def test_offsets_are_those_of_the_checkpoint(tmp_path: Path) -> None:
    connector, given = PipelineConnector(), configs(tmp_path)
    assert connector.own_offsets(given) == []
    state = checkpoint(tmp_path / "state")
    assert connector.own_offsets(given)[0] == ({"source": 0}, {"orders": {"0": 7, "1": 2}})
    with pytest.raises(RestError, match="can be removed, but not set") as refused:
        connector.alter_offsets(given, {0: ({"source": 0}, None)})
    assert refused.value.status == 400
    with only_run(str(state)), pytest.raises(RestError, match="still runs") as refused:
        connector.alter_offsets(given, {})
    assert refused.value.status == 409
    assert connector.alter_offsets(given, {})
    assert connector.own_offsets(given) == []
    (state / "offsets").mkdir()
    with pytest.raises(ConnectError, match="is not the checkpoint of a stream"):
        connector.alter_offsets(given, {})


def test_the_rest_api_shows_offsets_of_the_checkpoint_and_asks_no_store(tmp_path: Path) -> None:
    checkpoint(tmp_path / "state")
    changes = OffsetChanges(cast(Worker, None), Plugins(plugins_of(PipelineConnector)), {})
    shown: Any = changes.shown("c", configs(tmp_path))
    assert shown["offsets"][0] == {"partition": {"source": 0}, "offset": {"orders": {"0": 7, "1": 2}}}


class Stream:
    """Stands for Spark: runs until it is to end, or does what a test has it do."""

    def __init__(self) -> None:
        self.runs = 0
        self.began = threading.Event()
        self.batch_is_done = threading.Event()
        self.ends_by_itself = False
        self.error: Exception | None = None
        self.ended: list[str] = []

    def run(
        self,
        _pipeline: Pipeline,
        _master: str,
        *,
        on_batch: Callable[[Batch], None],
        is_stopped: Callable[[], bool],
        is_ending: Callable[[], bool],
    ) -> None:
        self.runs += 1
        on_batch(BATCH)
        self.began.set()
        if self.error is not None:
            raise self.error
        if self.ends_by_itself:
            return
        while not is_stopped():
            if is_ending() and self.batch_is_done.wait(0.01):
                self.ended.append("behind a batch")
                return
            threading.Event().wait(0.01)
        self.ended.append("stopped")


class Context:
    """What a task asks of its worker."""

    configs: Any = None
    offset_reader: Any = None
    transactions = None

    def __init__(self) -> None:
        self.stopping = threading.Event()

    def wait(self, timeout_s: float) -> bool:
        return self.stopping.wait(min(timeout_s, 0.01))


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    stream = Stream()
    monkeypatch.setattr(connect_task, "run_in_spark", stream.run)
    return stream


@pytest.fixture
def context() -> Context:
    return Context()


@pytest.fixture
def task(tmp_path: Path, stream: Stream, context: Context) -> Iterator[PipelineTask]:
    task = PipelineTask()
    task.initialize(context)
    task.start(configs(tmp_path))
    yield task
    task.stop()


def poll_until(task: PipelineTask, is_so: Callable[[], bool]) -> None:
    for _ in range(100 * SOON_S):
        task.poll()
        if is_so():
            return
    raise AssertionError("it did not come to that")


def test_a_stream_goes_on_through_polls_and_ends_with_the_task(task: PipelineTask, stream: Stream) -> None:
    poll_until(task, stream.began.is_set)
    for _ in range(3):
        task.poll()
    assert stream.runs == 1
    assert {each.name: each.value for each in task.metrics()} == {
        "pipeline_batches": 1,
        "pipeline_rows_read": 5,
        "pipeline_rows_written": 3,
        "pipeline_batch_seconds": 1.5,
        "pipeline_lag_records": 2,
    }
    task.stop()
    assert stream.ended == ["stopped"]


def test_a_pause_comes_behind_a_batch_and_the_next_poll_goes_on(task: PipelineTask, stream: Stream) -> None:
    poll_until(task, stream.began.is_set)
    paused = threading.Thread(target=task.pause)
    paused.start()
    paused.join(0.1)
    assert paused.is_alive(), "the batch was not waited for"
    stream.batch_is_done.set()
    paused.join(SOON_S)
    assert stream.ended == ["behind a batch"]
    stream.batch_is_done.clear()
    poll_until(task, lambda: stream.runs == 2)


def test_a_task_that_ends_while_it_pauses_waits_for_no_batch(
    task: PipelineTask, stream: Stream, context: Context
) -> None:
    poll_until(task, stream.began.is_set)
    context.stopping.set()
    task.pause()
    task.stop()
    assert stream.ended == ["stopped"]


def test_a_stream_that_has_done_all_is_not_started_again(task: PipelineTask, stream: Stream) -> None:
    stream.ends_by_itself = True
    poll_until(task, lambda: task._is_done)
    task.poll()
    task.pause()
    task.poll()
    assert stream.runs == 1


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SparkJobError("the table is gone"), "The pipeline c failed: the table is gone"),
        (OSError("no space"), "The pipeline c failed: OSError: no space"),
        (PipelineError(Problem(4, "no such column")), "pipeline.yaml, line 4: no such column"),
    ],
)
def test_a_failure_is_the_tasks(task: PipelineTask, stream: Stream, error: Exception, told: str) -> None:
    stream.error = error
    with pytest.raises(ConnectError) as failed:
        poll_until(task, lambda: False)
    assert str(failed.value) == told
    assert failed.value.__cause__ is error


def test_a_stream_that_hangs_does_not_hold_up_the_worker(
    task: PipelineTask, stream: Stream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hangs = threading.Event()
    monkeypatch.setattr(connect_task, "_STOP_TIMEOUT_S", 0.05)
    monkeypatch.setattr(stream, "run", None)
    monkeypatch.setattr(connect_task, "run_in_spark", lambda *_, **__: hangs.wait(SOON_S))
    task.poll()
    task.stop()
    assert "has not ended in 0.05 s" in caplog.text
    hangs.set()


def test_a_task_waits_for_the_run_that_it_had_on_another_worker(
    task: PipelineTask, stream: Stream, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.error = CheckpointInUseError("another run uses the checkpoint x")
    poll_until(task, lambda: stream.runs > 1)
    assert "The pipeline c waits: another run uses the checkpoint x" in caplog.text
    monkeypatch.setattr(task, "_patient_until_s", 0.0)
    with pytest.raises(ConnectError, match="another run uses the checkpoint"):
        poll_until(task, lambda: False)


def test_spark_does_not_start_for_a_checkpoint_that_is_in_use(
    tmp_path: Path, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = PipelineTask()
    task.initialize(context)
    task.start(configs(tmp_path))
    monkeypatch.setattr(task, "_patient_until_s", 0.0)
    monkeypatch.setattr("pkafka.pipeline.session.spark_session", None)
    with (
        only_run(str(tmp_path / "state")),
        pytest.raises(ConnectError, match="another run uses the checkpoint"),
    ):
        poll_until(task, lambda: False)


class Stored:
    """The worker's store, with what another connector of the same name has left."""

    def __init__(self) -> None:
        self.stored: list[Any] = []

    def all(self) -> list[tuple[dict[str, str], dict[str, int]]]:
        return [({"filename": "x"}, {"position": 3})]

    def store(self, offsets: list[Any]) -> None:
        self.stored += offsets


def test_offsets_that_another_connector_has_left_are_not_in_the_way(tmp_path: Path) -> None:
    checkpoint(tmp_path / "state")
    given, store = configs(tmp_path), Stored()
    run: Any = SimpleNamespace(ask=lambda question: question(PipelineConnector()))
    assert connector_offsets.reset_source(run, given, cast(ConnectorOffsets, store))
    assert PipelineConnector().own_offsets(given) == []
    assert store.stored == [({"filename": "x"}, None)]
