"""What a worker counts, for Prometheus: under the names of Connect's JMX attributes (``ConnectMetricsRegistry``).

``kafka.connect:type=source-task-metrics,connector=C,task=N``, attribute ``source-record-write-total``, is
``kafka_connect_source_task_metrics_source_record_write_total{connector="C",task="N"}`` here.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from prometheus_client.core import CollectorRegistry, CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from pkafka.connect.task_run import TaskCounts, TaskName

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LABELS: Final = ("connector", "task")
_COUNTED: Final = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
"""States that Kafka's workers count the tasks of a connector by."""


def page(
    connectors: Collection[str],
    tasks: Mapping[TaskName, TaskCounts],
    states: Mapping[str, str],
    task_states: Mapping[TaskName, str],
    more: Iterable[Metric] = (),
) -> str:
    """The page.

    Args:
        connectors: that run in this worker.
        tasks: that run in this worker, with what they have counted.
        states, task_states: of all connectors and tasks, those that failed among them.
        more: what this kind of worker counts beside.
    """
    registry = CollectorRegistry()
    found = [
        *_worker(connectors, tasks),
        *_task_counts(tasks, task_states),
        *_states(states, task_states),
        *_counts(tasks),
        *_of_tasks(tasks),
    ]
    registry.register(_Collector([*found, *more]))
    return generate_latest(registry).decode()


class _Collector:
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _worker(connectors: Collection[str], tasks: Mapping[TaskName, TaskCounts]) -> list[Metric]:
    group = "kafka_connect_connect_worker_metrics"
    return [
        GaugeMetricFamily(f"{group}_connector_count", "Connectors that run in this worker.", len(connectors)),
        GaugeMetricFamily(f"{group}_task_count", "Tasks that run in this worker.", len(tasks)),
    ]


def _task_counts(tasks: Collection[TaskName], task_states: Mapping[TaskName, str]) -> list[Metric]:
    """How many tasks of each connector this worker has, in all and in each state."""
    here = list(tasks)
    families: list[Metric] = []
    for kind in ("total", *_COUNTED):
        family = GaugeMetricFamily(
            f"kafka_connect_connect_worker_metrics_connector_{kind}_task_count",
            f"Tasks of the connector in this worker{'' if kind == 'total' else f' that are {kind}'}.",
            labels=("connector",),
        )
        for connector in sorted({each.connector for each in here}):
            states = [task_states.get(each, "").lower() for each in here if each.connector == connector]
            family.add_metric((connector,), len(states) if kind == "total" else states.count(kind))
        families.append(family)
    return families


def _states(states: Mapping[str, str], task_states: Mapping[TaskName, str]) -> list[Metric]:
    connector = GaugeMetricFamily(
        "kafka_connect_connector_metrics_status",
        "1 for the state that a connector is in.",
        labels=("connector", "status"),
    )
    for name, state in states.items():
        connector.add_metric((name, state.lower()), 1)
    task = GaugeMetricFamily(
        "kafka_connect_connector_task_metrics_status",
        "1 for the state that a task is in.",
        labels=(*_LABELS, "status"),
    )
    for key, state in task_states.items():
        task.add_metric((key.connector, str(key.number), state.lower()), 1)
    return [connector, task]


def _counts(tasks: Mapping[TaskName, TaskCounts]) -> list[Metric]:
    families: dict[str, CounterMetricFamily] = {}
    for key, counts in tasks.items():
        for each in counts.counters:
            family = families.setdefault(
                each.name, CounterMetricFamily(f"kafka_connect_{each.name}", each.about, labels=_LABELS)
            )
            family.add_metric((key.connector, str(key.number)), each.value)
    return list(families.values())


def _of_tasks(tasks: Mapping[TaskName, TaskCounts]) -> list[Metric]:
    """What tasks of connectors tell of themselves."""
    families: dict[str, GaugeMetricFamily] = {}
    for counts in tasks.values():
        for each in counts.own:
            family = families.setdefault(
                each.name,
                GaugeMetricFamily(f"kafka_connect_{each.name}", each.about, labels=tuple(each.tags)),
            )
            family.add_metric(tuple(each.tags.values()), each.value)
    return list(families.values())
