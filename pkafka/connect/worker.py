"""What a worker runs: connectors and tasks with their clients. What there is to run, herders say."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from pkafka.clients.admin import Admin
from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.connect.config_providers import Provider, resolved
from pkafka.connect.connector import BatchSourceTask, Connector, SinkConnector, SinkTask, SourceTask
from pkafka.connect.connector_config import ConnectorSettings, bisecting_problems, is_sink
from pkafka.connect.connector_run import ConnectorRun
from pkafka.connect.dead_letters import DeadLetters, LogReporter
from pkafka.connect.errors import ConnectError
from pkafka.connect.exactly_once_run import Boundary, ExactlyOnceParts, ExactlyOnceRun
from pkafka.connect.memory import collect_seldom
from pkafka.connect.plugins import Plugins
from pkafka.connect.runner import Guard
from pkafka.connect.sink_run import SinkParts, SinkRun
from pkafka.connect.source_run import OffsetCommitter, SourceParts, SourceRun
from pkafka.connect.states import State, Target
from pkafka.connect.steps import Converters, Transforms, class_mapping
from pkafka.connect.storage.offset_store import ConnectorOffsets, OffsetStore
from pkafka.connect.storage.offset_topic import OffsetTopic, OwnOffsets, own_offset_topic
from pkafka.connect.storage.topic_log import LogClients
from pkafka.connect.task_run import Report, TaskCounts, TaskName, TaskRun
from pkafka.connect.tolerance import ErrorHandling, Reporter
from pkafka.connect.topic_creation import TopicCreation, topic_groups
from pkafka.connect.worker_config import WorkerConfig
from pkafka.java.pattern import compile_pattern

log = logging.getLogger("org.apache.kafka.connect.runtime.Worker")

_LOOKS_AT_RECORDS: Final = frozenset({"compression.type", "interceptor.classes", "partitioner.class"})
"""Settings of producers that have no effect on whole batches."""
_IDEMPOTENT: Final = {"enable.idempotence": "true", "max.in.flight.requests.per.connection": "5"}
_SAYS_OF_ORDER: Final = frozenset({*_IDEMPOTENT, "acks", "retries"})
_FOREVER_MS: Final = str(0x7FFFFFFF)


class Worker:
    """Runs connectors and tasks.

    Args:
        config: of the worker.
        plugins: there are.
        providers: of values that stand elsewhere.
        store: keeps the offsets of sources.
        used_topic: told which topics a connector uses.
    """

    def __init__(
        self,
        config: WorkerConfig,
        plugins: Plugins,
        providers: Mapping[str, Provider],
        store: OffsetStore,
        used_topic: Callable[[TaskName, str], None],
    ) -> None:
        self.config = config
        self.plugins = plugins
        self._providers = providers
        self._store = store
        self._used_topic = used_topic
        self.connectors: dict[str, ConnectorRun] = {}
        self.tasks: dict[TaskName, TaskRun] = {}
        self._committer = OffsetCommitter(
            config.parsed["offset.flush.interval.ms"] / 1000, lambda: list(self.tasks.values())
        )

    def start(self) -> None:
        """Begin to store offsets."""
        collect_seldom()
        self._committer.start()

    def stop(self) -> None:
        """End all connectors and tasks."""
        runs = list(self.connectors.values())
        self.connectors.clear()
        self.stop_tasks(list(self.tasks))
        deadline_s = time.monotonic() + self.graceful_s
        for run in runs:
            run.shut_down(max(0.0, deadline_s - time.monotonic()))
        self._committer.stop()

    @property
    def graceful_s(self) -> float:
        """How long tasks may take to end."""
        return float(self.config.parsed["task.shutdown.graceful.timeout.ms"]) / 1000

    # -- connectors --

    def start_connector(
        self,
        name: str,
        configs: Mapping[str, str],
        target: Target,
        *,
        report: Callable[[State, str | None], None],
        reconfigure: Callable[[], None],
        then: Callable[[State], None] | None = None,
    ) -> ConnectorRun:
        """Make a connector and bring it where it is to be.

        Args:
            then: takes the state that the connector has when it is there; None: this waits for it.

        Raises:
            ConnectError, ConfigError: it cannot be made.
        """
        actual = resolved(configs, self._providers)
        implementation = self.plugins.connector(class_mapping(actual))
        settings = ConnectorSettings.of(actual, implementation, self.plugins)
        run = ConnectorRun(name, implementation(), settings, actual, report=report, reconfigure=reconfigure)
        self.connectors[name] = run
        if then is None:
            run.aim(target)
        else:
            run.aim_soon(target, then)
        return run

    def stop_connector(self, name: str) -> bool:
        """End a connector.

        Returns:
            Whether it has ended, and is not left behind.
        """
        run = self.connectors.pop(name, None)
        return run is None or run.shut_down(self.graceful_s)

    # -- tasks --

    def start_task(
        self,
        name: TaskName,
        configs: Mapping[str, str],
        task_configs: Mapping[str, str],
        target: Target,
        report: Report,
        guard: Guard | None = None,
    ) -> None:
        """Make a task and start it.

        Args:
            configs: of the connector.
            task_configs: of the task.
            guard: of a source that writes exactly once.

        Raises:
            ConnectError, ConfigError: it cannot be made.
        """
        connector_configs = resolved(configs, self._providers)
        implementation = self.plugins.connector(class_mapping(connector_configs))
        settings = ConnectorSettings.of(connector_configs, implementation, self.plugins)
        own = resolved(task_configs, self._providers)
        stopping = threading.Event()
        task = implementation.task_class()
        run: TaskRun
        if isinstance(task, SinkTask):
            if settings.bisects:
                _check_bisecting(implementation(), settings)
            run = self._sink_run(name, task, settings, own, target, report, stopping)
        else:
            assert isinstance(task, SourceTask)
            run = self._source_run(name, task, settings, own, target, report, stopping, guard)
        self.tasks[name] = run
        run.start()

    def stop_tasks(self, names: Iterable[TaskName]) -> bool:
        """End tasks; those that take longer than all together may are left behind.

        Returns:
            Whether all have ended.
        """
        runs = [run for name in names if (run := self.tasks.pop(name, None)) is not None]
        for run in runs:
            run.request_stop()
        deadline_s = time.monotonic() + self.graceful_s
        ended = [run.join(max(0.0, deadline_s - time.monotonic())) for run in runs]
        return all(ended)

    def counts(self) -> dict[TaskName, TaskCounts]:
        """What tasks have counted."""
        return {name: run.counts() for name, run in list(self.tasks.items())}

    def _source_run(
        self,
        name: TaskName,
        task: SourceTask,
        settings: ConnectorSettings,
        configs: Mapping[str, str],
        target: Target,
        report: Report,
        stopping: threading.Event,
        guard: Guard | None,
    ) -> SourceRun:
        handling = self._handling(name, settings, stopping, [])
        transforms = Transforms.of(settings, self.plugins, handling)
        converters = Converters.of(self.config, settings, handling)
        # The producer last: nothing that may fail comes after what has threads and connections.
        topics = self._topics(name, settings)
        producer_configs = self._producer_configs(name, settings.configs, is_exact=guard is not None)
        passes_batches = (
            transforms.is_empty
            and converters.leave_bytes
            and not handling.tolerates_all
            and _LOOKS_AT_RECORDS.isdisjoint(producer_configs)
            and (guard is None or settings.parsed["transaction.boundary"].lower() != Boundary.CONNECTOR.value)
        )
        if passes_batches and isinstance(task, BatchSourceTask) and guard is None:
            producer_configs |= self._in_order_without_waiting(settings.configs)
        producer = Producer(producer_configs)
        own_store = self._own_store(name, settings, producer, is_exact=guard is not None)
        parts = SourceParts(
            task,
            configs,
            transforms,
            converters,
            handling,
            producer,
            topics,
            ConnectorOffsets(self._with_own(own_store, settings), name.connector),
            self.config.parsed["offset.flush.timeout.ms"] / 1000,
            self._used_topic,
            own_store,
            passes_batches=passes_batches,
        )
        if guard is None:
            return SourceRun(name, target, report, parts, stopping)
        interval_ms = settings.parsed["transaction.boundary.interval.ms"]
        if interval_ms is None:
            interval_ms = self.config.parsed["offset.flush.interval.ms"]
        boundary = Boundary(settings.parsed["transaction.boundary"].lower())
        own_parts = ExactlyOnceParts(boundary, interval_ms / 1000, guard.before, guard.after)
        return ExactlyOnceRun(name, target, report, parts, stopping, own_parts)

    # -- offsets of sources --

    def _own_store(
        self, name: TaskName, settings: ConnectorSettings, producer: Producer, *, is_exact: bool
    ) -> OffsetTopic | None:
        """The topic of offsets that a task uses by itself: its connector's own, or one written by transactions."""
        own_name = settings.parsed["offsets.storage.topic"]
        if "offset.storage.topic" not in self.config.parsed or not (own_name or is_exact):
            return None
        clients = LogClients(
            {},
            {
                "client.id": f"connector-consumer-{name}",
                **self.config.clients("consumer"),
                **self.config.overrides("consumer", settings.configs),
                **({"isolation.level": "read_committed"} if is_exact else {}),
            },
            {
                "client.id": f"connector-adminclient-{name}",
                **self.config.clients("admin"),
                **self.config.overrides("admin", settings.configs),
            },
        )
        # A transaction waits for brokers as long as its producer does, which is told when the task is to end.
        timeout_s = None if is_exact else self.config.parsed["offset.flush.timeout.ms"] / 1000
        topic = own_offset_topic(self.config, own_name or self.config.parsed["offset.storage.topic"])
        return OffsetTopic(topic, clients, timeout_s, producer)

    @contextmanager
    def connector_store(self, connector: str, configs: Mapping[str, str]) -> Iterator[OffsetStore]:
        """Where the offsets of a connector are while none of its tasks runs.

        Args:
            configs: of the connector, with the values that providers gave.

        Raises:
            ConnectError: they cannot be read.
        """
        implementation = self.plugins.connector(class_mapping(configs))
        settings = ConnectorSettings.of(configs, implementation, self.plugins)
        if (
            not settings.parsed.get("offsets.storage.topic")
            or "offset.storage.topic" not in self.config.parsed
        ):
            yield self._store
            return
        name = TaskName(connector, 0)
        producer = Producer(self._producer_configs(name, settings.configs))
        own = self._own_store(name, settings, producer, is_exact=False)
        assert own is not None
        try:
            own.start()
            yield OwnOffsets(own, self._store)
        finally:
            own.stop()
            producer.close(0)

    def _with_own(self, own: OffsetTopic | None, settings: ConnectorSettings) -> OffsetStore:
        """Where a task's offsets are looked for and written."""
        if own is None:
            return self._store
        return OwnOffsets(own, self._store) if settings.parsed["offsets.storage.topic"] else own

    def _sink_run(
        self,
        name: TaskName,
        task: SinkTask,
        settings: ConnectorSettings,
        configs: Mapping[str, str],
        target: Target,
        report: Report,
        stopping: threading.Event,
    ) -> SinkRun:
        failures: list[Callable[[Exception], None]] = []

        def failed(error: Exception) -> None:
            for tell in failures:
                tell(error)

        letters = self._dead_letters(name, settings, failed)
        with ExitStack() as opened:
            if letters is not None:
                opened.callback(letters.close)
            handling = self._handling(name, settings, stopping, [] if letters is None else [letters])
            transforms = Transforms.of(settings, self.plugins, handling)
            converters = Converters.of(self.config, settings, handling)
            consumer = Consumer(self._consumer_configs(name, settings.configs))
            opened.pop_all()  # the run closes them from now on
        pattern = settings.parsed["topics.regex"]
        parts = SinkParts(
            task,
            configs,
            tuple(settings.parsed["topics"]),
            compile_pattern(pattern).pattern if pattern else None,
            transforms,
            converters,
            handling,
            consumer,
            letters,
            self.config.parsed["offset.flush.interval.ms"] / 1000,
            self.config.parsed["offset.flush.timeout.ms"] / 1000,
            self._used_topic,
            bisects=settings.bisects,
        )
        run = SinkRun(name, target, report, parts, stopping)
        failures.append(run.fail)
        return run

    def _handling(
        self,
        name: TaskName,
        settings: ConnectorSettings,
        stopping: threading.Event,
        reporters: Sequence[Reporter],
    ) -> ErrorHandling:
        found: list[Reporter] = list(reporters)
        if settings.parsed["errors.log.enable"]:
            found.insert(
                0, LogReporter(str(name), shows_records=settings.parsed["errors.log.include.messages"])
            )
        return ErrorHandling(settings.errors, found, stopping)

    # -- clients --

    def _producer_configs(
        self, name: TaskName, configs: Mapping[str, str], *, is_exact: bool = False
    ) -> dict[str, str]:
        exact: dict[str, str] = {}
        if is_exact:
            exact = {"enable.idempotence": "true", "transactional.id": self.transactional_id(name)}
        return {
            "acks": "all",
            "max.block.ms": _FOREVER_MS,
            "delivery.timeout.ms": _FOREVER_MS,
            "enable.idempotence": "false",
            "max.in.flight.requests.per.connection": "1",
            "client.id": f"connector-producer-{name}",
            **self.config.clients("producer"),
            **self.config.overrides("producer", configs),
            **exact,
        }

    def _in_order_without_waiting(self, configs: Mapping[str, str]) -> dict[str, str]:
        """Settings of a producer of whole batches: it is idempotent, so that the broker keeps their order.

        Java's producer has one request in flight to keep it, and so waits for each answer. Where the settings of the
        worker or of the connector have a key of :data:`_SAYS_OF_ORDER`, nothing is changed.
        """
        said = {**self.config.clients("producer"), **self.config.overrides("producer", configs)}
        return dict(_IDEMPOTENT) if _SAYS_OF_ORDER.isdisjoint(said) else {}

    def _consumer_configs(self, name: TaskName, configs: Mapping[str, str]) -> dict[str, str]:
        return {
            "group.id": sink_group(name.connector),
            "client.id": f"connector-consumer-{name}",
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            **self.config.clients("consumer"),
            **self.config.overrides("consumer", configs),
        }

    def admin(self, client_id: str, configs: Mapping[str, str]) -> Admin:
        """A client for administration, with what a connector overrides."""
        return Admin(
            {
                "client.id": client_id,
                **self.config.clients("admin"),
                **self.config.overrides("admin", configs),
            }
        )

    def fence(self, connector: str, configs: Mapping[str, str], tasks: int) -> None:
        """Fence the producers of tasks that write exactly once, so that none of them writes any more (KIP-618).

        Args:
            configs: of the connector.
            tasks: how many there were.

        Raises:
            ConnectError: one could not be fenced.
        """
        names = [self.transactional_id(TaskName(connector, number)) for number in range(tasks)]
        actual = resolved(configs, self._providers)
        with self.admin(f"connector-adminclient-{connector}", actual) as admin:
            outcomes = admin.fence_producers(names)
        for name, outcome in outcomes.items():
            if isinstance(outcome, Exception):
                raise ConnectError(f"The producer {name} could not be fenced: {outcome}") from outcome

    def transactional_id(self, task: TaskName) -> str:
        """By which a task of a source writes exactly once."""
        return f"{self.config.parsed['group.id']}-{task}"

    def _topics(self, name: TaskName, settings: ConnectorSettings) -> TopicCreation:
        groups = topic_groups(settings) if self.config.parsed["topic.creation.enable"] else []
        return TopicCreation(groups, lambda: self.admin(f"connector-adminclient-{name}", settings.configs))

    def _dead_letters(
        self, name: TaskName, settings: ConnectorSettings, failed: Callable[[Exception], None]
    ) -> DeadLetters | None:
        parsed = settings.parsed
        topic = parsed["errors.deadletterqueue.topic.name"]
        if not topic:
            return None
        self._create_dead_letters(name, settings, topic)
        producer = Producer(
            {**self._producer_configs(name, settings.configs), "client.id": f"connector-dlq-producer-{name}"}
        )
        return DeadLetters(
            producer,
            topic,
            name.connector,
            name.number,
            tells_why=parsed["errors.deadletterqueue.context.headers.enable"],
            failed=failed,
        )

    def _create_dead_letters(self, name: TaskName, settings: ConnectorSettings, topic: str) -> None:
        replicas = settings.parsed["errors.deadletterqueue.topic.replication.factor"]
        creation = TopicCreation.of_one(
            replicas, lambda: self.admin(f"connector-dlq-adminclient-{name}", settings.configs)
        )
        try:
            creation.see_to(topic)
        except ConnectError as error:
            raise ConnectError(
                f"Could not initialize dead letter queue with topic={topic}: {error}"
            ) from error
        finally:
            creation.close()


def _check_bisecting(connector: Connector, settings: ConnectorSettings) -> None:
    """Refuse a configuration that a worker of Java's, which does not look at this, has let through."""
    assert isinstance(connector, SinkConnector)
    problems = bisecting_problems(connector, settings.configs, settings.parsed)
    if problems:
        raise ConnectError(problems[0])


def sink_group(connector: str) -> str:
    """The group in which the tasks of a sink connector read."""
    return f"connect-{connector}"


def is_sink_connector(plugins: Plugins, configs: Mapping[str, str]) -> bool:
    """Whether a configuration is that of a sink.

    Raises:
        ConnectError: its class is unknown.
    """
    return is_sink(plugins.connector(class_mapping(configs)))
