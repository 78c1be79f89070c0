"""``Pipeline``: a connector that runs a pipeline of ``pk-pipeline`` as its one task.

It belongs to the sources, though it gives the worker no records: a pipeline has sources and a sink of its own, and its
offsets are in its checkpoint. A worker of Apache Kafka has nothing like it.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pkafka.connect.config_def import ConfigValue
from pkafka.connect.connector import SourceConnector, SourcePlace
from pkafka.connect.errors import ConnectError
from pkafka.connect.rest_errors import bad_request, conflict
from pkafka.errors import PkafkaError
from pkafka.pipeline.checkpoint import CheckpointError, committed_offsets, remove_state
from pkafka.pipeline.connect_config import CONFIG, FILE, PipelineSettings, told
from pkafka.pipeline.connect_task import PipelineTask
from pkafka.pipeline.stream_files import CheckpointInUseError

if TYPE_CHECKING:
    from pkafka.pipeline.definition import Pipeline

_ASK_TIMEOUT_MS: Final = 10_000
_SOURCE: Final = "source"


class PipelineConnector(SourceConnector):
    """``Pipeline``: a pipeline, by one task."""

    CONFIG = CONFIG
    task_class = PipelineTask

    def start(self, configs: Mapping[str, str]) -> None:
        """Read the pipeline.

        Raises:
            ConnectError: it is none that can run.
        """
        PipelineSettings.of(configs).pipeline()
        self._configs = dict(configs)

    def task_configs(self, _tasks_max: int) -> Sequence[Mapping[str, str]]:
        """One task: Spark splits the work."""
        return [self._configs]

    def validate(self, configs: Mapping[str, str]) -> list[ConfigValue]:
        """Look at the pipeline as ``pk-pipeline validate`` does: its keys, brokers and topics, and its SQL in Spark."""
        found = {each.name: each for each in CONFIG.validate(configs)}
        if not any(each.errors for each in found.values()):
            key = FILE
            try:
                settings = PipelineSettings.of(configs)
                key = settings.key
                _check(settings)
            except (PkafkaError, OSError) as error:
                found[key].errors.append(str(error))
        return list(found.values())

    def own_offsets(self, configs: Mapping[str, str]) -> Sequence[tuple[SourcePlace, SourcePlace]]:
        """How far the latest batch that is done has come; the sources that are streamed go by their numbers.

        Raises:
            ConnectError: that cannot be read.
        """
        try:
            found = committed_offsets(_checkpoint(configs))
        except CheckpointError as error:
            raise ConnectError(str(error)) from error
        return [({_SOURCE: number}, offset) for number, offset in found]

    def alter_offsets(
        self, configs: Mapping[str, str], offsets: Mapping[int, tuple[SourcePlace | None, SourcePlace | None]]
    ) -> bool:
        """Remove what the checkpoint has, when all offsets are to be forgotten.

        Raises:
            RestError: others are wanted, or the stream still runs.
            ConnectError: it cannot be removed.
        """
        if offsets:  # a request to forget all has none
            raise bad_request(
                "The offsets of a pipeline are those of its checkpoint: they can be removed, but not set."
            )
        try:
            remove_state(_checkpoint(configs))
        except CheckpointInUseError as error:
            raise conflict(f"The pipeline still runs: {error}") from error
        except (CheckpointError, OSError) as error:
            raise ConnectError(f"The checkpoint cannot be removed: {error}") from error
        return True


def _checkpoint(configs: Mapping[str, str]) -> str:
    checkpoint = PipelineSettings.of(configs).pipeline().checkpoint
    assert checkpoint is not None  # of a stream
    return checkpoint


def _check(settings: PipelineSettings) -> None:
    """Look at a pipeline without touching data.

    Raises:
        ConnectError: something is wrong with it.
        ClientError: a cluster cannot be asked.
        SparkUnavailableError, SparkJobError: Spark cannot be asked.
    """
    from pkafka.pipeline.clusters import missing_topics
    from pkafka.pipeline.definition_yaml import PipelineError

    pipeline = settings.pipeline()
    try:
        problems = missing_topics(pipeline, timeout_ms=_ASK_TIMEOUT_MS)
        if problems:
            raise PipelineError(*problems)
        analyse(pipeline, settings.master)
    except PipelineError as error:
        raise ConnectError(told(error, settings.where)) from error


def analyse(pipeline: "Pipeline", master: str) -> None:
    """Have Spark look at the SQL of a pipeline.

    Raises:
        PipelineError: Spark does not understand it.
        SparkUnavailableError, SparkJobError: see :mod:`pkafka.pipeline.session`.
    """
    from pkafka.pipeline.shared_session import leased

    with leased(master, pipeline.settings) as session:
        from pkafka.pipeline.steps import build

        build(session, pipeline)
